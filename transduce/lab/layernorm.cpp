// LayerNorm (Ba et al. 2016): every token's C numbers get mean 0 and deviation 1, each token by itself.
// RMSNorm (Zhang and Sennrich 2019) leaves the mean alone and sets the root mean square to 1.

#include "transduce/autograd/ops.h"
#include "transduce/lab/lab.h"
#include "transduce/lab/numbers.h"

namespace transduce::lab {
namespace {

constexpr uint64_t kSeed = 0;
constexpr int64_t kTokens = 64, kWidth = 512;

// The norm with a gain of 1 and a bias of 0, as it starts: (N, C) -> (N, C).
Tensor normalised(const Tensor& x, NormKind kind) {
  const int64_t width = x.dim(1);
  const Var gain(Tensor::of<float>({width}, std::vector<float>(static_cast<size_t>(width), 1.0f)));
  return ops::norm(Var(x), {gain, Var(), {kind}}).value();
}

Tensor transposed(const Tensor& x) {
  Tensor y({x.dim(1), x.dim(0)}, DType::float32);
  for (int64_t i = 0; i < x.dim(0); ++i) {
    for (int64_t j = 0; j < x.dim(1); ++j) y.row<float>(j)[i] = x.row<float>(i)[j];
  }
  return y;
}

// BatchNorm in one line: the norm over the batch in place of the features.
Tensor batch_normalised(const Tensor& x) { return transposed(normalised(transposed(x), NormKind::layer)); }

// How much the first token's result changes when its batch is cut down to `tokens`.
double change_in_smaller_batch(const Tensor& x, int64_t tokens, Tensor (*normalise)(const Tensor&)) {
  const Numbers whole = numbers(normalise(x).rows(0, 1));
  const Numbers part = numbers(normalise(x.rows(0, tokens)).rows(0, 1));
  double most = 0;
  for (size_t i = 0; i < whole.size(); ++i) most = std::max(most, std::abs(whole[i] - part[i]));
  return most;
}

std::string list(const Numbers& x) {
  std::vector<std::string> texts;
  for (const double value : x) texts.push_back(fmt::format("{:.2f}", value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

Findings layernorm() {
  const Tensor x = normal({kTokens, kWidth}, kSeed);
  const Tensor y = normalised(x, NormKind::layer);
  Numbers means, deviations;
  for (int64_t i = 0; i < kTokens; ++i) {
    means.push_back(mean(numbers(y.rows(i, i + 1))));
    deviations.push_back(deviation(numbers(y.rows(i, i + 1))));
  }
  const Tensor four = Tensor::of<float>({1, 4}, {1, 2, 3, 6});
  const Numbers layer = numbers(normalised(four, NormKind::layer));
  const Numbers rms = numbers(normalised(four, NormKind::rms));
  const double root_mean_square = norm(rms) / std::sqrt(4.0);
  const double layer_change =
      change_in_smaller_batch(x, 1, [](const Tensor& t) { return normalised(t, NormKind::layer); });
  const double batch_change = change_in_smaller_batch(x, 8, batch_normalised);

  Findings findings;
  findings.claims = {
      near("mean of a token after LayerNorm", -0.0, means[0],
           {5e-7, "the printed digits are zeros; the sign is that of a rounding error", 6}),
      exact("deviation of a token after LayerNorm, over 64 tokens of width 512", "0.999995",
            fmt::format("{:.6f}", mean(deviations))),
      exact("LayerNorm of [1, 2, 3, 6]", "[-1.07, -0.53, 0.00, 1.60]", list(layer)),
      holds("a token's result alone and in a batch of 64 tokens: largest difference",
            fmt::format("{}", layer_change), layer_change == 0.0),
      holds("BatchNorm's result in a batch of 8 tokens and of 64: largest difference",
            fmt::format("{:.2f}", batch_change), batch_change > 0.1,
            "why sentences of any length and batches of any size want LayerNorm"),
      holds("RMSNorm of [1, 2, 3, 6]: mean kept, root mean square 1",
            fmt::format("{}, {:.4f}", list(rms), root_mean_square),
            std::abs(root_mean_square - 1.0) < 1e-4 && mean(rms) > 0.5),
  };
  HeatMap picture{
      {1, 2, 3, 6}, {"input", "LayerNorm", "RMSNorm"}, {"1", "2", "3", "4"}, "[1, 2, 3, 6] before and after"};
  picture.values.insert(picture.values.end(), layer.begin(), layer.end());
  picture.values.insert(picture.values.end(), rms.begin(), rms.end());
  findings.pictures.emplace_back(picture);
  return findings;
}

}  // namespace transduce::lab
