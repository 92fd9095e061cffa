// Tensors: shapes, views of shared memory, conversions; layouts; the arena's reuse of memory.

#include "transduce/tensor/tensor.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "transduce/tensor/layout.h"

namespace transduce {
namespace {

using Floats = std::vector<float>;

// 0, 1, 2, ... in a matrix.
Tensor counting(int64_t rows, int64_t columns) {
  Floats values(static_cast<size_t>(rows * columns));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::of(Shape{rows, columns}, values);
}

// ---- views --------------------------------------------------------------------------------------------

TEST(TensorTest, RowsAndColumnsAreViewsOfTheSameMemory) {
  const Tensor x = counting(4, 5);
  EXPECT_EQ(x.rows(1, 3).to_vector<float>(), (Floats{5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(x.columns(3, 5).to_vector<float>(), (Floats{3, 4, 8, 9, 13, 14, 18, 19}));
  EXPECT_EQ(x.columns(1, 5).columns(1, 2).rows(2, 4).to_vector<float>(), (Floats{12, 17}));
  x.columns(4, 5).row<float>(3)[0] = -1.0f;
  EXPECT_EQ(x.row<float>(3)[4], -1.0f);
  EXPECT_EQ(x.rows(2, 2).size(), 0);
  EXPECT_EQ(x.columns(5, 5).shape(), (Shape{4, 0}));
}

TEST(TensorTest, KnowsWhetherItIsContiguous) {
  const Tensor x = counting(4, 5);
  EXPECT_TRUE(x.contiguous());
  EXPECT_TRUE(x.rows(1, 3).contiguous());
  EXPECT_TRUE(x.columns(0, 5).contiguous());
  EXPECT_FALSE(x.columns(0, 4).contiguous());
  EXPECT_TRUE(x.columns(0, 4).clone().contiguous());
  EXPECT_THROW(x.columns(0, 4).reshape({16}), std::logic_error);
  EXPECT_THROW(x.columns(0, 4).flat(0, 2), std::logic_error);
  EXPECT_TRUE(Tensor({0, 5}, DType::float32).contiguous());
}

TEST(TensorTest, ReshapeAndFlatKeepTheOrder) {
  const Tensor x = counting(2, 6);
  EXPECT_EQ(x.reshape({3, 4}).row<float>(2)[1], 9.0f);
  EXPECT_EQ(x.reshape({2, 3, 2}).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(x.flat(4, 3).to_vector<float>(), (Floats{4, 5, 6}));
  EXPECT_EQ(x.rows(1, 2).flat(0, 2).to_vector<float>(), (Floats{6, 7}));
  EXPECT_THROW(x.reshape({5, 2}), InputError);
  EXPECT_THROW(x.flat(10, 3), InputError);
}

TEST(TensorTest, ViewsOutsideOfTheShapeAreRefused) {
  const Tensor x = counting(4, 5);
  EXPECT_THROW(x.rows(-1, 2), InputError);
  EXPECT_THROW(x.rows(3, 2), InputError);
  EXPECT_THROW(x.rows(0, 5), InputError);
  EXPECT_THROW(x.columns(0, 6), InputError);
  EXPECT_THROW(Tensor({4}, DType::float32).columns(0, 1), InputError);
}

TEST(TensorTest, ViewsKeepTheMemoryAlive) {
  Tensor view;
  {
    const Tensor x = counting(100, 100);
    view = x.columns(98, 100).rows(99, 100);
  }
  const Tensor other = Tensor::zeros({100, 100});  // would take the memory if it were free
  EXPECT_EQ(view.to_vector<float>(), (Floats{9998, 9999}));
}

TEST(TensorTest, FillsAndCopiesStridedMatrices) {
  const Tensor x = counting(3, 4);
  x.columns(1, 3).fill_zero();
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 0, 0, 3, 4, 0, 0, 7, 8, 0, 0, 11}));
  x.columns(0, 2).copy_from(x.columns(2, 4));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 3, 0, 3, 0, 7, 0, 7, 0, 11, 0, 11}));
  EXPECT_THROW(x.copy_from(counting(4, 3)), InputError);
  EXPECT_THROW(x.copy_from(Tensor({3, 4}, DType::float64)), InputError);
}

TEST(TensorTest, ConvertsBetweenFloatingTypes) {
  const Tensor x = Tensor::of<float>({1, 3}, {0.1f, -2.5f, 3e38f});
  for (const DType dtype : {DType::float64, DType::complex128}) {
    EXPECT_EQ(x.to(dtype).to(DType::float32).to_vector<float>(), x.to_vector<float>()) << name_of(dtype);
  }
  EXPECT_EQ(counting(2, 3).columns(1, 3).to(DType::float64).to_vector<double>(),
            (std::vector<double>{1, 2, 4, 5}));
  EXPECT_THROW(x.to(DType::int32), std::logic_error);
  EXPECT_THROW(x.data<double>(), std::logic_error);
}

TEST(TensorTest, HandlesAndClones) {
  const Tensor x = counting(1, 2), handle = x, clone = x.clone();
  x.data<float>()[0] = 5.0f;
  EXPECT_EQ(handle.data<float>()[0], 5.0f);
  EXPECT_EQ(clone.data<float>()[0], 0.0f);
  EXPECT_TRUE(Tensor().empty());
  EXPECT_FALSE(Tensor({0}, DType::float32).empty()) << "no elements is not the same as no tensor";
}

// ---- shapes that cannot be ----------------------------------------------------------------------------

