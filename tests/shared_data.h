#pragma once

// Data that does not come with the sources: in the folder that the environment variable TRANSDUCE_DATA names,
// else in ../shared/data beside the project. Tests that need it are skipped where it is absent.

#include <cstdlib>
#include <filesystem>
#include <string>

namespace transduce::testing {

// The folder of one data set; an empty path where it is absent.
inline std::filesystem::path shared_data(const std::string& name) {
  const char* given = std::getenv("TRANSDUCE_DATA");
  const std::filesystem::path root = given != nullptr && *given != '\0'
                                         ? std::filesystem::path(given)
                                         : std::filesystem::path(TRANSDUCE_TESTS) / "../../shared/data";
  return std::filesystem::exists(root / name) ? root / name : std::filesystem::path();
}

}  // namespace transduce::testing
