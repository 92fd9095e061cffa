// Teacher forcing: in training the decoder is given the right target, shifted by one, and predicts all tokens
// at once. On its own it has only what it has written, so it goes token by token.

#include <chrono>

#include "transduce/lab/lab.h"
#include "transduce/lab/learn.h"
#include "transduce/lab/numbers.h"

namespace transduce::lab {
namespace {

using Clock = std::chrono::steady_clock;

// The least of several runs: what disturbs a measurement only adds to it.
template <class Run>
double milliseconds(const Run& run) {
  double least = INFINITY;
  for (int i = 0; i < 7; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    least = std::min(least, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return least;
}

struct Model {
  Transformer transformer;

  Model() : transformer(config()) { transformer.parameters().initialize(0); }
  static TransformerConfig config() {
    TransformerConfig config = small_model();
    config.width = 128;
    config.feed_forward = 512;
    config.source_vocabulary = config.target_vocabulary = 30;
    return config;
  }
};

// A source and a target of `length` tokens, and the start symbol.
Seq2SeqBatch sentence(int64_t length) {
  return batch_of(unseen({TaskKind::copy, 26, length - 1, length - 1}, 1));
}

// All tokens at once, each seeing itself and what stands before it: (T, V).
Tensor in_parallel(const Transformer& model, const Seq2SeqBatch& batch) {
  const NoGradient inference;
  return model.logits(model.forward(batch.source, batch.target)).value();
}

// One token after the other, each step seeing what was given before: (T, V).
Tensor one_by_one(const Transformer& model, const Seq2SeqBatch& batch) {
  const NoGradient inference;
  DecoderCache cache = model.start();
  model.add(model.encode(batch.source), batch.source.layout, cache);
  Tensor all({batch.target.ids.size(), model.config().target_vocabulary}, DType::float32);
  for (int64_t t = 0; t < batch.target.ids.size(); ++t) {
    const Var decoded = model.step({batch.target.ids.data<int32_t>()[t]}, cache);
    all.rows(t, t + 1).copy_from(model.logits(decoded).value());
  }
  return all;
}

// "<s> a b c"
std::string spelled(const Tensor& ids) {
  std::vector<std::string> tokens;
  for (const int32_t id : ids.to_vector<int32_t>()) {
    tokens.push_back(id == Vocabulary::start ? "<s>"
                     : id == Vocabulary::end ? "</s>"
                                             : std::string(1, static_cast<char>('a' + id - 4)));
  }
  return join(tokens, " ");
}

}  // namespace

Findings teacher_forcing() {
  const Transformer model = Model().transformer;
  const Seq2SeqBatch abc = batch_of({{{4, 5, 6}, {4, 5, 6}}});
  const Seq2SeqBatch twenty = sentence(20);
  const Numbers parallel = numbers(in_parallel(model, twenty)), stepwise = numbers(one_by_one(model, twenty));
  double farthest = 0;
  for (size_t i = 0; i < parallel.size(); ++i)
    farthest = std::max(farthest, std::abs(parallel[i] - stepwise[i]));

  LineChart chart{{}, "One sentence through the decoder", "tokens", "milliseconds"};
  chart.log_x = chart.log_y = true;
  Series at_once{"all at once, the right target given"}, steps{"token by token, as in generation"};
  for (const int64_t length : {8, 16, 32, 64, 128}) {
    const Seq2SeqBatch batch = sentence(length);
    at_once.x.push_back(static_cast<double>(length)), steps.x.push_back(static_cast<double>(length));
    at_once.y.push_back(milliseconds([&] { in_parallel(model, batch); }));
    steps.y.push_back(milliseconds([&] { one_by_one(model, batch); }));
  }
  chart.series = {at_once, steps};
  const double times = steps.y.back() / at_once.y.back();

  Findings findings;
  findings.claims = {
      holds("for the target a b c the decoder is given", spelled(abc.target.ids),
            spelled(abc.target.ids) == "<s> a b c"),
      holds("and has to predict", spelled(abc.expected), spelled(abc.expected) == "a b c </s>"),
      holds("both ways give the same scores: largest difference over 20 tokens",
            fmt::format("{:.0e}", farthest), farthest < 1e-5, "float32 adds up in another order"),
      timed("128 tokens one by one take longer than all at once",
            fmt::format("{:.1f} times ({:.2f} and {:.2f} ms)", times, steps.y.back(), at_once.y.back()),
            times > 1.0, "on this machine, the least of seven runs"),
  };
  findings.pictures.emplace_back(chart);
  return findings;
}

}  // namespace transduce::lab
