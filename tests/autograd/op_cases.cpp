#include "tests/autograd/op_cases.h"

#include <numbers>

#include "tests/kernels/made_up.h"

namespace transduce::op_tests {
namespace {

using kernel_tests::integers;
using Vars = std::vector<Var>;
using Grids = std::vector<Grid>;

struct Size {
  int64_t rows, in, out;
};
// Nothing, one of each, odd, powers of two, tails of every vector length.
const Size kSizes[] = {{0, 3, 5}, {1, 1, 1}, {1, 7, 3}, {5, 3, 7}, {4, 8, 16}, {3, 17, 33}};

Tensor made(const Shape& shape, uint64_t seed) { return kernel_tests::normal(shape, DType::float64, seed); }

std::string named(const Size& s, const std::string& variant) {
  return fmt::format("{}x{}x{} {}", s.rows, s.in, s.out, variant);
}

// ---- the mathematics as loops -------------------------------------------------------------------------

// What element i is multiplied by under the contract of `Dropout` in kernels/backend.h.
double kept(const Dropout& dropout, int64_t i) {
  if (dropout.p == 0.0f) return 1.0;
  const double word = random_word(dropout.key, static_cast<uint64_t>(i));
  const double p = static_cast<double>(dropout.p);
  return word < std::floor(p * 4294967296.0) ? 0.0 : 1.0 / (1.0 - p);
}

Grid plain_dropout(Grid x, const Dropout& dropout) {
  for (size_t i = 0; i < x.values.size(); ++i) x.values[i] *= kept(dropout, static_cast<int64_t>(i));
  return x;
}

Grid plain_linear(const Grid& x, const Grid& weight, const Grid& bias) {
  Grid y(x.rows, weight.rows);
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t o = 0; o < y.columns; ++o) {
      for (int64_t k = 0; k < x.columns; ++k) y[i][o] += x[i][k] * weight[o][k];
      if (!bias.absent()) y[i][o] += bias[0][o];
    }
  }
  return y;
}

Complex plain_swish(Complex x) { return x / (1.0 + std::exp(-x)); }

Complex plain_activation(Complex x, Activation kind) {
  const double a = x.real(), pi = std::numbers::pi;
  switch (kind) {
    case Activation::relu:
      return a > 0 ? x : 0.0;
    // x Phi(x); to first order in the imaginary part Phi(a + ib) = Phi(a) + ib phi(a).
    case Activation::gelu:
      return x * Complex(0.5 * std::erfc(-a / std::sqrt(2.0)),
                         x.imag() * std::exp(-a * a / 2) / std::sqrt(2 * pi));
    case Activation::gelu_tanh:
      return x / (1.0 + std::exp(-2.0 * std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
    case Activation::swish:
      return plain_swish(x);
    default:
      return x;
  }
}

Grid plain_activations(const Grid& pre, Activation kind) {
  const bool gated = kind == Activation::swiglu;
  Grid y(pre.rows, gated ? pre.columns / 2 : pre.columns);
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t f = 0; f < y.columns; ++f) {
      y[i][f] = gated ? plain_swish(pre[i][f]) * pre[i][y.columns + f] : plain_activation(pre[i][f], kind);
    }
  }
  return y;
}

Grid plain_sum(Grid x, const Grid& branch) {
  for (size_t i = 0; i < x.values.size(); ++i) x.values[i] += branch.values[i];
  return x;
}

Grid plain_norm(Grid x, const Grid& gain, const Grid& bias, const NormSpec& spec) {
  const double width = static_cast<double>(x.columns);
  for (int64_t i = 0; i < x.rows; ++i) {
    Complex mean = 0.0, variance = 0.0;
    for (int64_t c = 0; c < x.columns; ++c) mean += x[i][c] / width;
    if (spec.kind == NormKind::rms) mean = 0.0;
    for (int64_t c = 0; c < x.columns; ++c) variance += (x[i][c] - mean) * (x[i][c] - mean) / width;
    for (int64_t c = 0; c < x.columns; ++c) {
      x[i][c] = (x[i][c] - mean) / std::sqrt(variance + spec.epsilon) * gain[0][c];
      if (!bias.absent()) x[i][c] += bias[0][c];
    }
  }
  return x;
}

