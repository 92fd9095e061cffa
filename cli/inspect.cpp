#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/inspect_timing.h"
#include "cli/model_options.h"
#include "transduce/base/figures.h"
#include "transduce/base/parallel.h"
#include "transduce/io/model_directory.h"

namespace transduce::cli {
namespace {

struct Options {
  std::string directory;
  ModelOptions model;
  int64_t vocabulary_size = 37000;  // the paper's
  Lengths lengths;
  bool measure = false, json = false;

  void add_to(CLI::App& app) {
    app.add_option("--model", directory,
                   "directory of a model; without it the flags under Model say what is inspected");
    app.add_option("--vocabulary-size", vocabulary_size, "tokens a side, where there is no --model");
    app.add_option("--source-length", lengths.source, "tokens of a source, the end symbol counted");
    app.add_option("--target-length", lengths.target, "tokens of a target, the start symbol counted");
    app.add_option("--batch-size", lengths.sentences, "sentences at the same time");
    app.add_flag("--measure", measure,
                 "run every part and a whole training update here, and show the time they take");
    app.add_flag("--json", json, "print one JSON object");
    model.add_to(app);
  }

  // Once the flags are read.
  TransformerConfig config(const CLI::App& app) const {
    if (directory.empty()) {
      TransformerConfig config = model.config();
      config.source_vocabulary = config.target_vocabulary = vocabulary_size;
      config.validate();
      return config;
    }
    for (const CLI::Option* option : app.get_options()) {
      check_input(option->count() == 0 ||
                      (option->get_group() != "Model" && option->get_name() != "--vocabulary-size"),
                  "--model says what is inspected: leave out {}", option->get_name());
    }
    return load_model(directory).transformer->config();
  }
};

std::string bytes(int64_t count) {
  const auto value = static_cast<double>(count);
  if (count < 10 << 10) return fmt::format("{} B  ", grouped(count));
  if (count < 10 << 20) return fmt::format("{:.1f} KiB", value / (1 << 10));
  return fmt::format("{} MiB", value < 1e9 ? fmt::format("{:.1f}", value / (1 << 20)) : grouped(count >> 20));
}

// "1.23 M"
std::string large(double number) {
  for (const auto& [unit, letter] : {std::pair{1e12, 'T'}, {1e9, 'G'}, {1e6, 'M'}, {1e3, 'k'}}) {
    if (number >= unit) return fmt::format("{:.2f} {}", number / unit, letter);
  }
  return number > 0.0 ? fmt::format("{:.0f}  ", number) : "-  ";
}

std::string percent(double part, double whole) {
  return whole > 0.0 ? fmt::format("{:.1f} %", 100.0 * part / whole) : "-  ";
}

// What a row is called: groups of one part need no row of their own.
struct Row {
  const PartGroup* group;
  const Part* part;
  std::string name;
  bool indented;
};

std::vector<Row> rows_of(const Anatomy& anatomy) {
  std::vector<Row> rows;
  for (const PartGroup& group : anatomy.groups) {
    for (const Part& part : group.parts) {
      const bool alone = group.parts.size() == 1;
      rows.push_back({&group, &part, alone ? group.name : part.name, !alone});
    }
  }
  return rows;
}

// "encoder layer, 6 times" before its parts.
void print_heading(const Row& row) {
  if (row.indented && row.part == &row.group->parts.front()) {
    print("{}, {} times\n", row.group->name, row.group->count);
  }
}

void print_parameters(const Anatomy& anatomy) {
  const auto all = static_cast<double>(anatomy.total(&Part::parameters));
  print("{:<20}{:>14}{:>10}{:>10}   {}\n", "part", "parameters", "of layer", "of model", "shapes");
  const auto line = [&](const std::string& name, int64_t count, double layer, double model,
                        const std::string& shapes) {
    print("{:<20}{:>14}{:>10}{:>10}{}{}\n", name, grouped(count), layer > 0.0 ? percent(layer, 1.0) : "",
          percent(model, 1.0), shapes.empty() ? "" : "   ", shapes);
  };
  int64_t layers = 0;
  for (const Row& row : rows_of(anatomy)) {
    print_heading(row);
    const auto own = static_cast<double>(row.part->parameters),
               group = static_cast<double>(row.group->sum(&Part::parameters)),
               times = static_cast<double>(row.group->count);
    line((row.indented ? "  " : "") + row.name, row.part->parameters, row.indented ? own / group : 0.0,
         own * times / all, row.part->shapes + (row.part->parameters == 0 ? ", tied" : ""));
    if (!row.indented || row.part != &row.group->parts.back()) continue;
    line("  the layer", row.group->sum(&Part::parameters), 1.0, group * times / all, "");
    layers += row.group->count * row.group->sum(&Part::parameters);
  }
  line("all layers", layers, 0.0, static_cast<double>(layers) / all, "");
  line("the model", anatomy.total(&Part::parameters), 0.0, 1.0, "");
}

void print_costs(const Anatomy& anatomy, const Lengths& lengths, const ModelTime* times) {
  print("\n{} {} of {} source and {} target tokens\n", lengths.sentences,
        lengths.sentences == 1 ? "sentence" : "sentences", lengths.source, lengths.target);
  print("{:<20}{:>16}{:>8}{:>16}{:>14}", "part", "operations/token", "share", "kept: training", "decoding");
  if (times != nullptr) print("{:>12}{:>12}{:>8}", "forward", "training", "share");
  print("\n");
  const double all = anatomy.total(&Part::operations);
  size_t group = 0, part = 0;
  for (const Row& row : rows_of(anatomy)) {
    print_heading(row);
    const Part& p = *row.part;
    const auto count = static_cast<double>(row.group->count);
    print("{:<20}{:>16}{:>8}{:>16}{:>14}", (row.indented ? "  " : "") + row.name,
          large(p.operations / static_cast<double>(p.tokens)), percent(p.operations * count, all),
          bytes(p.training_bytes), p.decoding_bytes > 0 ? bytes(p.decoding_bytes) : "-  ");
    if (times != nullptr) {
      const PartTime& time = times->parts[group][part];
      print("{:>9.2f} ms{:>9.2f} ms{:>8}", 1e3 * time.forward, 1e3 * time.training,
            percent(time.training * count, times->update));
    }
    print("\n");
    if (++part == row.group->parts.size()) part = 0, ++group;
  }
  if (times != nullptr) {
    print("{:<20}{:>75.2f} ms{:>8}\n", "optimiser", 1e3 * times->optimizer,
          percent(times->optimizer, times->update));
    print("{:<20}{:>75.2f} ms\n", "a whole update", 1e3 * times->update);
  }
}

void print_totals(const Anatomy& anatomy, const TransformerConfig& config, const ModelTime* times) {
  const int64_t parameters = anatomy.total(&Part::parameter_bytes),
                kept = anatomy.total(&Part::training_bytes), cache = anatomy.total(&Part::decoding_bytes);
  const bool trains = config.weights == WeightKind::float32;
  print("\n{:<28}{:>14}{:>14}\n", "memory", "training", "decoding");
  const auto line = [&](const char* name, int64_t training, int64_t decoding) {
    print("{:<28}{:>14}{:>14}\n", name, training > 0 && trains ? bytes(training) : "-  ",
          decoding > 0 ? bytes(decoding) : "-  ");
  };
  line("parameters", parameters, parameters);
  line("gradients", parameters, 0);
  line("Adam's two moments", 2 * parameters, 0);
  line("kept for the backward pass", kept, 0);
  line("keys and values", 0, cache);
  line("in all", 4 * parameters + kept, parameters + cache);
  if (times != nullptr) line("measured at most", times->peak_bytes, 0);
  print("\noperations: {} in a forward pass, about three times that in a training update\n",
        large(anatomy.total(&Part::operations)));
}

nlohmann::ordered_json as_json(const Anatomy& anatomy, const TransformerConfig& config,
                               const Lengths& lengths, const ModelTime* times) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (size_t g = 0; g < anatomy.groups.size(); ++g) {
    const PartGroup& group = anatomy.groups[g];
    for (size_t i = 0; i < group.parts.size(); ++i) {
      const Part& part = group.parts[i];
      nlohmann::ordered_json one{{"group", group.name},
                                 {"count", group.count},
                                 {"part", part.name},
                                 {"shapes", part.shapes},
                                 {"parameters", part.parameters},
                                 {"parameter_bytes", part.parameter_bytes},
                                 {"tokens", part.tokens},
                                 {"operations", part.operations},
                                 {"operations_per_token", part.operations / static_cast<double>(part.tokens)},
                                 {"training_bytes", part.training_bytes},
                                 {"decoding_bytes", part.decoding_bytes}};
      if (times != nullptr) {
        one["forward_seconds"] = times->parts[g][i].forward;
        one["training_seconds"] = times->parts[g][i].training;
      }
      parts.push_back(std::move(one));
    }
  }
  const int64_t parameters = anatomy.total(&Part::parameter_bytes);
  nlohmann::ordered_json object{
      {"config", nlohmann::ordered_json::parse(to_json(config))},
      {"batch_size", lengths.sentences},
      {"source_length", lengths.source},
      {"target_length", lengths.target},
      {"parts", std::move(parts)},
      {"parameters", anatomy.total(&Part::parameters)},
      {"operations", anatomy.total(&Part::operations)},
      {"parameter_bytes", parameters},
      {"training_bytes", config.weights == WeightKind::float32
                             ? nlohmann::ordered_json(4 * parameters + anatomy.total(&Part::training_bytes))
                             : nlohmann::ordered_json()},
      {"decoding_bytes", parameters + anatomy.total(&Part::decoding_bytes)}};
  if (times != nullptr) {
    object["threads"] = threads();
    object["optimizer_seconds"] = times->optimizer;
    object["update_seconds"] = times->update;
    object["measured_peak_bytes"] = times->peak_bytes;
  }
  return object;
}

}  // namespace

