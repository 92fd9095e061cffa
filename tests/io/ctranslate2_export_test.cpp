// Models of ours as CTranslate2 directories: they come back the same, and CTranslate2 finds the same
// translations.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/io/ctranslate2_live.h"
#include "tests/models/made_up_models.h"
#include "transduce/decode/translator.h"
#include "transduce/io/ctranslate2.h"
#include "transduce/train/trainer.h"

namespace transduce {
namespace {

using nlohmann::json;
using testing::error_of;
using testing::TemporaryDirectory;

std::shared_ptr<const Tokenizer> characters(const std::vector<std::string>& tokens) {
  return make_tokenizer({TokenizerKind::character, NormalForm::none}, Vocabulary::from_tokens(tokens));
}

// A model of letters: a to g on one side, A to G on the other, or a to g on both.
Seq2SeqModel made_up(TransformerConfig config, uint64_t seed) {
  const bool joint = config.tie == Tie::all;
  const auto source = characters({"a", "b", "c", "d", "e", "f", "g"}),
             target = joint ? source : characters({"A", "B", "C", "D", "E", "F", "G"});
  return make_model(config, source, target, joint, seed);
}

std::vector<float> all_of(const Seq2SeqModel& model) {
  return model.transformer->parameters().values().to_vector<float>();
}

// Why CTranslate2 cannot run such a model; empty where it can.
std::string refusal_of(const TransformerConfig& config) {
  if (config.encoder_layers == 0) return "CTranslate2 has no encoder without layers";
  if (config.positions == PositionKind::rotary || !config.attention_scale) {
    return "rotary positions and unscaled attention are not exported to CTranslate2";
  }
  return "";
}

TEST(CTranslate2Export, ModelsComeBackTheSame) {
  for (const model_tests::Variant& variant : model_tests::variants()) {
    TransformerConfig config = model_tests::small_config();
    variant.apply(config);
    const Seq2SeqModel model = made_up(config, 7);
    const TemporaryDirectory place;
    if (const std::string refusal = refusal_of(config); !refusal.empty()) {
      EXPECT_EQ(error_of([&] { export_ctranslate2(place / "theirs", model); }), refusal);
      continue;
    }
    export_ctranslate2(place / "theirs", model);
    const Seq2SeqModel back = import_ctranslate2(place / "theirs");
    TransformerConfig expected = model.transformer->config();
    if (expected.positions == PositionKind::sinusoidal)
      expected.max_positions = TransformerConfig().max_positions;
    TransformerConfig got = back.transformer->config();
    got.dropout = expected.dropout;  // of training, which CTranslate2 knows nothing of
    EXPECT_EQ(to_json(got), to_json(expected)) << variant.name;
    EXPECT_EQ(all_of(back), all_of(model)) << variant.name;
    EXPECT_EQ(back.source->vocabulary(), model.source->vocabulary());
    EXPECT_EQ(back.target->vocabulary(), model.target->vocabulary());
    EXPECT_EQ(back.joint_vocabulary, model.joint_vocabulary);
  }
}

TEST(CTranslate2Export, ItsOwnSinusoidsNeedNoTable) {
  TransformerConfig config = model_tests::small_config();
  config.sinusoid_layout = SinusoidLayout::concatenated;
  config.timescales = Timescales::tensor2tensor;
  config.position_offset = 1;
  config.source_end = false;
  const Seq2SeqModel model = made_up(config, 8);
  const TemporaryDirectory place;
  export_ctranslate2(place.path(), model);
  EXPECT_EQ(read_file(place / "model.bin", 1 << 20).find("encodings"), std::string::npos);
  const TransformerConfig back = import_ctranslate2(place.path()).transformer->config();
  EXPECT_EQ(back.position_offset, 1);
  EXPECT_FALSE(back.source_end);
}

TEST(CTranslate2Export, RowsWithoutTokensAreNamedAndAnEarlierModelIsReplaced) {
  TransformerConfig config = model_tests::small_config();
  config.source_vocabulary = config.target_vocabulary = 13;
  const auto tokens = characters({"a", "<unused0>"});
  Seq2SeqModel model{std::make_unique<Transformer>(config), tokens, characters({"A"}), false};
  model.transformer->parameters().initialize(9);
  const TemporaryDirectory place;
  for (const char* name : {"shared_vocabulary.txt", "source_vocabulary.txt"}) place.file(name, "</s>\n");
  export_ctranslate2(place.path(), model);
  EXPECT_FALSE(std::filesystem::exists(place / "shared_vocabulary.txt"));
  EXPECT_FALSE(std::filesystem::exists(place / "source_vocabulary.txt"));
  const json source = json::parse(read_file(place / "source_vocabulary.json", 1 << 20));
  ASSERT_EQ(source.size(), 13u);
  EXPECT_EQ(source[5], "<unused0>");
  EXPECT_EQ(source[6], "<unused1>");
  EXPECT_EQ(all_of(import_ctranslate2(place.path())), all_of(model));
}

TEST(CTranslate2Export, TokensThatWouldBeMistakenAreNamed) {
  const auto refused = [](const std::string& token) {
    TransformerConfig config = model_tests::small_config();
    config.source_vocabulary = config.target_vocabulary = 5;
    Seq2SeqModel model{std::make_unique<Transformer>(config), characters({token}), characters({"A"}), false};
    const TemporaryDirectory place;
    return error_of([&] { export_ctranslate2(place.path(), model); });
  };
  EXPECT_EQ(refused("</s>"),
            "the source vocabulary has an ordinary token \"</s>\", which CTranslate2 would take for the "
            "special symbol");
  EXPECT_NE(refused("\xFF").find("is not UTF-8"), std::string::npos);
}

// Learns for a moment to write the source backwards: then outputs end, depend on the source, and are not
// certain.
void train_briefly(const Seq2SeqModel& model) {
  TrainerOptions options;
  options.schedule.learning_rate = 5e-3;
  Trainer trainer(*model.transformer, options);
  Random random({12, 0});
  std::vector<Example> examples(32);
  std::vector<int64_t> all(examples.size());
  std::iota(all.begin(), all.end(), 0);
  for (int step = 0; step < 150; ++step) {
    for (Example& example : examples) {
      example.source.resize(1 + random.below(8));
      for (int32_t& id : example.source)
        id = Vocabulary::special_symbols + static_cast<int32_t>(random.below(7));
      example.target.assign(example.source.rbegin(), example.source.rend());
    }
    trainer.update({make_seq2seq_batch(examples, all, model.transformer->config().source_end)});
  }
}

TEST(CTranslate2Export, CTranslate2FindsTheSame) {
  const std::string python = testing::python_with_ctranslate2();
  if (python.empty()) GTEST_SKIP() << "no Python with ctranslate2; name one in TRANSDUCE_PYTHON";
  const std::vector<std::string> lines{"abcdefg", "a", "gagaga", "ccc", "fedcba", "bdxf", "ebbgfca", "cafe"};
  for (const model_tests::Variant& variant : model_tests::variants()) {
    TransformerConfig config = model_tests::small_config();
    variant.apply(config);
    if (!refusal_of(config).empty()) continue;
    const Seq2SeqModel model = made_up(config, 11);
    train_briefly(model);
    const TemporaryDirectory place;
    export_ctranslate2(place.path(), model);
    double most = 0.0;
    for (const int64_t beam : {1, 4}) {
      json request{
          {"sources", json::array()}, {"targets", json::array()}, {"beam", beam}, {"max_length", 30}};
      for (const std::string& line : lines) {
        json tokens = json::array();
        for (const auto character : utf8_characters(line)) tokens.push_back(std::string(character));
        request["sources"].push_back(tokens);
        request["targets"].push_back(json::array({config.tie == Tie::all ? "a" : "A"}));
      }
      const json answer = testing::run_ctranslate2(python, place.path(), request);
      Translator::Options options;
      options.search.beam = beam;
      options.search.ranking.length_penalty = 0.0;
      options.search.max_length = 30;
      const auto found = Translator(model, options).translate(lines);
      std::string all;
      for (size_t i = 0; i < lines.size(); ++i) {
        std::string text;
        for (const json& token : answer["hypotheses"][i][0]) text += token.get<std::string>();
        EXPECT_EQ(found[i][0].text, text) << variant.name << ", beam " << beam << ", " << lines[i];
        const double theirs = answer["scores"][i][0];
        most = std::max(most, std::abs(found[i][0].hypothesis.log_probability - theirs));
        all += " " + text;
      }
      std::printf("%s, beam %d:%s\n", variant.name, static_cast<int>(beam), all.c_str());
    }
    std::printf("%s: largest difference of a score %.3g\n", variant.name, most);
    EXPECT_LT(most, 1e-4) << variant.name;
  }
}

}  // namespace
}  // namespace transduce
