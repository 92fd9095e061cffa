// Whole runs from inside: when they validate, save and stop, and what a group of batches is at an epoch's
// end.

#include "transduce/train/run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/base/temporary_directory.h"
#include "transduce/base/file.h"
#include "transduce/io/safetensors.h"
#include "transduce/train/average.h"

namespace transduce {
namespace {

using testing::error_of;
using testing::TemporaryDirectory;

class Recorder : public RunObserver {
 public:
  std::vector<UpdateReport> updates;
  std::vector<double> epochs;
  std::vector<std::pair<int64_t, ValidationReport>> validations;  // after which update
  std::vector<std::string> warnings;
  int64_t planned = 0;

  void on_update(const Progress& progress) override {
    updates.push_back(progress.report);
    epochs.push_back(progress.epoch);
    planned = progress.steps;
  }
  void on_validation(const Progress& progress, const ValidationReport& report) override {
    validations.emplace_back(progress.report.update, report);
  }
  void on_end(const Progress&) override {}
  void on_warning(const std::string& text) override { warnings.push_back(text); }

  std::vector<int64_t> validated() const {
    std::vector<int64_t> steps;
    for (const auto& [step, report] : validations) steps.push_back(step);
    return steps;
  }
};

// Thirteen pairs, a model that learns them, and a directory.
class Runs : public ::testing::Test {
 protected:
  Runs() {
    for (int i = 0; i < 13; ++i) {
      std::string text(static_cast<size_t>(1 + i % 5), 'a');
      for (size_t k = 0; k < text.size(); ++k)
        text[k] = static_cast<char>('a' + (i * 7 + static_cast<int>(k) * 3) % 6);
      pairs_.push_back({text, std::string(text.rbegin(), text.rend())});
    }
    std::vector<std::string_view> texts = sources_of(pairs_);
    tokenizer_ = train_tokenizer({TokenizerKind::character, NormalForm::none}, texts);
    examples_ = encode_pairs(pairs_, *tokenizer_, *tokenizer_);
    options_.steps = 12;
  }

  // Begins in a fresh directory unless `resume`.
  RunResult go(bool resume = false) {
    TransformerConfig config;
    config.width = 16;
    config.heads = 2;
    config.feed_forward = 16;
    config.encoder_layers = config.decoder_layers = 1;
    config.dropout = 0.1;
    Seq2SeqModel model = make_model(config, tokenizer_, tokenizer_, true, 1);
    const auto batches = corpus_batches(index_examples(examples_, place_.path()), {2, 0, 3});
    const TrainingDirectory directory(place_.path());
    TrainingRun run;
    run.directory = &directory;
    run.model = &model;
    run.batches = batches.get();
    if (validating_) run.validation = examples_;
    run.validation_batches = {64, 0, 0};
    run.trainer.schedule.learning_rate = 1e-2;
    run.trainer.average_decay = average_decay_;
    run.options = options_;
    run.generate = generate_;
    run.stop = stop_;
    if (resume) run.resume = directory.load();
    seen_ = Recorder();
    return train(run, seen_);
  }

  std::vector<int64_t> kept_steps() const {
    std::vector<int64_t> steps;
    for (const StepFile& file : step_files(place_.path())) steps.push_back(file.step);
    return steps;
  }

