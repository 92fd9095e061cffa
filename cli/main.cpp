#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <string_view>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/command.h"
#include "cli/console.h"

namespace transduce::cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(int argc, char** argv);
};

constexpr Command kCommands[] = {
    {"train", "train a model on sentence pairs or on a made-up task", train_command},
    {"vocabulary", "make a vocabulary or a SentencePiece model from text", vocabulary_command},
    {"average", "make the mean of a training's last models, or of several models", average_command},
    {"report", "make the page of a training again from its log", report_command},
    {"translate", "translate lines of text with a trained model", translate_command},
    {"score", "say how likely a model finds given outputs", score_command},
    {"evaluate", "compare generated sequences with the right ones", evaluate_command},
    {"inspect", "show what a model is made of: shapes, parameters, memory, arithmetic", inspect_command},
    {"attention", "show who looks at whom: all heads as a page, a picture or numbers", attention_command},
    {"convert", "take over a model of another program, or write one for it", convert_command},
    {"lab", "see why each part of a Transformer is there", lab_command},
    {"bench", "measure how fast a model translates", bench_command},
};

std::string help_text() {
  std::string text =
      "transduce trains and runs Transformers that turn one sequence into another.\n\n"
      "Usage: transduce COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : kCommands) text += fmt::format("  {:<12}{}\n", command.name, command.summary);
  return text +
         "\n`transduce COMMAND --help` explains a command's options and shows an example:\n"
         "  transduce train --model model/reverse --task reverse --steps 500\n"
         "  echo hello | transduce translate --model model/reverse\n";
}

int dispatch(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    print("{}", help_text());
    return 0;
  }
  if (name == "--version") {
    print("transduce {}\n", TRANSDUCE_VERSION);
    return 0;
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(argc - 1, argv + 1);
  }
  if (name.empty()) {
    say("{}", help_text());
    return 2;
  }
  fail_input("unknown command '{}': see transduce --help for what there is", name);
}

// Reports an error in one line, whatever was quoted in it.
void report(std::string what) {
  for (char& c : what) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  say("transduce: {}\n", what);
}

// A file that is opened later must not become standard output or standard error because those were closed.
void open_standard_files() {
  while (true) {
    const int file = open("/dev/null", O_RDWR);
    if (file < 0) return;
    if (file > 2) {
      close(file);
      return;
    }
  }
}

int run(int argc, char** argv) {
  try {
    const int status = dispatch(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      fail_run("cannot write to standard output: {}", std::strerror(errno));
    }
    return status;
  } catch (const Error& error) {
    report(error.what());
    return error.exit_status();
  } catch (const std::bad_alloc&) {
    report("out of memory: use a smaller model or a smaller batch");
    return 1;
  } catch (const std::exception& error) {
    report(fmt::format("internal error: {}", error.what()));
    return 1;
  }
}

}  // namespace
}  // namespace transduce::cli

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // Large blocks go back to the system when they are freed. Left to itself glibc soon keeps them among the
  // small ones, and a long stream's memory creeps up as the gaps between them grow.
  mallopt(M_MMAP_THRESHOLD, 512 << 10);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
#endif
  // A reader that stops early and a file that grows too large are failed writes, not reasons to be killed.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  transduce::cli::open_standard_files();
  return transduce::cli::run(argc, argv);
}
