#include "transduce/models/anatomy.h"

#include <algorithm>
#include <string_view>

namespace transduce {
namespace {

constexpr int64_t kFloat = 4;  // bytes

std::string matrix(int64_t rows, int64_t columns) { return fmt::format("({}, {})", rows, columns); }

// Fills in what the letters of docs/architecture.md say of each part.
class Builder {
 public:
  Builder(const TransformerConfig& config, const Lengths& lengths)
      : c_(config),
        parameters_(Transformer::declared(config)),
        B(lengths.sentences),
        S(lengths.source),
        T(lengths.target),
        M(B * S),
        N(B * T),
        C(config.width),
        H(config.heads),
        F(config.feed_forward) {}

  Anatomy build() const {
    Anatomy all;
    all.groups.push_back({"source embedding", 1, {embedding(PartKind::source_embedding)}});
    if (c_.encoder_layers > 0) {
      all.groups.push_back({"encoder layer",
                            c_.encoder_layers,
                            {self_attention(PartKind::encoder_self_attention),
                             feed_forward(PartKind::encoder_feed_forward), norms(PartKind::encoder_norms)}});
    }
    if (c_.norm == NormPlacement::pre) {
      all.groups.push_back({"encoder norm", 1, {final_norm(PartKind::encoder_final_norm)}});
    }
    all.groups.push_back({"target embedding", 1, {embedding(PartKind::target_embedding)}});
    all.groups.push_back({"decoder layer",
                          c_.decoder_layers,
                          {self_attention(PartKind::decoder_self_attention), cross_attention(),
                           feed_forward(PartKind::decoder_feed_forward), norms(PartKind::decoder_norms)}});
    if (c_.norm == NormPlacement::pre) {
      all.groups.push_back({"decoder norm", 1, {final_norm(PartKind::decoder_final_norm)}});
    }
    all.groups.push_back({"output", 1, {output()}});
    return all;
  }

 private:
  // A part whose parameters have names that begin with one of `prefixes`.
  Part part(PartKind kind, std::string name, std::string shapes, int64_t tokens,
            const std::vector<std::string>& prefixes) const {
    Part p{kind, std::move(name), std::move(shapes)};
    p.tokens = tokens;
    const auto belongs = [&](std::string_view parameter) {
      for (const std::string& prefix : prefixes) {
        if (parameter.starts_with(prefix)) return true;
      }
      return false;
    };
    for (const Parameter& parameter : parameters_.parameters()) {
      if (!belongs(parameter.name)) continue;
      p.parameters += parameter.size();
      p.parameter_bytes += kFloat * parameter.size();
    }
    for (const Int8Parameter& parameter : parameters_.int8_parameters()) {
      if (!belongs(parameter.name)) continue;
      p.parameters += elements_of(parameter.shape);
      p.parameter_bytes += elements_of(parameter.shape) + kFloat * parameter.shape[0];  // a scale a row
    }
    return p;
  }

  bool encoder(PartKind kind) const {
    return kind == PartKind::encoder_self_attention || kind == PartKind::encoder_feed_forward ||
           kind == PartKind::encoder_norms || kind == PartKind::encoder_final_norm ||
           kind == PartKind::source_embedding;
  }
  int64_t rows(PartKind kind) const { return encoder(kind) ? M : N; }
  std::string layer(PartKind kind) const { return encoder(kind) ? "encoder.layers.0." : "decoder.layers.0."; }

  Part embedding(PartKind kind) const {
    const bool source = kind == PartKind::source_embedding;
    const int64_t V = source ? c_.source_vocabulary : c_.target_vocabulary, rows = this->rows(kind);
    const std::string side = source ? "source" : "target";
    // A matrix for both sides is the source's.
    Part p = part(kind, "embedding and positions",
                  fmt::format("({}) of {} -> {}", rows, matrix(V, C), matrix(rows, C)), rows,
                  {side + "_embedding.", side + "_positions.", source ? "shared_embedding." : "-"});
    p.training_bytes = kFloat * rows * C;
    return p;
  }

  // The products q k^T and weights v over `pairs` pairs of tokens.
  double attention_operations(double pairs) const { return 4.0 * pairs * static_cast<double>(C); }
  static double product(int64_t rows, int64_t in, int64_t out) {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  }

