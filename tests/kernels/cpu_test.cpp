// The fast kernels against the scalar reference, which runs in float64 from the same float32 numbers.

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <array>

#include "tests/kernels/kernel_cases.h"
#include "transduce/base/parallel.h"

namespace transduce {
namespace {

// Each family of cases with one thread, two, and more than there may be cores.
class CpuKernels : public ::testing::TestWithParam<std::tuple<kernel_tests::KernelFamily, int>> {
 protected:
  void TearDown() override { set_threads(0); }
};

// The tolerances and their reasons stand at each case in kernel_cases.cpp.
TEST_P(CpuKernels, AgreesWithReference) {
  const auto& [family, threads] = GetParam();
  set_threads(threads);
  kernel_tests::compare_backends(cpu_backend(), reference_backend(), family);
}

INSTANTIATE_TEST_SUITE_P(Kernels, CpuKernels,
                         ::testing::Combine(::testing::ValuesIn(kernel_tests::kernel_families()),
                                            ::testing::Values(1, 2, 5)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param).name + "Threads" +
                                  std::to_string(std::get<1>(tested.param));
                         });

// The squares of float32 numbers are exact in float64, so only the order of the sum differs: n roundings of
// 2^-53.
TEST(CpuKernelsFlat, SumOfSquares) {
  for (const int threads : {1, 2, 5}) {
    set_threads(threads);
    for (const int64_t count : {0, 1, 3, 7, 8, 15, 16, 17, 33, 1000, 70001}) {
      const Tensor x = kernel_tests::normal({count}, DType::float32, static_cast<uint64_t>(count) + 1, 100.0);
      const double expected = reference_backend().sum_of_squares(x), got = cpu_backend().sum_of_squares(x);
      EXPECT_NEAR(got, expected, 0x1p-53 * static_cast<double>(count) * expected) << count;
      EXPECT_EQ(got, cpu_backend().sum_of_squares(x)) << "the same call again";
    }
    // Their squares do not fit into float32.
    const Tensor large = Tensor::of<float>({2}, {1e30f, -1e30f}),
                 small = Tensor::of<float>({2}, {1e-30f, 1e-30f});
    EXPECT_NEAR(cpu_backend().sum_of_squares(large), 2e60, 1e54);
    EXPECT_NEAR(cpu_backend().sum_of_squares(small), 2e-60, 1e-66);
  }
  set_threads(0);
}

// What belongs to one row or one sequence must not depend on the number of threads: not in one bit.
TEST(CpuKernelsThreads, ForwardDoesNotDependOnTheirNumber) {
  const Layout layout = Layout::packed({31, 1, 17, 64, 5});
  AttentionSpec spec;
  spec.queries = spec.keys = layout;
  spec.heads = 4;
  spec.causal = true;
  spec.dropout = kernel_tests::dropout_of(0.1f, 1);
  const Tensor qkv = kernel_tests::normal({layout.rows, 3 * 64}, DType::float32, 1);
  const Tensor gain = kernel_tests::normal({64}, DType::float32, 2);
  std::vector<std::vector<float>> outs, norms;
  for (const int threads : {1, 2, 3}) {
    set_threads(threads);
    Tensor out({layout.rows, 64}, DType::float32), y({layout.rows, 64}, DType::float32);
    cpu_backend().attention(qkv.columns(0, 64), qkv.columns(64, 128), qkv.columns(128, 192), spec, out, {},
                            {});
    cpu_backend().residual_norm(out, out, kernel_tests::dropout_of(0.2f, 2), gain, {}, {}, {}, y, {}, {});
    outs.push_back(out.to_vector<float>());
    norms.push_back(y.to_vector<float>());
  }
  set_threads(0);
  for (size_t i = 1; i < outs.size(); ++i) {
    EXPECT_EQ(outs[i], outs[0]);
    EXPECT_EQ(norms[i], norms[0]);
  }
}

struct Int8Case {
  Tensor x;           // (N, I)
  Int8Matrix weight;  // (O, I)
};

// Whole numbers, and in the last row of x zeros. `extreme`: nothing but the largest there are, of one sign
// and of both.
Int8Case int8_case(int64_t N, int64_t I, int64_t O, bool extreme) {
  Int8Case c{Tensor({N, I}, DType::float32), {Tensor({O, I}, DType::int8), Tensor({O}, DType::float32), {}}};
  Random random({static_cast<uint64_t>(N * 1000 + I), 5});
  for (int64_t i = 0; i < N; ++i) {
    float* const row = c.x.row<float>(i);
    if (extreme || i == N - 1) {
      std::fill_n(row, I, i == N - 1 ? 0.0f : i % 2 == 0 ? 255.0f : -255.0f);
    } else {
      kernel_tests::made_of_steps(random, I, row);
    }
  }
  for (int64_t o = 0; o < O; ++o) {
    c.weight.scales.data<float>()[o] = 0.25f;
    for (int64_t k = 0; k < I; ++k) {
      const int drawn = static_cast<int>(random.below(255)) - 127;
      c.weight.values.row<int8_t>(o)[k] = static_cast<int8_t>(!extreme                  ? drawn
                                                              : o % 3 == 0 || drawn < 0 ? -127
                                                                                        : 127);
    }
  }
  return c;
}

// Whatever the processor: the sums are exact, so a result is the float next to a quarter of them.
TEST(CpuKernelsInt8, EveryInstructionSetGivesTheExactSums) {
  for (int64_t targets = hwy::SupportedTargets(), left = targets; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().DeInit();
    for (const auto& [N, I, O] : std::vector<std::array<int64_t, 3>>{
             {1, 1, 1}, {2, 7, 17}, {6, 64, 40}, {14, 65, 33}, {25, 130, 3}, {8, 65536, 2}}) {
      for (const bool extreme : {false, true}) {
        Int8Case c = int8_case(N, I, O, extreme);
        cpu_backend().pack(c.weight);
        const Tensor y({N, O}, DType::float32);
        cpu_backend().linear_int8(c.x, c.weight, {}, y);
        for (int64_t i = 0; i < N; ++i) {
          for (int64_t o = 0; o < O; ++o) {
            int64_t sum = 0;
            for (int64_t k = 0; k < I; ++k) {
              sum += static_cast<int64_t>(c.x.row<float>(i)[k]) * c.weight.values.row<int8_t>(o)[k];
            }
            ASSERT_EQ(y.row<float>(i)[o], 0.25f * static_cast<float>(sum))
                << hwy::TargetName(left & -left) << " (" << N << ", " << I << ") x " << O << ", row " << i
                << ", column " << o;
          }
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace
}  // namespace transduce
