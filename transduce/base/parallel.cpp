#include "transduce/base/parallel.h"

#include <omp.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "transduce/base/error.h"

#if defined(__x86_64__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

namespace transduce {
namespace {

// Keeps the first exception of a parallel region: one must not leave an OpenMP region.
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

// Runs work(0) to work(count - 1), each on a thread of its own, at once.
template <class F>
void on_threads(int64_t count, const F& work) {
#if defined(__SANITIZE_THREAD__)
  // The thread sanitizer does not see OpenMP's barriers and would report every hand-over as a race.
  std::vector<std::thread> workers;
  for (int64_t i = 1; i < count; ++i) workers.emplace_back([&work, i] { work(i); });
  work(0);
  for (std::thread& worker : workers) worker.join();
#else
#pragma omp parallel for num_threads(static_cast<int>(count)) schedule(static, 1)
  for (int64_t i = 0; i < count; ++i) work(i);
#endif
}

}  // namespace

void set_threads(int count) {
  check_input(count >= 0 && count <= 1024, "--threads {} is out of range: give 1 to 1024, or 0 for one a core",
              count);
  omp_set_dynamic(0);
  omp_set_num_threads(count > 0 ? count : omp_get_num_procs());
  flush_denormals();
}

int threads() { return omp_get_max_threads(); }

void flush_denormals() {
#if defined(__x86_64__)
#pragma omp parallel
  {
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
  }
#endif
}

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  const int64_t pieces = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, threads());
  if (pieces == 1 || omp_in_parallel()) return body(0, count);
  FirstException failure;
  on_threads(pieces, [&](int64_t piece) {
    failure.run([&] { body(count * piece / pieces, count * (piece + 1) / pieces); });
  });
  failure.rethrow();
}

void parallel_each(int64_t count, const std::function<void(int64_t)>& body) {
  if (count <= 0) return;
  const int64_t workers = std::min<int64_t>(count, threads());
  if (workers == 1 || omp_in_parallel()) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  FirstException failure;
  std::atomic<int64_t> next{0};
  on_threads(workers, [&](int64_t) {
    for (int64_t i = next++; i < count; i = next++) failure.run([&] { body(i); });
  });
  failure.rethrow();
}

}  // namespace transduce
