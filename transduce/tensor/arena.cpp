#include "transduce/tensor/arena.h"

#include <algorithm>
#include <cstdlib>

#include "transduce/base/error.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace transduce {
namespace {

constexpr size_t kAlignment = 64;

// Sizes are rounded up so that batches of slightly different lengths share blocks: to 64 bytes when small,
// then to an eighth of the next power of two, which wastes at most 12.5 %.
size_t round_size(size_t bytes) {
  size_t step = kAlignment;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

// Memory from the system, null when it has none. Large blocks ask for huge pages: reading the weights of a
// model one after the other is a third faster where an address need not be looked up anew every 4 KiB.
std::byte* take(size_t size) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const bool large = size >= 2 * kHugePage;
  void* const data = std::aligned_alloc(large ? kHugePage : kAlignment, size);
#if defined(MADV_HUGEPAGE)
  if (large && data != nullptr) madvise(data, size, MADV_HUGEPAGE);  // a wish, which may be refused
#endif
  return static_cast<std::byte*>(data);
}

}  // namespace

Storage::~Storage() { arena_->release(data_, bytes_); }

Arena& Arena::instance() {
  static Arena* arena = new Arena;  // never destroyed: tensors with static lifetime may outlive main()
  return *arena;
}

std::shared_ptr<Storage> Arena::allocate(size_t bytes) {
  const size_t size = round_size(bytes == 0 ? 1 : bytes);
  std::byte* data = nullptr;
  size_t actual = size;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Up to twice the size: batches shrink as their sentences end, and touching memory anew costs more than
    // using half of a block.
    const auto found = waiting_.lower_bound(size);
    if (found != waiting_.end() && found->first <= 2 * size) {
      actual = found->first;
      data = found->second;
      waiting_.erase(found);
      waiting_bytes_ -= actual;
    }
  }
  if (data == nullptr) {
    // Blocks that wait but do not fit must not pile up beside the live ones: beyond a little, the new block
    // takes the place of some.
    constexpr size_t kLittle = size_t{32} << 20;
    const ArenaStatistics now = statistics();
    const size_t waiting = now.held - now.in_use;
    if (waiting > kLittle) trim(std::max(kLittle, waiting - std::min(waiting, 4 * size)));
    data = take(size);
    if (data == nullptr) {
      trim();
      data = take(size);
    }
    if (data == nullptr)
      fail_run("out of memory: a tensor of {} bytes was asked for; use a smaller batch", bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    statistics_.held += size;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    statistics_.in_use += actual;
    statistics_.peak = std::max(statistics_.peak, statistics_.in_use);
  }
  return std::make_shared<Storage>(data, actual, this);
}

void Arena::release(std::byte* data, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics_.in_use -= bytes;
  waiting_.emplace(bytes, data);
  waiting_bytes_ += bytes;
}

ArenaStatistics Arena::statistics() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return statistics_;
}

void Arena::reset_peak() {
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics_.peak = statistics_.in_use;
}

void Arena::trim(size_t keep) {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (waiting_bytes_ > keep) {
    const auto largest = std::prev(waiting_.end());
    waiting_bytes_ -= largest->first;
    statistics_.held -= largest->first;
    std::free(largest->second);
    waiting_.erase(largest);
  }
}

}  // namespace transduce
