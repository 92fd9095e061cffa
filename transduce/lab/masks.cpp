// Who may see whom: no token may see what comes after it (the causal mask), and nobody may see padding.
//
// In this project true means "may be seen". The boolean masks of torch.nn.MultiheadAttention say the
// opposite, "is left out"; given to the wrong one, a mask hides exactly what it should show.

#include "transduce/lab/lab.h"
#include "transduce/lab/learn.h"
#include "transduce/lab/numbers.h"
#include "transduce/train/optimizer.h"

namespace transduce::lab {
namespace {

constexpr uint64_t kSeed = 0;

// ---- the masks themselves -----------------------------------------------------------------------------

constexpr int kLength = 8, kTokens = 5;  // five tokens and three pads

// A mask (8, 8) row by row: may token t see token s?
using Mask = std::vector<uint8_t>;

template <class Rule>
Mask mask(const Rule& may_see) {
  Mask all;
  for (int t = 0; t < kLength; ++t) {
    for (int s = 0; s < kLength; ++s) all.push_back(may_see(t, s) ? 1 : 0);
  }
  return all;
}

Mask causal() {
  return mask([](int t, int s) { return s <= t; });
}
Mask padding() {
  return mask([](int, int s) { return s < kTokens; });
}
Mask both(const Mask& a, const Mask& b) {
  return mask([&](int t, int s) {
    return a[static_cast<size_t>(t * kLength + s)] && b[static_cast<size_t>(t * kLength + s)];
  });
}
Mask inverted(const Mask& a) {
  return mask([&](int t, int s) { return !a[static_cast<size_t>(t * kLength + s)]; });
}

HeatMap picture_of(const std::string& title, const Numbers& values) {
  HeatMap map{{values.begin(), values.end()}, {}, {}, title};
  for (int i = 0; i < kLength; ++i)
    map.column_labels.push_back(i < kTokens ? fmt::format("{}", i + 1) : "pad");
  map.row_labels = map.column_labels;
  return map;
}

// A layer of self-attention over the five tokens, and over the same with three pads behind them.
class Attention {
 public:
  Attention() : attention_(Scope(parameters_), {kWidth, 2}), x_(normal({kLength, kWidth}, kSeed)) {
    parameters_.allocate();
    parameters_.initialize(kSeed);
  }

  struct Result {
    Numbers out;      // of the five tokens (5, C)
    Numbers weights;  // of the first head (T, T)
  };
  Result over(int length, const Mask* visible, bool causal_flag) const {
    AttentionContext context;
    std::vector<Tensor> weights;
    context.queries = context.keys = Layout::packed({length});
    context.causal = causal_flag;
    context.weights = &weights;
    if (visible != nullptr) context.visible = Tensor::of<uint8_t>({length * length}, *visible);
    const Var y = attention_(Var(x_.rows(0, length)), context);
    return {numbers(y.value().rows(0, kTokens)), numbers(weights[0].rows(0, 1))};
  }

 private:
  static constexpr int64_t kWidth = 16;
  ParameterSet parameters_;
  SelfAttention attention_;
  Tensor x_;  // (8, C); what stands at the pads is arbitrary
};

double farthest(const Numbers& a, const Numbers& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// The weight that falls where the mask says no.
double leaked(const Numbers& weights, const Mask& allowed) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) sum += allowed[i] ? 0.0 : weights[i];
  return sum;
}

void draw_masks(Findings& findings) {
  const Attention attention;
  const Mask all = both(causal(), padding());
  const auto unpadded = attention.over(kTokens, nullptr, true);
  const auto masked = attention.over(kLength, &all, false);
  const Mask only_causal = causal(), opposite = inverted(only_causal);
  const auto without_padding_mask = attention.over(kLength, nullptr, false);
  const auto unpadded_encoder = attention.over(kTokens, nullptr, false);
  const auto wrong_way = attention.over(kLength, &opposite, false);
  Numbers last_row(wrong_way.weights.end() - kLength, wrong_way.weights.end());

  findings.claims.push_back(holds("causal AND padding mask: weight on what must not be seen",
                                  fmt::format("{}", leaked(masked.weights, all)),
                                  leaked(masked.weights, all) == 0.0));
  findings.claims.push_back(holds(
      "with both masks the five tokens come out as without pads: largest difference",
      fmt::format("{:.0e}", farthest(masked.out, unpadded.out)), farthest(masked.out, unpadded.out) < 1e-6));
  findings.claims.push_back(
      holds("padding mask left out: the tokens change with what stands in the pads, by up to",
            fmt::format("{:.2f}", farthest(without_padding_mask.out, unpadded_encoder.out)),
            farthest(without_padding_mask.out, unpadded_encoder.out) > 0.01,
            "inside the engine batches are packed, so there are no pads to hide"));
  findings.claims.push_back(holds(
      "a causal mask in PyTorch's convention (true: left out) read by ours: weight on the future, by row",
      fmt::format("{:.0f} of 7, and the last token sees nothing ({:.0f})",
                  leaked(wrong_way.weights, only_causal), mean(last_row)),
      std::abs(leaked(wrong_way.weights, only_causal) - 7.0) < 1e-5 && mean(last_row) == 0.0,
      "nn.MultiheadAttention would give NaN for a row that sees nothing; here it gives zeros"));
  const auto draw = [&](const char* title, const Mask& m) {
    findings.pictures.emplace_back(picture_of(title, Numbers(m.begin(), m.end())));
  };
  draw("Causal mask: what is coloured may be seen", causal());
  draw("Padding mask", padding());
  draw("Causal AND padding", all);
  draw("The causal mask as nn.MultiheadAttention wants it", opposite);
  findings.pictures.emplace_back(picture_of("Attention weights under both masks", masked.weights));
}

// ---- a decoder that sees the future -------------------------------------------------------------------

// One encoder layer and one decoder layer, put together here so that the line with the mask can be left out.
class Model {
 public:
  Model(int64_t vocabulary, bool causal)
      : config_(small_model()),
        causal_(causal),
        source_(embedding("source", vocabulary)),
        target_(embedding("target", vocabulary)),
        encoder_(Scope(parameters_) / "encoder", config_),
        decoder_(Scope(parameters_) / "decoder", config_),
        output_(Scope(parameters_) / "output", config_.width, vocabulary) {
    parameters_.allocate();
    parameters_.initialize(kSeed);
  }

