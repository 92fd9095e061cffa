#pragma once

// Where tensors live. Memory is taken from the system once and reused: a block whose last tensor is gone is
// handed to the next tensor that fits, so a long run stays flat, activations vanish as the backward pass
// consumes them, and no tensor can outlive its memory.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace transduce {

struct ArenaStatistics {
  size_t in_use = 0;  // bytes held by live tensors
  size_t peak = 0;    // the largest in_use since reset_peak()
  size_t held = 0;    // bytes taken from the system, in use or waiting for reuse
};

// One block of memory, 64-byte aligned; goes back to its arena when the last handle drops.
class Storage {
 public:
  Storage(std::byte* data, size_t bytes, class Arena* arena) : data_(data), bytes_(bytes), arena_(arena) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  size_t bytes_;
  Arena* arena_;
};

class Arena {
 public:
  // The process's arena; it outlives every tensor.
  static Arena& instance();

  // A block of at least `bytes` bytes, contents undefined. Errors: RunError when the system has no more
  // memory.
  std::shared_ptr<Storage> allocate(size_t bytes);

  ArenaStatistics statistics() const;
  void reset_peak();

  // Gives blocks that wait for reuse back to the system until at most `keep` bytes wait.
  void trim(size_t keep = 0);

 private:
  friend class Storage;
  void release(std::byte* data, size_t bytes);

  mutable std::mutex mutex_;
  std::multimap<size_t, std::byte*> waiting_;  // by size
  ArenaStatistics statistics_;
  size_t waiting_bytes_ = 0;
};

}  // namespace transduce
