#include "cli/stop_signals.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

namespace transduce::cli {
namespace {

volatile std::sig_atomic_t stop_asked = 0;

constexpr int kSignals[] = {SIGINT, SIGTERM};

// Only what a signal handler may do.
void take_note(int) {
  constexpr char text[] = "\nstopping after this step, and saving; once more ends at once\n";
  stop_asked = 1;
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
}

}  // namespace

StopSignals::StopSignals() {
  stop_asked = 0;
  for (const int signal : kSignals) {
    struct sigaction before = {}, action = {};
    action.sa_handler = take_note;
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (const int signal : kSignals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == take_note) std::signal(signal, SIG_DFL);
  }
}

bool StopSignals::asked() { return stop_asked != 0; }

}  // namespace transduce::cli
