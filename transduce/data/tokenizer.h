#pragma once

// From text to ids and back. A tokenizer brings text into its normal form, cuts it into tokens and looks them
// up. Tokenizers are immutable: any number of threads may use one.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transduce/base/random.h"
#include "transduce/base/text.h"
#include "transduce/data/vocabulary.h"

namespace transduce {

enum class TokenizerKind {
  character,      // "char": Unicode scalar values; a tab counts as a blank
  word,           // "word": separated by ASCII white space, joined by one blank
  sentencepiece,  // "sentencepiece": pieces of words, as a SentencePiece model cuts them
};

// From "char", "word" or "sentencepiece". Errors: as value_in of base/names.h.
TokenizerKind parse_tokenizer_kind(std::string_view name);
const char* name_of(TokenizerKind kind);

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::character;
  NormalForm normal_form = NormalForm::none;
  // What ends a word's piece that goes on, in text that was split beforehand ("@@" of subword-nmt); empty
  // where it was not. Output is shown with its words joined (see join_pieces); ids do not depend on it.
  std::string joiner;

  bool operator==(const TokenizerSpec&) const = default;
};

class Tokenizer {
 public:
  explicit Tokenizer(TokenizerSpec spec) : spec_(std::move(spec)) {}
  virtual ~Tokenizer() = default;

  // The ids of a text, without start and end symbols. Tokens that the vocabulary lacks are `unknown`; text
  // that spells a special symbol is ordinary text. Never fails, whatever the bytes.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // The ids of each text, cut at random where there is more than one way: subword regularisation with the
  // smoothing `alpha` over all ways (Kudo, ACL 2018) for a unigram model, BPE-dropout of merges with the
  // probability `alpha` (Provilkov et al., ACL 2020) for a BPE model. A pure function of the arguments,
  // whatever ran before and however many threads there are. Errors: InputError when the kind of tokenizer
  // knows one way only.
  virtual std::vector<std::vector<int32_t>> sample(std::span<const std::string_view> texts, double alpha,
                                                   RandomKey key) const;

  // The text of ids. Pad, start and end symbols are skipped; an unknown token shows as "<unk>", of a
  // SentencePiece model as the library shows it. With the normal form nfd the text is composed to NFC: a
  // reader expects whole syllables and accented letters. Tokens come out with the bytes they had in the
  // training text. Errors: InputError on an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  virtual const Vocabulary& vocabulary() const = 0;

  // The bytes of the file that read_tokenizer takes: a vocabulary, or a SentencePiece model. Equal bytes and
  // an equal spec mean equal ids.
  virtual std::string file_content() const = 0;

  const TokenizerSpec& spec() const { return spec_; }

 protected:
  // The normal form of the spec, and back to what a reader expects.
  std::string normal(std::string_view text) const { return normalize(text, spec_.normal_form); }
  std::string shown(std::string text) const;

 private:
  TokenizerSpec spec_;
};

// A tokenizer that looks its tokens up in a vocabulary. Errors: InputError for the kind sentencepiece, which
// needs its model.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec& spec, Vocabulary vocabulary);

// A tokenizer over the file that file_content() became. Errors: InputError naming the file and what is wrong.
std::unique_ptr<Tokenizer> read_tokenizer(const TokenizerSpec& spec, const std::string& path);

// How a vocabulary is made.
struct VocabularyOptions {
  // Tokens, the special symbols counted. 0: char and word take every token, sentencepiece makes 8,000.
  int64_t size = 0;
  int64_t min_count = 1;  // char and word: tokens seen less often are left out

  // Of sentencepiece alone:
  enum class Model { unigram, bpe };
  Model model = Model::unigram;
  bool byte_fallback = false;             // characters without a piece become the bytes of their UTF-8
  double character_coverage = 0.9995;     // share of the text whose characters get a piece; 0.98 to 1
  std::vector<std::string> user_symbols;  // always one piece each, wherever text spells them
  // The normalization rules of SentencePiece: nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity. Empty:
  // nmt_nfkc, or identity where the spec has a normal form of its own.
  std::string rules;
  int64_t max_lines = 2000000;  // more lines than that are sampled, always alike; 0: all
};

// From "unigram" or "bpe". Errors: InputError that lists them.
VocabularyOptions::Model parse_sentencepiece_model(std::string_view name);
const char* name_of(VocabularyOptions::Model model);

// Sets `line` to the next line of a text and returns true; false at its end.
using LineSource = std::function<bool(std::string& line)>;

// A tokenizer whose vocabulary is taken from `lines`; see Vocabulary::from_counts for the two limits and its
// errors. Errors also: InputError when no token is left, or with what SentencePiece says; what `lines`
// throws.
std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerSpec& spec, const LineSource& lines,
                                           const VocabularyOptions& options = {});
std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerSpec& spec, std::span<const std::string_view> lines,
                                           const VocabularyOptions& options = {});

}  // namespace transduce
