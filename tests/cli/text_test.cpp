// Text through the program: SentencePiece, vocabularies, pre-split text, files, lengths, hostile lines.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/cli/program.h"
#include "tests/data/odd_texts.h"

namespace transduce::testing {
namespace {

const std::string kTiny =
    "--encoder-layers 1 --decoder-layers 1 --width 32 --heads 4 --feed-forward 64 --norm pre --activation "
    "gelu "
    "--learning-rate 3e-3 --batch-size 32 --threads 2 ";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Pairs of short sentences, line by line.
struct Corpus {
  std::string source, target, pairs;

  explicit Corpus(int lines, unsigned seed = 1) {
    const char* const english[] = {"the", "old", "house", "man", "stands", "sleeps", "here", "there"};
    const char* const german[] = {"das", "alte", "Haus", "Mann", "steht", "schläft", "hier", "dort"};
    std::mt19937 random(seed);
    for (int i = 0; i < lines; ++i) {
      std::string a, b;
      for (unsigned j = 0; j < 2 + random() % 5; ++j) {
        const unsigned word = random() % 8;
        a += (j > 0 ? " " : "") + std::string(english[word]);
        b += (j > 0 ? " " : "") + std::string(german[word]);
      }
      source += a + ".\n";
      target += b + ".\n";
      pairs += a + ".\t" + b + ".\n";
    }
  }
};

// A tiny model over one SentencePiece vocabulary, for the tests that only use it.
class SentencePieceModel : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    const Corpus corpus(200);
    write(*place_ / "a.en", corpus.source);
    write(*place_ / "a.de", corpus.target);
    write(*place_ / "pairs.tsv", corpus.pairs);
    const Result trained = place_->run("train --model m --train-source a.en --train-target a.de " + kFlags +
                                       kTiny + "--tie all --epochs 3 --valid pairs.tsv");
    ASSERT_EQ(trained.status, 0) << trained.errors;
    ASSERT_EQ(lines_of(trained.errors)[1].find("vocabulary  "), 0U) << trained.errors;
  }
  static void TearDownTestSuite() { delete place_; }
  static Workplace* place_;
  static const std::string kFlags;
};
Workplace* SentencePieceModel::place_ = nullptr;
const std::string SentencePieceModel::kFlags =
    "--source-tokenizer sentencepiece --target-tokenizer sentencepiece --joint-vocabulary --byte-fallback "
    "--vocabulary-size 340 --sentencepiece-model bpe ";

TEST_F(SentencePieceModel, LoadsFromItsDirectoryAlone) {
  EXPECT_TRUE(std::filesystem::exists(*place_ / "m" / "joint.spm"));
  EXPECT_FALSE(std::filesystem::exists(*place_ / "m" / "joint.vocab"));
  const Workplace elsewhere;
  std::filesystem::copy(*place_ / "m", elsewhere / "m");
  const std::string input = "the old house.\nder alte Mann 👍\n";
  const Result here = place_->run("translate --model m", input);
  EXPECT_EQ(here.status, 0) << here.errors;
  EXPECT_EQ(elsewhere.run("translate --model m", input).output, here.output);
  EXPECT_EQ(lines_of(here.output).size(), 2U);
}

