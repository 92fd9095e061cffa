// SentencePiece as a tokenizer, against the library itself.

#include "transduce/data/sentencepiece.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <future>
#include <numeric>
#include <set>
#include <thread>

#include "tests/base/temporary_directory.h"
#include "tests/data/odd_texts.h"
#include "tests/golden/python.h"
#include "transduce/base/file.h"
#include "transduce/data/corpus.h"

namespace transduce {
namespace {

using namespace std::string_literals;
using testing::error_of;
using testing::odd_texts;
using testing::TemporaryDirectory;
using Ids = std::vector<int32_t>;
using Model = VocabularyOptions::Model;

constexpr NormalForm none = NormalForm::none;
const TokenizerSpec pieces = {TokenizerKind::sentencepiece, none, ""};

// Sentences of three languages, as many as it takes to make pieces of words.
std::vector<std::string> corpus() {
  const char* const subjects[] = {"The house",      "An old man",  "Das Haus",
                                  "Ein alter Mann", "나는 학교에", "우리는 집에"};
  const char* const verbs[] = {"is standing", "was sleeping", "steht", "schläft", "갔습니다", "있었습니다"};
  const char* const places[] = {"beside the river.", "on the roof!", "neben dem Fluss.",
                                "auf dem Dach?",     "오늘 아침에.", "123 4,567"};
  std::vector<std::string> lines;
  for (const char* subject : subjects) {
    for (const char* verb : verbs) {
      for (const char* place : places) lines.push_back(std::string(subject) + " " + verb + " " + place);
    }
  }
  return lines;
}

std::unique_ptr<Tokenizer> trained(const VocabularyOptions& options, const TokenizerSpec& spec = pieces) {
  const std::vector<std::string> lines = corpus();
  const std::vector<std::string_view> views(lines.begin(), lines.end());
  return train_tokenizer(spec, views, options);
}

VocabularyOptions options_of(Model model, int64_t size, bool bytes = false) {
  VocabularyOptions options;
  options.size = size;
  options.model = model;
  options.byte_fallback = bytes;
  return options;
}

std::vector<VocabularyOptions> all_kinds() {
  return {options_of(Model::unigram, 160), options_of(Model::bpe, 160), options_of(Model::unigram, 420, true),
          options_of(Model::bpe, 420, true)};
}

// The library over the same model.
struct Library {
  sentencepiece::SentencePieceProcessor processor;

