#include <algorithm>

#include "cli/command.h"
#include "cli/config.h"
#include "cli/console.h"
#include "transduce/base/parallel.h"

namespace transduce::cli {

Parser::Parser(const std::string& name, const std::string& description, const std::string& example)
    : CLI::App(description, "transduce " + name) {
  footer("Example:\n" + example);
  option_defaults()->always_capture_default();
  option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  set_config("--config", "", "read options from a TOML file with the same names; flags win");
  config_formatter(std::make_shared<TomlConfig>(*this));
  add_option("--threads", threads_, "threads to compute with; 0: one a core");
}

std::optional<int> Parser::read(int argc, char** argv, const std::string& config) {
  // An option that may repeat is repeated with its name: what follows a value is no second one.
  for (CLI::Option* option : get_options()) {
    if (option->get_expected_max() > 1 && !option->get_positional()) option->allow_extra_args(false);
  }
  std::vector<std::string> arguments;  // CLI11 takes them from the back
  if (!config.empty()) arguments = {config, "--config"};
  for (int i = argc - 1; i > 0; --i) arguments.emplace_back(argv[i]);
  try {
    parse(std::move(arguments));
    for (const CLI::Option* option : get_options()) {
      const auto& values = option->results();
      check_input(std::find(values.begin(), values.end(), "") == values.end(),
                  "{} was given an empty value (see {} --help)", option->get_name(), get_name());
    }
  } catch (const CLI::CallForHelp&) {
    print("{}", help());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    fail_input("{} (see {} --help)", what, get_name());
  }
  set_threads(threads_);
  return std::nullopt;
}

std::string Parser::saved() const { return config_to_str(true); }

}  // namespace transduce::cli
