#include <filesystem>
#include <tuple>

#include "cli/command.h"
#include "cli/console.h"
#include "transduce/io/ctranslate2.h"
#include "transduce/models/quantize.h"

namespace transduce::cli {
namespace {

// What the model is, so that a person sees what was found and what was taken for granted.
void describe(const Seq2SeqModel& model) {
  const TransformerConfig& c = model.transformer->config();
  say("{}+{} layers, width {}, {} heads, feed-forward {}, {} parameters\n", c.encoder_layers,
      c.decoder_layers, c.width, c.heads, c.feed_forward, model.transformer->parameters().count());
  say("norm {} ({}), activation {}, positions {}, tie {}, source {} end symbol\n", to_string(c.norm),
      to_string(c.norm_kind), to_string(c.activation), to_string(c.positions), to_string(c.tie),
      c.source_end ? "with" : "without");
  for (const auto& [side, tokenizer, rows] :
       {std::tuple{"source", model.source.get(), c.source_vocabulary},
        std::tuple{"target", model.target.get(), c.target_vocabulary}}) {
    say("{}: {} tokens in {} rows, cut by {}\n", side, tokenizer->vocabulary().size(), rows,
        name_of(tokenizer->spec().kind));
  }
}

std::optional<TokenizerKind> tokenizer_kind(const std::string& name) {
  return name.empty() ? std::nullopt : std::optional(parse_tokenizer_kind(name));
}

// From another program's model to one of ours.
struct Import {
  std::string from, input, source_tokenizer, target_tokenizer;
  CTranslate2Import options;

  void add_to(CLI::App& app) {
    const std::string group = "From another program";
    app.add_option("--from", from, "the other program: ctranslate2")->group(group);
    app.add_option("--input", input, "its model directory, or the model.bin in one")->group(group);
    app.add_option("--source-vocabulary", options.source_vocabulary,
                   "vocabulary file, .txt or .json; default: the one beside model.bin")
        ->group(group);
    app.add_option("--target-vocabulary", options.target_vocabulary, "likewise")->group(group);
    app.add_option(
           "--source-tokenizer", source_tokenizer,
           "char or word; default: char if every token of the vocabulary is one character, else word: text "
           "is then expected to be cut into tokens already")
        ->group(group);
    app.add_option("--target-tokenizer", target_tokenizer, "likewise")->group(group);
    app.add_option("--heads", options.heads, "attention heads, where the file does not say; 0: as it says")
        ->group(group);
  }

  void run(const std::string& directory, bool overwrite) {
    check_input(from == "ctranslate2", "cannot convert from {}: ctranslate2 is known", in_quotes(from));
    check_input(!input.empty(), "--from needs --input, the other program's model");
    check_input(options.heads >= 0 && options.heads <= 65536, "{} heads are out of range: give 1 to 65536",
                options.heads);
    check_replaceable(directory, overwrite);
    options.source_tokenizer = tokenizer_kind(source_tokenizer);
    options.target_tokenizer = tokenizer_kind(target_tokenizer);
    const Seq2SeqModel model = import_ctranslate2(input, options);
    save_description(directory, model);
    save_parameters(directory, model);
    describe(model);
  }
};

// From one of our models to another program's.
struct Export {
  std::string to, output;

  void add_to(CLI::App& app) {
    const std::string group = "To another program";
    app.add_option("--to", to, "the other program: ctranslate2")->group(group);
    app.add_option("--output", output, "directory for its model, or for the smaller one")->group(group);
  }

  void run(const std::string& directory, bool overwrite) const {
    check_input(to == "ctranslate2", "cannot convert to {}: ctranslate2 is known", in_quotes(to));
    check_input(!output.empty(), "--to needs --output, a directory for the other program's model");
    std::error_code ignored;
    check_input(overwrite || !std::filesystem::exists(std::filesystem::path(output) / "model.bin", ignored),
                "'{}' holds a model already: name another directory, or give --overwrite to replace it",
                output);
    const Seq2SeqModel model = load_model(directory);
    export_ctranslate2(output, model);
    describe(model);
  }
};

// One of our models in a smaller form.
struct Quantization {
  std::string kind;

  void add_to(CLI::App& app) {
    app.add_option("--quantize", kind, "int8: weights in 8 bits, for inference; written to --output")
        ->group("To a smaller model");
  }

  void run(const std::string& directory, const std::string& output, bool overwrite) const {
    check_input(kind == "int8", "cannot quantize to {}: int8 is known", in_quotes(kind));
    check_input(!output.empty(), "--quantize needs --output, a directory for the smaller model");
    check_replaceable(output, overwrite);
    Seq2SeqModel model = load_model(directory);
    model.transformer = quantize(*model.transformer);
    save_description(output, model);
    save_parameters(output, model);
    describe(model);
  }
};

}  // namespace

int convert_command(int argc, char** argv) {
  Parser parser("convert",
                "Takes over a model of another program, writes one for it, or makes a smaller one.",
                "  transduce convert --from ctranslate2 --input ende_ctranslate2 --model model/ende\n"
                "  transduce convert --to ctranslate2 --model model/ende --output ende_ctranslate2\n"
                "  transduce convert --quantize int8 --model model/ende --output model/ende-int8");
  std::string directory;
  bool overwrite = false;
  Import importing;
  Export exporting;
  Quantization quantization;
  parser.add_option("--model", directory, "directory of our model")->required();
  parser.add_flag("--overwrite", overwrite, "replace a model that stands where the new one goes");
  importing.add_to(parser);
  exporting.add_to(parser);
  quantization.add_to(parser);
  if (const auto status = parser.read(argc, argv)) return *status;
  check_input((importing.from.empty() ? 0 : 1) + (exporting.to.empty() ? 0 : 1) +
                      (quantization.kind.empty() ? 0 : 1) ==
                  1,
              "give either --from or --to: the program that the model comes from or goes to, or --quantize");
  if (!quantization.kind.empty()) {
    check_input(importing.input.empty(), "--input goes with --from; --quantize reads from --model");
    quantization.run(directory, exporting.output, overwrite);
  } else if (exporting.to.empty()) {
    check_input(exporting.output.empty(), "--output goes with --to; --from writes to --model");
    importing.run(directory, overwrite);
  } else {
    check_input(importing.input.empty(), "--input goes with --from; --to reads from --model");
    exporting.run(directory, overwrite);
  }
  return 0;
}

}  // namespace transduce::cli
