// What a training leaves on the disk: states that come back as they were, damage that is named, the lock,
// leftovers of killed runs.

#include "transduce/train/training_directory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/base/temporary_directory.h"
#include "transduce/base/file.h"
#include "transduce/io/safetensors.h"
#include "transduce/train/json_log.h"

namespace transduce {
namespace {

using testing::error_of;
using testing::TemporaryDirectory;

RunState made_state() {
  RunState s;
  s.trainer = {120, 117, 2};
  s.position = {3, 41};
  s.validated = 100;
  s.best = 0.1 + 0.2;  // not a short decimal
  s.best_metric = "chrf";
  s.without_best = 4;
  s.log_bytes = 123456789;
  s.seconds = 1.0 / 3.0;
  s.threads = 2;
  s.data = "29 pairs, \"quoted\"";
  s.validation_data = "none";
  return s;
}

TEST(RunState, ComesBackAsItWas) {
  EXPECT_EQ(run_state_from_json(to_json(made_state()), "f"), made_state());
  EXPECT_EQ(run_state_from_json(to_json(RunState()), "f"), RunState());
}

TEST(RunState, DamageIsNamed) {
  const std::string good = to_json(made_state());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"[]", "not a JSON object"},
      {replaced("\"updates\"", "\"updated\""), "'updates'"},
      {replaced(":120", ":-120"), "'updates'"},
      {replaced(":120", ":1.5"), "'updates'"},
      {replaced(":120", ":1e300"), "'updates'"},
      {replaced(":120", ":99999999999999999999"), "'updates'"},
      {replaced("\"chrf\"", "null"), "'best_metric'"},
      {replaced("\"version\":1", "\"version\":7"), "version 7"},
  };
  for (const auto& [text, says] : cases) {
    const std::string error = error_of([&, &json = text] { run_state_from_json(json, "f"); });
    EXPECT_NE(error.find(says), std::string::npos) << text << "\n" << error;
  }
}

TEST(TrainingDirectory, KeepsACheckpointInOneFile) {
  const TemporaryDirectory place;
  const TrainingDirectory directory(place.path());
  EXPECT_FALSE(has_checkpoint(place.path()));
  EXPECT_NE(error_of([&] { directory.load(); }).find("no training to resume"), std::string::npos);
  directory.save(made_state(), {{"parameters", Tensor::of<float>({3}, {1, 2, 3})}});
  EXPECT_TRUE(has_checkpoint(place.path()));
  const Checkpoint loaded = directory.load();
  EXPECT_EQ(loaded.state, made_state());
  EXPECT_EQ(loaded.tensors.at("parameters").to_vector<float>(), (std::vector<float>{1, 2, 3}));
  const std::string file = place / "training/state.safetensors";
  write_safetensors(file, {{"parameters", Tensor::of<float>({1}, {1})}});
  EXPECT_NE(error_of([&] { directory.load(); }).find("state.safetensors"), std::string::npos);
  write_file_atomic(file, "damaged");
  EXPECT_NE(error_of([&] { directory.load(); }).find("state.safetensors"), std::string::npos);
}

std::vector<int64_t> steps_in(const std::string& directory) {
  std::vector<int64_t> steps;
  for (const StepFile& file : step_files(directory)) steps.push_back(file.step);
  return steps;
}

TEST(TrainingDirectory, KeepsTheLastStepsInTheirOrder) {
  const TemporaryDirectory place;
  EXPECT_TRUE(step_files(place / "nowhere").empty());
  const TrainingDirectory directory(place.path());
  for (const int64_t step : {7, 100, 20}) write_file_atomic(directory.step_file(step), "x");
  for (const char* other : {"step-.safetensors", "step-5.safetensors.bak", "step--5.safetensors",
                            "step-99999999999999999999.safetensors", "xstep-5.safetensors"}) {
    write_file_atomic(place / ("training/" + std::string(other)), "x");
  }
  EXPECT_EQ(steps_in(place.path()), (std::vector<int64_t>{7, 20, 100}));
  directory.go_back_to(20);
  EXPECT_EQ(steps_in(place.path()), (std::vector<int64_t>{7, 20}));
  directory.keep_last(5);
  EXPECT_EQ(steps_in(place.path()), (std::vector<int64_t>{7, 20}));
  directory.keep_last(1);
  EXPECT_EQ(steps_in(place.path()), (std::vector<int64_t>{20}));
  directory.clear();
  EXPECT_TRUE(steps_in(place.path()).empty());
}

TEST(TrainingDirectory, TheBestModelComesBack) {
  const TemporaryDirectory place;
  const TrainingDirectory directory(place.path());
  write_file_atomic(place / "model.safetensors", "best");
  directory.set_best_aside();
  write_file_atomic(place / "model.safetensors", "mean");
  directory.go_back_to(0);
  EXPECT_EQ(read_file(place / "model.safetensors", 100), "best");
  directory.go_back_to(0);
  EXPECT_EQ(read_file(place / "model.safetensors", 100), "best");
}

TEST(TrainingDirectory, LocksOthersOutAsLongAsItLives) {
  const TemporaryDirectory place;
  {
    const TrainingDirectory directory(place.path());
    const std::string error = error_of([&] { TrainingDirectory other(place.path()); });
    EXPECT_NE(error.find("process " + std::to_string(getpid())), std::string::npos) << error;
    EXPECT_NE(error.find(place.path()), std::string::npos) << error;
  }
  const TrainingDirectory again(place.path());
}

TEST(TrainingDirectory, RemovesWhatKilledRunsLeft) {
  const TemporaryDirectory place;
  const pid_t child = fork();
  if (child == 0) {  // dies with two files half written
    make_directories(place / "training");
    AtomicFile a(place / "model.safetensors"), b(place / "training/state.safetensors");
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const auto count = [&] {
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(place.path())) {
      files += entry.path().extension() == ".tmp" ? 1 : 0;
    }
    return files;
  };
  ASSERT_EQ(count(), 2);
  place.file(".transduce-1-0.tmp", "process 1 lives");
  place.file(".transduce-x.tmp", "no file of ours");
  const TrainingDirectory directory(place.path());
  EXPECT_EQ(count(), 2);
}

TEST(JsonLog, GoesOnWhereACheckpointWas) {
  const TemporaryDirectory place;
  const std::string path = place / "log.jsonl";
  int64_t bytes = 0;
  {
    JsonLog log(path);
    EXPECT_FALSE(std::filesystem::exists(path));
    log.write({{"step", 1}});
    bytes = log.flush();
    log.write({{"step", 2}});
  }
  EXPECT_EQ(read_file(path, 100), "{\"step\":1}\n{\"step\":2}\n");
  {
    JsonLog log(path);
    log.resume(bytes);
    log.write({{"step", 3}});
  }
  EXPECT_EQ(read_file(path, 100), "{\"step\":1}\n{\"step\":3}\n");
  JsonLog anew(path);
  anew.write({{"step", 4}});
  EXPECT_EQ(read_file(path, 100), "{\"step\":4}\n");
  JsonLog full("/dev/full");
  EXPECT_NE(error_of<RunError>([&] { full.write({{"step", 1}}); }).find("No space left"), std::string::npos);
}

}  // namespace
}  // namespace transduce