// Which keys a query may see: `visible` as in AttentionSpec, empty for all.
Grid plain_attention(const Grids& qkv, const AttentionSpec& spec, const Dropout& dropout) {
  const Grid &q = qkv[0], &k = qkv[1], &v = qkv[2];
  const int64_t head = q.columns / spec.heads;
  Grid out(q.rows, q.columns);
  for (int64_t h = 0; h < spec.heads; ++h) {
    int64_t place = 0;  // of this row of scores in the blocks
    for (size_t b = 0; b < spec.queries.length.size(); ++b) {
      const int64_t count = spec.queries.length[b], keys = spec.keys.length[b];
      for (int64_t t = 0; t < count; ++t, place += keys) {
        const int64_t i = spec.queries.begin[b] + t;
        std::vector<Complex> weight(static_cast<size_t>(keys));
        Complex total = 0.0;
        for (int64_t s = 0; s < keys; ++s) {
          if (spec.causal && s > keys - count + t) continue;
          if (spec.visible && spec.visible.data<uint8_t>()[place + s] == 0) continue;
          Complex score = 0.0;
          for (int64_t d = h * head; d < (h + 1) * head; ++d) score += q[i][d] * k[spec.keys.begin[b] + s][d];
          const double divisor = spec.scaled ? std::sqrt(static_cast<double>(head)) : 1.0;
          weight[static_cast<size_t>(s)] = std::exp(score / divisor);
          total += weight[static_cast<size_t>(s)];
        }
        for (int64_t s = 0; s < keys && total != 0.0; ++s) {
          const Complex w =
              weight[static_cast<size_t>(s)] / total * kept(dropout, h * spec.block_elements() + place + s);
          for (int64_t d = h * head; d < (h + 1) * head; ++d) out[i][d] += w * v[spec.keys.begin[b] + s][d];
        }
      }
    }
  }
  return out;
}

Grid plain_cross_entropy(const Grid& logits, const Tensor& targets, double smoothing) {
  Grid sum(1, 1);
  for (int64_t i = 0; i < logits.rows; ++i) {
    Complex total = 0.0;
    for (int64_t v = 0; v < logits.columns; ++v) total += std::exp(logits[i][v]);
    for (int64_t v = 0; v < logits.columns; ++v) {
      const double right = targets.data<int32_t>()[i] == v ? 1.0 - smoothing : 0.0;
      sum[0][0] -=
          (right + smoothing / static_cast<double>(logits.columns)) * (logits[i][v] - std::log(total));
    }
  }
  return sum;
}

// ---- the cases ----------------------------------------------------------------------------------------

std::vector<OpCase> embedding_cases() {
  std::vector<OpCase> cases;
  for (const Size& s : kSizes) {
    for (const bool placed : {true, false}) {
      const float p = placed ? 0.3f : 0.0f;
      const double scale = std::sqrt(static_cast<double>(s.in));
      const Tensor ids = integers({s.rows}, static_cast<uint64_t>(s.out), 11);
      const Tensor places = integers({s.rows}, 4, 12);
      cases.push_back({named(s, placed ? "with positions and dropout" : "plain"),
                       {made({s.out, s.in}, 1), placed ? made({4, s.in}, 2) : Tensor()},
                       [=](const Vars& v) {
                         return ops::embedding({ids, placed ? places : Tensor(), v[0], v[1]}, scale, p);
                       },
                       [=](const Grids& g) {
                         Grid y(s.rows, s.in);
                         for (int64_t i = 0; i < s.rows; ++i) {
                           for (int64_t c = 0; c < s.in; ++c) {
                             y[i][c] = scale * g[0][ids.data<int32_t>()[i]][c];
                             if (placed) y[i][c] += g[1][places.data<int32_t>()[i]][c];
                           }
                         }
                         return plain_dropout(y, next_dropout(p));
                       }});
    }
  }
  return cases;
}

std::vector<OpCase> rotary_cases() {
  std::vector<OpCase> cases;
  for (const auto& [rows, heads, head] :
       {std::tuple<int64_t, int64_t, int64_t>{0, 1, 2}, {1, 1, 2}, {4, 3, 6}, {5, 2, 34}}) {
    const Tensor places = integers({rows}, 9, 14), table = made({9, head}, 15);
    cases.push_back({fmt::format("{}x{}x{}", rows, heads, head),
                     {made({rows, heads * head}, 1)},
                     [=](const Vars& v) { return ops::rotary(v[0], places, Var(table.to(v[0].dtype()))); },
                     [=](const Grids& g) {
                       // A pair of columns as one complex number, times cos + i sin. The columns are complex
                       // themselves here, so both products are written out.
                       Grid y(g[0].rows, g[0].columns);
                       for (int64_t n = 0; n < y.rows; ++n) {
                         for (int64_t c = 0; c < y.columns; c += 2) {
                           const double* angle = table.row<double>(places.data<int32_t>()[n]) + c % head;
                           y[n][c] = g[0][n][c] * angle[1] - g[0][n][c + 1] * angle[0];
                           y[n][c + 1] = g[0][n][c] * angle[0] + g[0][n][c + 1] * angle[1];
                         }
                       }
                       return y;
                     }});
  }
  return cases;
}

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  for (const Size& s : kSizes) {
    for (const bool bias : {true, false}) {
      cases.push_back({named(s, bias ? "bias" : "no bias"),
                       {made({s.rows, s.in}, 1), made({s.out, s.in}, 2), bias ? made({s.out}, 3) : Tensor()},
                       [](const Vars& v) { return ops::linear(v[0], v[1], v[2]); },
                       [](const Grids& g) { return plain_linear(g[0], g[1], g[2]); }});
    }
  }
  return cases;
}