  Part self_attention(PartKind kind) const {
    const bool source = kind == PartKind::encoder_self_attention;
    const int64_t rows = this->rows(kind), length = source ? S : T;
    Part p = part(
        kind, "self-attention",
        fmt::format("{} -> {} x {} -> {}", matrix(rows, C), B * H, matrix(length, length), matrix(rows, C)),
        rows, {layer(kind) + "self_attention."});
    const double pairs = static_cast<double>(rows) * static_cast<double>(source ? length : length + 1);
    p.operations = product(rows, C, 4 * C) + attention_operations(source ? pairs : pairs / 2.0);
    // q, k, v; q and k turned by their positions; heads' outputs; log-sum-exp
    const int64_t turned = c_.positions == PositionKind::rotary ? 2 * C : 0;
    p.training_bytes = kFloat * rows * (3 * C + turned + C + H);
    if (!source) p.decoding_bytes = kFloat * N * 2 * C;
    return p;
  }

  Part cross_attention() const {
    Part p = part(
        PartKind::cross_attention, "cross-attention",
        fmt::format("{}, {} -> {} x {} -> {}", matrix(N, C), matrix(M, C), B * H, matrix(T, S), matrix(N, C)),
        N, {"decoder.layers.0.cross_attention."});
    p.operations = product(N, C, 2 * C) + product(M, C, 2 * C) +
                   attention_operations(static_cast<double>(N) * static_cast<double>(S));
    p.training_bytes = kFloat * (M * 2 * C + N * (C + C + H));  // keys, values; q; heads' outputs; as above
    p.decoding_bytes = kFloat * M * 2 * C;
    return p;
  }

  Part feed_forward(PartKind kind) const {
    const int64_t rows = this->rows(kind), inner = c_.activation == Activation::swiglu ? 2 * F : F;
    Part p =
        part(kind, "feed-forward", matrix(rows, C) + " -> " + matrix(rows, inner) + " -> " + matrix(rows, C),
             rows, {layer(kind) + "feed_forward."});
    p.operations = product(rows, C, inner) + product(rows, F, C);
    // Before the activation, where its gradient needs that, and after.
    p.training_bytes = kFloat * rows * ((c_.activation == Activation::relu ? 0 : inner) + F);
    return p;
  }

  // The norms of a layer with their residual connections, one a sublayer.
  Part norms(PartKind kind) const {
    const int64_t rows = this->rows(kind), count = encoder(kind) ? 2 : 3;
    Part p =
        part(kind, count == 2 ? "two norms" : "three norms", matrix(rows, C) + " -> " + matrix(rows, C), rows,
             {layer(kind) + "self_attention_norm.", layer(kind) + "cross_attention_norm.",
              layer(kind) + "feed_forward_norm."});
    // The sum before or after; the norm's output; mean and deviation.
    p.training_bytes = kFloat * rows * count * (C + C + 2);
    return p;
  }

  Part final_norm(PartKind kind) const {
    const int64_t rows = this->rows(kind);
    Part p = part(kind, "norm", matrix(rows, C) + " -> " + matrix(rows, C), rows,
                  {encoder(kind) ? "encoder.norm." : "decoder.norm."});
    p.training_bytes = kFloat * rows * (C + 2);
    return p;
  }

  Part output() const {
    const int64_t V = c_.target_vocabulary;
    Part p =
        part(PartKind::output, "output and softmax", matrix(N, C) + " -> " + matrix(N, V), N, {"output."});
    p.operations = product(N, C, V);
    // The gradient by its input, those of the logits or, where they are too many for one chunk, of its matrix
    // and bias, and the two figures a token that the loss gives.
    const bool whole = N <= ops::chunk_rows(N, V);
    const int64_t gradient = whole ? N * V : V * C + (c_.output_bias ? V : 0);
    p.training_bytes = kFloat * (N * C + gradient + 2 * N);
    return p;
  }

  const TransformerConfig& c_;
  const ParameterSet parameters_;
  const int64_t B, S, T, M, N, C, H, F;
};

}  // namespace

void Lengths::validate() const {
  constexpr int64_t kMost = 10000000;
  check_input(sentences >= 1 && source >= 1 && target >= 1 && sentences <= kMost &&
                  std::max(source, target) <= kMost / sentences,
              "{} sentences of {} source and {} target tokens are out of range: give 1 or more of each, and "
              "at most {} "
              "tokens a side in all",
              sentences, source, target, kMost);
}

Anatomy anatomy(const TransformerConfig& config, const Lengths& lengths) {
  config.validate();
  lengths.validate();
  return Builder(config, lengths).build();
}

}  // namespace transduce
