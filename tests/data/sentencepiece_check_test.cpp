// Crafted and damaged SentencePiece models end with a message, never with a crash (spm#1263, #1269).

#include "transduce/data/sentencepiece_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/base/temporary_directory.h"
#include "tests/data/odd_texts.h"
#include "transduce/base/random.h"
#include "transduce/data/sentencepiece.h"

namespace transduce {
namespace {

using testing::error_of;
using testing::odd_texts;
using Model = VocabularyOptions::Model;

const TokenizerSpec pieces = {TokenizerKind::sentencepiece, NormalForm::none, ""};

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Fields of a protocol buffer message.
std::string bytes_field(uint64_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string number_field(uint64_t number, uint64_t value) { return varint(number << 3) + varint(value); }
std::string float_field(uint64_t number, float value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return varint(number << 3 | 5) + bytes;
}

enum Type { normal = 1, unknown = 2, control = 3, user_defined = 4 };

std::string piece(const std::string& text, float score, Type type = normal) {
  return bytes_field(1, bytes_field(1, text) + float_field(2, score) + number_field(3, type));
}

// Special symbols, some pieces, what is added, and the kind of model: 1 unigram, 2 BPE.
std::string model_with(const std::string& more, uint64_t kind = 1) {
  return piece("<unk>", 0, unknown) + piece("<s>", 0, control) + piece("</s>", 0, control) +
         piece("\u2581", -1) + piece("a", -2) + more + bytes_field(2, number_field(3, kind));
}

// Normalization rules: the trie of a double array, then what its values point into.
std::string rules(const std::vector<uint32_t>& units, const std::string& results) {
  std::string blob(4 + 4 * units.size(), '\0');
  const auto size = static_cast<uint32_t>(4 * units.size());
  std::memcpy(blob.data(), &size, 4);
  std::memcpy(blob.data() + 4, units.data(), 4 * units.size());
  return bytes_field(3, bytes_field(2, blob + results));
}

// What becomes of a model and of texts cut by it; empty when all is well.
std::string trouble(const std::string& model) {
  return error_of([&] {
    const auto tokenizer = make_sentencepiece_tokenizer(pieces, model, "the model");
    for (const std::string& text : odd_texts()) tokenizer->decode(tokenizer->encode(text.substr(0, 300)));
  });
}

TEST(SentencePieceCheck, SoundModelsPass) {
  EXPECT_EQ(trouble(model_with("")), "");
  EXPECT_EQ(trouble(model_with("", 2)), "");
  EXPECT_EQ(trouble(model_with(piece(std::string(8192, 'b'), -3))), "");
  for (const char* rules : {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"}) {
    for (const Model kind : {Model::unigram, Model::bpe}) {
      VocabularyOptions options;
      options.rules = rules;
      options.model = kind;
      const std::vector<std::string_view> lines = {"some text, some more text", "한국어와 글"};
      EXPECT_EQ(trouble(train_tokenizer(pieces, lines, options)->file_content()), "") << rules;
    }
  }
}

TEST(SentencePieceCheck, CraftedPiecesAreRefused) {
  const float infinity = std::numeric_limits<float>::infinity(), nothing = std::nanf("");
  std::string nested, allowed;
  for (size_t i = 1; i <= 65; ++i) nested += piece(std::string(i, 'u'), 0, user_defined);
  for (size_t i = 1; i <= 64; ++i) allowed += piece(std::string(i, 'u'), 0, user_defined);
  for (const uint64_t kind : {1, 2}) {
    EXPECT_NE(trouble(model_with(piece(std::string(1 << 20, 'b'), -3), kind)).find("1048576 bytes long"),
              std::string::npos);
    EXPECT_NE(trouble(model_with(piece("b", nothing), kind)).find("not a number"), std::string::npos);
    EXPECT_NE(trouble(model_with(piece("b", infinity), kind)).find("not a number"), std::string::npos);
    EXPECT_NE(trouble(model_with(piece("", -3), kind)), "");
    EXPECT_NE(trouble(model_with(piece("a", -3), kind)), "");  // twice
    EXPECT_NE(trouble(model_with(piece("<two>", 0, unknown), kind)), "");
    EXPECT_NE(trouble(model_with(nested, kind)).find("begin with each other"), std::string::npos);
    EXPECT_EQ(trouble(model_with(allowed, kind)), "");
    // A piece of NUL is refused by one kind of model and fine in the other; it crashes neither.
    trouble(model_with(piece(std::string(1, '\0'), -3), kind));
    trouble(model_with(piece(std::string("a\0b", 3), -3), kind));
    trouble(model_with(piece(std::string("\0b", 2), -3, user_defined), kind));
    EXPECT_EQ(trouble(model_with(piece("b", -3e38F) + piece("c", 3e38F), kind)), "");
  }
  EXPECT_NE(trouble(""), "");
  EXPECT_NE(trouble("not a model"), "");
  EXPECT_NE(trouble(piece("a", -1)), "");  // no unknown symbol
}

TEST(SentencePieceCheck, CraftedRulesAreRefused) {
  const auto refused = [](const std::vector<uint32_t>& units, const std::string& results) {
    return trouble(model_with(rules(units, results))).find("normalization rules are damaged") !=
           std::string::npos;
  };
  // A unit: bits 0 to 7 its label, 8 whether a rule ends here, 9 a scale of the offset, 10 and on the offset.
  const auto unit = [](uint32_t label, bool rule, uint32_t offset) {
    return label | (rule ? 256U : 0U) | offset << 10;
  };
  const std::string results("x\0yz\0", 5);
  std::vector<uint32_t> sound(768, 0x80000000U);
  sound[0] = unit(0, false, 256);                         // children at 256 ^ label
  sound[256 ^ 'b'] = unit('b', true, (256 ^ 'b') ^ 512);  // its value at 512
  sound[512] = 0x80000000U | 2;
  EXPECT_FALSE(refused(sound, results));
  EXPECT_EQ(trouble(model_with(rules(sound, results))), "");

  std::vector<uint32_t> far = sound;
  far[0] = unit(0, false, 0x1FFFFFU);
  EXPECT_TRUE(refused(far, results));
  far[0] = 0x200U | 0x3FFFFFU << 10;
  EXPECT_TRUE(refused(far, results));
  std::vector<uint32_t> value = sound;
  value[512] = 0x80000000U | 5000;
  EXPECT_TRUE(refused(value, results));
  std::vector<uint32_t> circle = sound;
  circle[256 ^ 'b'] = unit('b', false, 'b');  // its children are the root's
  EXPECT_TRUE(refused(circle, results));
  EXPECT_TRUE(refused({}, "results"));
  EXPECT_TRUE(refused(std::vector<uint32_t>(255, unit(0, false, 0)), "results"));
  EXPECT_TRUE(refused(sound, ""));
  EXPECT_NE(trouble(model_with(bytes_field(3, bytes_field(2, "abc")))), "");
  EXPECT_NE(trouble(model_with(bytes_field(3, bytes_field(2, "\xFF\xFF\xFF\xFF trie")))), "");

  // Rules that begin with each other: 32 are what the library has room for.
  const auto deep = [&](uint32_t depth) {
    std::vector<uint32_t> units(256 * (depth + 2), 0x80000000U);
    units[0] = unit(0, false, 256);
    uint32_t block = 1;
    for (; block <= depth; ++block) {
      const uint32_t at = 256 * block + 'b';
      units[at] = unit('b', true, at ^ (256 * (block + 1)));
      units[256 * (block + 1)] = 0x80000000U;  // value 0
    }
    return units;
  };
  EXPECT_FALSE(refused(deep(32), std::string("a\0", 2)));
  EXPECT_TRUE(refused(deep(33), std::string("a\0", 2)));
  EXPECT_EQ(trouble(model_with(rules(deep(32), std::string("a\0", 2)))), "");
}

TEST(SentencePieceCheck, DamageNeverCrashes) {
  const std::vector<std::string_view> lines = {"some text, some more text", "한국어와 글",
                                               "Das ist ein Satz."};
  Random random({1, 2});
  for (const char* rules : {"identity", "nmt_nfkc"}) {
    const bool small = std::string(rules) == "identity";
    for (const Model kind : {Model::unigram, Model::bpe}) {
      VocabularyOptions options;
      options.rules = rules;
      options.model = kind;
      options.size = small ? 60 : 330;
      options.byte_fallback = !small;
      options.user_symbols = {"<a>", "<ab>"};
      const std::string sound = train_tokenizer(pieces, lines, options)->file_content();
      for (int trial = 0; trial < (small ? 1500 : 100); ++trial) {
        std::string damaged = sound;
        if (trial % 10 == 0) damaged.resize(random.below(damaged.size()));
        for (uint64_t i = random.below(8) + 1; i > 0 && !damaged.empty(); --i) {
          const uint64_t at = random.below(damaged.size());
          if (random.below(3) > 0) {
            damaged[at] = static_cast<char>(random.below(256));
          } else if (random.below(2) == 0) {
            damaged.erase(at, 1);
          } else {
            damaged.insert(at, 1, static_cast<char>(random.below(256)));
          }
        }
        trouble(damaged);
      }
    }
  }
}

}  // namespace
}  // namespace transduce