  TemporaryDirectory place_;
  std::vector<TextPair> pairs_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Example> examples_;
  RunOptions options_;
  double average_decay_ = 0.0;
  bool validating_ = true;
  std::function<Generated()> generate_;
  StopQuestion stop_;
  Recorder seen_;
};

// Seven batches an epoch in groups of three: 3 + 3 + 1, each epoch anew, and every token counts.
TEST_F(Runs, TheLastGroupOfAnEpochMayBeSmaller) {
  options_.steps = 0;
  options_.epochs = 2;
  options_.accumulate = 3;
  const RunResult result = go();
  EXPECT_EQ(result.updates, 6);
  EXPECT_EQ(seen_.planned, 6);
  int64_t tokens = 0, all = 0;
  for (int i = 0; i < 3; ++i) tokens += seen_.updates[static_cast<size_t>(i)].target_tokens;
  for (const Example& example : examples_) all += static_cast<int64_t>(example.target.size()) + 1;
  EXPECT_EQ(tokens, all);
  EXPECT_LE(seen_.updates[2].target_tokens, 12);  // one batch of two pairs
  EXPECT_EQ(seen_.epochs[2], 1.0);
  EXPECT_EQ(seen_.epochs[5], 2.0);
  EXPECT_EQ(seen_.validated(), (std::vector<int64_t>{0, 3, 6}));  // before the first, and after each epoch
}

TEST_F(Runs, ValidatesAndSavesWhenAsked) {
  options_.valid_every = 5;
  options_.save_every = 4;
  options_.keep = 2;
  options_.best_metric = "never-better";
  generate_ = [] { return Generated{{{"never-better", 1.0, true, false}}, {}}; };
  const RunResult result = go();
  EXPECT_EQ(seen_.validated(), (std::vector<int64_t>{0, 5, 10, 12}));
  EXPECT_EQ(result.saved, 12);
  EXPECT_EQ(kept_steps(), (std::vector<int64_t>{8, 12}));
  EXPECT_TRUE(seen_.validations[0].second.best);
  EXPECT_FALSE(seen_.validations[1].second.best);
}

TEST_F(Runs, StopEarlyByAnyScore) {
  options_.valid_every = 2;
  options_.patience = 2;
  options_.best_metric = "made-up";
  double next = 0.0;
  generate_ = [&] {
    next += 1.0;
    return Generated{{{"made-up", next > 2.0 ? 2.0 : next, true, false}}, {}};
  };
  const RunResult result = go();
  EXPECT_EQ(result.end, RunResult::End::out_of_patience);
  EXPECT_EQ(result.updates, 6);  // best after 2; neither 4 nor 6 is better
  options_.best_metric = "beauty";
  const std::string error = error_of([&] { go(); });
  EXPECT_NE(error.find("loss, perplexity, next-token-accuracy, made-up"), std::string::npos) << error;
}

// The whole run again, stopped after every update and in the middle of every validation.
TEST_F(Runs, StoppedAnywhereGoOnAsIfNothingHadBeen) {
  options_.valid_every = 4;
  options_.accumulate = 2;
  average_decay_ = 0.8;
  go();
  const auto without_time = [](std::vector<UpdateReport> reports) {
    std::vector<std::pair<int64_t, double>> losses;
    for (const UpdateReport& report : reports) losses.emplace_back(report.update, report.loss);
    return losses;
  };
  const auto state_of = [](Checkpoint checkpoint) {
    std::vector<std::vector<float>> values;
    for (const auto& [name, tensor] : checkpoint.tensors) values.push_back(tensor.to_vector<float>());
    checkpoint.state.seconds = 0.0;
    checkpoint.state.log_bytes = 0;  // the log holds times
    return std::pair(to_json(checkpoint.state), values);
  };
  const auto expected_losses = without_time(seen_.updates);
  const auto expected_state = state_of(TrainingDirectory(place_.path()).load());
  const std::string expected_model = read_file(place_ / "model.safetensors", 1 << 20);

  int questions = 0;
  std::vector<UpdateReport> updates;
  for (bool resume = false;; resume = true) {
    int left = ++questions % 5 + 1;  // a question is asked at several places
    stop_ = [&] { return --left <= 0; };
    const RunResult result = go(resume);
    updates.insert(updates.end(), seen_.updates.begin(), seen_.updates.end());
    if (result.end == RunResult::End::finished) break;
    ASSERT_LT(questions, 200);
  }
  EXPECT_GT(questions, 5);
  EXPECT_EQ(without_time(updates), expected_losses);
  EXPECT_EQ(state_of(TrainingDirectory(place_.path()).load()), expected_state);
  EXPECT_EQ(read_file(place_ / "model.safetensors", 1 << 20), expected_model);
}

// The mean of the last models is one more candidate: it becomes the model if it is the best.
TEST_F(Runs, AverageTheLastCheckpoints) {
  options_.save_every = 3;
  options_.average_last = 3;
  options_.keep = 1;  // what averaging needs is kept all the same
  validating_ = false;
  EXPECT_EQ(go().averaged, 3);
  EXPECT_EQ(kept_steps(), (std::vector<int64_t>{6, 9, 12}));
  const TensorFile mean = read_safetensors(place_ / "model.safetensors");
  std::vector<TensorFile> steps;
  for (const StepFile& file : step_files(place_.path())) steps.push_back(read_safetensors(file.path));
  for (const auto& [name, tensor] : mean.tensors) {
    for (int64_t i = 0; i < tensor.size(); ++i) {
      double sum = 0.0;
      for (const TensorFile& step : steps) sum += step.tensors.at(name).data<float>()[i];
      ASSERT_EQ(tensor.data<float>()[i], static_cast<float>(sum / 3.0)) << name;
    }
  }

  validating_ = true;
  options_.best_metric = "made-up";
  for (const double average_scores : {0.0, 100.0}) {
    double next = 0.0;
    generate_ = [&] {
      next += 1.0;
      return Generated{{{"made-up", next > 4.0 ? average_scores : next, true, false}}, {}};
    };
    options_.valid_every = 4;
    const bool better = average_scores > 4.0;
    EXPECT_EQ(go().averaged, better ? 3 : 0);
    EXPECT_EQ(seen_.validations.back().second.averaged, 3);
    EXPECT_EQ(seen_.validations.back().second.best, better);
    EXPECT_EQ(std::filesystem::exists(place_ / "training/best.safetensors"), better);
  }
  // Gone on with, the training has its own best model back, and averages again at its end.
  options_.average_last = 0;
  options_.keep = 5;
  options_.steps = 13;
  generate_ = [] { return Generated{{{"made-up", -1.0, true, false}}, {}}; };
  go(true);
  EXPECT_EQ(read_file(place_ / "model.safetensors", 1 << 20),
            read_file(place_ / "training/step-12.safetensors", 1 << 20));
}

TEST_F(Runs, WhatIsSavedIsTheMovingAverage) {
  average_decay_ = 0.9;
  go();
  const Checkpoint checkpoint = TrainingDirectory(place_.path()).load();
  const TensorFile saved = read_safetensors(place_ / "training/step-12.safetensors");
  const std::vector<float> average = checkpoint.tensors.at("average").to_vector<float>();
  EXPECT_NE(average, checkpoint.tensors.at("parameters").to_vector<float>());
  for (const auto& [name, tensor] : saved.tensors) {  // each lies in the buffer somewhere
    const std::vector<float> values = tensor.to_vector<float>();
    EXPECT_NE(std::search(average.begin(), average.end(), values.begin(), values.end()), average.end())
        << name;
  }
  EXPECT_EQ(saved.tensors.size(), read_safetensors(place_ / "model.safetensors").tensors.size());
}

TEST_F(Runs, ACheckpointOfAnotherModelIsRefused) {
  go();
  const auto [state, tensors] = TrainingDirectory(place_.path()).load();
  TrainingDirectory(place_.path())
      .save(state,
            {{"parameters", Tensor::of<float>({2}, {1, 2})}, {"first_moment", tensors.at("first_moment")}});
  EXPECT_NE(error_of([&] { go(true); }).find("'parameters'"), std::string::npos);
}

TEST(Average, ModelsOfEightBitsAndNoModelsAreRefused) {
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = 5;
  config.width = 8;
  config.heads = 1;
  config.feed_forward = 8;
  Transformer model(config);
  EXPECT_NE(error_of([&] { average_parameters({}, model); }).find("nothing to average"), std::string::npos);
  EXPECT_NE(error_of([&] { average_parameters({"missing.safetensors"}, model); }).find("missing"),
            std::string::npos);
  config.weights = WeightKind::int8;
  Transformer small(config);
  EXPECT_NE(error_of([&] { average_parameters({"x"}, small); }).find("8 bits"), std::string::npos);
}

TEST_F(Runs, APageThatCannotBeWrittenIsSaidOnce) {
  std::filesystem::create_directory(place_ / "report.html");
  options_.valid_every = 4;
  EXPECT_EQ(go().updates, 12);
  ASSERT_EQ(seen_.warnings.size(), 1U);
  EXPECT_NE(seen_.warnings[0].find("report.html"), std::string::npos) << seen_.warnings[0];
}

TEST_F(Runs, TheEndIsInTheLogAndThePage) {
  const auto end = [&] { return TrainingHistory::read(place_ / "log.jsonl").end; };
  const auto page = [&] { return read_file(place_ / "report.html", 1 << 20); };
  stop_ = [&] { return seen_.updates.size() == 5; };
  go();
  EXPECT_EQ(end(), "stopped");
  EXPECT_NE(page().find("it can be resumed"), std::string::npos);
  stop_ = nullptr;
  generate_ = [&] {
    if (!seen_.updates.empty()) {
      EXPECT_NE(page().find("In progress"), std::string::npos);
    }
    return Generated{{}, {{"abc", "<cba>", std::string(3000, 'c')}}};
  };
  options_.valid_every = 3;
  go();
  EXPECT_EQ(end(), "finished");
  EXPECT_NE(page().find("Finished"), std::string::npos);
  EXPECT_NE(page().find("&lt;cba&gt;"), std::string::npos);
  const TrainingHistory history = TrainingHistory::read(place_ / "log.jsonl");
  EXPECT_EQ(history.updates, 12);
  EXPECT_EQ(history.validations, 5);
  EXPECT_LE(history.last->samples.at(0).output.size(), 1003U);
}

}  // namespace
}  // namespace transduce