TEST_F(SentencePieceModel, NLinesInNLinesOutWhateverIsInThem) {
  std::string text;
  std::vector<std::string> lines = odd_texts();
  for (std::string& line : lines) {
    line.erase(std::remove(line.begin(), line.end(), '\n'), line.end());
    text += line + "\n";
  }
  // Every character that has ended somebody's line, alone and in text.
  for (const char* odd : {"\r", "\x0B", "\x0C", "\x1C", "\x1D", "\x1E", "\u0085", "\u2028", "\u2029"}) {
    for (const std::string& line : {std::string(odd), "the" + std::string(odd) + "house"}) {
      lines.push_back(line);
      text += line + "\n";
    }
  }
  const Result result = place_->run("translate --model m --max-length 20", text);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), std::ssize(lines));
  // The same lines one by one.
  const std::vector<std::string> together = lines_of(result.output);
  for (size_t i = 0; i < lines.size(); i += 7) {
    EXPECT_EQ(place_->run("translate --model m --max-length 20", lines[i] + "\n").output, together[i] + "\n");
  }
  // Through train's data path: as many pairs as lines, and the CRLF twin gives the same model.
  std::string twin;
  for (const std::string& line : lines) twin += line + "\r\n";
  write(*place_ / "odd", text);
  write(*place_ / "twin", twin);
  const auto train = [&](const std::string& model, const std::string& file) {
    return place_->run("train --model " + model + " --overwrite --train-source " + file + " --train-target " +
                       file + " " + kFlags + kTiny +
                       "--source-vocabulary m/joint.spm --max-length 64 --too-long cut --steps 1 "
                       "--batch-tokens 256 --batch-size 8");
  };
  const Result plain = train("odd-model", "odd");
  EXPECT_EQ(plain.status, 0) << plain.errors;
  EXPECT_NE(plain.errors.find(std::to_string(lines.size()) + " training pairs"), std::string::npos)
      << plain.errors;
  EXPECT_EQ(train("twin-model", "twin").status, 0);
  EXPECT_EQ(contents(*place_ / "odd-model" / "model.safetensors"),
            contents(*place_ / "twin-model" / "model.safetensors"));
}

TEST_F(SentencePieceModel, IsEvaluatedByWords) {
  const Result rates =
      place_->run("evaluate --model m --test pairs.tsv --metrics bleu,token-error-rate --json");
  EXPECT_EQ(rates.status, 0) << rates.errors;
  EXPECT_NE(rates.output.find("tok:word"), std::string::npos) << rates.output;
  EXPECT_EQ(place_->run("score --model m --source a.en --target a.de").status, 0);
  EXPECT_EQ(place_->run("translate --model m --json", "the house\n").status, 0);
  EXPECT_EQ(place_->run("convert --model m --to ctranslate2 --output ct2").status, 0);
  EXPECT_EQ(place_->run("convert --model m --quantize int8 --output m8").status, 0);
  EXPECT_EQ(lines_of(place_->run("translate --model m8", "the house\n").output).size(), 1U);
}

TEST_F(SentencePieceModel, ADamagedVocabularyIsRefused) {
  const std::string model = contents(*place_ / "m" / "joint.spm");
  std::string other = model;
  other[other.find("das") + 1] ^= 1;  // still a model, but not the one of the training
  for (const std::string& damaged : {std::string(), model.substr(0, model.size() / 2), model + "x", other,
                                     std::string("<pad>\n<s>\n</s>\n<unk>\n"), std::string(100, '\n')}) {
    std::filesystem::remove_all(*place_ / "d");
    std::filesystem::copy(*place_ / "m", *place_ / "d");
    write(*place_ / "d" / "joint.spm", damaged);
    const Result result = place_->run("translate --model d", "the house\n");
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_EQ(lines_of(result.errors).size(), 1U) << result.errors;
    EXPECT_NE(result.errors.find("joint.spm"), std::string::npos) << result.errors;
  }
  std::filesystem::remove(*place_ / "d" / "joint.spm");
  EXPECT_EQ(place_->run("translate --model d", "the house\n").status, 2);
}

