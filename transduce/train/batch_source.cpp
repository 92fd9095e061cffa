#include "transduce/train/batch_source.h"

#include <algorithm>

#include "transduce/base/error.h"

namespace transduce {
namespace {

// FNV-1a over 32-bit words.
struct Hash {
  uint64_t value = 0xCBF29CE484222325;

  void add(uint32_t word) { value = (value ^ word) * 0x100000001B3; }
  void add(const std::vector<int32_t>& ids) {
    add(static_cast<uint32_t>(ids.size()));
    for (const int32_t id : ids) add(static_cast<uint32_t>(id));
  }
};

class CorpusBatches : public BatchSource {
 public:
  // `examples_of` may be empty: every epoch has the same examples.
  CorpusBatches(std::vector<Example> examples,
                std::function<std::vector<Example>(uint64_t epoch)> examples_of, const BatchOptions& options)
      : examples_(std::move(examples)), examples_of_(std::move(examples_of)), options_(options) {
    begin_epoch(0);
    fingerprint_ = transduce::fingerprint(examples_);
  }

  std::vector<Example> next() override {
    if (at_epoch_end()) begin_epoch(position_.epoch + 1);
    std::vector<Example> batch;
    for (const int64_t i : batches_[static_cast<size_t>(position_.batch)]) {
      batch.push_back(examples_[static_cast<size_t>(i)]);
    }
    ++position_.batch;
    return batch;
  }

  BatchPosition position() const override { return position_; }
  void seek(const BatchPosition& position) override {
    begin_epoch(position.epoch);
    position_.batch = std::clamp<int64_t>(position.batch, 0, batches_per_epoch());
  }
  int64_t batches_per_epoch() const override { return static_cast<int64_t>(batches_.size()); }

  std::string fingerprint() const override { return fingerprint_; }

 private:
  void begin_epoch(uint64_t epoch) {
    if (examples_of_) examples_ = examples_of_(epoch);
    check_input(!examples_.empty(), "there is nothing to train on: the training data holds no pair");
    batches_ = make_batches(examples_, options_, epoch);
    position_ = {epoch, 0};
  }

  std::vector<Example> examples_;
  std::function<std::vector<Example>(uint64_t epoch)> examples_of_;
  BatchOptions options_;
  std::vector<std::vector<int64_t>> batches_;  // of the epoch
  BatchPosition position_;
  std::string fingerprint_;  // of the first epoch's examples
};

class TaskBatches : public BatchSource {
 public:
  TaskBatches(const Task& task, std::shared_ptr<const Tokenizer> source,
              std::shared_ptr<const Tokenizer> target, const BatchOptions& options)
      : task_(task), source_(std::move(source)), target_(std::move(target)), options_(options) {
    check_input(options_.batch_size > 0, "a made-up task needs a batch size in examples: give --batch-size");
  }

  std::vector<Example> next() override {
    std::vector<TextPair> pairs;
    const auto first = static_cast<uint64_t>(position_.batch++ * options_.batch_size);
    for (int64_t i = 0; i < options_.batch_size; ++i) {
      pairs.push_back(task_.example(options_.seed, first + static_cast<uint64_t>(i)));
    }
    return encode_pairs(pairs, *source_, *target_);
  }

  BatchPosition position() const override { return position_; }
  void seek(const BatchPosition& position) override { position_ = {0, std::max<int64_t>(position.batch, 0)}; }
  int64_t batches_per_epoch() const override { return 0; }

  std::string fingerprint() const override {
    const TaskSpec& spec = task_.spec();
    return fmt::format("{} of {} to {} of {} symbols", name_of(spec.kind), spec.min_length, spec.max_length,
                       spec.alphabet_size);
  }

 private:
  Task task_;
  std::shared_ptr<const Tokenizer> source_, target_;
  BatchOptions options_;
  BatchPosition position_;
};

}  // namespace

std::string fingerprint(const std::vector<Example>& examples) {
  Hash hash;
  for (const Example& example : examples) {
    hash.add(example.source);
    hash.add(example.target);
  }
  return fmt::format("{} pairs, {:016x}", examples.size(), hash.value);
}

double BatchSource::epochs() const {
  const int64_t all = batches_per_epoch();
  if (all == 0) return 0.0;
  const BatchPosition at = position();
  return static_cast<double>(at.epoch) + static_cast<double>(at.batch) / static_cast<double>(all);
}

bool BatchSource::at_epoch_end() const {
  return batches_per_epoch() > 0 && position().batch == batches_per_epoch();
}

std::unique_ptr<BatchSource> corpus_batches(std::vector<Example> examples, const BatchOptions& options) {
  return std::make_unique<CorpusBatches>(std::move(examples), nullptr, options);
}

std::unique_ptr<BatchSource> corpus_batches(std::function<std::vector<Example>(uint64_t epoch)> examples_of,
                                            const BatchOptions& options) {
  return std::make_unique<CorpusBatches>(std::vector<Example>(), std::move(examples_of), options);
}

std::unique_ptr<BatchSource> task_batches(const Task& task, std::shared_ptr<const Tokenizer> source,
                                          std::shared_ptr<const Tokenizer> target,
                                          const BatchOptions& options) {
  return std::make_unique<TaskBatches>(task, std::move(source), std::move(target), options);
}

}  // namespace transduce
