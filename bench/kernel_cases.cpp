#include "bench/kernel_cases.h"

#include "transduce/kernels/backend.h"

namespace transduce::bench {
namespace {

Backend& backend() { return cpu_backend(); }

// Made-up values around zero.
Tensor made(const Shape& shape) {
  static uint64_t stream = 0;
  Tensor t(shape, DType::float32);
  Random random({1, ++stream});
  for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = static_cast<float>(random.uniform(-0.1, 0.1));
  return t;
}

Tensor room(const Shape& shape) { return Tensor::zeros(shape); }

Tensor made_ids(int64_t count, int64_t below) {
  Tensor t({count}, DType::int32);
  Random random({2, static_cast<uint64_t>(count)});
  for (int64_t i = 0; i < count; ++i) {
    t.data<int32_t>()[i] = static_cast<int32_t>(random.below(static_cast<uint64_t>(below)));
  }
  return t;
}

template <class... Tensors>
double bytes(const Tensors&... tensors) {
  return (0.0 + ... + static_cast<double>(static_cast<size_t>(tensors.size()) * size_of(tensors.dtype())));
}

Dropout dropout() { return {0.1f, {1, 2}}; }

// Sequences of T tokens, end to end.
Layout layout(const Size& s) {
  return Layout::packed(std::vector<int32_t>(static_cast<size_t>(s.N / s.T), static_cast<int32_t>(s.T)));
}

// y (N, O) = x weight^T + bias, forward or backward.
Work linear(const Size& s, int64_t O, bool backward) {
  const Tensor x = made({s.N, s.C}), weight = made({O, s.C}), bias = made({O}), y = made({s.N, O});
  const auto products = static_cast<double>(2 * s.N * s.C * O);
  if (!backward) {
    return {[=] { backend().linear(x, weight, bias, y); }, products, bytes(x, weight, bias, y)};
  }
  const Tensor dx = room({s.N, s.C}), dweight = room({O, s.C}), dbias = room({O});
  return {[=] { backend().linear_backward(y, x, weight, dx, dweight, dbias); }, 2 * products,
          bytes(y, x, weight) + 2 * bytes(dx, dweight, dbias)};
}

Work linear_int8(const Size& s) {
  Int8Matrix weight{Tensor({s.C, s.C}, DType::int8), made({s.C}), Tensor()};
  for (int64_t i = 0; i < s.C * s.C; ++i)
    weight.values.data<int8_t>()[i] = static_cast<int8_t>(i % 255 - 127);
  backend().pack(weight);
  const Tensor x = made({s.N, s.C}), bias = made({s.C}), y = room({s.N, s.C});
  return {[=] { backend().linear_int8(x, weight, bias, y); }, static_cast<double>(2 * s.N * s.C * s.C),
          bytes(x, weight.values, weight.scales, bias, y)};
}

Work linear_activation(const Size& s) {
  const Tensor x = made({s.N, s.C}), weight = made({s.F, s.C}), bias = made({s.F});
  const Tensor pre = room({s.N, s.F}), y = room({s.N, s.F});
  return {[=] { backend().linear_activation(x, weight, bias, Activation::gelu, dropout(), pre, y); },
          static_cast<double>(2 * s.N * s.C * s.F), bytes(x, weight, bias, pre, y)};
}

Work activation(const Size& s, Activation kind, bool backward) {
  const Tensor pre = made({s.N, s.F}), y = made({s.N, s.F}), dpre = room({s.N, s.F});
  if (!backward) return {[=] { backend().activation(pre, kind, dropout(), y); }, 0, bytes(pre, y)};
  return {[=] { backend().activation_backward(y, pre, kind, dropout(), dpre); }, 0,
          bytes(y, pre) + 2 * bytes(dpre)};
}

Work embedding(const Size& s, bool backward) {
  const Tensor ids = made_ids(s.N, s.V), positions = made_ids(s.N, s.T), y = made({s.N, s.C});
  const Tensor table = room({s.V, s.C}), position_table = made({s.T, s.C});
  if (!backward) {
    return {[=] { backend().embedding(ids, table, positions, position_table, 2.0, dropout(), y); }, 0,
            bytes(ids, positions) + 3 * bytes(y)};
  }
  return {[=] { backend().embedding_backward(y, ids, positions, 2.0, dropout(), table, Tensor()); }, 0,
          bytes(ids) + 3 * bytes(y)};
}

Work residual(const Size& s, bool backward) {
  const Tensor x = made({s.N, s.C}), branch = made({s.N, s.C}), y = made({s.N, s.C});
  if (!backward) return {[=] { backend().residual(x, branch, dropout(), y); }, 0, bytes(x, branch, y)};
  return {[=] { backend().residual_backward(y, dropout(), x, branch); }, 0, bytes(y) + 2 * bytes(x, branch)};
}

Work plain_dropout(const Size& s, bool backward) {
  const Tensor x = made({s.N, s.C}), y = made({s.N, s.C});
  if (!backward) return {[=] { backend().dropout(x, dropout(), y); }, 0, bytes(x, y)};
  return {[=] { backend().dropout_backward(y, dropout(), x); }, 0, bytes(y) + 2 * bytes(x)};
}

Work residual_norm(const Size& s, bool backward) {
  const Tensor x = made({s.N, s.C}), branch = made({s.N, s.C}), sum = made({s.N, s.C}), y = made({s.N, s.C});
  const Tensor gain = made({s.C}), bias = made({s.C}), mean = room({s.N}), deviation = made({s.N});
  if (!backward) {
    return {[=] {
              backend().residual_norm(x, branch, dropout(), gain, bias, NormSpec(), sum, y, mean, deviation);
            },
            0, bytes(x, branch, gain, bias, sum, y, mean, deviation)};
  }
  const Tensor dgain = room({s.C}), dbias = room({s.C});
  return {[=] {
            backend().residual_norm_backward(y, sum, gain, mean, deviation, NormSpec(), dropout(), x, branch,
                                             dgain, dbias);
          },
          0, bytes(y, sum, gain, mean, deviation) + 2 * bytes(x, branch, dgain, dbias)};
}

Work attention(const Size& s, bool causal, bool backward) {
  AttentionSpec spec;
  spec.queries = spec.keys = layout(s);
  spec.heads = s.H;
  spec.causal = causal;
  const int64_t N = spec.queries.rows;
  const Tensor qkv = made({N, 3 * s.C}), out = made({N, s.C}), log_sum_exp = room({s.H, N});
  const Tensor q = qkv.columns(0, s.C), k = qkv.columns(s.C, 2 * s.C), v = qkv.columns(2 * s.C, 3 * s.C);
  const double seen = causal ? (static_cast<double>(s.T) + 1) / 2 : static_cast<double>(s.T);  // keys a query
  const double products = 4 * static_cast<double>(N * s.C) * seen;
  backend().attention(q, k, v, spec, out, log_sum_exp, Tensor());
  if (!backward) {
    return {[=] { backend().attention(q, k, v, spec, out, log_sum_exp, Tensor()); }, products,
            bytes(qkv, out, log_sum_exp)};
  }
  const Tensor dout = made({N, s.C}), dqkv = room({N, 3 * s.C});
  const Tensor dq = dqkv.columns(0, s.C), dk = dqkv.columns(s.C, 2 * s.C),
               dv = dqkv.columns(2 * s.C, 3 * s.C);
  return {[=] { backend().attention_backward(dout, q, k, v, out, log_sum_exp, spec, dq, dk, dv); },
          2.5 * products, bytes(dout, qkv, out, log_sum_exp) + 2 * bytes(dqkv)};
}

Work linear_cross_entropy(const Size& s, bool backward) {
  constexpr int64_t kRows = 256;  // as autograd/ops.cpp chooses
  const Tensor x = made({s.N, s.C}), weight = made({s.V, s.C}), targets = made_ids(s.N, s.V);
  const Tensor chunk = room({kRows, s.V}), loss = room({s.N});
  const auto products = static_cast<double>(2 * s.N * s.C * s.V);
  const Tensor dx = backward ? room({s.N, s.C}) : Tensor(), dweight = backward ? room({s.V, s.C}) : Tensor();
  return {[=] {
            backend().linear_cross_entropy(x, weight, Tensor(), targets, 0.1, chunk, loss, Tensor(), Tensor(),
                                           dx, dweight, Tensor());
          },
          backward ? 3 * products : products, bytes(x, weight, targets, loss)};
}

Work log_sum_exp(const Size& s) {
  constexpr int64_t kRows = 64;  // hypotheses in work
  const Tensor x = made({kRows, s.V}), result = room({kRows});
  const Tensor block_max = room({kRows, (s.V + Backend::score_block - 1) / Backend::score_block});
  return {[=] { backend().log_sum_exp(x, result, block_max); }, 0, bytes(x, result, block_max)};
}

Work adam(const Size& s) {
  const Tensor gradient = made({s.parameters}), parameters = made({s.parameters});
  const Tensor first = room({s.parameters}), second = room({s.parameters});
  return {[=] { backend().adam(AdamSpec(), gradient, parameters, first, second); }, 0,
          bytes(gradient) + 2 * bytes(parameters, first, second)};
}

Work sum_of_squares(const Size& s) {
  const Tensor gradient = made({s.parameters});
  return {[=] { backend().sum_of_squares(gradient); }, 0, bytes(gradient)};
}

Work accumulate(const Size& s) {
  const Tensor x = made({s.parameters}), y = made({s.parameters});
  return {[=] { backend().accumulate(0.5, x, y); }, 0, bytes(x) + 2 * bytes(y)};
}

}  // namespace

const std::vector<Size>& sizes() {
  static const std::vector<Size> all{
      {"reverse", 128, 4, 512, 31, 13, 13 * 64, 928'896},         // examples/reverse
      {"tiny", 128, 4, 256, 9'700, 14, 14 * 292, 2'571'008},      // examples/multi30k, 4,096 tokens
      {"base", 512, 8, 2'048, 32'000, 25, 25 * 80, 60'522'496}};  // the paper's, tied
  return all;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"embedding", [](const Size& s) { return embedding(s, false); }},
      {"embedding_backward", [](const Size& s) { return embedding(s, true); }},
      {"linear C x C", [](const Size& s) { return linear(s, s.C, false); }},
      {"linear_backward C x C", [](const Size& s) { return linear(s, s.C, true); }},
      {"linear C x F", [](const Size& s) { return linear(s, s.F, false); }},
      {"linear_backward C x F", [](const Size& s) { return linear(s, s.F, true); }},
      {"linear_activation", linear_activation},
      {"linear_int8 C x C", linear_int8},
      {"activation relu", [](const Size& s) { return activation(s, Activation::relu, false); }},
      {"activation_backward relu", [](const Size& s) { return activation(s, Activation::relu, true); }},
      {"activation gelu", [](const Size& s) { return activation(s, Activation::gelu, false); }},
      {"activation_backward gelu", [](const Size& s) { return activation(s, Activation::gelu, true); }},
      {"residual", [](const Size& s) { return residual(s, false); }},
      {"residual_backward", [](const Size& s) { return residual(s, true); }},
      {"dropout", [](const Size& s) { return plain_dropout(s, false); }},
      {"dropout_backward", [](const Size& s) { return plain_dropout(s, true); }},
      {"residual_norm", [](const Size& s) { return residual_norm(s, false); }},
      {"residual_norm_backward", [](const Size& s) { return residual_norm(s, true); }},
      {"attention", [](const Size& s) { return attention(s, false, false); }},
      {"attention_backward", [](const Size& s) { return attention(s, false, true); }},
      {"attention causal", [](const Size& s) { return attention(s, true, false); }},
      {"attention_backward causal", [](const Size& s) { return attention(s, true, true); }},
      {"linear_cross_entropy", [](const Size& s) { return linear_cross_entropy(s, false); }},
      {"linear_cross_entropy with gradients", [](const Size& s) { return linear_cross_entropy(s, true); }},
      {"log_sum_exp", log_sum_exp},
      {"accumulate", accumulate},
      {"sum_of_squares", sum_of_squares},
      {"adam", adam}};
  return all;
}

}  // namespace transduce::bench
