#pragma once

// What these tests compare with: published scores in shared data, and sacreBLEU where Python has it.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/golden/python.h"

namespace transduce::testing {

// The folder of published cases: in the environment variable TRANSDUCE_DATA, else in shared/data beside the
// project. Empty if it is not there.
inline std::filesystem::path sacrebleu_cases() {
  const char* named = std::getenv("TRANSDUCE_DATA");
  const std::filesystem::path data = named != nullptr && *named != '\0' ? std::filesystem::path(named)
                                                                        : TRANSDUCE_TESTS
                                         "/../../shared/data";
  const std::filesystem::path cases = data / "sacrebleu-cases";
  return std::filesystem::exists(cases / "cases.json") ? cases : std::filesystem::path();
}

#define SKIP_WITHOUT_CASES()                                                                          \
  if (transduce::testing::sacrebleu_cases().empty())                                                  \
  GTEST_SKIP() << "no sacrebleu-cases: TRANSDUCE_DATA names no folder that holds them, nor are they " \
                  "in ../shared/data"

inline nlohmann::json read_json(const std::filesystem::path& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

// The Python named by TRANSDUCE_PYTHON, else python3, if it has sacreBLEU 2; otherwise an empty string.
inline std::string python_with_sacrebleu() {
  const char* named = std::getenv("TRANSDUCE_PYTHON");
  const std::string python = named != nullptr && *named != '\0' ? named : "python3";
  const std::string probe = golden::quoted(python) +
                            " -c 'import sacrebleu; assert sacrebleu.__version__.startswith(\"2.\")'"
                            " >/dev/null 2>&1";
  return std::system(probe.c_str()) == 0 ? python : std::string();
}

}  // namespace transduce::testing