TEST(TensorTest, ImpossibleShapesAreRefusedBeforeMemoryIsTaken) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_THROW(Tensor({huge, huge}, DType::float32), InputError);
  EXPECT_THROW(Tensor({-1, 4}, DType::float32), InputError);
  EXPECT_THROW(elements_of({std::numeric_limits<int64_t>::max(), 2}), InputError);
  EXPECT_EQ(elements_of({}), 1);
  EXPECT_EQ(elements_of({0, std::numeric_limits<int64_t>::max()}), 0);
  EXPECT_THROW(Tensor::of<float>({2, 2}, {1, 2, 3}), InputError);
  // The elements can be counted in 63 bits, their bytes cannot: an error, never a small block.
  EXPECT_THROW(Tensor({int64_t{1} << 62}, DType::complex128), Error);
  EXPECT_THROW(Tensor({int64_t{1} << 61}, DType::float64), Error);
  EXPECT_THROW(Tensor({(int64_t{1} << 62) + 1}, DType::float32), Error);
  // More than any machine has.
  EXPECT_THROW(Tensor({int64_t{1} << 50}, DType::float32), Error);
  EXPECT_EQ(to_string({34, 256}), "(34, 256)");
}

// ---- layouts ------------------------------------------------------------------------------------------

TEST(LayoutTest, PackedSequencesLieEndToEnd) {
  const Layout layout = Layout::packed({3, 0, 5, 1});
  EXPECT_EQ(layout.begin, (std::vector<int32_t>{0, 3, 3, 8}));
  EXPECT_EQ(layout.rows, 9);
  EXPECT_EQ(layout.longest, 5);
  EXPECT_EQ(layout.sequences(), 4);
  EXPECT_EQ(Layout::packed({}).rows, 0);
  EXPECT_THROW(Layout::packed({2, -1}), InputError);
  const int32_t most = std::numeric_limits<int32_t>::max();
  EXPECT_THROW(Layout::packed({most, most}), InputError);
}

TEST(LayoutTest, PlacedSequencesMustLieInside) {
  const Layout layout = Layout::placed({4, 0, 4}, {2, 1, 6}, 10);  // two share rows
  EXPECT_EQ(layout.rows, 10);
  EXPECT_EQ(layout.longest, 6);
  EXPECT_THROW(Layout::placed({4}, {7}, 10), InputError);
  EXPECT_THROW(Layout::placed({-1}, {2}, 10), InputError);
  EXPECT_THROW(Layout::placed({1}, {-2}, 10), InputError);
  EXPECT_THROW(Layout::placed({1, 2}, {1}, 10), InputError);
}

// ---- arena --------------------------------------------------------------------------------------------

TEST(ArenaTest, ReusesABlockWhoseTensorIsGone) {
  Arena& arena = Arena::instance();
  const void* first = nullptr;
  {
    const Tensor x({1000, 7}, DType::float32);
    first = x.data<float>();
  }
  const size_t held = arena.statistics().held;
  const Tensor again({7, 1000}, DType::float32);
  EXPECT_EQ(static_cast<const void*>(again.data<float>()), first);
  EXPECT_EQ(arena.statistics().held, held);
}

TEST(ArenaTest, CountsWhatIsInUseAndThePeak) {
  Arena& arena = Arena::instance();
  const size_t before = arena.statistics().in_use;
  arena.reset_peak();
  {
    const Tensor a({1 << 16}, DType::float32);
    const Tensor view = a.flat(5, 10), handle = a;
    EXPECT_GE(arena.statistics().in_use - before, size_t{1} << 18);
    EXPECT_LE(arena.statistics().in_use - before, (size_t{1} << 18) * 3 / 2)
        << "views and handles count nothing";
  }
  EXPECT_EQ(arena.statistics().in_use, before);
  EXPECT_GE(arena.statistics().peak, before + (size_t{1} << 18));
  arena.reset_peak();
  EXPECT_EQ(arena.statistics().peak, before);
}

TEST(ArenaTest, TrimGivesMemoryBackToTheSystem) {
  Arena& arena = Arena::instance();
  { const Tensor x({1 << 20}, DType::float32); }
  EXPECT_GE(arena.statistics().held - arena.statistics().in_use, size_t{4} << 20);
  arena.trim(size_t{1} << 20);
  EXPECT_LE(arena.statistics().held - arena.statistics().in_use, size_t{1} << 20);
  arena.trim();
  EXPECT_EQ(arena.statistics().held, arena.statistics().in_use);
}

// One long line must not hold its memory for ever: blocks that fit nothing any more go back.
TEST(ArenaTest, StaysFlatOverBatchesOfManySizes) {
  Arena& arena = Arena::instance();
  arena.trim();
  const size_t before = arena.statistics().held;
  size_t most = 0;
  for (int64_t i = 0; i < 3000; ++i) {
    const int64_t rows = 1 + i * 7919 % 997;
    const Tensor a({rows, 512}, DType::float32), b({rows, 1536}, DType::float32), c({rows}, DType::float32);
    most = std::max(most, arena.statistics().held - before);
  }
  // The largest batch holds 8 MB; about 64 MB may wait, and as much again as half of what is in use.
  EXPECT_LE(most, size_t{96} << 20);
}

TEST(ArenaTest, BlocksAreAligned) {
  std::vector<Tensor> tensors;
  for (int64_t size = 1; size < 200; size += 13) {
    tensors.emplace_back(Shape{size}, DType::uint8);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors.back().data<uint8_t>()) % 64, 0u);
  }
}

TEST(ArenaTest, ServesSeveralThreads) {
  const size_t before = Arena::instance().statistics().in_use;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int64_t i = 1; i < 500; ++i) {
        const Tensor x({i}, DType::int32);
        std::fill_n(x.data<int32_t>(), i, t);
        for (const int32_t value : x.to_vector<int32_t>()) ASSERT_EQ(value, t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Arena::instance().statistics().in_use, before);
}

}  // namespace
}  // namespace transduce