TEST(Vocabularies, AreMadeBeforehandOrOnTheWay) {
  const Workplace place;
  const Corpus corpus(100);
  write(place / "a.en", corpus.source);
  write(place / "a.de", corpus.target);
  const std::string data = "--train-source a.en --train-target a.de --steps 2 " + kTiny;
  const std::string spm = "--source-tokenizer sentencepiece --target-tokenizer sentencepiece ";
  // Made by `vocabulary` or inside `train`: the same file, so the same model.
  const Result made = place.run(
      "vocabulary --input a.en --input a.de --tokenizer sentencepiece --vocabulary-size 40 --output "
      "joint.spm");
  EXPECT_EQ(made.status, 0) << made.errors;
  EXPECT_NE(made.errors.find("40 tokens from 200 lines"), std::string::npos) << made.errors;
  EXPECT_EQ(place.run("vocabulary --vocabulary-size 40 --output -", corpus.source + corpus.target).output,
            contents(place / "joint.spm"));
  ASSERT_EQ(place.run("train --model a --joint-vocabulary --vocabulary-size 40 " + spm + data).status, 0);
  EXPECT_EQ(contents(place / "a" / "joint.spm"), contents(place / "joint.spm"));
  ASSERT_EQ(
      place.run("train --model b --joint-vocabulary --source-vocabulary joint.spm " + spm + data).status, 0);
  EXPECT_EQ(contents(place / "a" / "model.safetensors"), contents(place / "b" / "model.safetensors"));
  // One side each, of different kinds.
  ASSERT_EQ(place
                .run("train --model c --source-tokenizer sentencepiece --vocabulary-size 50 "
                     "--target-tokenizer char " +
                     data)
                .status,
            0);
  EXPECT_TRUE(std::filesystem::exists(place / "c" / "source.spm"));
  EXPECT_TRUE(std::filesystem::exists(place / "c" / "target.vocab"));
  EXPECT_EQ(lines_of(place.run("translate --model c", "the house\n").output).size(), 1U);
  // The saved options repeat it.
  ASSERT_EQ(place.run("train --config b/train.toml --model b2").status, 0);
  EXPECT_EQ(contents(place / "b" / "model.safetensors"), contents(place / "b2" / "model.safetensors"));
  // A list of words, from a file or standard input.
  ASSERT_EQ(place.run("vocabulary --input a.de --tokenizer word --output target.vocab").status, 0);
  EXPECT_EQ(place.run("vocabulary --tokenizer word --output -", corpus.target).output,
            contents(place / "target.vocab"));
  ASSERT_EQ(place
                .run("train --model d --source-tokenizer word --target-tokenizer word --target-vocabulary "
                     "target.vocab " +
                     data)
                .status,
            0);
  EXPECT_EQ(contents(place / "d" / "target.vocab"), contents(place / "target.vocab"));
}

TEST(Vocabularies, UserSymbolsSurviveTheSavedOptions) {
  const Workplace place;
  write(place / "pairs.tsv", Corpus(50).pairs);
  const Result trained = place.run(
      "train --model a --train pairs.tsv --source-tokenizer sentencepiece --vocabulary-size 60 --user-symbol "
      "'<sep>' "
      "--user-symbol '{{a, b}}' --steps 2 " +
      kTiny);
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const Result again = place.run("train --config a/train.toml --model b");
  ASSERT_EQ(again.status, 0) << again.errors;
  EXPECT_EQ(contents(place / "a" / "source.spm"), contents(place / "b" / "source.spm"));
  EXPECT_NE(contents(place / "a" / "source.spm").find("{{a, b}}"), std::string::npos);
}

TEST(SubwordSampling, RepeatsToTheBitAndWithAnyThreads) {
  const Workplace place;
  write(place / "pairs.tsv", Corpus(100).pairs);
  const std::string flags =
      "--train pairs.tsv --source-tokenizer sentencepiece --target-tokenizer sentencepiece "
      "--joint-vocabulary "
      "--vocabulary-size 80 --epochs 3 --dropout 0 " +
      kTiny;
  const auto log = [&](const std::string& model, const std::string& more) {
    const Result result = place.run("train --model " + model + " " + flags + more);
    EXPECT_EQ(result.status, 0) << result.errors;
    std::string tokens;  // of each update
    for (const std::string& line : lines_of(contents(place / model / "log.jsonl"))) {
      const size_t at = line.find("\"target_tokens\"");
      if (at != std::string::npos) tokens += line.substr(at, line.find(',', at) - at) + "\n";
    }
    return tokens;
  };
  for (const std::string kind : {"unigram", "bpe"}) {
    const std::string sampled = "--sentencepiece-model " + kind + " --subword-sampling 0.2 ";
    const std::string first = log("a", sampled + "--overwrite ");
    EXPECT_EQ(log("b", sampled + "--overwrite "), first);
    EXPECT_EQ(contents(place / "a" / "model.safetensors"), contents(place / "b" / "model.safetensors"));
    EXPECT_EQ(log("c", sampled + "--overwrite --threads 1 "), first);
    EXPECT_NE(log("d", sampled + "--overwrite --seed 9 "), first);
    EXPECT_NE(log("e", "--sentencepiece-model " + kind + " --overwrite "), first);
  }
}

