#include "transduce/data/sentencepiece.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <future>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "transduce/base/error.h"
#include "transduce/data/sentencepiece_check.h"

namespace transduce {
namespace {

namespace spm = sentencepiece;
using LibraryIds = std::vector<int>;

// What the library says, without the place in its sources.
std::string reason(const spm::util::Status& status) {
  const std::string message = status.error_message();
  const size_t place = message.find("] ");
  return place == std::string::npos ? message : message.substr(place + 2);
}

// The library must not write to standard error, which is the program's: it may speak of fatal errors alone.
// That is a setting of the whole library, reached through its trainer, which then ends for want of input.
void silence_library() {
  static std::once_flag done;
  std::call_once(done, [] { spm::SentencePieceTrainer::Train({{"minloglevel", "3"}}).IgnoreError(); });
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const TokenizerSpec& spec, std::string model, const std::string& name)
      : Tokenizer(spec), model_(std::move(model)) {
    silence_library();
    try {
      check_input(model_.size() <= max_sentencepiece_bytes, "it is larger than {} bytes",
                  max_sentencepiece_bytes);
      check_sentencepiece_model(model_);
      const auto status = processor_.LoadFromSerializedProto(model_);
      check_input(status.ok(), "{}", reason(status));
      number_pieces();
    } catch (const std::exception& error) {
      fail_input("cannot use {} as a SentencePiece model: {}", name, error.what());
    }
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    LibraryIds ids;
    check(processor_.Encode(normal(text), &ids));
    return to_ours(ids);
  }

  // The library's generator belongs to the thread that draws and takes its seed at the first draw. So each
  // call draws in a thread of its own; the seed is the library's only one, so calls take turns.
  std::vector<std::vector<int32_t>> sample(std::span<const std::string_view> texts, double alpha,
                                           RandomKey key) const override {
    static std::mutex turn;
    const std::lock_guard<std::mutex> lock(turn);
    spm::SetRandomGeneratorSeed(random_word(key, 0) >> 1);  // the largest number would mean no seed
    const auto draw = [&] {
      std::vector<std::vector<int32_t>> sampled;
      sampled.reserve(texts.size());
      for (const auto text : texts) {
        LibraryIds ids;
        const auto status = processor_.SampleEncode(normal(text), -1, static_cast<float>(alpha), &ids);
        check_input(status.ok(), "this SentencePiece model cannot be sampled: {}", reason(status));
        sampled.push_back(to_ours(ids));
      }
      return sampled;
    };
    return std::async(std::launch::async, draw).get();
  }

  std::string decode(std::span<const int32_t> ids) const override {
    LibraryIds pieces;
    for (const auto id : ids) {
      vocabulary_.token(id);  // refuses an id that is none
      if (id == Vocabulary::unknown || !Vocabulary::is_special(id)) {
        pieces.push_back(to_library_[static_cast<size_t>(id)]);
      }
    }
    std::string text;
    check(processor_.Decode(pieces, &text));
    return shown(std::move(text));
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string file_content() const override { return model_; }

 private:
  // The special symbols, then the other pieces in their order.
  void number_pieces() {
    to_library_ = {processor_.pad_id(), processor_.bos_id(), processor_.eos_id(), processor_.unk_id()};
    to_ours_.assign(static_cast<size_t>(processor_.GetPieceSize()), -1);
    for (int32_t id = 0; id < Vocabulary::special_symbols; ++id) {
      const int piece = to_library_[static_cast<size_t>(id)];
      if (piece >= 0) to_ours_[static_cast<size_t>(piece)] = id;
    }
    std::vector<std::string> tokens;
    for (size_t piece = 0; piece < to_ours_.size(); ++piece) {
      if (to_ours_[piece] >= 0) continue;
      to_ours_[piece] = static_cast<int32_t>(to_library_.size());
      to_library_.push_back(static_cast<int>(piece));
      tokens.push_back(processor_.IdToPiece(static_cast<int>(piece)));
    }
    vocabulary_ = Vocabulary::from_tokens(std::move(tokens));
  }

  std::vector<int32_t> to_ours(const LibraryIds& ids) const {
    std::vector<int32_t> ours;
    ours.reserve(ids.size());
    for (const int id : ids) ours.push_back(to_ours_[static_cast<size_t>(id)]);
    return ours;
  }

  // No text makes a sound model fail.
  static void check(const spm::util::Status& status) {
    if (!status.ok()) fail_run("SentencePiece failed: {}", reason(status));
  }

  std::string model_;
  spm::SentencePieceProcessor processor_;
  Vocabulary vocabulary_;
  std::vector<int32_t> to_ours_;  // by the library's id
  std::vector<int> to_library_;   // by ours; -1 where the model has no such symbol
};

// Whether a text has something to learn from: a letter, a digit, a mark of punctuation or a symbol, or a byte
// that is not UTF-8. Without any the library's trainer ends the program.
bool has_visible(std::string_view text) {
  for (const auto character : utf8_characters(text)) {
    utf8proc_int32_t scalar = -1;
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                     static_cast<utf8proc_ssize_t>(character.size()), &scalar);
    constexpr utf8proc_int32_t blank = 0x2581, unknown = 0x2585;  // the library's own signs
    const utf8proc_category_t category = utf8proc_category(scalar);
    const bool visible = (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
                         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_SO);
    if (scalar < 0 || (visible && scalar != blank && scalar != unknown)) return true;
  }
  return false;
}

// Our lines as the library wants to have them.
class Lines : public spm::SentenceIterator {
 public:
  Lines(const TokenizerSpec& spec, const LineSource& lines) : spec_(spec), lines_(lines) { Next(); }

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  spm::util::Status status() const override {
    return visible_ ? spm::util::Status()
                    : spm::util::Status(spm::util::StatusCode::kInvalidArgument,
                                        "the text has no visible character");
  }
  void Next() override {
    done_ = !lines_(line_);
    if (done_) return;
    line_ = normalize(line_, spec_.normal_form);
    visible_ = visible_ || has_visible(line_);
  }