constexpr Activation kActivations[] = {Activation::none,      Activation::relu,  Activation::gelu,
                                       Activation::gelu_tanh, Activation::swish, Activation::swiglu};

std::vector<OpCase> activation_cases() {
  std::vector<OpCase> cases;
  for (const Activation kind : kActivations) {
    for (const Size& s : kSizes) {
      for (const float p : {0.0f, 0.4f}) {
        const int64_t width = kind == Activation::swiglu ? 2 * s.in : s.in;
        cases.push_back(
            {named(s, fmt::format("kind {} dropout {}", static_cast<int>(kind), p)),
             {made({s.rows, width}, 1)},
             [=](const Vars& v) { return ops::activation(v[0], kind, p); },
             [=](const Grids& g) { return plain_dropout(plain_activations(g[0], kind), next_dropout(p)); }});
      }
    }
  }
  return cases;
}

std::vector<OpCase> linear_activation_cases() {
  std::vector<OpCase> cases;
  for (const Activation kind : kActivations) {
    for (const Size& s : kSizes) {
      const bool more = s.rows % 2 == 1;  // with bias and dropout
      const float p = more ? 0.25f : 0.0f;
      const int64_t out = kind == Activation::swiglu ? 2 * s.out : s.out;
      cases.push_back(
          {named(s, fmt::format("kind {}", static_cast<int>(kind))),
           {made({s.rows, s.in}, 1), made({out, s.in}, 2), more ? made({out}, 3) : Tensor()},
           [=](const Vars& v) { return ops::linear_activation(v[0], v[1], v[2], kind, p); },
           [=](const Grids& g) {
             return plain_dropout(plain_activations(plain_linear(g[0], g[1], g[2]), kind), next_dropout(p));
           },
           [=](const Vars& v) { return ops::activation(ops::linear(v[0], v[1], v[2]), kind, p); }});
    }
  }
  return cases;
}

std::vector<OpCase> residual_cases() {
  std::vector<OpCase> cases;
  for (const Size& s : kSizes) {
    for (const float p : {0.0f, 0.2f}) {
      cases.push_back({named(s, fmt::format("dropout {}", p)),
                       {made({s.rows, s.in}, 1), made({s.rows, s.in}, 2)},
                       [=](const Vars& v) { return ops::residual(v[0], v[1], p); },
                       [=](const Grids& g) { return plain_sum(g[0], plain_dropout(g[1], next_dropout(p))); },
                       [=](const Vars& v) { return ops::residual(v[0], ops::dropout(v[1], p)); }});
    }
  }
  return cases;
}

std::vector<OpCase> dropout_cases() {
  std::vector<OpCase> cases;
  for (const Size& s : kSizes) {
    for (const float p : {0.1f, 0.9f}) {  // 0 hands x itself through
      cases.push_back({named(s, fmt::format("p {}", p)),
                       {made({s.rows, s.in}, 1)},
                       [=](const Vars& v) { return ops::dropout(v[0], p); },
                       [=](const Grids& g) { return plain_dropout(g[0], next_dropout(p)); }});
    }
  }
  return cases;
}

