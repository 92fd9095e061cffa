#include "transduce/train/training_directory.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "transduce/base/file.h"
#include "transduce/base/text.h"
#include "transduce/io/safetensors.h"

namespace transduce {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kFolder = "training";
constexpr const char* kState = "state.safetensors";
constexpr const char* kBest = "best.safetensors";
constexpr int kVersion = 1;

fs::path state_path(const std::string& model_directory) {
  return fs::path(model_directory) / kFolder / kState;
}

void remove_file(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

// The N of "step-N.safetensors"; -1 for other names.
int64_t step_of(const std::string& name) {
  constexpr std::string_view before = "step-", after = ".safetensors";
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() <= before.size() + after.size()) {
    return -1;
  }
  const std::string digits = name.substr(before.size(), name.size() - before.size() - after.size());
  const bool number = digits.size() <= 18 && digits.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::stoll(digits) : -1;
}

// Takes members out of the JSON of a RunState.
class StateReader {
 public:
  StateReader(const std::string& text, const std::string& file) : file_(file) {
    try {
      json_ = ordered_json::parse(text);
    } catch (const nlohmann::json::exception&) {
      damaged("its state is not JSON");
    }
    if (!json_.is_object()) damaged("its state is not a JSON object");
  }

  bool has(const char* name) const { return json_.contains(name); }
  const ordered_json& member(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) damaged(fmt::format("its state has no '{}'", name));
    return *found;
  }
  // A count, which no run could bring above 2^53.
  int64_t count(const char* name, int64_t least = 0) const {
    const ordered_json& value = member(name);
    const bool fits = value.is_number_integer() && value.get<int64_t>() >= least &&
                      value.get<int64_t>() <= (int64_t{1} << 53);
    if (!fits) unfit(name, value);
    return value.get<int64_t>();
  }
  double number(const char* name) const {
    const ordered_json& value = member(name);
    if (!value.is_number()) unfit(name, value);
    return value.get<double>();
  }
  std::string text(const char* name) const {
    const ordered_json& value = member(name);
    if (!value.is_string()) unfit(name, value);
    return value.get<std::string>();
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    fail_input("{} is no checkpoint of a training or is damaged: {}", in_quotes(file_, 4096), what);
  }
  [[noreturn]] void unfit(const char* name, const ordered_json& value) const {
    damaged(fmt::format("its state has {} for '{}'", in_quotes(value.dump(), 100), name));
  }

  std::string file_;
  ordered_json json_;
};

}  // namespace

std::string to_json(const RunState& s) {
  ordered_json json{{"version", kVersion},
                    {"updates", s.trainer.updates},
                    {"applied", s.trainer.applied},
                    {"bad_in_a_row", s.trainer.bad_in_a_row},
                    {"epoch", s.position.epoch},
                    {"batch", s.position.batch},
                    {"validated", s.validated},
                    {"best", nullptr},
                    {"best_metric", s.best_metric},
                    {"without_best", s.without_best},
                    {"log_bytes", s.log_bytes},
                    {"seconds", s.seconds},
                    {"threads", s.threads},
                    {"data", s.data},
                    {"validation_data", s.validation_data}};
  if (s.micro_batch_tokens != default_micro_batch_tokens) json["micro_batch_tokens"] = s.micro_batch_tokens;
  if (s.best) json["best"] = *s.best;
  return json.dump();
}