TEST(PreSplit, OutputIsJoinedOnRequest) {
  const Workplace place;
  const std::string pairs = "a@@ b c\ta@@ b c\nb c\tb c\nc a@@ b\tc a@@ b\n";
  write(place / "pairs.tsv", pairs + pairs + pairs + pairs);
  const std::string flags =
      "--train pairs.tsv --source-tokenizer word --target-tokenizer word --joint-vocabulary --epochs 60 "
      "--dropout 0 " +
      kTiny;
  ASSERT_EQ(place.run("train --model plain " + flags).status, 0);
  ASSERT_EQ(place.run("train --model joined --target-joiner @@ " + flags).status, 0);
  EXPECT_EQ(contents(place / "plain" / "model.safetensors"),
            contents(place / "joined" / "model.safetensors"));
  const std::string input = "a@@ b c\nb c\n";
  EXPECT_EQ(place.run("translate --model plain", input).output, input);
  EXPECT_EQ(place.run("translate --model plain --target-joiner @@", input).output, "ab c\nb c\n");
  EXPECT_EQ(place.run("translate --model joined", input).output, "ab c\nb c\n");
  write(place / "prefixes", "a@@\nb\n");
  EXPECT_EQ(place.run("translate --model joined --target-prefix prefixes", input).output, "ab c\nb c\n");
  // Both sides are joined before they are compared.
  for (const char* command : {"evaluate --model joined --test pairs.tsv --json",
                              "evaluate --model plain --test pairs.tsv --target-joiner @@ --json"}) {
    const Result joined = place.run(command);
    EXPECT_NE(joined.output.find("\"tokens\":24"), std::string::npos) << joined.output << joined.errors;
    EXPECT_NE(joined.output.find("\"exact-match\":1.0"), std::string::npos) << joined.output;
  }
  write(place / "h", "a@@ b c\n");
  write(place / "r", "ab c\n");
  EXPECT_NE(place.run("evaluate --hypothesis h --reference r --target-joiner @@ --metrics exact-match --json")
                .output.find("\"exact-match\":1.0"),
            std::string::npos);
}

TEST(TextFiles, MayRepeatBePackedOrBeStandardInput) {
  const Workplace place;
  const Corpus a(30, 1), b(20, 2);
  write(place / "a.en", a.source);
  write(place / "a.de", a.target);
  write(place / "b.en", b.source);
  write(place / "b.de", b.target);
  write(place / "pairs.tsv", a.pairs + b.pairs);
  ASSERT_EQ(std::system(("cd '" + (place / "").string() + "' && gzip b.en b.de").c_str()), 0);
  const std::string flags = "--source-tokenizer word --target-tokenizer word --epochs 2 " + kTiny;
  ASSERT_EQ(place.run("train --model x --train pairs.tsv " + flags).status, 0);
  const std::string model = contents(place / "x" / "model.safetensors");
  ASSERT_EQ(place
                .run("train --model y --train-source a.en --train-source b.en.gz --train-target a.de "
                     "--train-target b.de.gz " +
                     flags)
                .status,
            0);
  EXPECT_EQ(contents(place / "y" / "model.safetensors"), model);
  ASSERT_EQ(place.run("train --model z --train - " + flags, a.pairs + b.pairs).status, 0);
  EXPECT_EQ(contents(place / "z" / "model.safetensors"), model);

  const std::string all = place.run("translate --model x", a.source + b.source).output;
  EXPECT_EQ(lines_of(all).size(), 50U);
  EXPECT_EQ(place.run("translate --model x --input a.en --input b.en.gz").output, all);
  EXPECT_EQ(place.run("translate --model x --input - --input b.en.gz", a.source).output, all);
  const Result scored =
      place.run("score --model x --source a.en --source b.en.gz --target a.de --target b.de.gz");
  EXPECT_EQ(lines_of(scored.output).size(), 50U) << scored.errors;
  EXPECT_EQ(place.run("score --model x --source - --source b.en.gz --target a.de --target b.de.gz", a.source)
                .output,
            scored.output);
  const Result tested = place.run(
      "evaluate --model x --test-source a.en --test-source b.en.gz --test-target a.de --test-target b.de.gz "
      "--json");
  EXPECT_EQ(tested.output, place.run("evaluate --model x --test - --json", a.pairs + b.pairs).output);
  ASSERT_EQ(place.run("translate --model x --input a.en --beam 3 --n-best 2 --output a.nbest").status, 0);
  EXPECT_EQ(
      lines_of(place.run("score --model x --source a.en --source b.en.gz --n-best a.nbest").output).size(),
      60U);
}

