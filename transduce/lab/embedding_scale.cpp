// Embeddings are multiplied by sqrt(d_model) before positions are added (the paper, 3.4): so both are of one
// size, and neither drowns the other.

#include "transduce/lab/lab.h"
#include "transduce/lab/numbers.h"
#include "transduce/nn/embedding.h"

namespace transduce::lab {
namespace {

constexpr uint64_t kSeed = 0;
constexpr int64_t kWidth = 512, kVocabulary = 1000;

double cosine(const Numbers& x, const Numbers& y) { return dot(x, y) / (norm(x) * norm(y)); }

// What the first layer is given, with and without the factor.
class Input {
 public:
  explicit Input(double scale)
      : embedding_(Scope(parameters_), kVocabulary, kWidth),
        embed_(embedding_, Positions(Scope(parameters_), PositionKind::sinusoidal, 0, kWidth), {scale}) {
    parameters_.allocate();
    parameters_.initialize(kSeed);
  }

  // Token `id` at place `position` of a sequence.
  Numbers at(int32_t id, int32_t position) const {
    return numbers(
        embed_({Tensor::of<int32_t>({1}, {id}), Tensor::of<int32_t>({1}, {position}), {}}).value());
  }

 private:
  ParameterSet parameters_;
  Embedding embedding_;
  TokenEmbedding embed_;
};

// The means over pairs of tokens and places of how alike two inputs are (the cosine of their angle).
struct Likeness {
  double same_token, same_place;
};
Likeness likeness(const Input& input) {
  Numbers same_token, same_place;
  for (int32_t i = 0; i < 100; ++i) {
    same_token.push_back(cosine(input.at(i, i), input.at(i, i + 20)));
    same_place.push_back(cosine(input.at(i, i), input.at(i + 100, i)));
  }
  return {mean(same_token), mean(same_place)};
}

}  // namespace

Findings embedding_scale() {
  const double factor = std::sqrt(static_cast<double>(kWidth));
  ParameterSet parameters;
  const Embedding embedding(Scope(parameters), kVocabulary, kWidth);
  parameters.allocate();
  parameters.initialize(kSeed);
  const Tensor places = sinusoid_table(100, kWidth, DType::float64);
  Numbers token_sizes, place_sizes;
  for (int64_t i = 0; i < kVocabulary; ++i)
    token_sizes.push_back(norm(numbers(embedding.weight().value().rows(i, i + 1))));
  for (int64_t p = 0; p < 100; ++p) place_sizes.push_back(norm(numbers(places.rows(p, p + 1))));
  const double token = mean(token_sizes), place = mean(place_sizes);
  const Likeness plain = likeness(Input(1.0)), scaled = likeness(Input(factor));

  Findings findings;
  findings.claims = {
      holds("size of a position of width 512: the square root of 256, whatever the place",
            fmt::format("{:.4f}", place), deviation(place_sizes) < 1e-12 && std::abs(place - 16.0) < 1e-12),
      holds(
          "size of an embedding without the factor: 16 times smaller than a position",
          fmt::format("{:.2f}", token), std::abs(token - 1.0) < 0.05,
          "the table is drawn with deviation 1 / sqrt(512); 1,000 rows of 512 scatter by 0.03, their mean by "
          "0.001"),
      holds("size of an embedding times the square root of 512", fmt::format("{:.2f}", token * factor),
            std::abs(token * factor - factor) < 0.05 * factor),
      holds("without the factor one place with two tokens looks more alike than one token in two places",
            fmt::format("{:.2f} against {:.2f}", plain.same_place, plain.same_token),
            plain.same_place > plain.same_token),
      holds("with it the token counts for more than the place",
            fmt::format("{:.2f} against {:.2f}", scaled.same_place, scaled.same_token),
            scaled.same_place < scaled.same_token),
  };
  findings.pictures.emplace_back(
      HeatMap{{static_cast<float>(plain.same_token), static_cast<float>(plain.same_place),
               static_cast<float>(scaled.same_token), static_cast<float>(scaled.same_place)},
              {"embedding", "embedding times sqrt(512)"},
              {"same token, places 20 apart", "two tokens, same place"},
              "How alike two inputs are (cosine)"});
  return findings;
}

}  // namespace transduce::lab
