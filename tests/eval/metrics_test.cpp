// Properties of the metrics that need nothing from outside; the numbers are checked in published_test.cpp and
// live_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "transduce/base/error.h"
#include "transduce/eval/bleu.h"
#include "transduce/eval/chrf.h"
#include "transduce/eval/error_rates.h"
#include "transduce/eval/ter.h"

namespace transduce {
namespace {

using Lines = std::vector<std::string>;
using Sets = std::vector<Lines>;

const Lines kHypotheses = {"The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."};
const Lines kReference = {"The dog bit the man.", "It was not unexpected.", "The man bit him first."};
const Lines kOther = {"The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."};

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(Metrics, WhatIsRightScoresFull) {
  EXPECT_NEAR(corpus_bleu(kReference, kReference).score, 100.0, 1e-9);
  EXPECT_NEAR(corpus_chrf(kReference, kReference), 100.0, 1e-9);
  EXPECT_EQ(corpus_ter(kReference, kReference).score, 0.0);
  EXPECT_NEAR(corpus_bleu(kOther, Sets{kReference, kOther}).score, 100.0, 1e-9);
  EXPECT_EQ(corpus_ter(kOther, Sets{kReference, kOther}).edits, 0);
}

TEST(Metrics, EmptyHypothesesCount) {
  const Lines nothing(3);
  EXPECT_EQ(corpus_bleu(nothing, kReference).score, 0.0);
  EXPECT_EQ(corpus_bleu(nothing, kReference).counts.reference_length, 17);
  EXPECT_EQ(corpus_chrf(nothing, kReference), 0.0);
  EXPECT_EQ(corpus_ter(nothing, kReference).score, 100.0);
  // One empty line of three: its reference still counts, so the score is below that of the other two.
  const Lines one_empty = {kReference[0], "", kReference[2]};
  const BleuScore score = corpus_bleu(one_empty, kReference);
  EXPECT_EQ(score.counts.hypothesis_length, 12);
  EXPECT_EQ(score.counts.reference_length, 17);
  EXPECT_NEAR(score.score, 100.0 * std::exp(1.0 - 17.0 / 12.0), 1e-9);
  EXPECT_NEAR(corpus_ter(one_empty, kReference).score, 100.0 * 4 / 14, 1e-9);
  EXPECT_LT(corpus_chrf(one_empty, kReference), 90.0);
}

TEST(Metrics, EmptyReferencesAreNoFailure) {
  const Lines nothing(3);
  EXPECT_EQ(corpus_bleu(kHypotheses, nothing).score, 0.0);
  EXPECT_EQ(corpus_chrf(kHypotheses, nothing), 0.0);
  EXPECT_EQ(corpus_ter(kHypotheses, nothing).score, 100.0);
  EXPECT_EQ(corpus_bleu(nothing, nothing).score, 0.0);
  EXPECT_EQ(corpus_ter(nothing, nothing).score, 0.0);
}

// sacrebleu issue 239: one list a line instead of one a set was cut to the shortest without a word.
TEST(Metrics, WronglyNestedReferencesAreRefused) {
  Sets one_list_a_line;
  for (size_t i = 0; i < kReference.size(); ++i) one_list_a_line.push_back({kReference[i], kOther[i]});
  const auto refused = [](const std::function<void()>& f) {
    const std::string message = message_of(f);
    EXPECT_NE(message.find("2 lines"), std::string::npos) << message;
    EXPECT_NE(message.find("3 hypotheses"), std::string::npos) << message;
  };
  refused([&] { corpus_bleu(kHypotheses, one_list_a_line); });
  refused([&] { corpus_chrf(kHypotheses, one_list_a_line); });
  refused([&] { corpus_ter(kHypotheses, one_list_a_line); });
  refused([&] {
    corpus_bleu(kHypotheses, Sets{kReference, {"a", "b"}});
  });  // also when only the last is short
  refused([&] { collect_statistics(Rate(RateKind::exact_match, {}), kHypotheses, one_list_a_line); });
  EXPECT_NE(message_of([] { corpus_bleu(Lines{}, Lines{}); }), "");
  EXPECT_NE(message_of([] { corpus_bleu(kHypotheses, Sets{}); }), "");
  EXPECT_NE(message_of([] { sentence_bleu("a", Lines{}); }), "");
}

TEST(Metrics, OptionsOutOfRangeAreRefused) {
  const auto bleu = [](auto change) {
    BleuOptions options;
    change(options);
    return message_of([&] { Bleu{options}; });
  };
  EXPECT_NE(bleu([](auto& o) { o.max_order = 0; }), "");
  EXPECT_NE(bleu([](auto& o) { o.max_order = int64_t{1} << 40; }), "");
  EXPECT_NE(bleu([](auto& o) { o.smoothing_value = 0.5; }), "");  // exp takes none
  EXPECT_NE(bleu([](auto& o) {
              o.smoothing = BleuSmoothing::floor;
              o.smoothing_value = -0.5;
            }),
            "");
  EXPECT_NE(message_of([] { bleu_of({1, 1, {1}, {1}}); }), "");  // four orders are needed
  const auto chrf = [](auto change) {
    ChrfOptions options;
    change(options);
    return message_of([&] { Chrf{options}; });
  };
  EXPECT_NE(chrf([](auto& o) { o.char_order = 0; }), "");
  EXPECT_NE(chrf([](auto& o) { o.word_order = -1; }), "");
  EXPECT_NE(chrf([](auto& o) { o.beta = 0; }), "");
  EXPECT_NE(message_of([] { parse_bleu_tokenizer("14b"); }).find("13a"), std::string::npos);
  EXPECT_NE(message_of([] { parse_bleu_smoothing("x"); }).find("add-k"), std::string::npos);
}

TEST(Signatures, AreComplete) {
  EXPECT_EQ(signature(Bleu({}), 1), "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp");
  BleuOptions bleu;
  bleu.tokenizer = BleuTokenizer::character;
  bleu.smoothing = BleuSmoothing::floor;
  bleu.lowercase = bleu.effective_order = true;
  EXPECT_EQ(signature(Bleu(bleu), 2, "bs:1000|seed:5"),
            "nrefs:2|bs:1000|seed:5|case:lc|eff:yes|tok:char|smooth:floor[0.10]");
  bleu.smoothing = BleuSmoothing::add_k;
  bleu.max_order = 2;
  EXPECT_EQ(Bleu(bleu).settings(), "case:lc|eff:yes|tok:char|smooth:add-k[1.00]|order:2");
  EXPECT_EQ(Chrf({}).settings(), "case:mixed|eff:yes|nc:6|nw:0|space:no");
  ChrfOptions chrf;
  chrf.word_order = 2;
  chrf.beta = 3;
  EXPECT_EQ(Chrf(chrf).name(), "chrF3++");
  EXPECT_EQ(Ter().settings(), "case:lc|tok:tercom|norm:no|punct:yes|asian:no");
}

TEST(Bleu, TheTokenizerChangesTheScoreAndTheSignatureSaysWhich) {
  std::vector<double> scores;
  for (const char* name : {"13a", "intl", "char", "none"}) {
    BleuOptions options;
    options.tokenizer = parse_bleu_tokenizer(name);
    scores.push_back(corpus_bleu(kHypotheses, kReference, options).score);
    EXPECT_NE(Bleu(options).settings().find(std::string("tok:") + name), std::string::npos);
  }
  EXPECT_GT(*std::max_element(scores.begin(), scores.end()),
            *std::min_element(scores.begin(), scores.end()) + 5.0);
}

TEST(Bleu, TheClosestReferenceGivesTheLengthTheShorterOfEquals) {
  const auto length = [](const Sets& references) {
    return corpus_bleu(Lines{"a b c"}, references).counts.reference_length;
  };
  EXPECT_EQ(length({{"a b c d"}, {"a b"}}), 2);
  EXPECT_EQ(length({{"a b"}, {"a b c d"}}), 2);
  EXPECT_EQ(length({{"a"}, {"a b c d"}}), 4);
}

TEST(Bleu, CountsAreClippedByTheReferenceThatHasMost) {
  const BleuScore score = corpus_bleu(Lines{"the the the the"}, Sets{{"the cat the"}, {"the the the mat"}});
  EXPECT_EQ(score.counts.matches, (std::vector<int64_t>{3, 2, 1, 0}));
  EXPECT_EQ(score.counts.totals, (std::vector<int64_t>{4, 3, 2, 1}));
}

TEST(Metrics, BytesThatAreNotUtf8AreOrdinaryCharacters) {
  const Lines broken = {"caf\xE9 noir \xFF\xFE", "\xED\xA0\x80"};
  EXPECT_NEAR(corpus_chrf(broken, broken), 100.0, 1e-9);
  EXPECT_EQ(corpus_ter(broken, broken).score, 0.0);
  EXPECT_LT(corpus_chrf(Lines{"abcdef\xE9"}, Lines{"abcdef\xE8"}), 100.0);
  for (const char* name : {"13a", "intl", "char", "none"}) {
    BleuOptions options;
    options.tokenizer = parse_bleu_tokenizer(name);
    options.max_order = 1;
    EXPECT_NEAR(corpus_bleu(broken, broken, options).score, 100.0, 1e-9) << name;
  }
}

TEST(Metrics, ALineIsMeasuredTheSameWhereverItStands) {
  const Bleu bleu({});
  const Statistics all = collect_statistics(bleu, kHypotheses, Sets{kReference, kOther});
  ASSERT_EQ(all.lines(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const Statistics one =
        collect_statistics(bleu, Lines{kHypotheses[i]}, Sets{{kReference[i]}, {kOther[i]}});
    EXPECT_TRUE(std::equal(one.values.begin(), one.values.end(), all.row(i).begin()));
  }
}

// Lines of 20,000 words: quadratic memory would not do, and the search for shifts must stop.
TEST(Metrics, VeryLongLinesStayBounded) {
  std::string hypothesis, reference;
  for (int i = 0; i < 20000; ++i) {
    reference += fmt::format("w{} ", i % 997);
    hypothesis += fmt::format("w{} ", (i + (i % 100 == 0 ? 7 : 0)) % 997);
  }
  EXPECT_GT(corpus_bleu(Lines{hypothesis}, Lines{reference}).score, 90.0);
  EXPECT_GT(corpus_chrf(Lines{hypothesis}, Lines{reference}), 90.0);
  const TerScore ter = corpus_ter(Lines{hypothesis}, Lines{reference});
  EXPECT_GT(ter.edits, 0);
  EXPECT_LE(ter.edits, 400);
  EXPECT_EQ(corpus_ter(Lines{"a"}, Lines{reference}).edits, 20000);
  EXPECT_EQ(corpus_ter(Lines{hypothesis}, Lines{"a"}).edits, 20000);
}

TEST(Ter, AShiftIsOneEdit) {
  EXPECT_EQ(corpus_ter(Lines{"d e f g h a b c"}, Lines{"a b c d e f g h"}).edits, 1);
  EXPECT_EQ(corpus_ter(Lines{"b a"}, Lines{"a b"}).edits, 1);
  EXPECT_EQ(corpus_ter(Lines{"A B c"}, Lines{"a b c"}).edits, 0);
  EXPECT_EQ(corpus_ter(Lines{"A B c"}, Lines{"a b c"}, {.case_sensitive = true}).edits, 2);
  EXPECT_EQ(corpus_ter(Lines{"a"}, Sets{{"a b c"}, {"a"}}).reference_length, 2.0);  // the mean
}

}  // namespace
}  // namespace transduce
