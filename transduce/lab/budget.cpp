// Where the parameters of a Transformer sit: counted on the layers themselves, which need no memory for it.

#include "transduce/base/figures.h"
#include "transduce/lab/lab.h"
#include "transduce/models/transformer.h"

namespace transduce::lab {
namespace {

const TransformerConfig kBase;  // the paper's base model: width 512, 8 heads, feed-forward 2048, 6 + 6 layers

template <class Declare>
int64_t count(const Declare& declare) {
  ParameterSet parameters;
  declare(Scope(parameters));
  return parameters.count();
}

int64_t attention(int64_t width) {
  return count([&](const Scope& s) { SelfAttention(s, {width, 8}); });
}

int64_t feed_forward(int64_t width, int64_t inner, Activation activation = Activation::relu) {
  return count([&](const Scope& s) { FeedForward(s, {width, inner, activation}); });
}

int64_t base_model(int64_t vocabulary, Tie tie) {
  TransformerConfig config = kBase;
  config.source_vocabulary = config.target_vocabulary = vocabulary;
  config.tie = tie;
  return Transformer::count_parameters(config);
}

std::string with_share(int64_t part, int64_t whole) {
  return fmt::format("{} ({:.1f} %)", grouped(part),
                     100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string millions(int64_t number, int digits) {
  return fmt::format("{:.{}f} million", static_cast<double>(number) / 1e6, digits);
}

// A mixture of experts (Jiang et al. 2024, Mixtral 8x7B): 32 layers of width 4096 whose attention shares keys
// and values among heads (1,024 columns) and whose feed-forward network is one of 8 experts of inner width
// 14336, two of which each token goes through. No biases; two norms a layer and one at the end; 32,000
// pieces, input and output matrices apart.
struct Mixture {
  int64_t layers = 32, width = 4096, key_value = 1024, inner = 14336, experts = 8, chosen = 2, pieces = 32000;

  int64_t parameters(int64_t experts_counted) const {
    const int64_t attention = 2 * width * width + 2 * width * key_value;
    const int64_t expert = 3 * width * inner;
    const int64_t layer = attention + experts_counted * expert + width * experts + 2 * width;
    return layers * layer + width + 2 * pieces * width;
  }
};

}  // namespace

Findings budget() {
  const int64_t norms = count([](const Scope& s) {
    Norm(s / "first", 512, {});
    Norm(s / "second", 512, {});
  });
  const int64_t layer = count([](const Scope& s) { EncoderLayer(s, kBase); });
  const int64_t layers = count([](const Scope& s) {
    for (int64_t i = 0; i < 6; ++i) {
      EncoderLayer(s / "encoder" / i, kBase);
      DecoderLayer(s / "decoder" / i, kBase);
    }
  });
  const int64_t tied = base_model(37000, Tie::all), apart = base_model(37000, Tie::none);
  const Mixture mixtral;
  const double all = static_cast<double>(mixtral.parameters(mixtral.experts)) / 1e9;
  const double active = static_cast<double>(mixtral.parameters(mixtral.chosen)) / 1e9;
  const int64_t eight = layer + 7 * feed_forward(512, 2048) + 512 * 8;

  Findings findings;
  findings.claims = {
      exact("attention, width 512", "1,050,624 (33.3 %)", with_share(attention(512), layer)),
      exact("feed-forward, 512 to 2048 and back", "2,099,712 (66.6 %)",
            with_share(feed_forward(512, 2048), layer)),
      exact("two norms", "2,048 (0.1 %)", with_share(norms, layer)),
      exact("encoder layer", "3,152,384", grouped(layer)),
      exact("6 + 6 layers", "44.14 million", millions(layers, 2)),
      not_reproduced(
          "base model with 37,000 shared pieces", "65 million", millions(tied, 2),
          "the paper's description gives 44,138,496 + 37,000 x 512; \"about 37,000\" pieces would have to be "
          "40,700 for 65 million, and nothing in the paper accounts for the 3 % between"),
      holds("one matrix for both embeddings and the output in place of three saves",
            fmt::format("{} of {}", millions(apart - tied, 1), millions(apart, 1)),
            apart - tied == 2 * 37000 * 512),
      holds("8 experts in place of one feed-forward network: the layer's parameters; a token uses 2 of them",
            fmt::format("{} ({:.1f} times)", grouped(eight),
                        static_cast<double>(eight) / static_cast<double>(layer)),
            eight == attention(512) + 8 * feed_forward(512, 2048) + norms + 512 * 8,
            "arithmetic: the engine has no mixture of experts; 512 x 8 is the matrix that chooses"),
      exact("the same arithmetic for Mixtral 8x7B: all parameters, and those that a token uses",
            "46.7 and 12.9 billion", fmt::format("{:.1f} and {:.1f} billion", all, active)),
  };
  HeatMap shares{
      {}, {}, {"attention", "feed-forward", "norms"}, "Parameters of an encoder layer, in per cent"};
  for (const int64_t width : {128, 256, 512, 1024}) {
    TransformerConfig config = kBase;
    config.width = width;
    config.feed_forward = 4 * width;
    const auto whole = static_cast<double>(count([&](const Scope& s) { EncoderLayer(s, config); }));
    const auto share = [&](int64_t part) {
      return static_cast<float>(100.0 * static_cast<double>(part) / whole);
    };
    shares.row_labels.push_back(fmt::format("width {}", width));
    for (const int64_t part : {attention(width), feed_forward(width, 4 * width), 4 * width})
      shares.values.push_back(share(part));
  }
  findings.pictures.emplace_back(shares);
  return findings;
}

}  // namespace transduce::lab
