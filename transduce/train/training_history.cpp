#include "transduce/train/training_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "transduce/base/file.h"

namespace transduce {
namespace {

using nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// JSON has null for what is not finite.
double number_in(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : kNaN;
}

// A count; 0 where there is none.
int64_t count_in(const ordered_json& object, const char* name) {
  const double value = number_in(object, name);
  return value >= 0.0 && value <= 9e15 ? static_cast<int64_t>(value) : 0;
}

std::string text_in(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void set_if_finite(double& variable, double value) {
  if (std::isfinite(value)) variable = value;
}

}  // namespace

void Curve::add(double x, double y) {
  if (points_.empty() || points_.back().count >= stride_) points_.emplace_back();
  Sum& point = points_.back();
  point.x += x;
  ++point.count;
  if (std::isfinite(y)) point.y += y, ++point.finite;
  if (points_.size() <= most_points) return;
  std::vector<Sum> merged((points_.size() + 1) / 2);
  for (size_t i = 0; i < points_.size(); ++i) {
    Sum& into = merged[i / 2];
    into.x += points_[i].x;
    into.y += points_[i].y;
    into.count += points_[i].count;
    into.finite += points_[i].finite;
  }
  points_ = std::move(merged);
  stride_ *= 2;
}

std::vector<double> Curve::x() const {
  std::vector<double> all;
  for (const Sum& point : points_) all.push_back(point.x / static_cast<double>(point.count));
  return all;
}

std::vector<double> Curve::y() const {
  std::vector<double> all;
  for (const Sum& point : points_) {
    all.push_back(point.finite > 0 ? point.y / static_cast<double>(point.finite) : kNaN);
  }
  return all;
}

double TrainingHistory::Validation::score(const std::string& name) const {
  for (const auto& [known, value] : scores) {
    if (known == name) return value;
  }
  return kNaN;
}

void TrainingHistory::add(const ordered_json& line) {
  if (const auto found = line.find("end"); found != line.end()) {
    end = text_in(line, "end");
    reason = text_in(line, "reason");
    return;
  }
  end = reason = "";
  if (const int64_t tokens = count_in(line, "micro_batch_tokens"); tokens > 0) micro_batch_tokens = tokens;
  set_if_finite(seconds, number_in(line, "seconds"));
  if (line.contains("validation")) {
    add_validation(line);
  } else if (line.contains("loss")) {
    add_update(line);
  }
}

void TrainingHistory::add_update(const ordered_json& line) {
  updates = count_in(line, "step");
  const auto x = static_cast<double>(updates);
  loss.add(x, number_in(line, "loss"));
  learning_rate.add(x, number_in(line, "learning_rate"));
  gradient_norm.add(x, number_in(line, "gradient_norm"));
  speed.add(x, number_in(line, "tokens_per_second"));
  set_if_finite(epoch, number_in(line, "epoch"));
  target_tokens += static_cast<double>(count_in(line, "target_tokens"));
  const auto applied = line.find("applied");
  if (applied != line.end() && applied->is_boolean() && !applied->get<bool>()) ++skipped;
}

void TrainingHistory::add_validation(const ordered_json& line) {
  constexpr size_t kMostScores = 32;
  Validation v;
  v.step = count_in(line, "step");
  v.averaged = count_in(line, "averaged");
  for (const auto& [name, value] : line.items()) {
    const bool is_score = (value.is_number() || value.is_null()) && name != "step" && name != "averaged" &&
                          name != "seconds" && v.scores.size() < kMostScores;
    if (is_score) v.scores.emplace_back(name, number_in(line, name.c_str()));
  }
  if (const auto found = line.find("samples"); found != line.end() && found->is_array()) {
    for (const ordered_json& sample : *found) {
      v.samples.push_back(
          {text_in(sample, "source"), text_in(sample, "reference"), text_in(sample, "output")});
    }
  }
  for (const auto& [name, value] : v.scores) {
    if (v.averaged > 0) break;  // the mean of several updates has no place on the curve
    auto curve = std::find_if(scores.begin(), scores.end(), [&](const auto& s) { return s.first == name; });
    if (curve == scores.end()) {
      if (scores.size() >= kMostScores) break;
      curve = scores.insert(scores.end(), {name, Curve()});
    }
    curve->second.add(static_cast<double>(v.step), value);
  }
  ++validations;
  keep_samples(v);
  if (!first) first = v;
  const auto is_best = line.find("best");
  if (is_best != line.end() && is_best->is_boolean() && is_best->get<bool>()) best = v;
  last = std::move(v);
}

void TrainingHistory::keep_samples(const Validation& validation) {
  constexpr size_t kMost = 16;
  if (validation.samples.empty() || with_samples_++ % sample_stride_ != 0) return;
  if (sampled_.size() == kMost) {
    for (size_t i = 0; i < kMost / 2; ++i) sampled_[i] = std::move(sampled_[2 * i]);
    sampled_.resize(kMost / 2);
    sample_stride_ *= 2;
  }
  sampled_.push_back(validation);
}

std::vector<TrainingHistory::Validation> TrainingHistory::sampled() const {
  std::vector<Validation> all = sampled_;
  const bool more = last && !last->samples.empty() &&
                    (all.empty() || all.back().step != last->step || all.back().averaged != last->averaged);
  if (more) all.push_back(*last);
  return all;
}

TrainingHistory TrainingHistory::read(const std::string& path) {
  TrainingHistory history;
  LineReader reader(path);
  for (std::string text; reader.next(text);) {
    const ordered_json line = ordered_json::parse(text, nullptr, false);
    if (line.is_object()) {
      history.add(line);
    } else {
      ++history.unreadable;
    }
  }
  return history;
}

}  // namespace transduce