TEST(TextFiles, UnequalOrWronglyNamedOnesAreRefused) {  // modernmt#245, sockeye PR#119
  const Workplace place;
  const Corpus a(30, 1), b(20, 2);
  write(place / "a.en", a.source);
  write(place / "a.de", a.target);
  write(place / "b.en", b.source);
  write(place / "bad.tsv", "a\tb\nno tab\n");
  const std::string flags = "--source-tokenizer word --target-tokenizer word --epochs 1 " + kTiny;
  ASSERT_EQ(place.run("train --model x --train-source a.en --train-target a.de " + flags).status, 0);
  const struct {
    std::string arguments;
    std::vector<const char*> says;
  } mistakes[] = {
      {"train --model n --train-source b.en --train-target a.de " + flags, {"b.en", "20", "a.de", "30"}},
      {"train --model n --train-source a.en --train-source b.en --train-target a.de " + flags,
       {"2 files", "1"}},
      {"train --model n --train a.en --train - --valid - " + flags, {"standard input"}},
      {"train --model n --train-source - --train-target - " + flags, {"standard input"}},
      {"train --model n --train bad.tsv " + flags, {"bad.tsv", "line 2"}},
      {"score --model x --source b.en --target a.de", {"20", "30"}},
      {"score --model x --source - --target -", {"standard input"}},
      {"score --model x --source - --n-best -", {"standard input"}},
      {"translate --model x --input a.en --target-prefix b.en", {"20", "30"}},
      {"translate --model x --target-prefix -", {"standard input"}},
      {"translate --model x --input a.en --input missing", {"missing"}},
      {"evaluate --model x --test-source b.en --test-target a.de", {"20", "30"}},
      {"evaluate --hypothesis b.en --reference a.de --reference a.en", {"20", "30"}},
      {"evaluate --hypothesis b.en --reference b.en --tokenizer sentencepiece", {"word or char"}},
      {"vocabulary --input missing --output v", {"missing"}},
      {"vocabulary --input a.en", {"--output"}},
      {"vocabulary --input a.en --output no-folder/v", {"no-folder"}},
      {"vocabulary --input a.en --output v --vocabulary-size 6", {"required_chars"}},
      {"vocabulary --input a.en --output v --sentencepiece-model wordpiece", {"wordpiece", "unigram or bpe"}},
      {"vocabulary --input a.en --output v --tokenizer bpe", {"bpe", "sentencepiece"}},
      {"vocabulary --input a.en --output v --user-symbol '</s>'", {"</s>"}},
      {"train --model n --train bad.tsv --joint-vocabulary --target-vocabulary v " + flags,
       {"--source-vocabulary"}},
      {"train --model n --train-source a.en --train-target a.de --joint-vocabulary --target-vocabulary v " +
           flags,
       {"--source-vocabulary"}},
      {"train --model n --train-source a.en --train-target a.de --source-vocabulary a.de " + flags,
       {"a.de", "<pad>"}},
      {"train --model n --train-source a.en --train-target a.de --source-tokenizer sentencepiece "
       "--source-vocabulary "
       "a.de --epochs 1",
       {"a.de", "SentencePiece model"}},
      {"train --model n --train-source a.en --train-target a.de --subword-sampling 0.1 " + flags,
       {"sentencepiece"}},
      {"train --model n --train-source a.en --train-target a.de --source-tokenizer sentencepiece "
       "--subword-sampling 2 "
       "--epochs 1",
       {"subword sampling 2"}},
      {"train --model n --task reverse --steps 1 --source-tokenizer sentencepiece --subword-sampling 0.1",
       {"--task"}},
      {"train --model n --train-source a.en --train-target a.de --target-joiner @@ --epochs 1",
       {"--target-joiner"}},
      {"train --model n --train-source a.en --train-target a.de --max-length -1 " + flags, {"max length -1"}},
      {"train --model n --train-source a.en --train-target a.de --too-long ignore " + flags, {"drop or cut"}},
      {"train --model n --train-source a.en --train-target a.de --max-length 1 " + flags,
       {"left out 30 of 30"}},
  };
  for (const auto& mistake : mistakes) {
    const Result result = place.run(mistake.arguments, a.source);
    EXPECT_EQ(result.status, 2) << mistake.arguments << "\n" << result.errors;
    EXPECT_EQ(lines_of(result.errors).size(), 1U) << mistake.arguments << "\n" << result.errors;
    for (const char* word : mistake.says) {
      EXPECT_NE(result.errors.find(word), std::string::npos) << mistake.arguments << "\n" << result.errors;
    }
    EXPECT_FALSE(std::filesystem::exists(place / "n" / "model.safetensors")) << mistake.arguments;
    EXPECT_FALSE(std::filesystem::exists(place / "v")) << mistake.arguments;
  }
}

