#pragma once

// CTranslate2 itself, where the Python of TRANSDUCE_PYTHON has it.

#include <nlohmann/json.hpp>
#include <string>

#include "tests/base/temporary_directory.h"
#include "tests/golden/python.h"
#include "transduce/base/file.h"

namespace transduce::testing {

// An empty string where there is no Python with CTranslate2.
inline std::string python_with_ctranslate2() { return golden::find_python("ctranslate2"); }

// What CTranslate2 answers for the model in `directory`; run_ctranslate2.py describes request and answer.
inline nlohmann::json run_ctranslate2(const std::string& python, const std::string& directory,
                                      const nlohmann::json& request) {
  const TemporaryDirectory place;
  const std::string command =
      golden::quoted(python) + " " + golden::quoted(TRANSDUCE_TESTS "/io/run_ctranslate2.py") + " " +
      golden::quoted(directory) + " <" + golden::quoted(place.file("request.json", request.dump())) + " >" +
      golden::quoted(place / "answer.json");
  if (std::system(command.c_str()) != 0) throw std::runtime_error(command + " failed");
  return nlohmann::json::parse(read_file(place / "answer.json", size_t{1} << 30));
}

}  // namespace transduce::testing