// Without a branch: norm; with one: residual_norm.
std::vector<OpCase> norm_cases(bool with_branch) {
  std::vector<OpCase> cases;
  for (const Size& s : kSizes) {
    for (const bool bias : {true, false}) {
      for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
        const float p = with_branch && bias ? 0.3f : 0.0f;
        const NormSpec spec{kind, 1e-5};
        const Shape shape{s.rows, s.in};
        const auto parameters = [=](const Vars& v) { return ops::NormParameters{v[2], v[3], spec}; };
        OpCase c;
        c.name =
            named(s, fmt::format("{}{}", kind == NormKind::layer ? "layer" : "rms", bias ? " bias" : ""));
        c.leaves = {made(shape, 1), with_branch ? made(shape, 2) : Tensor(), made({s.in}, 3),
                    bias ? made({s.in}, 4) : Tensor()};
        c.op = [=](const Vars& v) {
          return with_branch ? ops::residual_norm(v[0], v[1], p, parameters(v))
                             : ops::norm(v[0], parameters(v));
        };
        c.plain = [=](const Grids& g) {
          const Grid x = with_branch ? plain_sum(g[0], plain_dropout(g[1], next_dropout(p))) : g[0];
          return plain_norm(x, g[2], g[3], spec);
        };
        if (with_branch) {
          c.composed = [=](const Vars& v) { return ops::norm(ops::residual(v[0], v[1], p), parameters(v)); };
        }
        // A row of one element has no variance but epsilon: 1 / sqrt(1e-5) multiplies what ought to cancel.
        if (s.in == 1) c.condition = 320;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<OpCase> attention_cases() {
  struct Shape3 {
    std::vector<int32_t> queries, keys;
    int64_t heads, head;
    bool causal, masked;
    float p;
  };
  const Shape3 shapes[] = {{{1}, {1}, 1, 1, false, false, 0.0f},
                           {{1, 1, 1}, {1, 1, 1}, 2, 3, true, false, 0.0f},
                           {{3, 1, 5}, {3, 1, 5}, 3, 5, true, false, 0.0f},
                           {{3, 0, 2}, {4, 3, 1}, 2, 4, false, false, 0.3f},
                           {{2, 1}, {0, 6}, 1, 7, false, false, 0.0f},
                           {{2, 4}, {5, 4}, 2, 8, true, false, 0.2f},
                           {{4, 3}, {4, 3}, 3, 3, false, true, 0.0f},
                           {{4, 5}, {4, 5}, 1, 17, true, true, 0.4f},
                           {{19}, {21}, 1, 2, false, false, 0.0f}};
  std::vector<OpCase> cases;
  for (const Shape3& s : shapes) {
    AttentionSpec spec;
    spec.queries = Layout::packed(s.queries);
    spec.keys = Layout::packed(s.keys);
    spec.heads = s.heads;
    spec.causal = s.causal;
    spec.scaled = s.heads != 2;
    if (s.masked) {
      spec.visible = kernel_tests::visibility(spec.block_elements(), 0.6, 5);
      // The first query sees nothing at all.
      std::fill_n(spec.visible.data<uint8_t>(), s.keys[0], uint8_t{0});
    }
    const int64_t width = s.heads * s.head;
    cases.push_back({fmt::format("queries {} keys {}", fmt::join(s.queries, ","), fmt::join(s.keys, ",")),
                     {made({spec.queries.rows, width}, 1), made({spec.keys.rows, width}, 2),
                      made({spec.keys.rows, width}, 3)},
                     [=](const Vars& v) { return ops::attention(v[0], v[1], v[2], spec, s.p); },
                     [=](const Grids& g) { return plain_attention(g, spec, next_dropout(s.p)); }});
  }
  return cases;
}

std::vector<OpCase> cross_entropy_cases() {
  std::vector<OpCase> cases;
  for (const Size& s : kSizes) {
    for (const double smoothing : {0.0, 0.1}) {
      const bool bias = smoothing > 0.0;
      const Tensor targets = integers({s.rows}, static_cast<uint64_t>(s.out), 13);
      cases.push_back(
          {named(s, fmt::format("smoothing {}", smoothing)),
           {made({s.rows, s.in}, 1), made({s.out, s.in}, 2), bias ? made({s.out}, 3) : Tensor()},
           [=](const Vars& v) { return ops::linear_cross_entropy(v[0], v[1], v[2], targets, smoothing).sum; },
           [=](const Grids& g) {
             return plain_cross_entropy(plain_linear(g[0], g[1], g[2]), targets, smoothing);
           }});
    }
  }
  return cases;
}

}  // namespace

const std::vector<OpRow>& op_table() {
  static const std::vector<OpRow> table{
      {"embedding", embedding_cases},
      {"rotary", rotary_cases},
      {"linear", linear_cases},
      {"activation", activation_cases},
      {"linear_activation", linear_activation_cases},
      {"residual", residual_cases},
      {"dropout", dropout_cases},
      {"norm", [] { return norm_cases(false); }},
      {"residual_norm", [] { return norm_cases(true); }},
      {"attention", attention_cases},
      {"linear_cross_entropy", cross_entropy_cases},
  };
  return table;
}

}  // namespace transduce::op_tests
