#include "transduce/data/tokenizer.h"

#include <algorithm>
#include <utility>

#include "transduce/base/names.h"

namespace transduce {
namespace {

constexpr Name<TokenizerKind> kinds[] = {{TokenizerKind::character, "char"},
                                                           {TokenizerKind::word, "word"}};

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
      : spec_(spec), vocabulary_(std::move(vocabulary)) {}

  std::vector<int32_t> encode(std::string_view text) const override {
    std::string normal = normalize(text, spec_.normal_form);
    const auto tokens = cut(spec_.kind, normal);
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
    const std::string text = join(tokens, spec_.kind == TokenizerKind::word ? " " : "");
    return spec_.normal_form == NormalForm::nfd ? normalize(text, NormalForm::nfc) : text;
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  TokenizerKind kind() const override { return spec_.kind; }
  NormalForm normal_form() const override { return spec_.normal_form; }

 private:
  TokenizerSpec spec_;
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

}  // namespace

TokenizerKind parse_tokenizer_kind(std::string_view name) { return value_in(kinds, "tokenizer", name); }

const char* name_of(TokenizerKind kind) { return name_in(kinds, kind); }

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec& spec, Vocabulary vocabulary) {
  return std::make_unique<LookupTokenizer>(spec, std::move(vocabulary));
}

std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerSpec& spec, std::span<const std::string_view> lines,
                                           int64_t max_size, int64_t min_count) {
  TokenCounts counts;
  for (const auto line : lines) count_tokens(spec, line, counts);
  Vocabulary vocabulary = Vocabulary::from_counts(counts, max_size, min_count);
  check_input(
      vocabulary.size() > Vocabulary::special_symbols,
      "the vocabulary would be empty: {} lines with {} different tokens ({}), none seen {} times; give more "
      "text or a smaller minimum count",
      lines.size(), counts.size(), name_of(spec.kind), min_count);
  return make_tokenizer(spec, std::move(vocabulary));
}

}  // namespace transduce