RunState run_state_from_json(const std::string& text, const std::string& file) {
  const StateReader reader(text, file);
  const int64_t version = reader.count("version");
  check_input(version == kVersion, "{} has version {}, this program reads version {}", in_quotes(file, 4096),
              version, kVersion);
  RunState s;
  s.trainer = {reader.count("updates"), reader.count("applied"), reader.count("bad_in_a_row")};
  s.position = {static_cast<uint64_t>(reader.count("epoch")), reader.count("batch")};
  s.validated = reader.count("validated", -1);
  if (!reader.member("best").is_null()) s.best = reader.number("best");
  s.best_metric = reader.text("best_metric");
  s.without_best = reader.count("without_best");
  s.log_bytes = reader.count("log_bytes");
  s.seconds = reader.number("seconds");
  s.threads = static_cast<int>(std::min<int64_t>(reader.count("threads"), 1 << 20));
  if (reader.has("micro_batch_tokens")) s.micro_batch_tokens = reader.count("micro_batch_tokens", 1);
  s.data = reader.text("data");
  s.validation_data = reader.text("validation_data");
  return s;
}

std::vector<StepFile> step_files(const std::string& model_directory) {
  std::vector<StepFile> files;
  std::error_code error;
  const fs::path folder = fs::path(model_directory) / kFolder;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const int64_t step = step_of(at->path().filename().string());
    if (step >= 0) files.push_back({step, at->path().string()});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return files;
}

bool has_checkpoint(const std::string& model_directory) {
  std::error_code ignored;
  return fs::exists(state_path(model_directory), ignored);
}

TrainingDirectory::TrainingDirectory(const std::string& model_directory)
    : model_directory_(model_directory), folder_((fs::path(model_directory) / kFolder).string()) {
  std::error_code ignored;
  is_new_ = !fs::exists(model_directory, ignored);
  make_directories(folder_);
  lock_.emplace(path("lock"));
  check_input(lock_->held(),
              "{} trains in {} already: wait until it ends, stop it, or name another directory",
              lock_->holder(), in_quotes(model_directory, 4096));
  remove_leftovers(model_directory);
  remove_leftovers(folder_);
}

TrainingDirectory::~TrainingDirectory() {
  std::error_code ignored;
  const auto only_lock = [&] {
    return std::distance(fs::directory_iterator(folder_, ignored), fs::directory_iterator()) == 1;
  };
  if (!is_new_ || !lock_ || !lock_->held() || !only_lock()) return;
  remove_file(path("lock"));
  remove_file(folder_);
  remove_file(model_directory_);  // a directory that holds something stays
}

std::string TrainingDirectory::path(const std::string& name) const {
  return (fs::path(folder_) / name).string();
}

std::string TrainingDirectory::step_file(int64_t step) const {
  return path(fmt::format("step-{}.safetensors", step));
}

std::string TrainingDirectory::index_file() const { return path("corpus.index"); }

Checkpoint TrainingDirectory::load() const {
  check_input(has_checkpoint(model_directory_),
              "there is no training to resume in {}: leave out --resume to begin one",
              in_quotes(model_directory_, 4096));
  TensorFile file = read_safetensors(path(kState));
  return {run_state_from_json(file.metadata["state"], path(kState)), std::move(file.tensors)};
}

void TrainingDirectory::save(const RunState& state,
                             const std::vector<std::pair<std::string, Tensor>>& tensors) const {
  write_safetensors(path(kState), tensors, {{"format", "transduce training"}, {"state", to_json(state)}});
}

void TrainingDirectory::clear() const {
  remove_file(path(kState));
  remove_file(path(kBest));
  keep_last(0);
}

void TrainingDirectory::keep_last(int64_t count) const {
  const std::vector<StepFile> files = step_files(model_directory_);
  for (size_t i = 0; i + static_cast<size_t>(count) < files.size(); ++i) remove_file(files[i].path);
}

void TrainingDirectory::go_back_to(int64_t step) const {
  for (const StepFile& file : step_files(model_directory_)) {
    if (file.step > step) remove_file(file.path);
  }
  std::error_code absent;
  fs::rename(path(kBest), fs::path(model_directory_) / "model.safetensors", absent);
}

void TrainingDirectory::set_best_aside() const {
  const fs::path model = fs::path(model_directory_) / "model.safetensors";
  write_file_atomic(path(kBest), read_file(model.string(), std::numeric_limits<size_t>::max() / 2));
}

}  // namespace transduce