TEST(Lengths, LongPairsAreLeftOutOrCutAndCounted) {
  const Workplace place;
  const std::string nine = "1 2 3 4 5 6 7 8 9";
  write(place / "long.tsv", "1 2\t2 1\n" + nine + "\t1\n1\t" + nine + "\n1 2 3\t3 2 1\n");
  write(place / "short.tsv", "1 2\t2 1\n1 2 3\t3 2 1\n");
  write(place / "cut.tsv", "1 2\t2 1\n1 2 3 4\t1\n1\t1 2 3 4\n1 2 3\t3 2 1\n");
  write(place / "vocab", "<pad>\n<s>\n</s>\n<unk>\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  const std::string flags =
      "--source-tokenizer word --target-tokenizer word --joint-vocabulary --source-vocabulary vocab --epochs "
      "2 " +
      kTiny;
  const Result dropped =
      place.run("train --model a --train long.tsv --valid long.tsv --max-length 4 " + flags);
  EXPECT_EQ(dropped.status, 0) << dropped.errors;
  EXPECT_NE(dropped.errors.find("2 training pairs"), std::string::npos) << dropped.errors;
  for (const char* what : {"training", "validation"}) {
    EXPECT_NE(
        dropped.errors.find(std::string("left out 2 of 4 ") + what + " pairs: a text has more than 4 tokens"),
        std::string::npos)
        << dropped.errors;
  }
  EXPECT_NE(dropped.errors.find("in pair 2, has 9"), std::string::npos) << dropped.errors;
  ASSERT_EQ(place.run("train --model b --train short.tsv --valid short.tsv " + flags).status, 0);
  EXPECT_EQ(contents(place / "a" / "model.safetensors"), contents(place / "b" / "model.safetensors"));

  const Result cut = place.run("train --model c --train long.tsv --max-length 4 --too-long cut " + flags);
  EXPECT_NE(cut.errors.find("cut 2 of 4 training pairs"), std::string::npos) << cut.errors;
  EXPECT_NE(cut.errors.find("4 training pairs"), std::string::npos) << cut.errors;
  ASSERT_EQ(place.run("train --model d --train cut.tsv " + flags).status, 0);
  EXPECT_EQ(contents(place / "c" / "model.safetensors"), contents(place / "d" / "model.safetensors"));

  // Learned positions have room for so many tokens and the end symbol.
  const Result positions =
      place.run("train --model e --train long.tsv --positions learned --max-positions 5 " + flags);
  EXPECT_EQ(positions.status, 0) << positions.errors;
  EXPECT_NE(positions.errors.find("left out 2 of 4"), std::string::npos) << positions.errors;
}

}  // namespace
}  // namespace transduce::testing
