#pragma once

// The Python that live tests run other programs with, where there is one.

#include <cstdlib>
#include <string>

namespace transduce::golden {

// A word of a shell's command line, whatever is in it.
inline std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// The program named by the environment variable TRANSDUCE_PYTHON, else python3, if it has these modules;
// otherwise an empty string.
inline std::string find_python(const std::string& modules = "torch, safetensors") {
  const char* named = std::getenv("TRANSDUCE_PYTHON");
  const std::string python = named != nullptr && *named != '\0' ? named : "python3";
  const std::string probe = quoted(python) + " -c 'import " + modules + "' >/dev/null 2>&1";
  return std::system(probe.c_str()) == 0 ? python : std::string();
}

}  // namespace transduce::golden
