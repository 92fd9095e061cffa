#pragma once

// What a training's log says, in an amount of memory that does not depend on how long the log is.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace transduce {

// A figure over the updates in at most 1,000 points: each is the mean of `stride` values in a row, 1 at
// first; when there would be more points, neighbours are merged and the stride doubles.
class Curve {
 public:
  static constexpr size_t most_points = 1000;

  // A value that is not finite counts for the stride and not for the mean.
  void add(double x, double y);

  int64_t stride() const { return stride_; }
  bool empty() const { return points_.empty(); }
  // The points so far, the last perhaps of fewer values; y is NaN where none of its values is finite.
  std::vector<double> x() const;
  std::vector<double> y() const;

 private:
  struct Sum {
    double x = 0.0, y = 0.0;
    int64_t count = 0, finite = 0;
  };
  std::vector<Sum> points_;
  int64_t stride_ = 1;
};

// A validation pair and what the model made of its source.
struct Sample {
  std::string source, reference, output;

  bool operator==(const Sample&) const = default;
};

class TrainingHistory {
 public:
  struct Validation {
    int64_t step = 0;
    int64_t averaged = 0;  // checkpoints whose mean was validated; 0: the model itself
    std::vector<std::pair<std::string, double>> scores;
    std::vector<Sample> samples;

    // NaN where there is none of this name.
    double score(const std::string& name) const;
  };

  // An object of the log (docs/training.md). Members that are missing or of another kind are passed over.
  void add(const nlohmann::ordered_json& line);

  // The lines of a log.jsonl. Those that hold no JSON object, e.g. one that was cut short, are counted and
  // passed over. Errors: as LineReader.
  static TrainingHistory read(const std::string& path);

  Curve loss, learning_rate, gradient_norm, speed;
  std::vector<std::pair<std::string, Curve>> scores;  // of validations, in the order they come in the log
  std::optional<Validation> first, best, last;        // `best`: that of the model that was kept
  // Validations with samples: at most 16, evenly spread over all there were, then the last.
  std::vector<Validation> sampled() const;

  int64_t updates = 0, skipped = 0, validations = 0, unreadable = 0;
  double epoch = 0.0, seconds = 0.0, target_tokens = 0.0;
  int64_t micro_batch_tokens = 0;  // where memory made them smaller than they would be; else 0
  std::string end, reason;         // how the training ended, and why; empty while it goes on

 private:
  void add_update(const nlohmann::ordered_json& line);
  void add_validation(const nlohmann::ordered_json& line);
  void keep_samples(const Validation& validation);

  std::vector<Validation> sampled_;
  int64_t with_samples_ = 0, sample_stride_ = 1;
};

}  // namespace transduce
