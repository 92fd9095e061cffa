// Measures every kernel of backend.h at the sizes of three models, beside what the machine can do: its
// largest matrix products and its memory, both measured first.
//
//   bench_kernels --threads=2 --benchmark_filter=attention

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "bench/kernel_cases.h"
#include "transduce/base/parallel.h"
#include "transduce/kernels/backend.h"

namespace transduce::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& call) {
  const Clock::time_point start = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The shortest of the calls that fit into a second, after one that warms up.
double fastest(const std::function<void()>& call) {
  call();
  double best = 1e9;
  for (double spent = 0.0; spent < 1.0;) {
    const double seconds = seconds_of(call);
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

// Operations a second of the best of a few large products.
double product_peak() {
  double peak = 0.0;
  for (const auto& [N, I, O] : {std::tuple{2048, 512, 2048}, {2048, 2048, 512}, {2048, 2048, 2048}}) {
    const Tensor x = Tensor::zeros({N, I}), weight = Tensor::zeros({O, I}), y = Tensor::zeros({N, O});
    const double seconds = fastest([&] { cpu_backend().linear(x, weight, Tensor(), y); });
    peak = std::max(peak, 2.0 * N * I * O / seconds);
  }
  return peak;
}

// Bytes a second of a sum over buffers far larger than any cache: two read, one of them written.
double memory_peak() {
  constexpr int64_t kCount = int64_t{1} << 26;
  const Tensor x = Tensor::zeros({kCount}), y = Tensor::zeros({kCount});
  return 3.0 * 4.0 * kCount / fastest([&] { cpu_backend().accumulate(1.0, x, y); });
}

void measure(benchmark::State& state, const Case& one, const Size& size, double products, double memory) {
  const Work work = one.prepare(size);
  work.call();
  double seconds = 0.0;
  for (auto _ : state) seconds += seconds_of(work.call);
  const double calls = static_cast<double>(state.iterations());
  if (work.operations > 0) {
    state.counters["GFLOP/s"] = work.operations * calls / seconds / 1e9;
    state.counters["% of products"] = 100.0 * work.operations * calls / seconds / products;
  }
  state.counters["GB/s"] = work.bytes * calls / seconds / 1e9;
  state.counters["% of memory"] = 100.0 * work.bytes * calls / seconds / memory;
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  constexpr std::string_view kThreads = "--threads=";
  int count = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kThreads)) {
      fmt::print(stderr, "unknown argument {}: give --threads=N or --help\n", argument);
      return 2;
    }
    count = std::atoi(argument.substr(kThreads.size()).data());
  }
  set_threads(count);
  const double products = product_peak(), memory = memory_peak();
  benchmark::AddCustomContext("threads", std::to_string(threads()));
  benchmark::AddCustomContext("matrix products", fmt::format("{:.1f} GFLOP/s", products / 1e9));
  benchmark::AddCustomContext("memory", fmt::format("{:.1f} GB/s", memory / 1e9));
  for (const Size& size : sizes()) {
    for (const Case& one : cases()) {
      benchmark::RegisterBenchmark(fmt::format("{}/{}", size.name, one.kernel).c_str(),
                                   [&one, &size, products, memory](benchmark::State& state) {
                                     measure(state, one, size, products, memory);
                                   })
          ->UseRealTime()
          ->MinTime(0.2)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace transduce::bench

int main(int argc, char** argv) { return transduce::bench::run(argc, argv); }
