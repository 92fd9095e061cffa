#include "cli/config.h"

#include <toml++/toml.h>
#include <algorithm>
#include <iterator>

#include "transduce/base/error.h"
#include "transduce/base/text.h"
#include "transduce/eval/error_rates.h"

namespace transduce::cli {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

enum class Kind { flag, whole, natural, number, text };

Kind kind_of(const CLI::Option& option) {
  if (option.get_expected_min() == 0) return Kind::flag;
  const std::string type = option.get_type_name();
  if (type.starts_with("UINT")) return Kind::natural;
  if (type.starts_with("INT")) return Kind::whole;
  return type.starts_with("FLOAT") ? Kind::number : Kind::text;
}

const char* describe(Kind kind) {
  switch (kind) {
    case Kind::flag:
      return "true or false";
    case Kind::whole:
      return "a whole number";
    case Kind::natural:
      return "a whole number, 0 or more";
    case Kind::number:
      return "a number";
    case Kind::text:
      break;
  }
  return "text in quotes";
}

bool repeats(const CLI::Option& option) { return option.get_expected_max() > 1; }

std::string to_toml(const toml::node& node) {
  std::ostringstream text;
  text << toml::toml_formatter{node};
  return text.str();
}

// The node as CLI11 takes it from the command line; nothing where it is of another kind.
std::optional<std::string> as_argument(const toml::node& node, Kind kind) {
  if (const auto* flag = node.as_boolean(); flag != nullptr && kind == Kind::flag) {
    return flag->get() ? "true" : "false";
  }
  if (const auto* whole = node.as_integer(); whole != nullptr) {
    const bool fits = kind == Kind::natural ? whole->get() >= 0 : kind == Kind::whole || kind == Kind::number;
    if (fits) return fmt::format("{}", whole->get());
  }
  if (const auto* number = node.as_floating_point(); number != nullptr && kind == Kind::number) {
    return fmt::format("{}", number->get());
  }
  if (const auto* text = node.as_string(); text != nullptr && kind == Kind::text && !text->get().empty()) {
    return text->get();
  }
  return std::nullopt;
}

// The name among the options that takes the fewest edits to reach.
std::string nearest(const std::string& name, const CLI::App& app) {
  const auto letters = [](const std::string& word) {
    std::vector<std::string> all;
    for (const std::string_view character : utf8_characters(word)) all.emplace_back(character);
    return all;
  };
  std::pair<int64_t, std::string> best{INT64_MAX, ""};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_configurable()) continue;
    const std::string known = option->get_single_name();
    best = std::min(best, {edit_distance(letters(name), letters(known)), known});
  }
  return best.second;
}

// The file that is being read, and what is said of it.
struct Reading {
  std::string file;  // in quotes
  const CLI::App& app;

  std::string line(const toml::node& node) const {
    return fmt::format("{}, line {}", file, node.source().begin.line);
  }

  const CLI::Option& option(const std::string& name, const toml::node& node) const {
    if (node.is_table()) {
      fail_input("{}: {} is a table: options stand at the top of the file, without tables", line(node),
                 in_quotes(name, 60));
    }
    const CLI::Option* found = app.get_option_no_throw("--" + name);
    if (found == nullptr || !found->get_configurable()) {
      fail_input("{}: {} is no option that can stand here; the nearest is {} (see {} --help)", line(node),
                 in_quotes(name, 60), nearest(name, app), app.get_name());
    }
    return *found;
  }

  CLI::ConfigItem item(const std::string& name, const toml::node& node) const {
    const CLI::Option& known = option(name, node);
    const Kind kind = kind_of(known);
    CLI::ConfigItem item;
    item.name = name;
    const auto add = [&](const toml::node& value) {
      const auto argument = as_argument(value, kind);
      if (!argument) {
        fail_input("{}: {} must be {}, got {}", line(value), name, describe(kind),
                   in_quotes(to_toml(value), 60));
      }
      item.inputs.push_back(*argument);
    };
    if (const toml::array* values = node.as_array(); values != nullptr && repeats(known)) {
      for (const toml::node& value : *values) add(value);
    } else {
      add(node);
    }
    return item;
  }
};

// What CLI11 took from the command line, as a TOML value: TOML has fewer ways to write a number.
std::string to_toml(const std::string& argument, Kind kind) {
  int64_t whole = 0;
  double number = 0.0;
  switch (kind) {
    case Kind::flag:
      return argument;
    case Kind::whole:
    case Kind::natural:
      CLI::detail::lexical_cast(argument, whole);
      return fmt::format("{}", whole);
    case Kind::number:
      CLI::detail::lexical_cast(argument, number);
      return fmt::format("{}", number);
    case Kind::text:
      break;
  }
  return to_toml(toml::value<std::string>(argument));
}

}  // namespace

std::vector<CLI::ConfigItem> TomlConfig::from_config(std::istream& input) const {
  const Reading reading{in_quotes(app_.get_config_ptr()->as<std::string>(), 4096), app_};
  std::string text(kMaxBytes + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(input.gcount()));
  check_input(text.size() <= kMaxBytes, "{} holds more than {} bytes: it is no file of options", reading.file,
              kMaxBytes);
  try {
    std::vector<CLI::ConfigItem> found;
    const toml::table table = toml::parse(text);
    for (const auto& [key, node] : table) found.push_back(reading.item(std::string(key.str()), node));
    return found;
  } catch (const toml::parse_error& error) {
    fail_input("{}, line {}: {}", reading.file, error.source().begin.line, error.description());
  }
}

std::string TomlConfig::to_config(const CLI::App* app, bool defaults, bool, std::string) const {
  std::string text;
  for (const CLI::Option* option : app->get_options()) {
    if (!option->get_configurable()) continue;
    std::vector<std::string> values =
        option->count() > 0 ? option->reduced_results() : std::vector<std::string>();
    if (values.empty() && defaults) values = {option->get_default_str()};
    const auto unset = [](const std::string& value) {
      return value.empty() || value == "[]" || value == "{}";
    };
    if (values.empty() || unset(values[0])) continue;
    for (std::string& one : values) one = to_toml(one, kind_of(*option));
    const std::string value = fmt::format("{}", fmt::join(values, ", "));
    text += option->get_single_name() + " = " + (repeats(*option) ? "[" + value + "]" : value) + "\n";
  }
  return text;
}

}  // namespace transduce::cli
