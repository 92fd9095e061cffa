#include "transduce/data/tokenizer.h"

#include <algorithm>
#include <utility>

#include "transduce/base/error.h"
#include "transduce/base/file.h"
#include "transduce/base/names.h"
#include "transduce/data/sentencepiece.h"
#include "transduce/data/sentencepiece_check.h"

namespace transduce {
namespace {

constexpr Name<TokenizerKind> kinds[] = {{TokenizerKind::character, "char"},
                                         {TokenizerKind::word, "word"},
                                         {TokenizerKind::sentencepiece, "sentencepiece"}};
constexpr Name<VocabularyOptions::Model> models[] = {{VocabularyOptions::Model::unigram, "unigram"},
                                                     {VocabularyOptions::Model::bpe, "bpe"}};

// The tokens of text in normal form. They view into `text`, whose tabs may become blanks.
std::vector<std::string_view> cut(TokenizerKind kind, std::string& text) {
  if (kind == TokenizerKind::word) return split_whitespace(text);
  // A file of pairs can never teach a tab, so a tab in plain text would always be unknown.
  std::replace(text.begin(), text.end(), '\t', ' ');
  return utf8_characters(text);
}

// The kinds that look the pieces of a text up in a vocabulary; they differ in how text is cut and joined.
class LookupTokenizer : public Tokenizer {
 public:
  LookupTokenizer(const TokenizerSpec& spec, Vocabulary vocabulary)
      : Tokenizer(spec), vocabulary_(std::move(vocabulary)) {}

  std::vector<int32_t> encode(std::string_view text) const override {
    std::string whole = normal(text);
    const auto tokens = cut(spec().kind, whole);
    std::vector<int32_t> ids;
    ids.reserve(tokens.size());
    for (const auto token : tokens) ids.push_back(vocabulary_.id(token));
    return ids;
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<std::string_view> tokens;
    for (const auto id : ids) {
      const std::string& token = vocabulary_.token(id);
      if (!Vocabulary::is_special(id) || id == Vocabulary::unknown) tokens.push_back(token);
    }
    return shown(join(tokens, spec().kind == TokenizerKind::word ? " " : ""));
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string file_content() const override { return vocabulary_.to_text(); }

 private:
  Vocabulary vocabulary_;
};

void count_tokens(const TokenizerSpec& spec, std::string_view line, TokenCounts& counts) {
  std::string normal = normalize(line, spec.normal_form);
  for (const auto token : cut(spec.kind, normal)) {
    const auto found = counts.find(token);
    if (found != counts.end()) {
      ++found->second;
    } else {
      counts.emplace(token, 1);
    }
  }
}

std::unique_ptr<Tokenizer> train_lookup(const TokenizerSpec& spec, const LineSource& lines,
                                        const VocabularyOptions& options) {
  TokenCounts counts;
  int64_t line_count = 0;
  for (std::string line; lines(line); ++line_count) count_tokens(spec, line, counts);
  Vocabulary vocabulary = Vocabulary::from_counts(counts, options.size, options.min_count);
  check_input(
      vocabulary.size() > Vocabulary::special_symbols,
      "the vocabulary would be empty: {} lines with {} different tokens ({}), none seen {} times; give more "
      "text or a smaller minimum count",
      line_count, counts.size(), name_of(spec.kind), options.min_count);
  return make_tokenizer(spec, std::move(vocabulary));
}

}  // namespace

TokenizerKind parse_tokenizer_kind(std::string_view name) { return value_in(kinds, "tokenizer", name); }

const char* name_of(TokenizerKind kind) { return name_in(kinds, kind); }

VocabularyOptions::Model parse_sentencepiece_model(std::string_view name) {
  return value_in(models, "SentencePiece model", name);
}

const char* name_of(VocabularyOptions::Model model) { return name_in(models, model); }

std::vector<std::vector<int32_t>> Tokenizer::sample(std::span<const std::string_view>, double,
                                                    RandomKey) const {
  fail_input("the tokenizer {} knows one way to cut a text: sampling goes with sentencepiece",
             name_of(spec_.kind));
}

std::string Tokenizer::shown(std::string text) const {
  return spec_.normal_form == NormalForm::nfd ? normalize(text, NormalForm::nfc) : text;
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec& spec, Vocabulary vocabulary) {
  check_input(spec.kind != TokenizerKind::sentencepiece,
              "a sentencepiece tokenizer needs its model file, a vocabulary is not enough");
  return std::make_unique<LookupTokenizer>(spec, std::move(vocabulary));
}

std::unique_ptr<Tokenizer> read_tokenizer(const TokenizerSpec& spec, const std::string& path) {
  if (spec.kind != TokenizerKind::sentencepiece) return make_tokenizer(spec, Vocabulary::read(path));
  return make_sentencepiece_tokenizer(spec, read_file(path, max_sentencepiece_bytes), in_quotes(path, 4096));
}

std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerSpec& spec, const LineSource& lines,
                                           const VocabularyOptions& options) {
  if (spec.kind != TokenizerKind::sentencepiece) return train_lookup(spec, lines, options);
  return make_sentencepiece_tokenizer(spec, train_sentencepiece(spec, lines, options), "what was trained");
}

std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerSpec& spec, std::span<const std::string_view> lines,
                                           const VocabularyOptions& options) {
  size_t next = 0;
  return train_tokenizer(
      spec,
      [&](std::string& line) {
        if (next == lines.size()) return false;
        line = lines[next++];
        return true;
      },
      options);
}

}  // namespace transduce
