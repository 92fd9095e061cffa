// Embedding: the forward pass is cut by rows; the backward pass by columns, so that every element of a table
// is added to by one thread, in the order of the rows, whatever the number of threads.

#include "transduce/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transduce/kernels/cpu/embedding.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set

#include "transduce/base/parallel.h"
#include "transduce/kernels/cpu/backend.h"
#include "transduce/kernels/cpu/matmul.h"
#include "transduce/kernels/cpu/simd-inl.h"

namespace transduce::cpu {
#ifndef TRANSDUCE_KERNELS_CPU_EMBEDDING_TYPES
#define TRANSDUCE_KERNELS_CPU_EMBEDDING_TYPES

struct EmbeddingForward {
  const int32_t* ids;           // (N)
  const float* table;           // (V, C)
  const int32_t* positions;     // (N)
  const float* position_table;  // (P, C), or null
  float scale;
  Dropout dropout;
  float* y;  // (N, C)
  int64_t C;
};

// table[id] += scale * dropout(dy), row after row.
struct EmbeddingBackward {
  const float* dy;     // (N, C)
  const int32_t* ids;  // (N)
  float scale;
  Dropout dropout;
  float* dtable;  // (V, C)
  int64_t N, C;
};

#endif
}  // namespace transduce::cpu

HWY_BEFORE_NAMESPACE();
namespace transduce::cpu::HWY_NAMESPACE {
namespace {

// Rows begin .. end - 1.
void Embed(const EmbeddingForward& a, int64_t begin, int64_t end) {
  DropoutFactors dropout(a.dropout);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t from = 0; from < a.C; from += DropoutFactors::kChunk) {
      const int64_t count = HWY_MIN(DropoutFactors::kChunk, a.C - from);
      const float* factors = dropout.at(row * a.C + from, count);
      const float* token = a.table + a.ids[row] * a.C + from;
      const float* position = a.position_table;
      if (position != nullptr) position += a.positions[row] * a.C + from;
      float* y = a.y + row * a.C + from;
      each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
        const Float start = position != nullptr ? lanes.load(position + i) : hn::Zero(kFloat);
        const Float sum = hn::MulAdd(set(a.scale), lanes.load(token + i), start);
        lanes.store(hn::Mul(sum, lanes.load(factors + i)), y + i);
      });
    }
  }
}

// Columns begin .. end - 1.
void EmbedBackward(const EmbeddingBackward& a, int64_t begin, int64_t end) {
  DropoutFactors dropout(a.dropout);
  for (int64_t row = 0; row < a.N; ++row) {
    for (int64_t from = begin; from < end; from += DropoutFactors::kChunk) {
      const int64_t count = HWY_MIN(DropoutFactors::kChunk, end - from);
      const float* factors = dropout.at(row * a.C + from, count);
      const float* dy = a.dy + row * a.C + from;
      float* dtable = a.dtable + a.ids[row] * a.C + from;
      each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
        const Float scaled = hn::Mul(lanes.load(dy + i), set(a.scale));
        lanes.store(hn::MulAdd(scaled, lanes.load(factors + i), lanes.load(dtable + i)), dtable + i);
      });
    }
  }
}

}  // namespace
}  // namespace transduce::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transduce {
namespace cpu {
namespace {

HWY_EXPORT(Embed);
HWY_EXPORT(EmbedBackward);

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kGrain = 16384;

void scatter(const EmbeddingBackward& arguments) {
  const int64_t grain = std::max<int64_t>(16, kGrain / std::max<int64_t>(arguments.N, 1));
  parallel_for(arguments.C, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(EmbedBackward)(arguments, begin, end);
  });
}

}  // namespace
}  // namespace cpu

void CpuBackend::embedding(const Tensor& ids, const Tensor& table, const Tensor& positions,
                           const Tensor& position_table, double scale, const Dropout& dropout, Tensor y) {
  const int64_t C = y.dim(1);
  const cpu::EmbeddingForward arguments{ids.data<int32_t>(),
                                        table.data<float>(),
                                        cpu::ids_or_null(positions),
                                        cpu::data_or_null(position_table),
                                        static_cast<float>(scale),
                                        dropout,
                                        y.data<float>(),
                                        C};
  parallel_for(y.dim(0), cpu::kGrain / std::max<int64_t>(C, 1) + 1, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cpu::Embed)(arguments, begin, end);
  });
}

void CpuBackend::embedding_backward(const Tensor& dy, const Tensor& ids, const Tensor& positions,
                                    double scale, const Dropout& dropout, Tensor dtable,
                                    Tensor dposition_table) {
  const int64_t N = dy.dim(0), C = dy.dim(1);
  const float* from = dy.data<float>();
  if (dtable) {
    cpu::scatter({from, ids.data<int32_t>(), static_cast<float>(scale), dropout, dtable.data<float>(), N, C});
  }
  if (dposition_table) {
    cpu::scatter({from, positions.data<int32_t>(), 1.0f, dropout, dposition_table.data<float>(), N, C});
  }
}

}  // namespace transduce
#endif