  explicit Library(const std::string& model) { EXPECT_TRUE(processor.LoadFromSerializedProto(model).ok()); }
  Ids ids(const std::string& text) const {
    std::vector<int> ids;
    EXPECT_TRUE(processor.Encode(text, &ids).ok());
    return {ids.begin(), ids.end()};
  }
  std::string text(const Ids& ids) const {
    std::string text;
    EXPECT_TRUE(processor.Decode(std::vector<int>(ids.begin(), ids.end()), &text).ok());
    return text;
  }
};

// A model with the library's own default ids: unknown 0, start 1, end 2, no pad.
std::string foreign_model() {
  class Lines : public sentencepiece::SentenceIterator {
   public:
    bool done() const override { return next_ == lines_.size(); }
    void Next() override { ++next_; }
    const std::string& value() const override { return lines_[next_]; }
    sentencepiece::util::Status status() const override { return {}; }

   private:
    std::vector<std::string> lines_ = corpus();
    size_t next_ = 0;
  } lines;
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train({{"vocab_size", "150"},
                                                                  {"hard_vocab_limit", "false"},
                                                                  {"control_symbols", "<2de>"},
                                                                  {"user_defined_symbols", "<sep>"},
                                                                  {"minloglevel", "3"}},
                                                                 &lines, &model);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return model;
}

TEST(SentencePiece, IdsAreTheLibrarysOwn) {  // spm#629, #896, #1331 and all other texts of the reports
  for (const VocabularyOptions& options : all_kinds()) {
    const auto tokenizer = trained(options);
    const Library library(tokenizer->file_content());
    ASSERT_EQ(tokenizer->vocabulary().size(), library.processor.GetPieceSize());
    for (int32_t id = 0; id < tokenizer->vocabulary().size(); ++id) {
      EXPECT_EQ(tokenizer->vocabulary().token(id), library.processor.IdToPiece(id));
    }
    for (const std::string& text : odd_texts()) {
      const Ids ids = tokenizer->encode(text);
      EXPECT_EQ(ids, library.ids(text)) << std::string(in_quotes(text));
      EXPECT_EQ(tokenizer->decode(ids), library.text(ids)) << std::string(in_quotes(text));
      for (const int32_t id : ids) EXPECT_TRUE(id == Vocabulary::unknown || !Vocabulary::is_special(id));
    }
  }
}

TEST(SentencePiece, ForeignIdsAreMovedToOurSpecialSymbols) {
  const std::string model = foreign_model();
  const auto tokenizer = make_sentencepiece_tokenizer(pieces, model, "theirs");
  const Library library(model);
  const Vocabulary& vocabulary = tokenizer->vocabulary();
  EXPECT_EQ(vocabulary.size(), library.processor.GetPieceSize() + 1);  // ours has a pad symbol too
  EXPECT_EQ(vocabulary.token(4), "<2de>");
  EXPECT_EQ(vocabulary.token(5), "<sep>");
  const auto ours = [&](int theirs) { return theirs == 0 ? Vocabulary::unknown : theirs + 1; };
  for (const std::string& text : odd_texts()) {
    Ids expected;
    for (const int id : library.ids(text)) expected.push_back(ours(id));
    EXPECT_EQ(tokenizer->encode(text), expected) << std::string(in_quotes(text));
    EXPECT_EQ(tokenizer->decode(expected), library.text(library.ids(text))) << std::string(in_quotes(text));
  }
  EXPECT_EQ(tokenizer->decode(Ids{1, 4, 0, 2}), "");
  EXPECT_EQ(tokenizer->encode("<sep>"), (Ids{vocabulary.id("▁"), 5}));
  EXPECT_EQ(error_of([&] { tokenizer->decode(Ids{static_cast<int32_t>(vocabulary.size())}); }),
            fmt::format("there is no token with the id {0}: the vocabulary has {0} (ids 0 to {1})",
                        vocabulary.size(), vocabulary.size() - 1));
}

TEST(SentencePiece, GivesTextBack) {
  for (const VocabularyOptions& options : all_kinds()) {
    const auto tokenizer = trained(options);
    for (const std::string& line : corpus()) EXPECT_EQ(tokenizer->decode(tokenizer->encode(line)), line);
  }
  // With byte fallback what the corpus lacks comes back too: argos-translate#77.
  const auto tokenizer = trained(options_of(Model::bpe, 420, true));
  for (const std::string text : {"Well done 👍", "ﷺ 中文 Ωμέγα", "</s> <unk> <pad>"}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)),
              text == "ﷺ 中文 Ωμέγα" ? "صلى الله عليه وسلم 中文 Ωμέγα" : text);  // nmt_nfkc
  }
  const auto plain = trained(options_of(Model::bpe, 160));
  EXPECT_EQ(plain->decode(plain->encode("The 👍 house")), "The  ⁇  house");  // as the library shows it
}

TEST(SentencePiece, ComposedAndDecomposedKoreanIsTheSame) {  // huggingface/tokenizers#1975
  const std::string composed = "한국어 학교에 갔습니다", decomposed = normalize(composed, NormalForm::nfd);
  ASSERT_NE(composed, decomposed);
  for (const VocabularyOptions& options : all_kinds()) {
    const auto tokenizer = trained(options);
    EXPECT_EQ(tokenizer->encode(composed), tokenizer->encode(decomposed));
  }
  // Pieces of letters: the text's own normal form takes the place of the library's rules.
  const auto letters =
      trained(options_of(Model::bpe, 200), {TokenizerKind::sentencepiece, NormalForm::nfd, ""});
  EXPECT_EQ(letters->encode(composed), letters->encode(decomposed));
  EXPECT_EQ(letters->decode(letters->encode("학교에 갔습니다")), "학교에 갔습니다");
  EXPECT_EQ(Library(letters->file_content()).ids(decomposed), letters->encode(composed));
}

