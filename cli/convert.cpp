#include "cli/command.h"
#include "cli/console.h"
#include "transduce/io/ctranslate2.h"

namespace transduce::cli {
namespace {

// What the imported model is, so that a person sees what was found and what was taken for granted.
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
        name_of(tokenizer->kind()));
  }
}

std::optional<TokenizerKind> tokenizer_kind(const std::string& name) {
  return name.empty() ? std::nullopt : std::optional(parse_tokenizer_kind(name));
}

}  // namespace

int convert_command(int argc, char** argv) {
  Parser parser("convert", "Takes over a model of another program.",
                "  transduce convert --from ctranslate2 --input ende_ctranslate2 --model model/ende");
  std::string from, input, directory, source_tokenizer, target_tokenizer;
  CTranslate2Import options;
  bool overwrite = false;
  parser.add_option("--from", from, "the other program: ctranslate2")->required();
  parser.add_option("--input", input, "its model directory, or the model.bin in one")->required();
  parser.add_option("--model", directory, "directory for the model")->required();
  parser.add_option("--source-vocabulary", options.source_vocabulary,
                    "vocabulary file, .txt or .json; default: the one beside model.bin");
  parser.add_option("--target-vocabulary", options.target_vocabulary, "likewise");
  parser.add_option(
      "--source-tokenizer", source_tokenizer,
      "char or word; default: char if every token of the vocabulary is one character, else word: "
      "text is then expected to be cut into tokens already");
  parser.add_option("--target-tokenizer", target_tokenizer, "likewise");
  parser.add_option("--heads", options.heads, "attention heads, where the file does not say; 0: as it says");
  parser.add_flag("--overwrite", overwrite, "replace a model that the directory holds");
  if (const auto status = parser.read(argc, argv)) return *status;
  check_input(from == "ctranslate2", "cannot convert from {}: ctranslate2 is known", in_quotes(from));
  check_input(options.heads >= 0 && options.heads <= 65536, "{} heads are out of range: give 1 to 65536",
              options.heads);
  check_input(overwrite || !holds_model(directory),
              "'{}' holds a model already: name another directory, or give --overwrite to replace it",
              directory);
  options.source_tokenizer = tokenizer_kind(source_tokenizer);
  options.target_tokenizer = tokenizer_kind(target_tokenizer);

  const Seq2SeqModel model = import_ctranslate2(input, options);
  save_description(directory, model);
  save_parameters(directory, model);
  describe(model);
  return 0;
}

}  // namespace transduce::cli
