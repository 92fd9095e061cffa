#pragma once

// Options in a TOML file (https://toml.io): `name = value`, with the names that the flags have.

#include <CLI/CLI.hpp>

namespace transduce::cli {

// What CLI11 reads --config with; a flag on the command line wins over the file. Flags are true or false,
// what may repeat is a value or an array of values; there are no tables.
class TomlConfig : public CLI::Config {
 public:
  // For the options of `app`, one of which names the file; `app` outlives this.
  explicit TomlConfig(const CLI::App& app) : app_(app) {}

  // The options that a file sets. Errors: InputError that names the file and the line, and the key with its
  // value or the nearest known name.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

  // Every option with its value, given or default, as such a file.
  std::string to_config(const CLI::App* app, bool defaults, bool descriptions,
                        std::string prefix) const override;

 private:
  const CLI::App& app_;
};

}  // namespace transduce::cli
