#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "transduce/train/run.h"

namespace transduce::cli {

// "2:05", "1:02:05"
std::string clock_time(double seconds);

// A line on standard error that is written over and over on a terminal; elsewhere it shows nothing, so that
// logs stay readable.
class StatusLine {
 public:
  StatusLine();
  ~StatusLine() { clear(); }
  bool on_terminal() const { return on_terminal_; }
  // Characters that fit on a line of the terminal; a line that is longer could not be written over.
  static size_t columns();
  // Shows `text`, at most ten times a second unless `now`.
  void show(const std::string& text, bool now = false);
  // Takes it away, e.g. to print a lasting line.
  void clear();

 private:
  bool on_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// "[=====>    ]"
std::string bar(double fraction, int width = 20);

// What a person sees of a training run: a progress line on a terminal, a plain line every `log_every` updates
// elsewhere, and a line for each validation.
class TrainingProgress : public RunObserver {
 public:
  TrainingProgress(int64_t log_every, bool has_epochs) : log_every_(log_every), has_epochs_(has_epochs) {}

  void on_update(const Progress& progress) override;
  void on_validation(const Progress& progress, const ValidationReport& report) override;
  void on_end(const Progress& progress) override;
  void on_warning(const std::string& text) override;

 private:
  // What is worth knowing, the most important first.
  std::vector<std::string> parts(const Progress& progress) const;
  // A bar and as many parts as fit.
  std::string status(const Progress& progress, size_t columns) const;

  int64_t log_every_;
  bool has_epochs_;
  StatusLine status_;
  double tokens_ = 0.0, compute_seconds_ = 0.0;  // of the recent updates, for a steady tokens/s
  int64_t skipped_ = 0;
};

}  // namespace transduce::cli
