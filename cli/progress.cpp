#include "cli/progress.h"

#include "cli/console.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace transduce::cli {

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string clock_time(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  if (total >= 3600) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string bar(double fraction, int width) {
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  const std::string head = filled < width ? ">" : "";
  return "[" + std::string(static_cast<size_t>(filled), '=') + head +
         std::string(static_cast<size_t>(width - filled) - head.size(), ' ') + "]";
}

StatusLine::StatusLine() : on_terminal_(isatty(STDERR_FILENO) == 1) {}

void StatusLine::show(const std::string& text, bool now) {
  if (!on_terminal_) return;
  const auto time = std::chrono::steady_clock::now();
  if (!now && time - last_ < std::chrono::milliseconds(100)) return;
  last_ = time;
  shown_ = true;
  say("\r{}\x1b[K", text);
}

void StatusLine::clear() {
  if (!shown_) return;
  say("\r\x1b[K");
  shown_ = false;
}

std::string TrainingProgress::describe(const Progress& p) const {
  const UpdateReport& r = p.report;
  const double left =
      r.update > 0 ? p.seconds / static_cast<double>(r.update) * static_cast<double>(p.steps - r.update)
                   : 0.0;
  const std::string epoch = has_epochs_ ? fmt::format("  epoch {:.2f}", p.epoch) : "";
  return fmt::format(
      "step {}/{}{}  loss {:.4f}  gradient norm {:.2f}  learning rate {:.2e}  {} tokens/s  {} left", r.update,
      p.steps, epoch, r.loss, r.gradient_norm, r.learning_rate,
      grouped(static_cast<int64_t>(tokens_ / std::max(compute_seconds_, 1e-9))), clock_time(left));
}

void TrainingProgress::on_update(const Progress& p) {
  // Older updates count less and less, so the speed is steady and still follows.
  tokens_ = 0.95 * tokens_ + static_cast<double>(p.report.target_tokens);
  compute_seconds_ =
      0.95 * compute_seconds_ + static_cast<double>(p.report.target_tokens) / p.tokens_per_second;
  if (!p.report.applied) {
    status_.clear();
    say("step {}: the loss or its gradient was not a finite number; the update was skipped ({} so far)\n",
        p.report.update, ++skipped_);
  }
  if (status_.on_terminal()) {
    const double done = static_cast<double>(p.report.update) / static_cast<double>(p.steps);
    status_.show(bar(done) + " " + describe(p), p.report.update == p.steps);
  } else if (log_every_ > 0 && (p.report.update % log_every_ == 0 || p.report.update == 1)) {
    say("{}\n", describe(p));
  }
}

void TrainingProgress::on_validation(const Progress& p, const std::vector<Score>& scores, bool best) {
  status_.clear();
  std::string line = fmt::format("step {}  validation:", p.report.update);
  for (const Score& score : scores) {
    const bool rate = score.name.find("accuracy") != std::string::npos ||
                      score.name.find("rate") != std::string::npos ||
                      score.name.find("match") != std::string::npos;
    line += rate ? fmt::format("  {} {:.2f} %", score.name, 100.0 * score.value)
                 : fmt::format("  {} {:.4f}", score.name, score.value);
  }
  say("{}  ({}){}\n", line, clock_time(p.seconds), best ? "  best so far, saved" : "");
}

void TrainingProgress::on_end(const Progress& p) {
  status_.clear();
  say("trained {} updates in {}\n", grouped(p.report.update), clock_time(p.seconds));
}

}  // namespace transduce::cli
