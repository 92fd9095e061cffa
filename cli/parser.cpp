#include <fmt/core.h>

#include <algorithm>

#include "cli/command.h"
#include "transduce/base/parallel.h"

namespace transduce::cli {

Parser::Parser(const std::string& name, const std::string& description, const std::string& example)
    : CLI::App(description, "transduce " + name) {
  footer("Example:\n" + example);
  option_defaults()->always_capture_default();
  set_config("--config", "", "read options from a TOML file with the same names; flags win");
  allow_config_extras(CLI::config_extras_mode::error);
  add_option("--threads", threads_, "threads to compute with; 0: one a core");
}

std::optional<int> Parser::read(int argc, char** argv) {
  try {
    parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    fail_input("{} (see {} --help)", what, get_name());
  }
  set_threads(threads_);
  return std::nullopt;
}

}  // namespace transduce::cli
