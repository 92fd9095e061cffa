// Parameter counts against arithmetic done by hand; config.json there and back; configurations that cannot
// be.

#include "transduce/models/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/models/made_up_models.h"

namespace transduce {
namespace {

// ---- parameter counts ---------------------------------------------------------------------------------

TransformerConfig base_config() {
  return {};
}  // width 512, 8 heads, feed-forward 2048: the paper's base model

// Layers need no memory to be counted.
template <class Declare>
int64_t count_of(Declare&& declare) {
  ParameterSet set;
  declare(Scope(set));
  return set.count();
}

TEST(ParameterCount, PartsOfTheBaseModel) {
  const TransformerConfig config = base_config();
  const AttentionOptions attention{config.width, config.heads, 0.0f};
  // Four matrices 512 x 512 with their biases.
  EXPECT_EQ(count_of([&](const Scope& s) { SelfAttention(s, attention); }), 1050624);
  EXPECT_EQ(count_of([&](const Scope& s) { CrossAttention(s, attention); }), 1050624);
  EXPECT_EQ(count_of([&](const Scope& s) { FeedForward(s, {512, 2048, Activation::relu, 0.0f}); }), 2099712);
  EXPECT_EQ(count_of([&](const Scope& s) {
              Norm(s / "first", 512, {});
              Norm(s / "second", 512, {});
            }),
            2048);
  EXPECT_EQ(count_of([&](const Scope& s) { EncoderLayer(s, config); }), 1050624 + 2099712 + 2048);
  EXPECT_EQ(count_of([&](const Scope& s) { EncoderLayer(s, config); }), 3152384);
  EXPECT_EQ(count_of([&](const Scope& s) { DecoderLayer(s, config); }), 2 * 1050624 + 2099712 + 3 * 1024);
}

TEST(ParameterCount, SixAndSixLayers) {
  const auto layers = [](const TransformerConfig& config) {
    return count_of([&](const Scope& s) {
      for (int64_t i = 0; i < 6; ++i) EncoderLayer(s / "encoder" / i, config);
      for (int64_t i = 0; i < 6; ++i) DecoderLayer(s / "decoder" / i, config);
    });
  };
  EXPECT_EQ(layers(base_config()), 44138496);
}

// The paper's table 3 says 65 million for this model. Its vocabulary is given as "about 37000" pieces and how
// the parameters were counted is not said. The layers are the 44,138,496 above, one shared matrix of 37,000 x
// 512 is 18,944,000, and there is nothing else: sinusoids have no parameters, and the paper describes no
// output bias. 65 million would need about 40,700 rows. We assert what follows from the description, not the
// rounded figure.
TEST(ParameterCount, BaseModelWithSharedPieces) {
  TransformerConfig config = base_config();
  config.source_vocabulary = config.target_vocabulary = 37000;
  config.tie = Tie::all;
  const Transformer model(config);
  EXPECT_EQ(model.parameters().count(), 63082496);
  EXPECT_EQ(model.parameters().count(), 44138496 + 37000 * 512);
}

TEST(ParameterCount, EveryAxisChangesItAsItShould) {
  const auto count = [](void (*change)(TransformerConfig&)) {
    TransformerConfig config = model_tests::small_config();  // V 11 and 9, C 12, F 20, 2 + 2 layers
    config.source_vocabulary = 9;
    change(config);
    return Transformer(config).parameters().count();
  };
  const int64_t plain = count([](TransformerConfig&) {});
  const int64_t matrix = 9 * 12;
  EXPECT_EQ(count([](TransformerConfig& c) { c.tie = Tie::decoder; }), plain - matrix);
  EXPECT_EQ(count([](TransformerConfig& c) { c.tie = Tie::all; }), plain - 2 * matrix);
  EXPECT_EQ(count([](TransformerConfig& c) { c.output_bias = true; }), plain + 9);
  EXPECT_EQ(count([](TransformerConfig& c) { c.norm = NormPlacement::pre; }), plain + 2 * 2 * 12);
  EXPECT_EQ(count([](TransformerConfig& c) { c.norm_kind = NormKind::rms; }), plain - (2 * 2 + 2 * 3) * 12);
  EXPECT_EQ(count([](TransformerConfig& c) { c.activation = Activation::swiglu; }),
            plain + 4 * 20 * (12 + 1));
  EXPECT_EQ(count([](TransformerConfig& c) {
              c.positions = PositionKind::learned;
              c.max_positions = 30;
            }),
            plain + 2 * 30 * 12);
}

// ---- config.json --------------------------------------------------------------------------------------

TEST(ConfigJson, RoundTrips) {
  for (const model_tests::Variant& variant : model_tests::variants()) {
    TransformerConfig config = model_tests::config_of(variant);
    config.norm_epsilon = 1e-6;
    config.dropout = 0.1;  // not exact in binary: the text must still give the same double
    config.attention_dropout = 1.0 / 3;
    config.activation_dropout = 0.05;
    const std::string text = to_json(config);
    const TransformerConfig back = transformer_config_from_json(text);
    EXPECT_EQ(to_json(back), text) << variant.name;
    EXPECT_EQ(back.width, config.width);
    EXPECT_EQ(back.norm, config.norm);
    EXPECT_EQ(back.norm_kind, config.norm_kind);
    EXPECT_EQ(back.activation, config.activation);
    EXPECT_EQ(back.positions, config.positions);
    EXPECT_EQ(back.tie, config.tie);
    EXPECT_EQ(back.embedding_scale, config.embedding_scale);
    EXPECT_EQ(back.attention_scale, config.attention_scale);
    EXPECT_EQ(back.output_bias, config.output_bias);
    EXPECT_EQ(back.norm_epsilon, config.norm_epsilon);
    EXPECT_EQ(back.attention_dropout, config.attention_dropout);
  }
}

TEST(ConfigJson, AbsentFieldsKeepTheirDefaults) {
  const TransformerConfig config =
      transformer_config_from_json(R"({"source_vocabulary": 5, "target_vocabulary": 6})");
  EXPECT_EQ(config.width, 512);
  EXPECT_EQ(config.encoder_layers, 6);
  EXPECT_EQ(config.target_vocabulary, 6);
}

// One line that names the field, its value or the way out; never a crash.
TEST(ConfigJson, HostileTextIsRefusedWithTheNameAndTheValue) {
  struct Hostile {
    std::string text, said;
  };
  const auto with = [](const std::string& field) {
    return R"({"source_vocabulary": 5, "target_vocabulary": 6, )" + field + "}";
  };
  const Hostile all[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"\xff\xfe{}", "not JSON"},
      {std::string("{\0}", 3), "not JSON"},
      {"[]", "object"},
      {"null", "object"},
      {"{}", "source vocabulary 0"},
      {with(R"("widht": 4)"), "'widht'"},
      {with(R"("width": "512")"), "'width'"},
      {with(R"("width": 12.5)"), "12.5"},
      {with(R"("width": null)"), "'width'"},
      {with(R"("width": [8])"), "'width'"},
      {with(R"("width": 1e400)"), "not JSON"},
      {with(R"("width": 9223372036854775808)"), "'width'"},
      {with(R"("width": 123456789012345678901234567890)"), "'width'"},
      {with(R"("width": -8)"), "-8"},
      {with(R"("width": 0)"), "width 0"},
      {with(R"("width": 4611686018427387904)"), "4611686018427387904"},
      {with(R"("heads": 0)"), "heads 0"},
      {with(R"("encoder_layers": 1000000000)"), "1000000000"},
      {with(R"("decoder_layers": 0)"), "decoder layers 0"},
      {with(R"("feed_forward": -1)"), "feed-forward -1"},
      {with(R"("max_positions": 0)"), "max positions 0"},
      {with(R"("norm": "sideways")"), R"("sideways": give post or pre)"},
      {with(R"("norm": 1)"), "'norm'"},
      {with(R"("activation": "")"), "relu"},
      {with(R"("tie": "all")"), "5 source and 6 target"},
      {with(R"("output_bias": 1)"), "'output_bias'"},
      {with(R"("dropout": 1.0)"), "dropout 1"},
      {with(R"("dropout": -0.5)"), "-0.5"},
      {with(R"("norm_epsilon": 0)"), "norm epsilon 0"},
      {R"({"source_vocabulary": 99999999999, "target_vocabulary": 6})", "99999999999"},
      {std::string(100000, '['), "not JSON"},
  };
  for (const Hostile& hostile : all) {
    try {
      transformer_config_from_json(hostile.text);
      ADD_FAILURE() << "accepted: " << hostile.text.substr(0, 100);
    } catch (const InputError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(hostile.said), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_LT(message.size(), 1000u);
    }
  }
}

TEST(ConfigTest, WidthMustBeAMultipleOfTheHeads) {
  TransformerConfig config = model_tests::small_config();
  config.width = 15;
  config.heads = 3;
  EXPECT_NO_THROW(config.validate());
  config.heads = 4;
  try {
    const Transformer model(config);
    ADD_FAILURE() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("width 15"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("4 heads"), std::string::npos) << error.what();
  }
}

// Axes of models from elsewhere: written, read back, and as ever when a config.json knows nothing of them.
TEST(ConfigTest, AxesOfImportedModelsAreKeptAndHaveDefaults) {
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = 10;
  config.sinusoid_layout = SinusoidLayout::concatenated;
  config.timescales = Timescales::tensor2tensor;
  config.position_offset = 1;
  config.source_end = false;
  const TransformerConfig read = transformer_config_from_json(to_json(config));
  EXPECT_EQ(read.sinusoid_layout, SinusoidLayout::concatenated);
  EXPECT_EQ(read.timescales, Timescales::tensor2tensor);
  EXPECT_EQ(read.position_offset, 1);
  EXPECT_FALSE(read.source_end);

  const TransformerConfig old =
      transformer_config_from_json(R"({"source_vocabulary": 10, "target_vocabulary": 10})");
  EXPECT_EQ(old.sinusoid_layout, SinusoidLayout::interleaved);
  EXPECT_EQ(old.timescales, Timescales::paper);
  EXPECT_EQ(old.position_offset, 0);
  EXPECT_TRUE(old.source_end);

  config.positions = PositionKind::learned;
  EXPECT_THROW(config.validate(), InputError) << "an offset into a learned table";
  config.position_offset = 0;
  EXPECT_NO_THROW(config.validate());
  config.positions = PositionKind::rotary;
  EXPECT_NO_THROW(config.validate());
  config.heads = config.width;
  EXPECT_THROW(config.validate(), InputError) << "heads of one column have no pair to turn";
  config.positions = PositionKind::learned;
  config.width = config.heads = 2;
  EXPECT_THROW(config.validate(), InputError) << "one timescale that ends where it begins";
}

TEST(ConfigTest, NamesGoBothWays) {
  for (const NormPlacement v : {NormPlacement::post, NormPlacement::pre})
    EXPECT_EQ(parse_norm_placement(to_string(v)), v);
  for (const NormKind v : {NormKind::layer, NormKind::rms}) EXPECT_EQ(parse_norm_kind(to_string(v)), v);
  for (const Activation v :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::swish, Activation::swiglu}) {
    EXPECT_EQ(parse_activation(to_string(v)), v);
  }
  for (const PositionKind v : {PositionKind::sinusoidal, PositionKind::learned}) {
    EXPECT_EQ(parse_position_kind(to_string(v)), v);
  }
  for (const SinusoidLayout v : {SinusoidLayout::interleaved, SinusoidLayout::concatenated}) {
    EXPECT_EQ(parse_sinusoid_layout(to_string(v)), v);
  }
  for (const Timescales v : {Timescales::paper, Timescales::tensor2tensor}) {
    EXPECT_EQ(parse_timescales(to_string(v)), v);
  }
  for (const Tie v : {Tie::none, Tie::decoder, Tie::all}) EXPECT_EQ(parse_tie(to_string(v)), v);
  EXPECT_THROW(parse_tie("both"), InputError);
}

}  // namespace
}  // namespace transduce
