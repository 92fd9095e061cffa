#include "cli/command.h"
#include "cli/console.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/text_options.h"
#include "transduce/base/figures.h"

namespace transduce::cli {

int vocabulary_command(int argc, char** argv) {
  Parser parser(
      "vocabulary",
      "Makes a vocabulary from text, for the --source-vocabulary and --target-vocabulary of train: a "
      "list of\ntokens for the tokenizers char and word, a SentencePiece model for sentencepiece.",
      "  transduce vocabulary --input train.en --input train.de.gz --tokenizer sentencepiece \\\n"
      "      --vocabulary-size 8000 --output joint.spm\n"
      "  cut -f2 pairs.tsv | transduce vocabulary --tokenizer word --min-count 2 --output target.vocab");
  std::vector<std::string> input{"-"};
  std::string output, tokenizer = "sentencepiece", normal_form = "none";
  VocabularyFlags flags;
  parser
      .add_option("--input", input, "text, one sentence a line; may repeat, may be .gz; - for standard input")
      ->take_all();
  parser.add_option("--output", output, "where to write; - for standard output")->required();
  parser.add_option("--tokenizer", tokenizer, "char, word or sentencepiece")->group("Text");
  parser.add_option("--normalize", normal_form, "Unicode normal form: none, nfc, nfd or nfkc")->group("Text");
  flags.add_to(parser, "");
  if (const auto status = parser.read(argc, argv)) return *status;
  const TokenizerSpec spec{parse_tokenizer_kind(tokenizer), parse_normal_form(normal_form), ""};
  const VocabularyOptions options = flags.options();
  Output out(output);
  StatusLine status;
  int64_t lines = 0;
  const LineSource source = line_source(input);
  const LineSource counted = [&](std::string& line) {
    const bool more = source(line);
    if (more) status.show(fmt::format("{} lines read", grouped(++lines)));
    return more;
  };
  const auto made = train_tokenizer(spec, counted, options);
  status.clear();
  out.write(made->file_content());
  out.commit();
  say("{} tokens from {} lines\n", grouped(made->vocabulary().size()), grouped(lines));
  return 0;
}

}  // namespace transduce::cli
