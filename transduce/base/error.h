#pragma once

// Errors that a person can act on: what was wrong, with the values, and the way out.

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace transduce {

// The base of everything the library throws. `exit_status()` is what the program ends with.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual int exit_status() const noexcept { return 1; }
};

// The caller's mistake: a flag, a file, a model, a shape. The program ends with status 2.
class InputError : public Error {
 public:
  using Error::Error;
  int exit_status() const noexcept override { return 2; }
};

// A failure while running: a full disk, a diverged training. The program ends with status 1.
class RunError : public Error {
 public:
  using Error::Error;
};

// Throws InputError with a formatted message (fmt's syntax).
template <class... Args>
[[noreturn]] void fail_input(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

// Throws RunError with a formatted message (fmt's syntax).
template <class... Args>
[[noreturn]] void fail_run(fmt::format_string<Args...> format, Args&&... args) {
  throw RunError(fmt::format(format, std::forward<Args>(args)...));
}

// Throws InputError unless `condition` holds.
template <class... Args>
void check_input(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail_input(format, std::forward<Args>(args)...);
}

}  // namespace transduce
