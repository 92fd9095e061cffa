#include <algorithm>

#include "cli/attention_view.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/search_flags.h"
#include "transduce/base/figures.h"
#include "transduce/base/file.h"
#include "transduce/base/text.h"

namespace transduce::cli {
namespace {

// Weights that are computed at all, and that a file may hold: beyond that no browser is pleased.
constexpr int64_t kMostComputed = int64_t{1} << 27;  // 512 MiB
constexpr int64_t kMostShown = 4000000, kMostDrawn = 200000;

struct Options {
  std::string model, source, output;
  std::optional<std::string> target;
  std::vector<std::string> kinds;
  ShownHeads shown;
  SearchFlags search;

  void add_to(CLI::App& app) {
    app.add_option("--model", model, "directory of the model")->required();
    app.add_option("--source", source, "the sentence")->required();
    app.add_option("--target", target, "the output to look at; without it the model's own translation");
    app.add_option("--output", output,
                   "file to write: .html, a page for any browser; .svg, a picture; .json, the numbers");
    app.add_option("--kind", kinds, "encoder, decoder or cross alone; may repeat")->take_all();
    app.add_option("--layer", shown.layer, "one layer alone, counted from 1; 0: all");
    app.add_option("--head", shown.head, "one head alone, counted from 1; 0: all");
    search.add_to(app);
  }

  // Once the flags are read.
  void finish() {
    if (kinds.empty()) return;
    shown.encoder = shown.decoder = shown.cross = false;
    for (const std::string& kind : kinds) {
      check_input(kind == "encoder" || kind == "decoder" || kind == "cross",
                  "unknown kind of attention {}: choose encoder, decoder or cross", in_quotes(kind));
      (kind == "encoder" ? shown.encoder : kind == "decoder" ? shown.decoder : shown.cross) = true;
    }
  }
};

enum class Format { none, html, svg, json };

Format format_of(const std::string& path) {
  if (path.empty()) return Format::none;
  if (path.ends_with(".html") || path.ends_with(".htm")) return Format::html;
  if (path.ends_with(".svg")) return Format::svg;
  if (path.ends_with(".json")) return Format::json;
  fail_input("cannot tell what to write to {}: let its name end with .html, .svg or .json", in_quotes(path));
}

std::vector<int32_t> encode(const char* what, const std::string& text, const Tokenizer& tokenizer,
                            int64_t room) {
  check_input(text.find('\n') == std::string::npos, "{} must be one line", what);
  std::vector<int32_t> ids = tokenizer.encode(text);
  check_input(std::ssize(ids) <= room, "{} has {} tokens, more than the {} there is room for", what,
              grouped(std::ssize(ids)), grouped(room));
  return ids;
}

// Refuses before anything is computed what would not fit. S and T count the end symbols.
void check_size(const TransformerConfig& c, const ShownHeads& shown, int64_t S, int64_t T, Format format) {
  const int64_t all = c.heads * (c.encoder_layers * S * S + c.decoder_layers * T * (T + S));
  check_input(
      all <= kMostComputed,
      "{} source and {} output tokens make {} attention weights, more than the {} there is room for: give a "
      "shorter sentence",
      S, T, grouped(all), grouped(kMostComputed));
  const auto layers = [&](bool kind, int64_t count) {
    return !kind ? 0 : shown.layer == 0 ? count : int64_t{shown.layer <= count};
  };
  const int64_t heads = shown.head == 0 ? c.heads : 1;
  const int64_t weights = heads * (layers(shown.encoder, c.encoder_layers) * S * S +
                                   layers(shown.decoder, c.decoder_layers) * T * T +
                                   layers(shown.cross, c.decoder_layers) * T * S);
  const int64_t most = format == Format::svg ? kMostDrawn : kMostShown;
  check_input(
      format == Format::none || weights <= most,
      "{} weights are too many for such a file, which has room for {}: choose with --kind, --layer and "
      "--head, or give a shorter sentence",
      grouped(weights), grouped(most));
}

void print_shares(const AttentionView& view) {
  print("{:<8}{}\n{:<8}{}\n", "source", join(labels_of(view.source), " "), "output",
        join(labels_of(view.chosen), " "));
  if (view.maps.cross.empty()) return;
  print("\ncross-attention straight across\n{:>5}  {:>4}  {:>9}  {:>13}\n", "layer", "head", "diagonal",
        "anti-diagonal");
  for (const AttentionMap& map : view.maps.cross) {
    const DiagonalShare share = view.share(map);
    print("{:>5}  {:>4}  {:>7.1f} %  {:>11.1f} %\n", map.layer, map.head, 100.0 * share.diagonal,
          100.0 * share.anti_diagonal);
  }
  print("{:>11}  {:>7.1f} %  {:>11.1f} %\n", "evenly", 100.0 / static_cast<double>(view.source.size()),
        100.0 / static_cast<double>(view.source.size()));
  const auto best = [&](const char* name, double DiagonalShare::*diagonal) {
    const AttentionMap& map = *view.best(diagonal);
    print("{:<20}layer {}, head {}: {:.1f} %\n", name, map.layer, map.head,
          100.0 * (view.share(map).*diagonal));
  };
  print("\n");
  best("best diagonal", &DiagonalShare::diagonal);
  best("best anti-diagonal", &DiagonalShare::anti_diagonal);
}

}  // namespace

int attention_command(int argc, char** argv) {
  Parser parser(
      "attention",
      "Shows who looks at whom: the attention of every head for a sentence and its output. Prints how much\n"
      "of the cross-attention lies on the diagonal, as in copying, and on the anti-diagonal, as in "
      "reversing.",
      "  transduce attention --model model/reverse --source transformer --output attention.html\n"
      "  transduce attention --model model/ende --source 'two men .' --target 'zwei männer .' --output "
      "a.svg");
  Options o;
  o.add_to(parser);
  if (const auto status = parser.read(argc, argv)) return *status;
  o.finish();
  const Format format = format_of(o.output);
  const Seq2SeqModel model = load_model(o.model);
  const TransformerConfig& config = model.transformer->config();
  const int64_t room = source_limit({&model}, o.search.options().max_source_length);
  const std::vector<int32_t> source = encode("--source", o.source, *model.source, room);
  check_input(!source.empty(), "--source has no token: there is nothing to look at");
  std::vector<int32_t> output;
  std::string text = o.target.value_or("");
  if (o.target) {
    output = encode("--target", text, *model.target, room);
  } else {
    const std::vector<std::string> lines{o.source};
    Translation best = Translator(model, o.search.options()).translate(lines)[0][0];
    output = best.hypothesis.tokens;
    text = best.text;
  }
  check_size(config, o.shown, std::ssize(source) + 1, std::ssize(output) + 1, format);
  AttentionView view = attention_view(model, source, output, o.shown);
  view.source_text = o.source;
  view.output_text = text;
  view.forced = o.target.has_value();
  if (format != Format::none) {
    write_file_atomic(o.output, format == Format::html  ? attention_page(view)
                                : format == Format::svg ? attention_svg(view)
                                                        : attention_json(view));
  }
  print_shares(view);
  return 0;
}

}  // namespace transduce::cli