TEST(SentencePiece, NulDoesNotEndText) {  // spm#331, #1308
  for (const VocabularyOptions& options : all_kinds()) {
    const auto tokenizer = trained(options);
    const std::string text = tokenizer->decode(tokenizer->encode("The house\0is standing"s));
    EXPECT_TRUE(text.starts_with("The house")) << text;
    EXPECT_TRUE(text.ends_with("is standing")) << text;
  }
}

TEST(SentencePiece, TextNeverBecomesASpecialSymbol) {  // spm#102, #667
  for (const VocabularyOptions& options : all_kinds()) {
    const auto tokenizer = trained(options);
    for (const auto* text : {"<s>", "</s>", "<pad>", "a </s> b", "<0x41>"}) {
      for (const auto id : tokenizer->encode(text)) {
        EXPECT_TRUE(id == Vocabulary::unknown || !Vocabulary::is_special(id)) << text;
        EXPECT_NE(tokenizer->vocabulary().token(id), "<0x41>") << text;
      }
    }
  }
}

TEST(SentencePiece, UserSymbolsAreOnePiece) {
  VocabularyOptions options = options_of(Model::unigram, 200);
  options.user_symbols = {"<sep>", "a,b", "\"quoted\"", "🙂", "{{name}}"};
  for (const Model model : {Model::unigram, Model::bpe}) {
    options.model = model;
    const auto tokenizer = trained(options);
    for (const std::string& symbol : options.user_symbols) {
      const int32_t id = tokenizer->vocabulary().id(symbol);
      ASSERT_FALSE(Vocabulary::is_special(id)) << symbol;
      const Ids ids = tokenizer->encode("The" + symbol + "house" + symbol);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 2) << symbol;
      EXPECT_EQ(tokenizer->decode(ids), "The" + symbol + "house" + symbol);
    }
  }
}

TEST(SentencePiece, TrainingRepeatsToTheBit) {
  for (const VocabularyOptions& options : all_kinds()) {
    EXPECT_EQ(trained(options)->file_content(), trained(options)->file_content());
  }
  // Little text has fewer pieces than were asked for.
  EXPECT_LT(trained(options_of(Model::bpe, 0))->vocabulary().size(), 8000);
}

TEST(SentencePiece, RefusesWhatCannotBeTrained) {
  const auto refused = [](const VocabularyOptions& options, const std::vector<std::string_view>& lines) {
    return error_of([&] { train_tokenizer(pieces, lines, options); });
  };
  const std::vector<std::string_view> text = {"some text", "more text"};
  const auto changed = [](const std::function<void(VocabularyOptions&)>& change) {
    VocabularyOptions options;
    change(options);
    return options;
  };
  EXPECT_NE(refused(changed([](auto& o) { o.size = 4; }), text).find("size 4 is out of range"),
            std::string::npos);
  EXPECT_NE(refused(changed([](auto& o) { o.size = 8; }), text).find("smaller than required_chars. 8 vs"),
            std::string::npos);
  EXPECT_NE(refused(changed([](auto& o) { o.character_coverage = 0.5; }), text).find("0.5"),
            std::string::npos);
  EXPECT_NE(refused(changed([](auto& o) { o.rules = "nfd"; }), text).find("nfd"), std::string::npos);
  EXPECT_NE(refused(changed([](auto& o) { o.min_count = 2; }), text).find("minimum count"),
            std::string::npos);
  EXPECT_NE(refused(changed([](auto& o) { o.max_lines = 5; }), text).find("5 lines"), std::string::npos);
  for (const std::string& symbol : {""s, "</s>"s, "a\0"s, "\xFF"s, std::string(300, 'a')}) {
    EXPECT_NE(refused(changed([&](auto& o) { o.user_symbols = {symbol}; }), text), "") << symbol;
  }
  EXPECT_NE(refused(changed([](auto& o) {
                      o.user_symbols = {"a", "a"};
                    }),
                    text)
                .find("twice"),
            std::string::npos);
  // Where nothing is visible the library's trainer would end the program.
  for (const Model model : {Model::unigram, Model::bpe}) {
    for (const std::vector<std::string_view>& empty : std::vector<std::vector<std::string_view>>{
             {}, {""}, {"", " ", "\t"}, {"\u200B\u00AD"}, {"▁"}, {"▅"}, {std::string_view("\0", 1)}}) {
      EXPECT_NE(refused(changed([&](auto& o) { o.model = model; }), empty), "");
    }
    for (const std::string_view tiny : {"a", "가", "\xFF", ".", "ab", "a\u200B", "🙂 "}) {
      EXPECT_EQ(refused(changed([&](auto& o) { o.model = model; }), {tiny}), "") << tiny;
    }
  }
}