  Var forward(const Tokens& source, const Tokens& target) const {
    AttentionContext all;
    all.queries = all.keys = source.layout;
    DecoderContext context;
    context.self.queries = context.self.keys = context.cross.queries = target.layout;
    context.cross.keys = source.layout;
    context.self.causal = causal_;  // the line that this is about
    const Var encoded = encoder_(source_(source), all);
    return decoder_(target_(target), decoder_.project(encoded), context);
  }

  ops::CrossEntropy loss(const Seq2SeqBatch& batch) const {
    return output_.cross_entropy(forward(batch.source, batch.target), batch.expected, 0.0);
  }

  // Writes on its own: what was written so far goes in, the likeliest next token comes out.
  std::vector<int32_t> write(const std::vector<int32_t>& source) const {
    const NoGradient inference;
    std::vector<int32_t> written{Vocabulary::start};
    while (written.size() <= source.size() + 2) {
      const Var decoded = forward(make_source_batch({source}), pack({written}));
      const Numbers scores = numbers(output_(decoded).value().rows(decoded.dim(0) - 1, decoded.dim(0)));
      const auto next = std::max_element(scores.begin(), scores.end()) - scores.begin();
      if (next == Vocabulary::end) break;
      written.push_back(static_cast<int32_t>(next));
    }
    return {written.begin() + 1, written.end()};
  }

  ParameterSet& parameters() { return parameters_; }

 private:
  TokenEmbedding embedding(const char* side, int64_t vocabulary) {
    const Scope scope = Scope(parameters_) / side;
    return {Embedding(scope, vocabulary, config_.width),
            Positions(scope, PositionKind::sinusoidal, 0, config_.width),
            {std::sqrt(static_cast<double>(config_.width))}};
  }

  TransformerConfig config_;
  bool causal_;
  ParameterSet parameters_;
  TokenEmbedding source_, target_;
  EncoderLayer encoder_;
  DecoderLayer decoder_;
  Linear output_;
};

struct Outcome {
  double next_token = 0;  // right with the right prefix given, as in training
  double written = 0;     // strings right when it writes on its own
};

constexpr int64_t kUpdates = 400, kBatch = 32;

Outcome train_to_reverse(bool causal) {
  const TaskSpec task{TaskKind::reverse, 10, 2, 6};
  Model model(Vocabulary::special_symbols + task.alphabet_size, causal);
  Optimizer optimizer(model.parameters(), {});
  // The rate falls to 0, so that what is measured at the end does not hang on the last few updates.
  const Schedule schedule{.kind = ScheduleKind::linear, .learning_rate = 3e-3, .steps = kUpdates};
  const std::vector<Example> strings = seen(task, kUpdates * kBatch);
  for (int64_t update = 1; update <= kUpdates; ++update) {
    const auto first = strings.begin() + (update - 1) * kBatch;
    const Seq2SeqBatch batch = batch_of({first, first + kBatch});
    Tape tape;
    const ops::CrossEntropy loss = model.loss(batch);
    tape.backward(loss.sum);
    optimizer.step(schedule.at(update), 1.0 / static_cast<double>(batch.expected.size()));
  }

  const NoGradient inference;
  const std::vector<Example> tests = unseen(task, 100);
  const Seq2SeqBatch batch = batch_of(tests);
  const Tensor best = model.loss(batch).best;
  Outcome outcome;
  for (int64_t i = 0; i < best.size(); ++i)
    outcome.next_token += best.data<int32_t>()[i] == batch.expected.data<int32_t>()[i] ? 1 : 0;
  for (const Example& test : tests) outcome.written += model.write(test.source) == test.target ? 1 : 0;
  outcome.next_token /= static_cast<double>(best.size());
  outcome.written /= static_cast<double>(tests.size());
  return outcome;
}

}  // namespace

Findings masks() {
  Findings findings;
  draw_masks(findings);
  const Outcome with = train_to_reverse(true), without = train_to_reverse(false);
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  findings.claims.push_back(holds(
      "reversing with the causal mask: next tokens right, strings right in generation",
      percent(with.next_token) + ", " + percent(with.written), with.next_token > 0.9 && with.written > 0.5));
  findings.claims.push_back(
      holds("without it: too good in training, useless in generation",
            percent(without.next_token) + ", " + percent(without.written),
            without.next_token > 0.99 && without.written < 0.05,
            "the decoder copies the token that stands one place ahead in its own input"));
  return findings;
}

}  // namespace transduce::lab
