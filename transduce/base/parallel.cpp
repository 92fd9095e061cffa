#include "transduce/base/parallel.h"

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "transduce/base/error.h"

#if defined(__x86_64__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

namespace transduce {
namespace {

using Work = std::function<void(int64_t)>;

// True on a thread that is doing a piece of a parallel loop: loops within it run in place.
thread_local bool inside_loop = false;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Waits until `value` differs from `old`: first awake, since the next loop usually follows within
// microseconds, then asleep, so that waiting costs nothing where other programs want the cores.
template <class T>
void wait_for_change(const std::atomic<T>& value, T old) {
  constexpr int kAwake = 2000;  // about 40 microseconds
  for (int i = 0; i < kAwake; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

// The threads that help the calling one. Piece i of a loop runs on helper i, piece 0 on the caller.
class Helpers {
 public:
  explicit Helpers(int threads) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
    } catch (const std::system_error& error) {
      dismiss();
      fail_run("cannot start {} threads: {}; give a smaller --threads", threads, error.what());
    }
  }
  ~Helpers() { dismiss(); }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs work(0) to work(pieces - 1) at once; pieces <= threads().
  void run(int64_t pieces, const Work& work) {
    work_ = &work;
    pieces_ = pieces;
    busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    announce();
    inside_loop = true;
    work(0);
    inside_loop = false;
    for (int left = busy_.load(std::memory_order_acquire); left != 0;
         left = busy_.load(std::memory_order_acquire)) {
      wait_for_change(busy_, left);
    }
  }

 private:
  void dismiss() {
    work_ = nullptr;
    announce();
    for (std::thread& worker : workers_) worker.join();
  }

  void announce() {
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }

  void serve(int index) {
    flush_denormals();
    inside_loop = true;
    for (uint32_t seen = 0;;) {
      wait_for_change(generation_, seen);
      ++seen;
      if (work_ == nullptr) return;
      if (index < pieces_) (*work_)(index);
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
    }
  }

  std::vector<std::thread> workers_;
  std::atomic<uint32_t> generation_{0};  // counts the loops
  std::atomic<int> busy_{0};             // helpers that have not finished the current one
  const Work* work_ = nullptr;           // null: go home
  int64_t pieces_ = 0;
};

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// The process's helpers, and the lock that one loop at a time holds.
struct Pool {
  std::mutex mutex;
  std::unique_ptr<Helpers> helpers = std::make_unique<Helpers>(cores());
};

Pool& pool() {
  static Pool instance;
  return instance;
}

// Keeps the first exception of a loop: one must not leave a helper.
class FirstException {
 public:
  template <class F>
  void run(F&& f) noexcept {
    try {
      f();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

// Runs work(0) to work(pieces - 1): at once where the helpers are free, else in place one after the other.
void run_pieces(int64_t pieces, const Work& work) {
  std::unique_lock<std::mutex> lock(pool().mutex, std::try_to_lock);
  if (!lock.owns_lock() || pieces > pool().helpers->threads()) {
    for (int64_t piece = 0; piece < pieces; ++piece) work(piece);
    return;
  }
  FirstException failure;
  pool().helpers->run(pieces, [&](int64_t piece) { failure.run([&] { work(piece); }); });
  failure.rethrow();
}

}  // namespace

void set_threads(int count) {
  check_input(count >= 0 && count <= 1024,
              "--threads {} is out of range: give 1 to 1024, or 0 for one a core", count);
  flush_denormals();
  const int wanted = count > 0 ? count : cores();
  const std::lock_guard<std::mutex> lock(pool().mutex);
  if (pool().helpers->threads() != wanted) pool().helpers = std::make_unique<Helpers>(wanted);
}

int threads() { return pool().helpers->threads(); }

int threads_here() { return inside_loop ? 1 : threads(); }

void flush_denormals() {
#if defined(__x86_64__)
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
#endif
}

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  const int64_t pieces = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, threads());
  if (pieces == 1 || inside_loop) return body(0, count);
  run_pieces(pieces, [&](int64_t piece) { body(count * piece / pieces, count * (piece + 1) / pieces); });
}

void parallel_each(int64_t count, const std::function<void(int64_t)>& body) {
  if (count <= 0) return;
  const int64_t workers = std::min<int64_t>(count, threads());
  if (workers == 1 || inside_loop) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::atomic<int64_t> next{0};
  run_pieces(workers, [&](int64_t) {
    for (int64_t i = next++; i < count; i = next++) body(i);
  });
}

bool run_together(int64_t count, const std::function<void(int64_t)>& body) {
  if (inside_loop) return false;
  std::unique_lock<std::mutex> lock(pool().mutex, std::try_to_lock);
  if (!lock.owns_lock() || count > pool().helpers->threads()) return false;
  FirstException failure;
  pool().helpers->run(count, [&](int64_t i) { failure.run([&] { body(i); }); });
  failure.rethrow();
  return true;
}

}  // namespace transduce