TEST(SentencePiece, RandomTextTrainsOrIsRefused) {
  Random random({5, 5});
  const std::vector<std::string> odd = odd_texts();
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<std::string> lines;
    for (uint64_t i = random.below(4) + 1; i > 0; --i) {
      std::string line = odd[random.below(odd.size())].substr(0, 400);
      for (uint64_t b = random.below(6); b > 0; --b) line += static_cast<char>(random.below(256));
      lines.push_back(line);
    }
    const std::vector<std::string_view> views(lines.begin(), lines.end());
    VocabularyOptions options =
        options_of(trial % 2 == 0 ? Model::unigram : Model::bpe, 1000, trial % 3 == 0);
    if (trial % 5 == 0) options.user_symbols = {lines[0].substr(0, 1) == "<" ? "<" : "a"};
    try {
      const auto tokenizer = train_tokenizer(pieces, views, options);
      for (const std::string& text : odd) tokenizer->decode(tokenizer->encode(text.substr(0, 2000)));
    } catch (const InputError&) {
    }
  }
}

TEST(Sampling, IsAFunctionOfTheSeedAlone) {
  const std::vector<std::string> lines = corpus();
  const std::vector<std::string_view> views(lines.begin(), lines.end());
  for (const Model model : {Model::unigram, Model::bpe}) {
    const auto tokenizer = trained(options_of(model, 300));
    const double alpha = model == Model::bpe ? 0.3 : 0.2;
    const auto first = tokenizer->sample(views, alpha, {7, 1});
    EXPECT_NE(tokenizer->sample(views, alpha, {8, 1}), first);
    EXPECT_NE(tokenizer->sample(views, alpha, {7, 2}), first);
    EXPECT_EQ(tokenizer->sample(views, alpha, {7, 1}), first);
    // From other threads, at the same time.
    std::vector<std::future<std::vector<Ids>>> others;
    for (uint64_t i = 0; i < 4; ++i) {
      others.push_back(std::async(std::launch::async, [&, i] {
        return tokenizer->sample(views, alpha, {7, i});
      }));
    }
    for (uint64_t i = 0; i < 4; ++i) {
      const auto sampled = others[i].get();
      EXPECT_EQ(sampled == first, i == 1);
    }
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(tokenizer->decode(first[i]), lines[i]);
  }
}

TEST(Sampling, FollowsTheLibrarysProbabilities) {
  // BPE: with every merge left out, single characters; with hardly any, the library's best.
  const auto bpe = trained(options_of(Model::bpe, 300));
  const std::vector<std::string_view> one = {"The house is standing"};
  EXPECT_EQ(bpe->sample(one, 1e-9, {1, 1})[0], bpe->encode(one[0]));
  EXPECT_EQ(bpe->sample(one, 1.0, {1, 1})[0].size(), utf8_characters(one[0]).size() + 1);
  // Unigram: how often each way is drawn, beside exp(alpha * score), over all ways to cut one word.
  const auto unigram = trained(options_of(Model::unigram, 160));
  const Library library(unigram->file_content());
  const std::string word = "schläft";
  const double alpha = 0.5;
  sentencepiece::ImmutableNBestSentencePieceText ways =
      library.processor.NBestEncodeAsImmutableProto(word, 500);
  std::map<Ids, double> expected, counted;
  double sum = 0.0;
  for (const auto& way : ways.nbests()) {
    Ids ids;
    double score = 0.0;
    for (const auto& piece : way.pieces()) {
      ids.push_back(static_cast<int32_t>(piece.id()));
      score += library.processor.GetScore(ids.back());
    }
    sum += expected[ids] = std::exp(alpha * score);
  }
  ASSERT_GT(expected.size(), 3U);
  ASSERT_LT(expected.size(), 500U);
  constexpr int draws = 20000;
  const std::vector<std::string_view> words(draws, word);
  for (const Ids& ids : unigram->sample(words, alpha, {3, 3})) ++counted[ids];
  for (const auto& [ids, weight] : expected) {
    const double p = weight / sum, deviation = std::sqrt(p * (1.0 - p) / draws);
    EXPECT_NEAR(counted[ids] / draws, p, 5.0 * deviation + 1e-4);
  }
}

