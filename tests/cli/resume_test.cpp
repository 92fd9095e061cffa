// Trainings that end before their time: interrupted, killed, out of space. Resumed, they do to the bit what
// they would have done.

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <regex>
#include <thread>

#include "tests/cli/program.h"
#include "transduce/base/error.h"
#include "transduce/io/model_directory.h"
#include "transduce/train/training_directory.h"

namespace transduce::testing {
namespace {

// A training with everything that has a state: dropout, accumulation across the batches of an epoch, moments,
// a moving average, a schedule, a best score, patience.
const std::string kModel =
    "--encoder-layers 1 --decoder-layers 1 --width 16 --heads 2 --feed-forward 32 --dropout 0.2 "
    "--attention-dropout 0.1 ";
const std::string kLoop =
    "--label-smoothing 0.1 --learning-rate 3e-3 --schedule inverse-sqrt --warmup 20 --clip-norm 1 --ema 0.97 "
    "--batch-tokens 30 --accumulate 3 --valid-every 20 --valid-metrics chrf,bleu --valid-decode 10 "
    "--patience 1000 --seed 5 ";
const std::string kTraining = "--train pairs.tsv --valid valid.tsv " + kModel + kLoop;

void write_pairs(const Workplace& place) {
  std::mt19937 random(3);
  for (const auto& [name, count] : {std::pair{"pairs.tsv", 75}, std::pair{"valid.tsv", 12}}) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      std::string word;
      for (unsigned k = 0; k < 1 + random() % 9; ++k) word += static_cast<char>('a' + random() % 5);
      text += word + "\t" + std::string(word.rbegin(), word.rend()) + "\n";
    }
    write(place / name, text);
  }
}

// A log without what the clock says.
std::string log_of(const std::filesystem::path& model) {
  static const std::regex clock(R"re(,"(tokens_per_second|seconds)":[^,}]*)re");
  return std::regex_replace(contents(model / "log.jsonl"), clock, "");
}

// All that a training would go on from, but for the clock: the values of every tensor, and the state.
std::map<std::string, std::string> state_of(const std::filesystem::path& model) {
  auto [state, tensors] = TrainingDirectory(model.string()).load();
  state.seconds = 0.0;
  state.log_bytes = 0;  // times are of different lengths
  std::map<std::string, std::string> all{{"state", to_json(state)}};
  for (const auto& [name, tensor] : tensors) {
    all[name] = {reinterpret_cast<const char*>(tensor.data<float>()),
                 sizeof(float) * static_cast<size_t>(tensor.size())};
  }
  return all;
}

// What stands in both is the same to the bit: models, log and state.
void expect_same(const std::filesystem::path& a, const std::filesystem::path& b) {
  EXPECT_FALSE(contents(a / "model.safetensors").empty());
  EXPECT_EQ(contents(a / "model.safetensors"), contents(b / "model.safetensors"));
  EXPECT_EQ(log_of(a), log_of(b));
  EXPECT_EQ(state_of(a), state_of(b));
  const auto a_steps = step_files(a.string()), b_steps = step_files(b.string());
  ASSERT_EQ(a_steps.size(), b_steps.size());
  for (size_t i = 0; i < a_steps.size(); ++i) {
    EXPECT_EQ(a_steps[i].step, b_steps[i].step);
    EXPECT_EQ(contents(a_steps[i].path), contents(b_steps[i].path));
  }
}

int64_t lines_in(const std::filesystem::path& file) {
  const std::string text = contents(file);
  return std::count(text.begin(), text.end(), '\n');
}

