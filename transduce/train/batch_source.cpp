#include "transduce/train/batch_source.h"

#include <algorithm>

#include "transduce/base/error.h"

namespace transduce {
namespace {

class CorpusBatches : public BatchSource {
 public:
  CorpusBatches(CorpusOfEpoch corpus_of, const BatchOptions& options)
      : corpus_of_(std::move(corpus_of)), options_(options) {
    begin_epoch(0);
    fingerprint_ = corpus_->fingerprint();
  }

  std::vector<Example> next() override {
    if (at_epoch_end()) begin_epoch(position_.epoch + 1);
    std::vector<Example> batch;
    for (const uint32_t i : batches_[position_.batch]) batch.push_back(corpus_->example(i));
    ++position_.batch;
    return batch;
  }

  BatchPosition position() const override { return position_; }
  void seek(const BatchPosition& position) override {
    if (position.epoch != position_.epoch) begin_epoch(position.epoch);
    position_.batch = std::clamp<int64_t>(position.batch, 0, batches_per_epoch());
  }
  int64_t batches_per_epoch() const override { return batches_.size(); }

  std::string fingerprint() const override { return fingerprint_; }

 private:
  void begin_epoch(uint64_t epoch) {
    batches_ = {};
    corpus_.reset();  // before there is another one
    corpus_ = corpus_of_(epoch);
    check_input(corpus_->size() > 0, "there is nothing to train on: the training data holds no pair");
    batches_ = make_batches(corpus_->lengths(), options_, epoch);
    position_ = {epoch, 0};
  }

  CorpusOfEpoch corpus_of_;
  std::shared_ptr<const CorpusIndex> corpus_;  // of the epoch
  BatchOptions options_;
  Batches batches_;  // of the epoch
  BatchPosition position_;
  std::string fingerprint_;  // of the first epoch's corpus
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

  std::string fingerprint() const override { return transduce::fingerprint(task_); }

 private:
  Task task_;
  std::shared_ptr<const Tokenizer> source_, target_;
  BatchOptions options_;
  BatchPosition position_;
};

}  // namespace

std::string fingerprint(const Task& task) {
  const TaskSpec& spec = task.spec();
  return fmt::format("{} of {} to {} of {} symbols", name_of(spec.kind), spec.min_length, spec.max_length,
                     spec.alphabet_size);
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

std::unique_ptr<BatchSource> corpus_batches(std::shared_ptr<const CorpusIndex> corpus,
                                            const BatchOptions& options) {
  return corpus_batches([corpus = std::move(corpus)](uint64_t) { return corpus; }, options);
}

std::unique_ptr<BatchSource> corpus_batches(CorpusOfEpoch corpus_of, const BatchOptions& options) {
  return std::make_unique<CorpusBatches>(std::move(corpus_of), options);
}

std::unique_ptr<BatchSource> task_batches(const Task& task, std::shared_ptr<const Tokenizer> source,
                                          std::shared_ptr<const Tokenizer> target,
                                          const BatchOptions& options) {
  return std::make_unique<TaskBatches>(task, std::move(source), std::move(target), options);
}

}  // namespace transduce
