#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <string_view>

#include "cli/command.h"

namespace transduce::cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(int argc, char** argv);
};

constexpr Command kCommands[] = {
    {"train", "train a model on sentence pairs or on a made-up task", train_command},
    {"translate", "translate lines of text with a trained model", translate_command},
    {"evaluate", "compare generated sequences with the right ones", evaluate_command},
};

void print_help(std::FILE* to) {
  fmt::print(to, "transduce trains and runs Transformers that turn one sequence into another.\n\n"
                 "Usage: transduce COMMAND [OPTIONS]\n\nCommands:\n");
  for (const Command& command : kCommands) fmt::print(to, "  {:<12}{}\n", command.name, command.summary);
  fmt::print(to, "\n`transduce COMMAND --help` explains a command's options and shows an example:\n"
                 "  transduce train --model model/reverse --task reverse --steps 500\n"
                 "  echo hello | transduce translate --model model/reverse\n");
}

int dispatch(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
    return 0;
  }
  if (name == "--version") {
    fmt::print("transduce {}\n", TRANSDUCE_VERSION);
    return 0;
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(argc - 1, argv + 1);
  }
  if (name.empty()) {
    print_help(stderr);
    return 2;
  }
  fail_input("unknown command '{}': see transduce --help for what there is", name);
}

}  // namespace
}  // namespace transduce::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that stops early is a failed write, not a killed program
  try {
    return transduce::cli::dispatch(argc, argv);
  } catch (const transduce::Error& error) {
    fmt::print(stderr, "transduce: {}\n", error.what());
    return error.exit_status();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "transduce: out of memory: use a smaller model or a smaller batch\n");
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "transduce: internal error: {}\n", error.what());
    return 1;
  }
}