int inspect_command(int argc, char** argv) {
  Parser parser(
      "inspect",
      "Shows what a model is made of: every part with its shapes, parameters, arithmetic and memory, before\n"
      "it is trained or as it lies in a directory.",
      "  transduce inspect --preset base --tie all\n"
      "  transduce inspect --model model/ende --batch-size 64 --source-length 30 --target-length 30 "
      "--measure");
  Options o;
  o.add_to(parser);
  if (const auto status = parser.read(argc, argv)) return *status;
  const TransformerConfig config = o.config(parser);
  const Anatomy parts = anatomy(config, o.lengths);
  std::optional<ModelTime> measured;
  if (o.measure) {
    say("measuring on {} threads\n", threads());
    measured = measure_parts(config, o.lengths, parts);
  }
  const ModelTime* const times = measured ? &*measured : nullptr;
  if (o.json) {
    print("{}\n", as_json(parts, config, o.lengths, times).dump());
    return 0;
  }
  print(
      "{}+{} layers, width {}, {} heads of {}, feed-forward {}, {}-norm, {}; {} source and {} target "
      "tokens{}\n\n",
      config.encoder_layers, config.decoder_layers, config.width, config.heads, config.width / config.heads,
      config.feed_forward, to_string(config.norm), to_string(config.activation),
      grouped(config.source_vocabulary), grouped(config.target_vocabulary),
      config.tie == Tie::none ? "" : fmt::format(", {} tied", to_string(config.tie)));
  print_parameters(parts);
  print_costs(parts, o.lengths, times);
  print_totals(parts, config, times);
  return 0;
}

}  // namespace transduce::cli
