#pragma once

// One function a subcommand: reads its own options from argv (argv[0] is the subcommand's name), does the
// work and returns the exit status. Errors are thrown and reported by main().

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "transduce/base/error.h"

namespace transduce::cli {

int train_command(int argc, char** argv);
int average_command(int argc, char** argv);
int translate_command(int argc, char** argv);
int score_command(int argc, char** argv);
int evaluate_command(int argc, char** argv);
int bench_command(int argc, char** argv);
int attention_command(int argc, char** argv);
int inspect_command(int argc, char** argv);
int vocabulary_command(int argc, char** argv);
int convert_command(int argc, char** argv);
int report_command(int argc, char** argv);
int lab_command(int argc, char** argv);

// The command-line parser of a subcommand: its help ends with `example`, and --config FILE.toml takes the
// same names as the flags (flags win).
class Parser : public CLI::App {
 public:
  Parser(const std::string& name, const std::string& description, const std::string& example);

  // Parses, then sets the number of threads. With a `config` file, as if --config named it. Returns an exit
  // status when the program should end at once
  // (--help). Errors: InputError, one line, for anything it does not understand.
  std::optional<int> read(int argc, char** argv, const std::string& config = "");

  // Every option with its value, as a TOML file that --config takes to repeat the run.
  std::string saved() const;

 private:
  int threads_ = 0;
};

}  // namespace transduce::cli
