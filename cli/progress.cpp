#include "cli/progress.h"

#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "cli/console.h"
#include "transduce/base/figures.h"

namespace transduce::cli {

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

size_t StatusLine::columns() {
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : 80U) - 1U;  // a full line would take the cursor to the next
}

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

std::vector<std::string> TrainingProgress::parts(const Progress& p) const {
  const UpdateReport& r = p.report;
  const double left =
      r.update > 0 ? p.seconds / static_cast<double>(r.update) * static_cast<double>(p.steps - r.update)
                   : 0.0;
  std::vector<std::string> parts{
      fmt::format("step {}/{}", r.update, p.steps), fmt::format("loss {:.4f}", r.loss),
      clock_time(left) + " left",
      grouped(static_cast<int64_t>(tokens_ / std::max(compute_seconds_, 1e-9))) + " tokens/s"};
  if (has_epochs_) parts.push_back(fmt::format("epoch {:.2f}", p.epoch));
  parts.push_back(fmt::format("norm {:.2f}", r.gradient_norm));
  parts.push_back(fmt::format("learning rate {:.2e}", r.learning_rate));
  return parts;
}

std::string TrainingProgress::status(const Progress& p, size_t columns) const {
  constexpr size_t least_bar = 5, most_bar = 20;
  std::vector<std::string> shown = parts(p);
  const auto room_beside = [&](const std::string& text) {  // inside of a bar
    return static_cast<int64_t>(columns) - static_cast<int64_t>(text.size() + std::string("[] ").size());
  };
  std::string text;
  for (; !shown.empty(); shown.pop_back()) {
    for (const char* between : {"  ", " "}) {
      text = fmt::format("{}", fmt::join(shown, between));
      if (room_beside(text) < static_cast<int64_t>(least_bar)) continue;
      const int64_t width = std::min<int64_t>(room_beside(text), most_bar);
      return bar(static_cast<double>(p.report.update) / static_cast<double>(p.steps),
                 static_cast<int>(width)) +
             " " + text;
    }
  }
  return text.substr(0, columns);
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
    status_.show(status(p, StatusLine::columns()), p.report.update == p.steps);
  } else if (log_every_ > 0 && (p.report.update % log_every_ == 0 || p.report.update == 1)) {
    say("{}\n", fmt::join(parts(p), "  "));
  }
}

void TrainingProgress::on_validation(const Progress& p, const ValidationReport& report) {
  status_.clear();
  std::string line = report.averaged > 0 ? fmt::format("mean of the last {} checkpoints:", report.averaged)
                                         : fmt::format("step {}  validation:", p.report.update);
  for (const Score& score : report.scores) {
    line += score.is_fraction ? fmt::format("  {} {:.2f} %", score.name, 100.0 * score.value)
                              : fmt::format("  {} {:.4f}", score.name, score.value);
  }
  say("{}  ({}){}\n", line, clock_time(p.seconds), report.best ? "  best so far, saved" : "");
}

void TrainingProgress::on_end(const Progress& p) {
  status_.clear();
  say("trained {} updates in {}\n", grouped(p.report.update), clock_time(p.seconds));
}

void TrainingProgress::on_warning(const std::string& text) {
  status_.clear();
  say("transduce: {}\n", text);
}

}  // namespace transduce::cli