 private:
  const TokenizerSpec& spec_;
  const LineSource& lines_;
  std::string line_;
  bool done_ = false;
  bool visible_ = false;
};

void check_options(const VocabularyOptions& o) {
  check_input(o.size == 0 || (o.size > Vocabulary::special_symbols && o.size <= 1000000),
              "a SentencePiece vocabulary of size {} is out of range: give {} to 1000000", o.size,
              Vocabulary::special_symbols + 1);
  check_input(o.min_count == 1,
              "a minimum count goes with the tokenizers char and word: SentencePiece has "
              "the size of the vocabulary alone");
  check_input(o.character_coverage >= 0.98 && o.character_coverage <= 1.0,
              "character coverage {} is out of range: give 0.98 to 1", o.character_coverage);
  check_input(o.max_lines == 0 || (o.max_lines > 100 && o.max_lines <= 1000000000),
              "{} lines for the vocabulary are out of range: give 101 to 1000000000, or 0 for all",
              o.max_lines);
  constexpr std::array<std::string_view, 6> rules = {"",        "nmt_nfkc", "nfkc", "nmt_nfkc_cf",
                                                     "nfkc_cf", "identity"};
  check_input(std::find(rules.begin(), rules.end(), o.rules) != rules.end(),
              "unknown normalization rules {}: give nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity",
              in_quotes(o.rules));
  for (const std::string& symbol : o.user_symbols) {
    check_input(!symbol.empty() && symbol.size() <= 256 && is_valid_utf8(symbol) &&
                    symbol.find('\0') == std::string::npos,
                "the user symbol {} is not usable: give 1 to 256 bytes of UTF-8", in_quotes(symbol, 60));
    check_input(symbol != "<pad>" && symbol != "<s>" && symbol != "</s>" && symbol != "<unk>",
                "the user symbol {} is the name of a special symbol: text that spells it stays text",
                in_quotes(symbol));
    check_input(std::count(o.user_symbols.begin(), o.user_symbols.end(), symbol) == 1,
                "the user symbol {} is given twice", in_quotes(symbol, 60));
  }
}

// A list as the library reads it: separated by commas, in quotes.
std::string quoted_list(const std::vector<std::string>& items) {
  std::string list;
  for (const std::string& item : items) {
    list += list.empty() ? "\"" : ",\"";
    for (const char c : item) list += c == '"' ? std::string("\"\"") : std::string(1, c);
    list += '"';
  }
  return list;
}

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const TokenizerSpec& spec, std::string model,
                                                        const std::string& name) {
  return std::make_unique<SentencePieceTokenizer>(spec, std::move(model), name);
}

std::string train_sentencepiece(const TokenizerSpec& spec, const LineSource& lines,
                                const VocabularyOptions& options) {
  check_options(options);
  silence_library();
  std::string rules = options.rules;
  if (rules.empty()) rules = spec.normal_form == NormalForm::none ? "nmt_nfkc" : "identity";
  std::unordered_map<std::string, std::string> settings = {
      {"minloglevel", "3"},
      {"model_type", name_of(options.model)},
      {"vocab_size", std::to_string(options.size == 0 ? 8000 : options.size)},
      {"hard_vocab_limit", "false"},  // little text has fewer pieces
      {"character_coverage", fmt::format("{}", options.character_coverage)},
      {"byte_fallback", options.byte_fallback ? "true" : "false"},
      {"normalization_rule_name", rules},
      {"input_sentence_size", std::to_string(options.max_lines)},
      {"num_threads", "16"},  // the library's default
      {"pad_id", std::to_string(Vocabulary::pad)},
      {"bos_id", std::to_string(Vocabulary::start)},
      {"eos_id", std::to_string(Vocabulary::end)},
      {"unk_id", std::to_string(Vocabulary::unknown)}};
  if (!options.user_symbols.empty()) settings["user_defined_symbols"] = quoted_list(options.user_symbols);
  Lines iterator(spec, lines);
  std::string model;
  const auto status = spm::SentencePieceTrainer::Train(settings, &iterator, &model);
  check_input(status.ok(), "SentencePiece cannot make a vocabulary of {}: {}", settings["vocab_size"],
              reason(status));
  return model;
}

}  // namespace transduce
