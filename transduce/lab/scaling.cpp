// Scaled dot-product attention (the paper, 3.2.1): the product of two vectors of d_k independent numbers has
// the variance d_k, so scores are divided by its root, or the softmax picks one key and hardly learns any
// more.

#include "transduce/autograd/ops.h"
#include "transduce/lab/lab.h"
#include "transduce/lab/learn.h"
#include "transduce/lab/numbers.h"

namespace transduce::lab {
namespace {

constexpr int kDraws = 1000, kKeys = 10;

// A normal query and 10 normal keys, many times over.
struct Measured {
  double variance = 0;  // of the scores
  double largest = 0;   // of the 10 weights, in the mean
  double slope = 0;     // p (1 - p) of that weight: how much it still follows its score, at most 0.25
};

Measured attend(int64_t head_size, bool scaled) {
  AttentionSpec spec;
  spec.queries = Layout::packed({1});
  spec.keys = Layout::packed({kKeys});
  spec.scaled = scaled;
  Numbers scores, largest, slopes;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const Var q(normal({1, head_size}, 2 * draw)), k(normal({kKeys, head_size}, 2 * draw + 1));
    for (const double product : numbers(ops::linear(q, k, {}).value()))  // q k^T
      scores.push_back(product * spec.scale(head_size));
    Tensor weights;  // (1, 10)
    ops::attention(q, k, k, spec, 0.0f, &weights);
    const Numbers p = numbers(weights);
    largest.push_back(*std::max_element(p.begin(), p.end()));
    slopes.push_back(largest.back() * (1 - largest.back()));
  }
  return {variance(scores), mean(largest), mean(slopes)};
}

// Reversing strings with one head as wide as the model.
Learned reverse(bool scaled) {
  Lesson lesson;
  lesson.model.width = 64;
  lesson.model.heads = 1;
  lesson.model.attention_scale = scaled;
  lesson.updates = 300;
  return learn(lesson, scaled ? "scores over sqrt(64)" : "scores as they are");
}

}  // namespace

Findings scaling() {
  Findings findings;
  LineChart saturation{{}, "The largest of 10 weights", "head size", "mean weight"};
  saturation.log_x = true;
  for (const bool scaled : {false, true}) {
    Series curve{scaled ? "scaled" : "not scaled"};
    for (const int64_t head_size : {4, 16, 64, 256}) {
      curve.x.push_back(static_cast<double>(head_size));
      curve.y.push_back(attend(head_size, scaled).largest);
    }
    saturation.series.push_back(curve);
  }
  const Measured plain = attend(64, false), scaled = attend(64, true);
  const double scatter = 3 * std::sqrt(2.0 / (kDraws * 64.0 / 2));
  const std::string why =
      fmt::format("three deviations of the mean over {} queries and keys of 64 numbers, relative: {:.3f}",
                  kDraws, scatter);
  findings.claims = {
      holds("variance of the scores of heads of size 64: 64", fmt::format("{:.1f}", plain.variance),
            std::abs(plain.variance / 64 - 1) < scatter, why),
      holds("divided by sqrt(64): 1", fmt::format("{:.3f}", scaled.variance),
            std::abs(scaled.variance - 1) < scatter, why),
      holds("the largest of 10 weights: near 1 without the division, spread out with it",
            fmt::format("{:.2f} and {:.2f}", plain.largest, scaled.largest),
            plain.largest > 0.8 && scaled.largest < 0.5),
      holds("slope of the softmax there (at most 0.25)",
            fmt::format("{:.3f} and {:.3f}", plain.slope, scaled.slope), plain.slope < 0.6 * scaled.slope),
  };
  findings.pictures.emplace_back(saturation);

  const Learned with = reverse(true), without = reverse(false);
  findings.claims.push_back(holds("reversing strings, 300 updates: loss without the division is higher",
                                  fmt::format("{:.3f} against {:.3f}", without.last.loss, with.last.loss),
                                  without.last.loss > with.last.loss));
  findings.pictures.emplace_back(
      LineChart{{without.loss, with.loss}, "Reversing strings", "update", "loss on unseen strings"});
  return findings;
}

}  // namespace transduce::lab
