#pragma once

// Runs the program as a person does and keeps what it said.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

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

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The program at work, to be interrupted.
class Running {
 public:
  // Starts `transduce ARGUMENTS` in the folder.
  Running(const Workplace& place, const std::string& arguments) : errors_(place / ".errors") {
    const std::string command = "cd '" + place.path().string() + "' && exec '" TRANSDUCE_PROGRAM "' " +
                                arguments + " >/dev/null 2>.errors";
    child_ = fork();
    if (child_ == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
  }
  ~Running() {
    if (child_ > 0) end(SIGKILL);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // Whether it has ended by itself; end() then says how.
  bool ended() const {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  }

  // Sends it a signal and waits for its end.
  Result end(int signal) {
    kill(child_, signal);
    int raw = 0;
    waitpid(std::exchange(child_, 0), &raw, 0);
    return {WIFEXITED(raw) ? WEXITSTATUS(raw) : -WTERMSIG(raw), "", contents(errors_)};
  }

 private:
  std::filesystem::path errors_;
  pid_t child_ = 0;
};

}  // namespace transduce::testing
