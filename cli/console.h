#pragma once

// What the program says. Results go to standard output, everything else to standard error. Neither call
// throws: a log that cannot be written must not end a training, and main() checks standard output once at the
// end.

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace transduce::cli {

// Writes to standard error (fmt's syntax).
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

// Writes to standard output (fmt's syntax).
template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace transduce::cli
