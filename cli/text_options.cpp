#include "cli/text_options.h"

#include "transduce/base/error.h"
#include "transduce/base/figures.h"

namespace transduce::cli {

void VocabularyFlags::add_to(CLI::App& app, const std::string& side) {
  std::string group = "Text";
  app.add_option("--vocabulary-size", options_.size,
                 "keep so many tokens" + side + ", the 4 special ones counted; 0: all, of sentencepiece 8000")
      ->group(group);
  app.add_option("--min-count", options_.min_count, "char and word: leave out tokens seen less often")
      ->group(group);
  group = "SentencePiece";
  app.add_option("--sentencepiece-model", model_, "unigram or bpe")->group(group);
  app.add_flag("--byte-fallback", options_.byte_fallback,
               "characters that no piece has become the bytes of their UTF-8, so that none is unknown")
      ->group(group);
  app.add_option("--character-coverage", options_.character_coverage,
                 "share of the text whose characters must have a piece, 0.98 to 1")
      ->group(group);
  app.add_option("--user-symbol", options_.user_symbols,
                 "a text that is one piece wherever it stands, e.g. a placeholder; may repeat")
      ->take_all()
      ->group(group);
  app.add_option("--sentencepiece-rules", options_.rules,
                 "normalization of SentencePiece: nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf (cf: lower case) or "
                 "identity; default: nmt_nfkc, or identity where text has a normal form already")
      ->group(group);
  app.add_option("--vocabulary-lines", options_.max_lines,
                 "lines that SentencePiece learns from at most, drawn from all, always alike; 0: all")
      ->group(group);
}

VocabularyOptions VocabularyFlags::options() const {
  VocabularyOptions options = options_;
  options.model = parse_sentencepiece_model(model_);
  return options;
}

void TextOptions::add_to(CLI::App& app) {
  const std::string group = "Text";
  app.add_option("--source-tokenizer", source_tokenizer_, "char, word or sentencepiece")->group(group);
  app.add_option("--target-tokenizer", target_tokenizer_, "char, word or sentencepiece")->group(group);
  app.add_option("--source-normalize", source_normalize_,
                 "Unicode normal form: none, nfc, nfd (Korean syllables become letters) or nfkc")
      ->group(group);
  app.add_option("--target-normalize", target_normalize_,
                 "the same for the target; nfd output is composed again")
      ->group(group);
  app.add_flag("--joint-vocabulary", joint_vocabulary_, "one vocabulary for both sides")->group(group);
  app.add_option("--source-vocabulary", source_vocabulary_,
                 "a vocabulary that exists, from `transduce vocabulary` or SentencePiece; default: made from "
                 "the training data. With --joint-vocabulary it is for both sides")
      ->group(group);
  app.add_option("--target-vocabulary", target_vocabulary_, "the same for the target")->group(group);
  vocabulary_.add_to(app, " a side");
  app.add_option("--target-joiner", target_joiner_,
                 "what ends a piece of a word in text that was split beforehand, e.g. @@; output is joined")
      ->group(group);
  app.add_option("--max-length", max_length_,
                 "tokens of a text at most, the end symbol not counted; 0: no limit")
      ->group(group);
  app.add_option("--too-long", too_long_, "pairs with a longer text: drop them, or cut both texts there")
      ->group(group);
  app.add_option(
         "--subword-sampling", sampling_,
         "cut training texts at random, anew each epoch: the probability of BPE-dropout (0.1), or the "
         "smoothing of a unigram model (0.1 to 0.5; less is wilder); default: off")
      ->group("SentencePiece");
}

TokenizerSpec TextOptions::source() const {
  return {parse_tokenizer_kind(source_tokenizer_), parse_normal_form(source_normalize_), ""};
}

TokenizerSpec TextOptions::target() const {
  const TokenizerSpec spec{parse_tokenizer_kind(target_tokenizer_), parse_normal_form(target_normalize_),
                           target_joiner_};
  check_input(spec.joiner.empty() || spec.kind == TokenizerKind::word,
              "--target-joiner is for text that was split beforehand: it goes with --target-tokenizer word");
  return spec;
}

TextOptions::Tokenizers TextOptions::tokenizers(const LinesOfSide& lines) const {
  const VocabularyOptions options = vocabulary_.options();
  const auto make = [&](const TokenizerSpec& spec, const std::string& file,
                        const std::function<LineSource()>& text) -> std::shared_ptr<const Tokenizer> {
    if (!file.empty()) return read_tokenizer(spec, file);
    return train_tokenizer(spec, text(), options);
  };
  if (!joint_vocabulary_) {
    return {make(source(), source_vocabulary_, [&] { return lines(&TextPair::source); }),
            make(target(), target_vocabulary_, [&] { return lines(&TextPair::target); })};
  }
  check_input(source().kind == target().kind && source().normal_form == target().normal_form,
              "--joint-vocabulary needs the same tokenizer and normal form on both sides");
  check_input(target_vocabulary_.empty(),
              "--joint-vocabulary has one vocabulary for both sides: name it with --source-vocabulary alone");
  const auto both = [&]() -> LineSource {  // all sources, then all targets
    return [&lines, text = lines(&TextPair::source), second = false](std::string& line) mutable {
      if (text(line)) return true;
      if (second) return false;
      second = true;
      text = lines(&TextPair::target);
      return text(line);
    };
  };
  const auto shared = make(target(), source_vocabulary_, both);
  return {shared, shared};
}

LengthLimit TextOptions::length_limit() const {
  check_input(max_length_ >= 0, "max length {} is negative: give a number of tokens, or 0 for no limit",
              max_length_);
  check_input(too_long_ == "drop" || too_long_ == "cut", "too-long {} is unknown: give drop or cut",
              in_quotes(too_long_));
  return {max_length_, too_long_ == "cut"};
}

SubwordSampling TextOptions::sampling(uint64_t seed) const {
  if (!sampling_) return {0.0, seed};
  check_input(*sampling_ > 0.0 && *sampling_ <= 1.0,
              "subword sampling {} is out of range: give a number above 0, at most 1", *sampling_);
  check_input(source().kind == TokenizerKind::sentencepiece || target().kind == TokenizerKind::sentencepiece,
              "--subword-sampling needs a sentencepiece tokenizer on either side");
  return {*sampling_, seed};
}

std::string describe(const LengthReport& report, const LengthLimit& limit, const std::string& what) {
  if (report.over == 0) return "";
  return fmt::format(
      "{} {} of {} {} pairs: a text has more than {} tokens (see --max-length, "
      "--max-positions); the longest, in pair {}, has {}",
      limit.cut ? "cut" : "left out", grouped(report.over), grouped(report.pairs), what,
      grouped(limit.tokens), grouped(report.longest_pair), grouped(report.longest));
}

}  // namespace transduce::cli
