#pragma once

// The float32 kernels for processors. Each group of kernels is one source file of this folder:
//   matmul.cpp         linear, linear_activation, and products cut over the threads
//   gemm.cpp           the matrix product on one thread
//   few_rows.cpp       linear, of few rows
//   int8.cpp           linear_int8
//   elementwise.cpp    activation, residual, dropout, accumulate
//   embedding.cpp      embedding
//   rotary.cpp         rotary
//   norm.cpp           residual_norm
//   attention.cpp, attention_backward.cpp
//   cross_entropy.cpp  linear_cross_entropy, log_sum_exp
//   optimizer.cpp      sum_of_squares, adam
// The drivers cut the work over the threads; the inner loops are written once in Highway's vectors, compiled
// for every instruction set and chosen at run time.

#include "transduce/kernels/backend.h"

namespace transduce {

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }

  void embedding(const Tensor& ids, const Tensor& table, const Tensor& positions,
                 const Tensor& position_table, double scale, const Dropout& dropout, Tensor y) override;
  void embedding_backward(const Tensor& dy, const Tensor& ids, const Tensor& positions, double scale,
                          const Dropout& dropout, Tensor dtable, Tensor dposition_table) override;

  void rotary(const Tensor& x, const Tensor& positions, const Tensor& table, Tensor y) override;
  void rotary_backward(const Tensor& dy, const Tensor& positions, const Tensor& table, Tensor dx) override;

  void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y) override;
  void linear_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, Tensor dx, Tensor dweight,
                       Tensor dbias) override;
  void linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind,
                         const Dropout& dropout, Tensor pre, Tensor y) override;

  Tensor pack(const Tensor& weight) override;
  void linear_packed(const Tensor& x, const Tensor& packed, const Tensor& bias, Tensor y) override;

  void pack(Int8Matrix& weight) override;
  void linear_int8(const Tensor& x, const Int8Matrix& weight, const Tensor& bias, Tensor y) override;

  void activation(const Tensor& pre, Activation kind, const Dropout& dropout, Tensor y) override;
  void activation_backward(const Tensor& dy, const Tensor& pre, Activation kind, const Dropout& dropout,
                           Tensor dpre) override;
  void residual(const Tensor& x, const Tensor& branch, const Dropout& dropout, Tensor y) override;
  void residual_backward(const Tensor& dy, const Dropout& dropout, Tensor dx, Tensor dbranch) override;
  void dropout(const Tensor& x, const Dropout& dropout, Tensor y) override;
  void dropout_backward(const Tensor& dy, const Dropout& dropout, Tensor dx) override;
  void accumulate(double scale, const Tensor& x, Tensor y) override;

  void residual_norm(const Tensor& x, const Tensor& branch, const Dropout& dropout, const Tensor& gain,
                     const Tensor& bias, const NormSpec& norm, Tensor sum, Tensor y, Tensor mean,
                     Tensor inverse_deviation) override;
  void residual_norm_backward(const Tensor& dy, const Tensor& sum, const Tensor& gain, const Tensor& mean,
                              const Tensor& inverse_deviation, const NormSpec& norm, const Dropout& dropout,
                              Tensor dx, Tensor dbranch, Tensor dgain, Tensor dbias) override;

  void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec, Tensor out,
                 Tensor log_sum_exp, Tensor weights) override;
  void attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& out, const Tensor& log_sum_exp, const AttentionSpec& spec, Tensor dq,
                          Tensor dk, Tensor dv) override;

  void linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                            double smoothing, Tensor chunk, Tensor loss, Tensor likelihood, Tensor best,
                            Tensor dx, Tensor dweight, Tensor dbias) override;

  void log_sum_exp(const Tensor& x, Tensor result, Tensor block_max) override;

  double sum_of_squares(const Tensor& x) override;
  void adam(const AdamSpec& spec, const Tensor& gradient, Tensor parameters, Tensor first_moment,
            Tensor second_moment) override;
};

}  // namespace transduce