TEST(Sampling, OfPairsDrawsAnewEachEpoch) {
  const auto tokenizer = trained(options_of(Model::unigram, 160));
  std::vector<TextPair> pairs;
  for (const std::string& line : corpus()) pairs.push_back({line, line});
  const auto words = train_tokenizer({TokenizerKind::word, none, ""}, targets_of(pairs));
  const SubwordSampling sampling{0.2, 11};
  const auto first = sample_pairs(pairs, *tokenizer, *words, sampling, 0);
  EXPECT_TRUE(first == sample_pairs(pairs, *tokenizer, *words, sampling, 0));
  EXPECT_FALSE(first == sample_pairs(pairs, *tokenizer, *words, sampling, 1));
  EXPECT_FALSE(first == sample_pairs(pairs, *tokenizer, *words, {0.2, 12}, 0));
  const auto both = sample_pairs(pairs, *tokenizer, *tokenizer, sampling, 0);
  int64_t alike = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_EQ(tokenizer->decode(first[i].source), pairs[i].source);
    EXPECT_EQ(first[i].target, words->encode(pairs[i].target));
    alike += both[i].source == both[i].target ? 1 : 0;
  }
  EXPECT_LT(alike, std::ssize(pairs) / 4);  // the sides draw apart
  EXPECT_NE(error_of([&] { words->sample({}, 0.1, {}); }).find("sentencepiece"), std::string::npos);
}

// The same model in Python's sentencepiece, on the same texts: ids, pieces and what they become again.
TEST(SentencePieceLive, PythonGivesTheSameIds) {
  const std::string python = golden::find_python("sentencepiece");
  if (python.empty()) GTEST_SKIP() << "no Python with sentencepiece: set TRANSDUCE_PYTHON";
  const TemporaryDirectory directory;
  std::string texts;
  for (std::string text : odd_texts()) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    texts += text + "\n";
  }
  directory.file("texts", texts);
  for (const VocabularyOptions& options : all_kinds()) {
    const auto tokenizer = trained(options);
    directory.file("model", tokenizer->file_content());
    const std::string command =
        golden::quoted(python) + " " + golden::quoted(TRANSDUCE_TESTS "/data/sentencepiece_ids.py") + " " +
        golden::quoted(directory / "model") + " " + golden::quoted(directory / "texts") + " > " +
        golden::quoted(directory / "ids");
    ASSERT_EQ(std::system(command.c_str()), 0);
    LineReader theirs(directory / "ids");
    std::string line;
    for (const auto text : split(std::string_view(texts).substr(0, texts.size() - 1), '\n')) {
      ASSERT_TRUE(theirs.next(line));
      std::string ours;
      for (const int32_t id : tokenizer->encode(text)) ours += fmt::format("{} ", id);
      EXPECT_EQ(ours, line) << std::string(in_quotes(text));
      ASSERT_TRUE(theirs.next(line));
      std::string shown = tokenizer->decode(tokenizer->encode(text));
      std::replace(shown.begin(), shown.end(), '\n', ' ');
      EXPECT_EQ(shown, line) << std::string(in_quotes(text));
    }
  }
}

}  // namespace
}  // namespace transduce
