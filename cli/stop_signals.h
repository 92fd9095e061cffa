#pragma once

namespace transduce::cli {

// While it lives, SIGINT (Ctrl-C) and SIGTERM only leave a note, for work that wants to come to a good end by
// itself. Each does so once: the second of a kind ends the process as usual. One that the process was started
// to ignore is ignored as before.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Whether one has come.
  static bool asked();
};

}  // namespace transduce::cli