// Waits until the log has so many lines, or the program has ended.
void wait_for_lines(const Running& running, const std::filesystem::path& log, int64_t lines) {
  for (int i = 0; i < 60000 && !running.ended() && lines_in(log) < lines; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

class OnThreads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Resume, OnThreads, ::testing::Values(1, 2));

TEST_P(OnThreads, ATrainingInTwoPartsIsTheTrainingInOne) {
  const Workplace place;
  write_pairs(place);
  const std::string training = kTraining + "--threads " + std::to_string(GetParam()) + " ";
  Result result = place.run("train --model straight " + training + "--steps 200");
  ASSERT_EQ(result.status, 0) << result.errors;
  result = place.run("train --model parts " + training + "--steps 100");
  ASSERT_EQ(result.status, 0) << result.errors;
  const RunState half = TrainingDirectory((place / "parts").string()).load().state;
  EXPECT_GT(half.position.batch, 0);  // in the middle of an epoch
  result = place.run("train --model parts --resume --steps 200 --allow-changes");
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_NE(result.errors.find("changed     steps 100 -> 200"), std::string::npos) << result.errors;
  expect_same(place / "straight", place / "parts");
  // Samples of generated text are part of what goes on.
  const std::string log = contents(place / "parts" / "log.jsonl");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 200 + 11 + 1);
  EXPECT_NE(log.find("\"samples\":[{\"source\":"), std::string::npos);
  // The page that was written on the way is the one that the log gives.
  for (const std::string model : {"straight", "parts"}) {
    ASSERT_EQ(place.run("report --model " + model + " --output again.html").status, 0);
    EXPECT_EQ(contents(place / "again.html"), contents(place / model / "report.html"));
  }
}

TEST(Resume, ASignalEndsATrainingThatCanBeGoneOnWith) {
  const Workplace place;
  write_pairs(place);
  const std::string training = kTraining + "--schedule cosine --epochs 80 --average-last 3 ";
  ASSERT_EQ(place.run("train --model straight " + training).status, 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string name = signal == SIGINT ? "interrupted" : "ended's";
    const std::filesystem::path model = place / name;
    Running running(place, "train --model \"" + name + "\" " + training);
    wait_for_lines(running, model / "log.jsonl", 30);
    const Result result = running.end(signal);
    EXPECT_EQ(result.status, 0) << result.errors;
    const std::string command = signal == SIGINT ? "transduce train --model interrupted --resume\n"
                                                 : "transduce train --model 'ended'\\''s' --resume\n";
    EXPECT_TRUE(result.errors.ends_with(command)) << result.errors;
    const Result rest = place.run(command.substr(std::string("transduce ").size(), command.size() - 11));
    ASSERT_EQ(rest.status, 0) << rest.errors;
    expect_same(place / "straight", model);
  }
  // A training that has ended has nothing left to do, and does no harm.
  const Result again = place.run("train --model interrupted --resume");
  EXPECT_EQ(again.status, 0) << again.errors;
  expect_same(place / "straight", place / "interrupted");
}

TEST(Resume, KilledAtAnyMomentTheLastCheckpointLoads) {
  const Workplace place;
  write_pairs(place);
  const std::string training = kTraining + "--threads 1 --save-every 1 --keep 3 ";
  const std::filesystem::path model = place / "killed", log = model / "log.jsonl";
  std::mt19937 random(11);
  int64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    Running running(
        place, i == 0 ? "train --model killed --steps 100000 " + training : "train --model killed --resume");
    wait_for_lines(running, log, 2 + lines_in(log));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
    ASSERT_EQ(running.end(SIGKILL).status, -SIGKILL) << contents(place / ".errors");
    const Checkpoint checkpoint = TrainingDirectory(model.string()).load();
    EXPECT_GE(checkpoint.state.trainer.updates, last);
    last = checkpoint.state.trainer.updates;
    EXPECT_NO_THROW(load_model(model.string()));
    for (const StepFile& step : step_files(model.string())) {
      EXPECT_NO_THROW(load_parameters(step.path, *load_model(model.string()).transformer)) << step.path;
    }
  }
  EXPECT_GT(last, 20);
  const std::string end = " --steps " + std::to_string(last + 5);
  const Result rest = place.run("train --model killed --resume --allow-changes" + end);
  ASSERT_EQ(rest.status, 0) << rest.errors;
  ASSERT_EQ(place.run("train --model straight " + training + end).status, 0);
  expect_same(place / "straight", model);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(model)) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

