#include "tests/kernels/kernel_cases.h"

#include <algorithm>

namespace transduce::kernel_tests {
namespace {

using Cases = std::vector<KernelCase>;

// What is computed in tests of a backward: one result alone, or all.
bool wanted(const std::string& only, const std::string& name) { return only.empty() || only == name; }

Cases embedding_cases() {
  Cases cases;
  uint64_t seed = 100;
  for (const int64_t width : widths()) {
    for (const int64_t rows : {0, 1, 7, 40}) {
      for (const bool with_positions : {false, true}) {
        const Dropout dropout = dropout_of(rows == 7 ? 0.3f : 0.0f, seed);
        KernelCase c{fmt::format("embedding N={} C={} positions={}", rows, width, with_positions)};
        c.seed = seed += 20;
        c.input("ids", integers({rows}, 5, seed)).input("table", {5, width}).input("dy", {rows, width});
        c.output("y", {rows, width}, {1, std::sqrt(static_cast<double>(width))});
        // All rows may fall on one word.
        const double terms = static_cast<double>(rows + 1), scale = std::sqrt(static_cast<double>(width));
        c.output("dtable", {5, width}, {terms, scale});
        if (with_positions) {
          c.input("positions", integers({rows}, 6, seed + 1)).input("position_table", {6, width});
          c.output("dposition_table", {6, width}, {terms, 1});
        }
        c.run = [=](Backend& backend, const NamedTensors& t) {
          backend.embedding(t("ids"), t("table"), t("positions"), t("position_table"), scale, dropout,
                            t("y"));
          backend.embedding_backward(t("dy"), t("ids"), t("positions"), scale, dropout, t("dtable"),
                                     t("dposition_table"));
        };
        cases.push_back(c);
      }
    }
  }
  return cases;
}

Cases rotary_cases() {
  Cases cases;
  uint64_t seed = 60000;
  for (const int64_t head : {2, 4, 10, 16, 34, 64}) {
    for (const int64_t rows : {0, 1, 7, 300}) {
      const int64_t width = 3 * head, beside = rows == 7 ? 5 : 0;  // x and dx are columns of wider matrices
      KernelCase c{fmt::format("rotary N={} D={}", rows, head)};
      c.seed = seed += 20;
      c.input("x", {rows, width + beside}).input("dy", {rows, width}).input("table", {6, head});
      c.input("positions", integers({rows}, 6, seed));
      c.output("y", {rows, width}, {2, 1}).output("dx", {rows, width + beside}, {3, 1});
      c.run = [=](Backend& backend, const NamedTensors& t) {
        backend.rotary(t.columns("x", beside, beside + width), t("positions"), t("table"), t("y"));
        backend.rotary_backward(t("dy"), t("positions"), t("table"), t.columns("dx", beside, beside + width));
      };
      cases.push_back(c);
    }
  }
  return cases;
}

// x and y are columns of wider matrices when `beside` > 0.
KernelCase linear_case(int64_t rows, int64_t in, int64_t out, bool with_bias, int64_t beside,
                       const std::string& only, uint64_t seed) {
  KernelCase c{
      fmt::format("linear N={} I={} O={} bias={} beside={} {}", rows, in, out, with_bias, beside, only)};
  c.seed = seed;
  c.input("x", {rows, in + 2 * beside}).input("weight", {out, in}).input("dy", {rows, out + 2 * beside});
  if (with_bias) c.input("bias", {out});
  const auto tolerance = [](int64_t terms) {
    const double n = static_cast<double>(terms + 1);
    return Tolerance{n, std::sqrt(n)};
  };
  c.output("y", {rows, out + 2 * beside}, tolerance(in));
  if (wanted(only, "dx")) c.output("dx", {rows, in + 2 * beside}, tolerance(out));
  if (wanted(only, "dweight")) c.output("dweight", {out, in}, tolerance(rows));
  if (wanted(only, "dbias")) c.output("dbias", {out}, tolerance(rows));
  c.run = [=](Backend& backend, const NamedTensors& t) {
    const Tensor x = t.columns("x", beside, beside + in);
    backend.linear(x, t("weight"), t("bias"), t.columns("y", beside, beside + out));
    if (const Tensor packed = backend.pack(t("weight"));
        packed && rows > Backend::few_rows) {  // the same, to the bit
      const Tensor again({rows, out}, DType::float32);
      backend.linear_packed(x, packed, t("bias"), again);
      if (again.to_vector<float>() != t.columns("y", beside, beside + out).to_vector<float>()) {
        throw std::logic_error("linear_packed differs from linear");
      }
    }
    backend.linear_backward(t.columns("dy", beside, beside + out), x, t("weight"),
                            t.columns("dx", beside, beside + in), t("dweight"), t("dbias"));
  };
  return c;
}

Cases linear_cases() {
  Cases cases;
  uint64_t seed = 1000;
  for (const int64_t width : widths()) {
    for (const int64_t rows : {0, 1, 2, 13}) {
      cases.push_back(linear_case(rows, width, 7, rows != 2, rows == 13 ? 3 : 0, "", seed += 20));
      cases.push_back(linear_case(rows, 5, width, rows != 1, rows == 2 ? 5 : 0, "", seed += 20));
    }
  }
  for (const char* only : {"dx", "dweight", "dbias"}) {
    cases.push_back(linear_case(9, 17, 33, true, 1, only, seed += 20));
  }
  cases.push_back(linear_case(150, 512, 200, true, 0, "", seed += 20));
  cases.push_back(linear_case(130, 96, 96, true, 96, "", seed += 20));
  cases.push_back(linear_case(201, 300, 1100, false, 2, "", seed += 20));  // beyond a block every way
  return cases;
}

Cases activation_cases() {
  Cases cases;
  uint64_t seed = 3000;
  for (const Activation kind : activations()) {
    for (const int64_t width : widths()) {
      for (const int64_t rows : {0, 1, 6}) {
        const Dropout dropout = dropout_of(width % 2 == 1 ? 0.25f : 0.0f, seed);
        const int64_t pre_width = kind == Activation::swiglu ? 2 * width : width;
        KernelCase c{fmt::format("activation {} N={} F={}", static_cast<int>(kind), rows, width)};
        c.seed = seed += 20;
        // A deviation of 4 reaches into the flat tails. Some terms: exp and its like are good to a few
        // roundings.
        c.input("pre", {rows, pre_width}, 4.0).input("dy", {rows, width});
        c.output("y", {rows, width}, {4, 1}).output("dpre", {rows, pre_width}, {4, 4});
        c.run = [=](Backend& backend, const NamedTensors& t) {
          backend.activation(t("pre"), kind, dropout, t("y"));
          backend.activation_backward(t("dy"), t("pre"), kind, dropout, t("dpre"));
        };
        cases.push_back(c);
      }
    }
    // Where exponentials overflow or vanish.
    KernelCase c{fmt::format("activation {} far out", static_cast<int>(kind))};
    const std::vector<float> far = {-1e4f, -200,   -90, -88, -30, -12, -6, -1e-20f,
                                    0,     1e-20f, 6,   12,  30,  88,  90, 1e4f};
    c.input("pre", Tensor::of({2, 8}, far)).input("dy", {2, kind == Activation::swiglu ? 4 : 8});
    c.output("y", {2, kind == Activation::swiglu ? 4 : 8}, {4, 1}).output("dpre", {2, 8}, {4, 4});
    c.run = [=](Backend& backend, const NamedTensors& t) {
      backend.activation(t("pre"), kind, {}, t("y"));
      backend.activation_backward(t("dy"), t("pre"), kind, {}, t("dpre"));
    };
    cases.push_back(c);
  }
  return cases;
}

Cases linear_activation_cases() {
  Cases cases;
  uint64_t seed = 6000;
  for (const Activation kind : activations()) {
    for (const int64_t width : widths()) {
      for (const bool keep_pre : {true, false}) {
        const bool needs_pre = kind == Activation::none || kind == Activation::swiglu;
        if (!keep_pre && needs_pre) continue;
        const int64_t in = 19, rows = width % 5 + 1, out = kind == Activation::swiglu ? 2 * width : width;
        const Dropout dropout = dropout_of(width % 2 == 1 ? 0.1f : 0.0f, seed);
        KernelCase c{fmt::format("linear_activation {} N={} O={} pre={}", static_cast<int>(kind), rows, out,
                                 keep_pre)};
        c.seed = seed += 20;
        c.input("x", {rows, in}).input("weight", {out, in});
        if (width != 16) c.input("bias", {out});
        const Tolerance tolerance{static_cast<double>(in + 4), std::sqrt(static_cast<double>(in))};
        if (keep_pre) c.output("pre", {rows, out}, tolerance);
        // swiglu multiplies two of them.
        c.output("y", {rows, width},
                 {tolerance.terms, kind == Activation::swiglu ? in : tolerance.magnitude});
        c.run = [=](Backend& backend, const NamedTensors& t) {
          backend.linear_activation(t("x"), t("weight"), t("bias"), kind, dropout, t("pre"), t("y"));
        };
        cases.push_back(c);
      }
    }
  }
  return cases;
}

Cases residual_cases() {
  Cases cases;
  uint64_t seed = 9000;
  for (const int64_t width : widths()) {
    for (const int64_t rows : {0, 1, 9}) {
      for (const float p : {0.0f, 0.1f, 0.9f}) {
        const Dropout dropout = dropout_of(p, seed);
        const Tolerance tolerance{1, dropout.scale()};
        KernelCase c{fmt::format("residual and dropout N={} C={} p={}", rows, width, p)};
        c.seed = seed += 20;
        const Shape shape = {rows, width};
        c.input("x", shape).input("branch", shape).input("dy", shape);
        c.output("y", shape, tolerance).output("dx", shape, tolerance).output("dbranch", shape, tolerance);
        c.output("dropped", shape, tolerance).output("ddropped", shape, tolerance);
        c.run = [=](Backend& backend, const NamedTensors& t) {
          backend.residual(t("x"), t("branch"), dropout, t("y"));
          backend.residual_backward(t("dy"), dropout, t("dx"), t("dbranch"));
          backend.dropout(t("x"), dropout, t("dropped"));
          backend.dropout_backward(t("dy"), dropout, t("ddropped"));
        };
        cases.push_back(c);
      }
    }
  }
  return cases;
}

struct NormCase {
  int64_t rows, width;
  NormKind kind;
  bool with_branch, with_bias;
  double mean = 0.0;
  std::string only;
};

KernelCase norm_case(const NormCase& n, uint64_t seed) {
  KernelCase c{fmt::format("norm {} N={} C={} branch={} bias={} mean={} {}", static_cast<int>(n.kind), n.rows,
                           n.width, n.with_branch, n.with_bias, n.mean, n.only)};
  c.seed = seed;
  const NormSpec norm{n.kind, 1e-5};
  const Dropout dropout = dropout_of(n.with_branch && n.width % 2 == 1 ? 0.2f : 0.0f, seed);
  const Shape shape = {n.rows, n.width};
  c.input("x", shape, 1.0, n.mean).input("gain", {n.width}, 0.5, 1.0).input("dy", shape);
  if (n.with_branch) c.input("branch", shape);
  if (n.with_bias) c.input("bias", {n.width});
  // A rounding error of the sum grows by 1 / deviation, 1 / sqrt(epsilon) for a single column, some ten
  // in an unlucky row of a few.
  const double few = n.kind == NormKind::rms ? 10 : n.width == 1 ? 1 / std::sqrt(1e-5) : 30;
  const double inverse = n.width < 8 ? few : 1.5;
  const double terms = static_cast<double>(n.width + 2), size = 1 + std::abs(n.mean);
  const double all = terms + static_cast<double>(n.rows);
  c.output("y", shape, {terms, inverse * size});
  c.output("mean", {n.rows}, {terms, size}).output("inverse_deviation", {n.rows}, {terms, inverse * size});
  if (n.with_branch) c.output("sum", shape, {1, size});
  if (wanted(n.only, "dx")) c.output("dx", shape, {terms, inverse * inverse * size});
  if (n.with_branch && wanted(n.only, "dbranch"))
    c.output("dbranch", shape, {terms, inverse * inverse * size});
  if (wanted(n.only, "dgain")) c.output("dgain", {n.width}, {all, inverse * size});
  if (n.with_bias && wanted(n.only, "dbias")) c.output("dbias", {n.width}, {all, 1});
  c.run = [=](Backend& backend, const NamedTensors& t) {
    backend.residual_norm(t("x"), t("branch"), dropout, t("gain"), t("bias"), norm, t("sum"), t("y"),
                          t("mean"), t("inverse_deviation"));
    const Tensor sum = t("sum").empty() ? t("x") : t("sum");
    backend.residual_norm_backward(t("dy"), sum, t("gain"), t("mean"), t("inverse_deviation"), norm, dropout,
                                   t("dx"), t("dbranch"), t("dgain"), t("dbias"));
  };
  return c;
}

// Forward only, with nothing saved: `sum` absent, or y itself.
KernelCase norm_inference_case(NormKind kind, int64_t width, bool sum_is_y, uint64_t seed) {
  KernelCase c{fmt::format("norm {} C={} inference, sum is {}", static_cast<int>(kind), width,
                           sum_is_y ? "y" : "none")};
  c.seed = seed;
  c.input("x", {5, width}).input("branch", {5, width}).input("gain", {width});
  c.output("y", {5, width}, {static_cast<double>(width), width == 1 ? 317.0 : width < 8 ? 30.0 : 3.0});
  c.run = [=](Backend& backend, const NamedTensors& t) {
    backend.residual_norm(t("x"), t("branch"), {}, t("gain"), {}, {kind, 1e-5}, sum_is_y ? t("y") : Tensor(),
                          t("y"), {}, {});
  };
  return c;
}

Cases norm_cases() {
  Cases cases;
  uint64_t seed = 12000;
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    for (const int64_t width : widths()) {
      for (const bool with_branch : {false, true}) {
        cases.push_back(norm_case({1, width, kind, with_branch, !with_branch, 0, ""}, seed += 20));
        cases.push_back(norm_case({11, width, kind, with_branch, with_branch, 0, ""}, seed += 20));
        cases.push_back(norm_inference_case(kind, width, with_branch, seed += 20));
      }
    }
    cases.push_back(norm_case({0, 16, kind, true, true, 0, ""}, seed += 20));
    cases.push_back(norm_case({70, 512, kind, true, true, 0, ""}, seed += 20));
    // A mean far from 0 ruins a variance taken as E[x^2] - E[x]^2.
    cases.push_back(norm_case({4, 100, kind, true, true, 300, ""}, seed += 20));
    for (const char* only : {"dx", "dbranch", "dgain", "dbias"}) {
      cases.push_back(norm_case({6, 33, kind, true, true, 0, only}, seed += 20));
    }
  }
  return cases;
}

struct AttentionCase {
  std::string name;
  AttentionSpec spec;
  int64_t width = 0;
  bool self = false;           // q, k, v are columns of one (N, 3C) matrix, and their gradients too
  double score_deviation = 1;  // of the scaled scores
  bool save = true;            // log_sum_exp and the backward pass
  bool keep_weights = false;
  std::string only;
};

KernelCase attention_case(AttentionCase a, uint64_t seed) {
  KernelCase c{fmt::format("attention {} C={} H={} causal={} visible={} p={} self={} {}", a.name, a.width,
                           a.spec.heads, a.spec.causal, !a.spec.visible.empty(), a.spec.dropout.p, a.self,
                           a.only)};
  c.seed = seed;
  const AttentionSpec spec = a.spec;
  const int64_t rows = spec.queries.rows, keys = spec.keys.rows, width = a.width, beside = a.self ? 0 : 2;
  const double head_size = static_cast<double>(width / spec.heads), longest = spec.keys.longest + 1.0;
  // A score's error, sqrt(D) roundings of its size, becomes a relative error of the weight.
  const double terms = head_size + longest, size = std::max(1.0, 4 * a.score_deviation);
  // Gradients also carry the sizes of v and k, sqrt(score_deviation) each.
  const Tolerance dkv{terms + spec.queries.longest, size * a.score_deviation};
  const double deviation = std::sqrt(a.score_deviation);
  if (a.self) {
    c.input("qkv", {rows, 3 * width}, deviation);
    if (a.save) c.output("dqkv", {rows, 3 * width}, dkv);
  } else {
    c.input("q", {rows, width + beside}, deviation).input("kv", {keys, 2 * width}, deviation);
    if (a.save && wanted(a.only, "dq")) c.output("dq", {rows, width + beside}, dkv);
    if (a.save && wanted(a.only, "dk")) c.output("dk", {keys, width}, dkv);
    if (a.save && wanted(a.only, "dv")) c.output("dv", {keys, width + 1}, dkv);
  }
  c.input("dout", {rows, width + 3}).output("out", {rows, width + 1}, {terms, size});
  if (a.save) c.output("log_sum_exp", {spec.heads, rows}, {terms, size});
  if (a.keep_weights) c.output("weights", {spec.heads, spec.block_elements()}, {terms, size / longest});
  c.run = [=](Backend& backend, const NamedTensors& t) {
    const Tensor q = a.self ? t.columns("qkv", 0, width) : t.columns("q", 1, width + 1);
    const Tensor k = a.self ? t.columns("qkv", width, 2 * width) : t.columns("kv", 0, width);
    const Tensor v = a.self ? t.columns("qkv", 2 * width, 3 * width) : t.columns("kv", width, 2 * width);
    const Tensor out = t.columns("out", 0, width), dout = t.columns("dout", 2, width + 2);
    backend.attention(q, k, v, spec, out, t("log_sum_exp"), t("weights"));
    if (!a.save) return;
    const Tensor dq = a.self ? t.columns("dqkv", 0, width) : t.columns("dq", 2, width + 2);
    const Tensor dk = a.self ? t.columns("dqkv", width, 2 * width) : t("dk");
    const Tensor dv = a.self ? t.columns("dqkv", 2 * width, 3 * width) : t.columns("dv", 1, width + 1);
    backend.attention_backward(dout, q, k, v, out, t("log_sum_exp"), spec, dq, dk, dv);
  };
  return c;
}

AttentionSpec attention_spec(const std::vector<int32_t>& queries, const std::vector<int32_t>& keys,
                             int64_t heads, bool causal, double visible, float p, uint64_t seed) {
  AttentionSpec spec;
  spec.queries = Layout::packed(queries);
  spec.keys = Layout::packed(keys);
  spec.heads = heads;
  spec.causal = causal;
  spec.dropout = dropout_of(p, seed);
  if (visible < 1) spec.visible = visibility(spec.block_elements(), visible, seed);
  return spec;
}

const std::vector<int32_t> ragged = {5, 1, 17, 0, 2, 33}, ragged_keys = {3, 1, 40, 7, 2, 16};

Cases self_attention_cases() {
  Cases cases;
  uint64_t seed = 20000;
  for (const int64_t head_size : widths()) {
    for (const bool causal : {false, true}) {
      for (const double visible : {1.0, 0.5}) {
        const float p = head_size % 2 == 1 ? 0.1f : 0.0f;
        AttentionCase a{"ragged", attention_spec(ragged, ragged, 2, causal, visible, p, seed), 2 * head_size,
                        true};
        a.keep_weights = head_size % 4 != 0;
        cases.push_back(attention_case(a, seed += 20));
      }
    }
  }
  const std::vector<std::vector<int32_t>> batches = {{},   {0},      {1},          {1, 1, 1}, {15},
                                                     {16}, {17, 64}, {100, 3, 65}, {130}};
  for (const std::vector<int32_t>& lengths : batches) {
    for (const bool causal : {false, true}) {
      AttentionCase a{fmt::format("{}", fmt::join(lengths, ",")),
                      attention_spec(lengths, lengths, 3, causal, 1, causal ? 0.2f : 0.0f, seed), 48, true};
      cases.push_back(attention_case(a, seed += 20));
    }
  }
  // Scores of some hundreds overflow without taking out the maximum.
  AttentionCase large{"large scores", attention_spec({20, 9}, {20, 9}, 2, true, 1, 0, seed), 32, true};
  large.score_deviation = 100;
  cases.push_back(attention_case(large, seed += 20));
  AttentionCase unscaled{"unscaled", attention_spec({20, 9}, {20, 9}, 2, true, 1, 0, seed), 32, true};
  unscaled.spec.scaled = false;
  unscaled.score_deviation = 4;
  cases.push_back(attention_case(unscaled, seed += 20));
  AttentionCase blind{"nothing visible", attention_spec({4, 9}, {4, 9}, 2, false, 0, 0, seed), 32, true};
  blind.keep_weights = true;
  cases.push_back(attention_case(blind, seed += 20));
  AttentionCase wide{"wide", attention_spec({64, 31, 50}, {64, 31, 50}, 8, false, 1, 0.1f, seed), 512, true};
  cases.push_back(attention_case(wide, seed += 20));
  return cases;
}

Cases cross_attention_cases() {
  Cases cases;
  uint64_t seed = 30000;
  for (const int64_t head_size : widths()) {
    for (const bool causal : {false, true}) {
      for (const double visible : {1.0, 0.4}) {
        const float p = head_size % 2 == 0 ? 0.1f : 0.0f;
        AttentionCase a{"ragged", attention_spec(ragged, ragged_keys, 3, causal, visible, p, seed),
                        3 * head_size};
        a.keep_weights = head_size % 4 == 0;
        cases.push_back(attention_case(a, seed += 20));
      }
    }
  }
  for (const char* only : {"dq", "dk", "dv"}) {
    AttentionCase a{"one gradient", attention_spec(ragged, ragged_keys, 2, false, 1, 0.1f, seed), 34};
    a.only = only;
    cases.push_back(attention_case(a, seed += 20));
  }
  // Decoding: one query a sequence; keys lie in a cache, two sequences read the same ones; gaps between.
  for (const bool save : {false, true}) {
    AttentionCase a{save ? "placed" : "decoding", {}, 64};
    a.spec.heads = 4;
    a.spec.causal = true;
    a.spec.queries = save ? Layout::placed({6, 1}, {3, 4}, 10) : Layout::placed({0, 1, 3}, {1, 1, 1}, 5);
    a.spec.keys = save ? Layout::placed({0, 20}, {7, 9}, 31) : Layout::placed({3, 20, 3}, {16, 30, 16}, 64);
    a.save = save;
    a.keep_weights = true;
    cases.push_back(attention_case(a, seed += 20));
  }
  // Keys here and there, some of them in two sequences.
  for (const int32_t queries : {1, 6}) {
    AttentionCase a{fmt::format("{} gathered", queries), {}, 39};
    a.spec.heads = 3;
    a.spec.causal = true;
    a.spec.queries = Layout::packed({queries, queries});
    a.spec.keys = Layout::packed({21, 7});
    std::vector<int32_t> rows;
    for (int32_t i = 0; i < 28; ++i) rows.push_back(i * 5 % 31 % 28);
    a.spec.key_rows = Tensor::of<int32_t>({28}, rows);
    a.save = false;
    a.keep_weights = true;
    cases.push_back(attention_case(a, seed += 20));
  }
  return cases;
}

struct LossCase {
  int64_t rows, width, vocabulary, chunk;
  double smoothing;
  bool with_bias;
  std::string only;  // "none": no gradients
  double logit_deviation = 2;
};

KernelCase loss_case(const LossCase& l, uint64_t seed) {
  KernelCase c{fmt::format("cross entropy N={} C={} V={} R={} smoothing={} bias={} logits={} {}", l.rows,
                           l.width, l.vocabulary, l.chunk, l.smoothing, l.with_bias, l.logit_deviation,
                           l.only)};
  c.seed = seed;
  const double width = static_cast<double>(l.width), vocabulary = static_cast<double>(l.vocabulary);
  c.input("x", {l.rows, l.width})
      .input("weight", {l.vocabulary, l.width}, l.logit_deviation / std::sqrt(width));
  if (l.with_bias) c.input("bias", {l.vocabulary});
  c.input("targets", integers({l.rows}, static_cast<uint64_t>(l.vocabulary), seed));
  c.input("chunk", {l.chunk, l.vocabulary});
  c.scratch = {"chunk"};
  // Errors of a logit, sqrt(C) roundings of its size; the sum over the vocabulary adds its own.
  const double size = 1 + 2 * l.logit_deviation, terms = width + vocabulary;
  c.output("loss", {l.rows}, {terms, size});
  if (l.only != "none" || l.with_bias) {
    c.output("likelihood", {l.rows}, {terms, size}).input("best", integers({l.rows}, 3, seed + 1));
    c.checked["best"] = {};
  }
  const double weight_size = size * l.logit_deviation;
  if (wanted(l.only, "dx")) c.output("dx", {l.rows, l.width}, {terms, 1 + weight_size / std::sqrt(width)});
  const double rows = static_cast<double>(l.rows);
  if (wanted(l.only, "dweight")) c.output("dweight", {l.vocabulary, l.width}, {width + rows + 1, size});
  if (wanted(l.only, "dbias")) c.output("dbias", {l.vocabulary}, {width + rows + 1, size});
  c.run = [=](Backend& backend, const NamedTensors& t) {
    backend.linear_cross_entropy(t("x"), t("weight"), t("bias"), t("targets"), l.smoothing, t("chunk"),
                                 t("loss"), t("likelihood"), t("best"), t("dx"), t("dweight"), t("dbias"));
  };
  return c;
}

Cases loss_cases() {
  Cases cases;
  uint64_t seed = 40000;
  for (const int64_t width : widths()) {
    for (const double smoothing : {0.0, 0.1}) {
      cases.push_back(loss_case({9, width, 13, 4, smoothing, true, ""}, seed += 20));
      cases.push_back(loss_case({5, 12, width, 8, smoothing, false, ""}, seed += 20));
      cases.push_back(loss_case({1, 16, width, 1, smoothing, width % 2 == 1, "none"}, seed += 20));
    }
  }
  for (const char* only : {"dx", "dweight", "dbias"}) {
    cases.push_back(loss_case({7, 20, 35, 3, 0.1, true, only}, seed += 20));
  }
  cases.push_back(loss_case({0, 16, 17, 4, 0.1, true, ""}, seed += 20));
  cases.push_back(loss_case({150, 64, 1003, 64, 0.1, true, ""}, seed += 20));
  // Logits of some hundreds overflow without taking out the maximum.
  cases.push_back(loss_case({10, 32, 33, 5, 0.1, true, "", 150}, seed += 20));
  return cases;
}

// The sums are exact, so the CPU's differ from the oracle's by the rounding of two scales and a bias; but
// where x / s lies within rounding of a half, float32 and float64 may round it to different steps, so x is
// made of whole steps (see made_of_steps).
Cases int8_cases() {
  Cases cases;
  uint64_t seed = 47000;
  for (const int64_t in : {1, 3, 4, 5, 31, 64, 100, 515}) {
    for (const auto& [rows, out] :
         {std::pair<int64_t, int64_t>{1, 33}, {5, 16}, {13, 70}, {150, 1}, {0, 8}}) {
      KernelCase c{fmt::format("linear int8 N={} I={} O={}", rows, in, out)};
      c.seed = seed += 20;
      Tensor x({rows, in}, DType::float32), values({out, in}, DType::int8), scales({out}, DType::float32);
      Random random({c.seed, 3});
      for (int64_t i = 0; i < rows; ++i) made_of_steps(random, in, x.row<float>(i));
      for (int64_t i = 0; i < values.size(); ++i) {
        values.data<int8_t>()[i] = static_cast<int8_t>(static_cast<int>(random.below(255)) - 127);
      }
      for (int64_t o = 0; o < out; ++o)
        scales.data<float>()[o] = static_cast<float>(random.uniform(0.001, 0.01));
      c.input("x", x).input("bias", {out});
      c.output("y", {rows, out}, {4, 255.0 * 127.0 * 0.01 * std::sqrt(static_cast<double>(in))});
      const bool with_bias = rows != 5;
      c.run = [=](Backend& backend, const NamedTensors& t) {
        Int8Matrix weight{values, scales, {}};
        backend.pack(weight);
        const Tensor y = t("y");
        const Tensor in32 = t("x").dtype() == DType::float32 ? t("x") : t("x").to(DType::float32);
        const Tensor bias = with_bias ? t("bias").to(DType::float32) : Tensor();
        const Tensor result(y.shape(), DType::float32);
        backend.linear_int8(in32, weight, bias, result);
        y.copy_from(y.dtype() == DType::float32 ? result : result.to(y.dtype()));
      };
      cases.push_back(c);
    }
  }
  return cases;
}

Cases score_cases() {
  Cases cases;
  uint64_t seed = 45000;
  for (const int64_t vocabulary : {1, 3, 15, 16, 17, 63, 64, 65, 100, 1003, 2500}) {
    for (const double deviation : {2.0, 150.0}) {
      KernelCase c{fmt::format("log sum exp V={} deviation={}", vocabulary, deviation)};
      c.seed = seed += 20;
      c.input("x", {5, vocabulary}, deviation);
      c.output("result", {5}, {static_cast<double>(vocabulary), 1});
      c.output("block_max", {5, (vocabulary + 63) / 64}, {});
      c.run = [](Backend& backend, const NamedTensors& t) {
        backend.log_sum_exp(t("x"), t("result"), t("block_max"));
      };
      cases.push_back(c);
    }
  }
  return cases;
}

Cases flat_cases() {
  Cases cases;
  uint64_t seed = 50000;
  for (const int64_t count : {0, 1, 3, 7, 8, 15, 16, 17, 33, 1000, 70001}) {
    KernelCase c{fmt::format("accumulate {}", count)};
    c.seed = seed += 20;
    c.input("x", {count}).output("y", {count}, {1, 1});
    c.run = [](Backend& backend, const NamedTensors& t) { backend.accumulate(-0.3, t("x"), t("y")); };
    cases.push_back(c);
    for (const bool decoupled : {false, true}) {
      for (const int64_t step : {1, 2, 1000}) {
        const AdamSpec spec{1e-2, 0.9, 0.98, 1e-9, step == 2 ? 0.1 : 0.0, decoupled, step, 0.25};
        KernelCase a{fmt::format("adam {} decoupled={} step={}", count, decoupled, step)};
        a.seed = seed += 20;
        a.input("gradient", {count}).output("parameters", {count}, {2, 1});
        a.output("first_moment", {count}, {2, 1}).output("second_moment", {count}, {2, 1});
        const Tensor second = a.tensors("second_moment");
        for (int64_t i = 0; i < count; ++i)
          second.data<float>()[i] = std::abs(second.data<float>()[i]) + 0.01f;
        a.run = [=](Backend& backend, const NamedTensors& t) {
          backend.adam(spec, t("gradient"), t("parameters"), t("first_moment"), t("second_moment"));
        };
        cases.push_back(a);
      }
    }
  }
  // A parameter that never had a gradient (a word that never occurs) stays where it is: 0 / epsilon.
  KernelCase idle{"adam without gradient"};
  idle.input("gradient", Tensor::zeros({19})).output("parameters", {19}, {});
  idle.output("first_moment", {19}, {}).output("second_moment", {19}, {});
  idle.input("first_moment", Tensor::zeros({19})).input("second_moment", Tensor::zeros({19}));
  idle.run = [](Backend& backend, const NamedTensors& t) {
    backend.adam({}, t("gradient"), t("parameters"), t("first_moment"), t("second_moment"));
  };
  cases.push_back(idle);
  return cases;
}

}  // namespace

const std::vector<KernelFamily>& kernel_families() {
  static const std::vector<KernelFamily> families = {
      {"Embedding", embedding_cases},
      {"Rotary", rotary_cases},
      {"Linear", linear_cases},
      {"Activation", activation_cases},
      {"LinearActivation", linear_activation_cases},
      {"ResidualAndDropout", residual_cases},
      {"ResidualNorm", norm_cases},
      {"SelfAttention", self_attention_cases},
      {"CrossAttention", cross_attention_cases},
      {"LinearCrossEntropy", loss_cases},
      {"LogSumExp", score_cases},
      {"LinearInt8", int8_cases},
      {"AccumulateAndAdam", flat_cases},
  };
  return families;
}

}  // namespace transduce::kernel_tests
