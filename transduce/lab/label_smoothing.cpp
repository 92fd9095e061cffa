// Label smoothing (Szegedy et al. 2016; the paper, 5.4): the target keeps 1 - s for the right token and
// spreads s over all, so that the model never has reason to be certain.

#include "transduce/autograd/ops.h"
#include "transduce/lab/lab.h"
#include "transduce/lab/learn.h"
#include "transduce/lab/numbers.h"

namespace transduce::lab {
namespace {

// What the loss pulls the probabilities towards. Its gradient by the scores is p - target, so the engine's
// own gradient shows the target: with the unit matrix as output layer the scores are x.
Numbers target_of(int32_t right, int64_t vocabulary, double smoothing) {
  const UseBackend float64(reference_backend());
  Tensor unit = Tensor::zeros({vocabulary, vocabulary}, DType::float64);
  for (int64_t v = 0; v < vocabulary; ++v) unit.row<double>(v)[v] = 1.0;
  const Var x(Tensor::zeros({1, vocabulary}, DType::float64), true);  // all alike: p = 1 / V
  Tape tape;
  tape.backward(
      ops::linear_cross_entropy(x, Var(unit), {}, Tensor::of<int32_t>({1}, {right}), smoothing).sum);
  Numbers target;
  for (const double gradient : numbers(x.gradient()))
    target.push_back(1.0 / static_cast<double>(vocabulary) - gradient);
  return target;
}

// ---- calibration --------------------------------------------------------------------------------------

// Copying, learnt from few strings that are seen again and again. As in any real corpus some targets are
// wrong: one symbol in five is another, in the strings trained on and in those tested on alike.
constexpr int64_t kStrings = 300, kEpochs = 60, kBatch = 30;
const TaskSpec kTask{TaskKind::copy, 10, 1, 8};

std::vector<Example> with_mistakes(std::vector<Example> examples, uint64_t seed) {
  Random random({seed, 1});
  for (Example& example : examples) {
    for (int32_t& token : example.target) {
      if (random.below(5) == 0) token = Vocabulary::special_symbols + static_cast<int32_t>(random.below(10));
    }
  }
  return examples;
}

// On unseen strings: how often the likeliest token is right, how sure the model is of it, and the expected
// calibration error (Guo et al. 2017): the difference between the two within ten bins of confidence, in the
// mean.
struct Calibration {
  double accuracy = 0, confidence = 0, error = 0, loss = 0;
  Series curve;
};

Calibration calibration_of(const Transformer& model, const std::string& name) {
  const NoGradient inference;
  const Seq2SeqBatch batch = batch_of(with_mistakes(unseen(kTask, 500), 1));
  const Var decoded = model.forward(batch.source, batch.target);
  const Tensor logits = model.logits(decoded).value();
  std::array<Numbers, 10> sure, right;  // by bin
  Calibration all;
  for (int64_t i = 0; i < logits.dim(0); ++i) {
    const Numbers scores = numbers(logits.rows(i, i + 1));
    const auto best = std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (const double score : scores) total += std::exp(score - *best);
    const double confidence = 1 / total;
    const auto bin = static_cast<size_t>(std::min(9.0, confidence * 10));
    sure[bin].push_back(confidence);
    right[bin].push_back(best - scores.begin() == batch.expected.data<int32_t>()[i] ? 1.0 : 0.0);
  }
  all.curve.name = name;
  const auto count = static_cast<double>(logits.dim(0));
  for (size_t bin = 0; bin < sure.size(); ++bin) {
    if (sure[bin].empty()) continue;
    const double share = static_cast<double>(sure[bin].size()) / count;
    all.accuracy += share * mean(right[bin]);
    all.confidence += share * mean(sure[bin]);
    all.error += share * std::abs(mean(right[bin]) - mean(sure[bin]));
    all.curve.x.push_back(mean(sure[bin])), all.curve.y.push_back(mean(right[bin]));
  }
  all.loss = model.loss(decoded, batch.expected, 0.0).total / count;
  return all;
}

Calibration learn_from_few(double smoothing) {
  TransformerConfig config = small_model();
  config.source_vocabulary = config.target_vocabulary = Vocabulary::special_symbols + kTask.alphabet_size;
  Transformer model(config);
  model.parameters().initialize(0);
  TrainerOptions options;
  options.schedule.learning_rate = 3e-3;
  options.label_smoothing = smoothing;
  Trainer trainer(model, options);
  const std::vector<Example> strings = with_mistakes(seen(kTask, kStrings), 0);
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (int64_t first = 0; first < kStrings; first += kBatch)
      trainer.update({batch_of({strings.begin() + first, strings.begin() + first + kBatch})});
  }
  return calibration_of(model, fmt::format("s = {}", smoothing));
}

}  // namespace

Findings label_smoothing() {
  Findings findings;
  const Numbers target = target_of(2, 5, 0.1);
  findings.claims = {
      holds("5 tokens, the third is right, s = 0.1: the target",
            fmt::format("[{:.2f}]", fmt::join(target, ", ")),
            std::abs(target[2] - 0.92) < 1e-12 && std::abs(target[0] - 0.02) < 1e-12,
            "as torch.nn.functional.cross_entropy: s is spread over all tokens, the right one included"),
  };
  const Calibration plain = learn_from_few(0.0), smoothed = learn_from_few(0.1);
  const auto say = [](const Calibration& c) {
    return fmt::format("{:.3f} sure, {:.3f} right, error {:.3f}", c.confidence, c.accuracy, c.error);
  };
  findings.claims.push_back(holds("without smoothing: confidence, accuracy, calibration", say(plain),
                                  plain.confidence > plain.accuracy));
  findings.claims.push_back(holds("with s = 0.1", say(smoothed), smoothed.error < plain.error));
  findings.pictures.emplace_back(
      LineChart{{plain.curve, smoothed.curve}, "Calibration", "how sure", "how often right"});
  return findings;
}

}  // namespace transduce::lab
