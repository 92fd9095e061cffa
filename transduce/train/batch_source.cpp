#include "transduce/train/batch_source.h"

#include "transduce/base/error.h"

namespace transduce {
namespace {

class CorpusBatches : public BatchSource {
 public:
  // `examples_of` may be empty: every epoch has the same examples.
  CorpusBatches(std::vector<Example> examples,
                std::function<std::vector<Example>(uint64_t epoch)> examples_of, const BatchOptions& options)
      : examples_(std::move(examples)), examples_of_(std::move(examples_of)), options_(options) {
    begin_epoch();
  }

  std::vector<Example> next() override {
    if (at_ == batches_.size()) {
      ++epoch_;
      begin_epoch();
    }
    std::vector<Example> batch;
    for (const int64_t i : batches_[at_]) batch.push_back(examples_[static_cast<size_t>(i)]);
    ++at_;
    return batch;
  }

  double epochs() const override {
    return static_cast<double>(epoch_) + static_cast<double>(at_) / static_cast<double>(batches_.size());
  }
  int64_t batches_per_epoch() const override { return static_cast<int64_t>(batches_.size()); }

 private:
  void begin_epoch() {
    if (examples_of_) examples_ = examples_of_(epoch_);
    check_input(!examples_.empty(), "there is nothing to train on: the training data holds no pair");
    batches_ = make_batches(examples_, options_, epoch_);
    at_ = 0;
  }

  std::vector<Example> examples_;
  std::function<std::vector<Example>(uint64_t epoch)> examples_of_;
  BatchOptions options_;
  std::vector<std::vector<int64_t>> batches_;
  uint64_t epoch_ = 0;
  size_t at_ = 0;
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
    for (int64_t i = 0; i < options_.batch_size; ++i) pairs.push_back(task_.example(options_.seed, next_++));
    return encode_pairs(pairs, *source_, *target_);
  }

  double epochs() const override { return 0.0; }
  int64_t batches_per_epoch() const override { return 0; }

 private:
  Task task_;
  std::shared_ptr<const Tokenizer> source_, target_;
  BatchOptions options_;
  uint64_t next_ = 0;
};

}  // namespace

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
