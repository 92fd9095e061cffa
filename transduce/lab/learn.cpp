#include "transduce/lab/learn.h"

#include <numeric>

#include "transduce/data/vocabulary.h"
#include "transduce/decode/search.h"

namespace transduce::lab {
namespace {

constexpr uint64_t kUnseen = 1000003;  // the seed of test examples
constexpr int64_t kTests = 256;

// A symbol is its place in the alphabet, behind the special symbols of a vocabulary.
std::vector<int32_t> ids_of(const std::string& text, const std::string& alphabet) {
  std::vector<int32_t> ids;
  for (const char symbol : text)
    ids.push_back(Vocabulary::special_symbols + static_cast<int32_t>(alphabet.find(symbol)));
  return ids;
}

std::vector<Example> examples_of(const Task& task, uint64_t seed, int64_t first, int64_t count) {
  std::vector<Example> examples;
  for (int64_t i = first; i < first + count; ++i) {
    const TextPair pair = task.example(seed, static_cast<uint64_t>(i));
    examples.push_back({ids_of(pair.source, task.alphabet()), ids_of(pair.target, task.alphabet())});
  }
  return examples;
}

}  // namespace

TransformerConfig small_model() {
  TransformerConfig config;
  config.width = 32;
  config.heads = 4;
  config.feed_forward = 128;
  config.encoder_layers = config.decoder_layers = 1;
  config.norm = NormPlacement::pre;
  config.activation = Activation::gelu;
  config.dropout = 0.0;
  return config;
}

Learned learn(const Lesson& lesson, const std::string& name) {
  const Task task(lesson.task);
  TransformerConfig config = lesson.model;
  config.source_vocabulary = config.target_vocabulary =
      Vocabulary::special_symbols + lesson.task.alphabet_size;
  Learned learned{std::make_unique<Transformer>(config), {name, {}, {}}, {name, {}, {}}, {}};
  learned.model->parameters().initialize(lesson.seed);
  TrainerOptions options;
  options.schedule = lesson.schedule;
  options.label_smoothing = lesson.label_smoothing;
  options.seed = lesson.seed;
  Trainer trainer(*learned.model, options);
  const std::vector<Example> tests = unseen(lesson.task, kTests);
  for (int64_t update = 1; update <= lesson.updates; ++update) {
    trainer.update({batch_of(examples_of(task, lesson.seed, update * lesson.batch, lesson.batch))});
    if (update % lesson.test_every != 0 && update != lesson.updates) continue;
    learned.last = test(*learned.model, tests);
    learned.loss.x.push_back(static_cast<double>(update)), learned.loss.y.push_back(learned.last.loss);
    learned.accuracy.x.push_back(static_cast<double>(update));
    learned.accuracy.y.push_back(learned.last.token_accuracy);
  }
  return learned;
}

std::vector<Example> unseen(const TaskSpec& task, int64_t count) {
  return examples_of(Task(task), kUnseen, 0, count);
}

std::vector<Example> seen(const TaskSpec& task, int64_t count) {
  return examples_of(Task(task), 0, 0, count);
}

Seq2SeqBatch batch_of(const std::vector<Example>& examples) {
  std::vector<int64_t> all(examples.size());
  std::iota(all.begin(), all.end(), 0);
  return make_seq2seq_batch(examples, all);
}

Validation test(const Transformer& model, const std::vector<Example>& examples) {
  return validate(model, examples, {.batch_size = kTests});
}

double generated_right(const Transformer& model, const std::vector<Example>& examples) {
  std::vector<std::vector<int32_t>> sources;
  for (const Example& example : examples) sources.push_back(example.source);
  const auto outputs = search_all(model, sources, {});
  double right = 0;
  for (size_t i = 0; i < examples.size(); ++i) right += outputs[i][0].tokens == examples[i].target ? 1 : 0;
  return right / static_cast<double>(examples.size());
}

double first_at(const Series& curve, double value) {
  for (size_t i = 0; i < curve.y.size(); ++i) {
    if (curve.y[i] >= value) return curve.x[i];
  }
  return -1;
}

}  // namespace transduce::lab