// What a full disk leaves: an error with the reason, a model and a checkpoint that load.
void expect_out_of_space(const Workplace& place, const std::string& model, const Result& result,
                         const std::string& reason) {
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_NE(result.errors.find(reason), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find(model), std::string::npos) << result.errors;
  const std::filesystem::path path = place / model;
  EXPECT_NO_THROW(load_model(path.string()));
  EXPECT_GT(TrainingDirectory(path.string()).load().state.trainer.updates, 0);
  EXPECT_EQ(place.run("translate --model " + model, "abc\n").status, 0);
}

TEST(Resume, AFullDiskLeavesTheLastCheckpoint) {
  const Workplace place;
  write_pairs(place);
  const std::string training = kTraining + "--threads 1 --save-every 1 --keep 100 --steps 60 ";
  const std::string disk = (place / "disk").string();
  std::filesystem::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=900k") != 0) GTEST_SKIP() << "mounting takes root";
  struct Mounted {
    const std::string& at;
    ~Mounted() { umount2(at.c_str(), MNT_DETACH); }
  } const mounted{disk};
  const Result full = place.run("train --model disk/m " + training);
  expect_out_of_space(place, "disk/m", full, "No space left on device");
  ASSERT_EQ(mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  ASSERT_EQ(place.run("train --model disk/m --resume").status, 0);
  ASSERT_EQ(place.run("train --model straight " + training).status, 0);
  expect_same(place / "straight", place / "disk/m");
}

TEST(Resume, AFileThatMayNotGrowLeavesTheLastCheckpoint) {
  const Workplace place;
  write_pairs(place);
  const std::string training = kTraining + "--threads 1 --keep 1 ";
  ASSERT_EQ(place.run("train --model m --steps 20 " + training).status, 0);
  const std::string resume = "train --model m --resume --steps 60 --allow-changes";
  // The limit lies below the size of a checkpoint, above that of the log.
  const Result limited =
      place.run("--version >/dev/null; ulimit -f 40; '" TRANSDUCE_PROGRAM "' " + resume + "; exit $?");
  expect_out_of_space(place, "m", limited, "File too large");
  ASSERT_EQ(place.run(resume).status, 0);
  ASSERT_EQ(place.run("train --model straight --steps 60 " + training).status, 0);
  expect_same(place / "straight", place / "m");
}

TEST(Resume, TwoTrainingsCannotShareADirectory) {
  const Workplace place;
  write_pairs(place);
  const std::filesystem::path log = place / "m" / "log.jsonl";
  Running running(place, "train --model m --steps 1000000 " + kTraining);
  wait_for_lines(running, log, 30);
  for (const char* flags : {"--resume", "--overwrite --task reverse --steps 1"}) {
    const Result other = place.run(std::string("train --model m ") + flags);
    EXPECT_EQ(other.status, 2) << other.errors;
    EXPECT_NE(other.errors.find("trains in \"m\" already"), std::string::npos) << other.errors;
  }
  EXPECT_EQ(place.run("translate --model m", "abc\n").status, 0);  // reading is no training
  EXPECT_FALSE(running.ended());
  running.end(SIGKILL);
  const Result next = place.run("train --model m --resume --steps 1 --allow-changes");
  EXPECT_EQ(next.status, 0) << next.errors;
}

TEST(Resume, ChangesAreShownAndMustBeAllowed) {
  const Workplace place;
  write_pairs(place);
  ASSERT_EQ(place.run("train --model m --threads 1 --steps 5 " + kTraining).status, 0);
  const auto before = state_of(place / "m");
  write(place / "fewer.tsv", "ab\tba\nabc\tcba\n");
  const std::pair<const char*, const char*> cases[] = {
      {"--steps 9 --learning-rate 1e-3", "learning-rate 0.003 -> 0.001, steps 5 -> 9"},
      {"--threads 2 --learning-rate 0.003", "begun: threads 1 -> 2;"},  // 3e-3 by another name
      {"--dropout 0.3", "dropout 0.2 -> 0.3"},
      {"--train fewer.tsv", "the training data 75 pairs"},
      {"--batch-size 3", "batch-size (not given) -> 3"},
      {"--width 32", "width cannot change from 16 to 32"},
      {"--source-tokenizer word", "source-tokenizer cannot change from"},
      {"--overwrite", "--overwrite"},
  };
  for (const auto& [flags, says] : cases) {
    const Result result = place.run("train --model m --resume " + std::string(flags));
    EXPECT_EQ(result.status, 2) << flags << "\n" << result.errors;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << flags << "\n"
                                                                               << result.errors;
    EXPECT_NE(result.errors.find(says), std::string::npos) << flags << "\n" << result.errors;
  }
  // Other validation data makes another best.
  const std::string valid = contents(place / "valid.tsv");
  write(place / "valid.tsv", contents(place / "fewer.tsv"));
  EXPECT_NE(place.run("train --model m --resume").errors.find("the validation data 12 pairs"),
            std::string::npos);
  write(place / "valid.tsv", valid);
  // The same file under another name, or changed under the same, is seen as well.
  write(place / "pairs.tsv", contents(place / "fewer.tsv"));
  const Result changed = place.run("train --model m --resume");
  EXPECT_EQ(changed.status, 2);
  EXPECT_NE(changed.errors.find("the training data 75 pairs"), std::string::npos) << changed.errors;
  EXPECT_EQ(state_of(place / "m"), before);

  const Result allowed =
      place.run("train --model m --resume --allow-changes --steps 9 --train fewer.tsv --batch-size 2");
  ASSERT_EQ(allowed.status, 0) << allowed.errors;
  EXPECT_NE(allowed.errors.find("changed     steps 5 -> 9\n"), std::string::npos) << allowed.errors;
  EXPECT_EQ(place.run("train --model m --resume").status, 0);  // these are the settings now
  // What says nothing about the result may change at any time, and the directory may have moved.
  std::filesystem::rename(place / "m", place / "moved");
  EXPECT_EQ(place.run("train --model moved --resume --log-every 7 --keep 2").status, 0);
}

TEST(Resume, NothingToResumeIsSaid) {
  const Workplace place;
  for (const char* model : {"missing", "."}) {
    const Result result = place.run(std::string("train --resume --model ") + model);
    EXPECT_EQ(result.status, 2);
    EXPECT_NE(result.errors.find("no training to resume"), std::string::npos) << result.errors;
  }
  EXPECT_FALSE(std::filesystem::exists(place / "missing"));
  const Result alone = place.run("train --model x --allow-changes --task reverse --steps 1");
  EXPECT_NE(alone.errors.find("--resume"), std::string::npos) << alone.errors;
}

TEST(Resume, DamagedCheckpointsAreRefused) {
  const Workplace place;
  write_pairs(place);
  ASSERT_EQ(place.run("train --model m --steps 3 " + kTraining).status, 0);
  const std::filesystem::path file = place / "m" / "training" / "state.safetensors";
  const std::string good = contents(file);
  for (const std::string& bad : {std::string(), good.substr(0, 50), good.substr(0, good.size() - 1),
                                 contents(place / "m" / "model.safetensors"), std::string("text\n")}) {
    write(file, bad);
    const Result result = place.run("train --model m --resume");
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_NE(result.errors.find("state.safetensors"), std::string::npos) << result.errors;
  }
  write(file, good);
  EXPECT_EQ(place.run("train --model m --resume").status, 0);
}

// fairseq#1239, marian-dev#699: after a run that diverged, its last sound checkpoint is there to go on from.
TEST(Resume, ADivergedTrainingGoesOnFromItsLastGoodCheckpoint) {
  const Workplace place;
  write_pairs(place);
  const Result diverged = place.run("train --model m --train pairs.tsv --valid valid.tsv " + kModel +
                                    "--norm post --steps 400 --save-every 1 --valid-every 5 "
                                    "--learning-rate 999999");
  EXPECT_EQ(diverged.status, 1) << diverged.errors;
  EXPECT_NE(diverged.errors.find("not a finite number"), std::string::npos) << diverged.errors;
  EXPECT_NE(contents(place / "m" / "log.jsonl").find("\"gradient_norm\":"), std::string::npos);
  const Result rest = place.run("train --model m --resume --allow-changes --learning-rate 1e-4 --steps 3");
  EXPECT_EQ(rest.status, 0) << rest.errors;
  EXPECT_EQ(place.run("translate --model m", "abc\n").status, 0);
}

}  // namespace
}  // namespace transduce::testing
