#pragma once

// Runs the program as a person does and keeps what it said.

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace transduce::testing {

inline std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

struct Result {
  int status = -1;  // of the exit, or -signal
  std::string output, errors;
};

// A folder of its own for each test, removed at the end.
class Workplace {
 public:
  Workplace() {
    std::string name = (std::filesystem::temp_directory_path() / "transduce-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Workplace() { std::filesystem::remove_all(path_); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  // Runs `transduce ARGUMENTS` in the folder with `input` on standard input.
  Result run(const std::string& arguments, const std::string& input = "") const {
    write(path_ / ".in", input);
    const std::string command =
        "cd '" + path_.string() + "' && { '" TRANSDUCE_PROGRAM "' " + arguments + "; } <.in >.out 2>.err";
    const int raw = std::system(command.c_str());
    Result result;
    result.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -WTERMSIG(raw);
    result.output = contents(path_ / ".out");
    result.errors = contents(path_ / ".err");
    return result;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace transduce::testing
