// Import of CTranslate2 models that are made up on the spot: against an independent computation, and what is
// refused.

#include "transduce/io/ctranslate2.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/base/temporary_directory.h"
#include "tests/io/made_up_ctranslate2.h"
#include "tests/io/teacher_forcing.h"

namespace transduce {
namespace {

using testing::error_of;
using testing::MadeUp;
using testing::Matrix;
using testing::ModelBin;
using testing::Stored;
using testing::TemporaryDirectory;

using Ids = std::vector<int32_t>;

// A model directory with the vocabularies of MadeUp's sizes: the unknown symbol is the row after the last
// line.
class Import : public ::testing::Test {
 protected:
  Import() {
    directory_.file("source_vocabulary.txt", "<blank>\n<s>\n</s>\na\nb\nc\n");
    directory_.file("target_vocabulary.txt", "<blank>\n<s>\n</s>\nx\ny\n");
    model_.draw();
  }

  Seq2SeqModel import(const ModelBin& bin, const CTranslate2Import& options = {}) {
    directory_.file("model.bin", bin.bytes());
    return import_ctranslate2(directory_.path(), options);
  }
  Seq2SeqModel import(const CTranslate2Import& options = {}) { return import(heads(model_.file()), options); }
  std::string refusal(const ModelBin& bin, const CTranslate2Import& options = {}) {
    return error_of([&] { import(bin, options); });
  }

  // As the program writes them since revision 3.
  ModelBin heads(ModelBin bin) const {
    bin.flag("num_heads", static_cast<int8_t>(model_.heads));
    return bin;
  }

  // A current file: what earlier revisions left to the reader is written down.
  ModelBin current() const {
    ModelBin bin = model_.file();
    bin.version = 6;
    bin.specification = "TransformerSpec";
    bin.revision = 7;
    bin.at("encoder/embeddings/weight").name = "encoder/embeddings_0/weight";
    for (const std::string side : {"encoder/", "decoder/"}) {
      bin.add<int16_t>(side + "num_heads", {}, Stored::int16, {static_cast<int16_t>(model_.heads)});
      bin.flag(side + "pre_norm", model_.pre_norm);
      bin.flag(side + "activation", model_.gelu ? 3 : 0);
      bin.flag(side + "scale_embeddings", 1);
    }
    bin.flag("encoder/embeddings_merge", 0);
    bin.flag("encoder/multi_query_attention", 0);
    for (const char* name :
         {"alibi", "alibi_use_positive_positions", "scale_alibi", "start_from_zero_embedding"}) {
      bin.flag(std::string("decoder/") + name, 0);
    }
    bin.add<int16_t>("decoder/alignment_layer", {}, Stored::int16, {-1});
    bin.add<int16_t>("decoder/alignment_heads", {}, Stored::int16, {1});
    return bin;
  }

  // Their ids to ours: the unknown symbol, their last, is our 3.
  static Ids ours(const std::vector<int>& ids, int unknown) {
    Ids result;
    for (const int id : ids) result.push_back(id < 3 ? id : id == unknown ? 3 : id + 1);
    return result;
  }

  // The largest difference between the imported model's log-probabilities and those computed apart.
  double deviation(const Seq2SeqModel& model) const {
    const std::vector<int> source{3, 5, 4, 6, 4, 3, 3}, target{1, 3, 4, 5, 3, 4};
    std::vector<int> read = source;
    if (model.transformer->config().source_end) read.push_back(2);
    const Matrix expected = model_.log_probabilities(read, target);
    const Matrix got = testing::log_probabilities(*model.transformer, ours(source, 6), ours(target, 5));
    double most = 0.0;
    for (size_t t = 0; t < expected.size(); ++t) {
      for (int v = 0; v < 6; ++v) {
        const double apart =
            std::abs(got[t][static_cast<size_t>(ours({v}, 5)[0])] - expected[t][static_cast<size_t>(v)]);
        most = std::isfinite(apart) ? std::max(most, apart) : INFINITY;
      }
    }
    return most;
  }

  TemporaryDirectory directory_;
  MadeUp model_;
};

TEST_F(Import, OldFileComputesTheSame) {
  const Seq2SeqModel model = import();
  const TransformerConfig& c = model.transformer->config();
  EXPECT_EQ(c.heads, 2);
  EXPECT_EQ(c.norm, NormPlacement::pre);
  EXPECT_FALSE(c.source_end);
  EXPECT_EQ(c.tie, Tie::none);
  EXPECT_EQ(model.source->spec().kind, TokenizerKind::character);
  EXPECT_EQ(model.target->vocabulary().token(4), "x");
  EXPECT_LT(deviation(model), 1e-5);

  TemporaryDirectory saved;
  save_description(saved.path(), model);
  save_parameters(saved.path(), model);
  EXPECT_LT(deviation(load_model(saved.path())), 1e-5);
}

TEST_F(Import, CurrentFileWithItsSettingsComputesTheSame) {
  model_ = MadeUp(2);
  model_.pre_norm = false;
  model_.gelu = true;
  model_.epsilon = 1e-3;
  model_.layers = 2;
  model_.draw();
  directory_.file("config.json",
                  R"({"add_source_eos": true, "layer_norm_epsilon": 1e-3, "unk_token": "<unk>"})");
  const Seq2SeqModel model = import(current());
  const TransformerConfig& c = model.transformer->config();
  EXPECT_EQ(c.norm, NormPlacement::post);
  EXPECT_EQ(c.activation, Activation::gelu);
  EXPECT_TRUE(c.source_end);
  EXPECT_EQ(c.encoder_layers, 2);
  EXPECT_LT(deviation(model), 1e-5);
}

// ---- positions ----------------------------------------------------------------------------------------

Matrix rows_of(const Tensor& table) {
  Matrix rows;
  for (int64_t p = 0; p < table.dim(0); ++p) {
    rows.emplace_back(table.row<float>(p), table.row<float>(p) + table.dim(1));
  }
  return rows;
}

void add_positions(ModelBin& bin, const std::string& side, const Matrix& table) {
  std::vector<float> flat;
  for (const auto& row : table) flat.insert(flat.end(), row.begin(), row.end());
  bin.add(side + "/position_encodings/encodings",
          {static_cast<uint32_t>(table.size()), static_cast<uint32_t>(table[0].size())}, Stored::float32,
          flat);
}

TEST_F(Import, TablesOfSinusoidsAreKnown) {
  for (const Sinusoids& sinusoids :
       {Sinusoids{}, Sinusoids{SinusoidLayout::concatenated, Timescales::paper, 1},
        Sinusoids{SinusoidLayout::interleaved, Timescales::tensor2tensor, 2},
        Sinusoids{SinusoidLayout::concatenated, Timescales::tensor2tensor, 0}}) {
    model_.positions = rows_of(sinusoid_table(50, model_.width, DType::float32, sinusoids));
    ModelBin bin = heads(model_.file());
    for (const char* side : {"encoder", "decoder"}) add_positions(bin, side, model_.positions);
    const Seq2SeqModel model = import(bin);
    const TransformerConfig& c = model.transformer->config();
    EXPECT_EQ(c.positions, PositionKind::sinusoidal);
    EXPECT_EQ((Sinusoids{c.sinusoid_layout, c.timescales, c.position_offset}), sinusoids);
    EXPECT_LT(deviation(model), 1e-5);
  }
}

TEST_F(Import, OtherTablesAreLearnedPositions) {
  model_.positions = rows_of(sinusoid_table(50, model_.width, DType::float32));
  model_.positions[49][3] += 0.01;
  ModelBin bin = heads(model_.file());
  for (const char* side : {"encoder", "decoder"}) add_positions(bin, side, model_.positions);
  const Seq2SeqModel model = import(bin);
  EXPECT_EQ(model.transformer->config().positions, PositionKind::learned);
  EXPECT_EQ(model.transformer->config().max_positions, 50);
  EXPECT_LT(deviation(model), 1e-5);

  bin.remove("decoder/position_encodings/encodings");
  EXPECT_NE(refusal(bin).find("(50, 8) in the encoder and () in the decoder"), std::string::npos)
      << refusal(bin);
}

// ---- quantised ------------------------------------------------------------------------------------------

// Replaces a matrix by whole numbers of `steps` a side; the model then is what those numbers stand for.
void quantize(MadeUp& model, ModelBin& bin, const std::string& name, Stored type, float steps) {
  Matrix& values = model.parameters[name];
  double all = 0.0;
  for (const auto& row : values) {
    for (const double x : row) all = std::max(all, std::abs(x));
  }
  std::vector<int16_t> words;
  std::vector<float> scales;
  for (auto& row : values) {
    double most = 0.0;
    for (const double x : row) most = std::max(most, std::abs(x));
    scales.push_back(static_cast<float>(steps / (type == Stored::int8 ? most : all)));
    for (double& x : row) {
      words.push_back(static_cast<int16_t>(std::lround(x * static_cast<double>(scales.back()))));
      x = static_cast<double>(words.back()) / static_cast<double>(scales.back());
    }
  }
  const std::vector<uint32_t> shape = bin.at(name).shape;
  bin.remove(name);
  if (type == Stored::int8) {
    bin.add(name, shape, type, std::vector<int8_t>(words.begin(), words.end()));
    bin.add(name + "_scale", {static_cast<uint32_t>(scales.size())}, Stored::float32, scales);
  } else {
    bin.add(name, shape, type, words);
    bin.number(name + "_scale", scales[0]);
  }
}

TEST_F(Import, WholeNumbersAreDividedByTheirScale) {
  const MadeUp whole = model_;
  for (const uint32_t version : {2u, 6u}) {
    for (const auto& [type, steps] : {std::pair{Stored::int8, 127.0f}, std::pair{Stored::int16, 1024.0f}}) {
      model_ = whole;
      ModelBin bin = heads(model_.file());
      bin.version = version;
      for (const auto& [name, values] : whole.parameters) {
        if (name.ends_with("/weight")) quantize(model_, bin, name, type, steps);
      }
      EXPECT_LT(deviation(import(bin)), 1e-5) << "version " << version;
    }
  }
}

TEST_F(Import, HalfPrecisionIsWidened) {
  const MadeUp whole = model_;
  for (const Stored type : {Stored::float16, Stored::bfloat16}) {
    model_ = whole;
    ModelBin bin = current();
    const std::string name = "decoder/layer_0/ffn/linear_0/weight";
    std::vector<uint16_t> words;
    for (auto& row : model_.parameters[name]) {
      for (double& x : row) {
        // The value cut to 8 bits of mantissa, which both formats hold.
        x = std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(x)) & 0xFFFF0000u);
        if (std::abs(x) < 1e-4) x = 0.0;
        const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
        const uint32_t half =
            (bits >> 16 & 0x8000u) | ((bits >> 23 & 255u) - 112u) << 10 | (bits >> 13 & 0x3FFu);
        words.push_back(static_cast<uint16_t>(type == Stored::bfloat16 ? bits >> 16 : x == 0.0 ? 0 : half));
      }
    }
    const std::vector<uint32_t> shape = bin.at(name).shape;
    bin.remove(name);
    bin.add(name, shape, type, words);
    EXPECT_LT(deviation(import(bin)), 1e-5);
  }
}

// ---- tying ------------------------------------------------------------------------------------------------

TEST_F(Import, ATiedOutputLayerStaysTied) {
  model_.parameters["decoder/projection/weight"] = model_.parameters["decoder/embeddings/weight"];
  ModelBin bin = current();
  bin.remove("decoder/projection/weight");
  bin.aliases = {{"decoder/projection/weight", "decoder/embeddings/weight"}};
  const Seq2SeqModel model = import(bin);
  EXPECT_EQ(model.transformer->config().tie, Tie::decoder);
  EXPECT_EQ(model.transformer->parameters().find("output.weight"), nullptr);
  EXPECT_LT(deviation(model), 1e-5);

  // The same matrix written twice, as files without aliases have it.
  EXPECT_EQ(import(heads(model_.file())).transformer->config().tie, Tie::decoder);

  // Without an alias and without the tensor there is nothing to use instead.
  bin.aliases.clear();
  EXPECT_NE(refusal(bin).find("lacks the tensor \"decoder/projection/weight\""), std::string::npos)
      << refusal(bin);
}

TEST_F(Import, OneMatrixForAllThreeNeedsOneVocabulary) {
  model_ = MadeUp(3);
  model_.source_rows = model_.target_rows;
  model_.draw();
  model_.parameters["encoder/embeddings/weight"] = model_.parameters["decoder/projection/weight"] =
      model_.parameters["decoder/embeddings/weight"];
  directory_.file("source_vocabulary.txt", "<blank>\n<s>\n</s>\na\nb\n");
  const Seq2SeqModel apart = import();
  EXPECT_EQ(apart.transformer->config().tie, Tie::decoder) << "vocabularies of equal size, different content";
  EXPECT_FALSE(apart.joint_vocabulary);

  std::filesystem::remove(directory_ / "source_vocabulary.txt");
  std::filesystem::remove(directory_ / "target_vocabulary.txt");
  directory_.file("shared_vocabulary.json", R"(["<blank>", "<s>", "</s>", "x", "y"])");
  const Seq2SeqModel model = import();
  EXPECT_EQ(model.transformer->config().tie, Tie::all);
  EXPECT_TRUE(model.joint_vocabulary);
  TemporaryDirectory saved;
  save_description(saved.path(), model);
  save_parameters(saved.path(), model);
  EXPECT_EQ(load_model(saved.path()).transformer->config().tie, Tie::all);
}

// ---- vocabularies
// -------------------------------------------------------------------------------------------

TEST_F(Import, AVocabularyMayHaveFewerTokensThanRowsButNotMore) {
  directory_.file("target_vocabulary.txt", "<blank>\n<s>\n</s>\nx\n");
  const Seq2SeqModel model = import();
  EXPECT_EQ(model.target->vocabulary().size(), 5);
  EXPECT_EQ(model.transformer->config().target_vocabulary, 6);

  const std::string file = directory_.file("target_vocabulary.txt", "<blank>\n<s>\n</s>\nx\ny\nz\nw\n");
  EXPECT_EQ(
      refusal(heads(model_.file())),
      "\"" + file + "\" has 7 tokens, but the model has embeddings for 6 only: it belongs to another model");
}

TEST_F(Import, ATokenThatOccursTwiceIsNamed) {
  for (const std::string token : {"</s>", "a"}) {
    const std::string file =
        directory_.file("source_vocabulary.txt", "<blank>\n<s>\n</s>\na\n" + token + "\nc\n");
    EXPECT_EQ(refusal(heads(model_.file())),
              "\"" + file + "\": the token \"" + token + "\" occurs twice, with the ids " +
                  (token == "a" ? "3" : "2") + " and 4: which of the two a text means cannot be told");
  }
}

// Without a pad and a start symbol, as Marian's vocabularies are: what is made up never has any probability.
TEST_F(Import, SymbolsThatAreMissingAreNeverGenerated) {
  directory_.file("target_vocabulary.txt", "</s>\n<unk>\nv\nw\nx\ny\n");
  directory_.file("config.json", R"({"decoder_start_token": "</s>"})");
  ModelBin bin = current();
  bin.remove("decoder/projection/bias");
  for (double& x : model_.parameters["decoder/projection/bias"][0]) x = 0.0;
  const Seq2SeqModel model = import(bin);
  EXPECT_EQ(model.transformer->config().target_vocabulary, 8);
  // Theirs: </s> is 0, <unk> 1, the others follow.
  const Matrix expected = model_.log_probabilities({3, 4}, {0, 2, 5, 1});
  const Matrix got = testing::log_probabilities(*model.transformer, {4, 5}, {1, 4, 7, 3});
  for (size_t t = 0; t < 4; ++t) {
    EXPECT_LT(got[t][0], -1e8);
    EXPECT_LT(got[t][1], -1e8);
    for (size_t v = 0; v < 6; ++v) EXPECT_NEAR(got[t][v + 2], expected[t][v], 1e-5);
  }

  directory_.file("target_vocabulary.txt", "<s>\n<unk>\nv\nw\nx\ny\n");
  EXPECT_NE(refusal(bin).find("lacks the end symbol \"</s>\""), std::string::npos) << refusal(bin);
}

TEST_F(Import, ADecoderMayStartFromNothing) {
  for (double& x : model_.parameters["decoder/embeddings/weight"][1]) x = 0.0;
  ModelBin bin = current();
  const float noise = 3.0f;
  std::memcpy(bin.at("decoder/embeddings/weight").bytes.data() + 8 * sizeof(float), &noise, sizeof(noise));
  bin.remove("decoder/start_from_zero_embedding");
  EXPECT_GT(deviation(import(bin)), 1e-3);
  bin.flag("decoder/start_from_zero_embedding", 1);
  EXPECT_LT(deviation(import(bin)), 1e-5);
}

TEST_F(Import, VocabulariesAreFoundOrNamed) {
  std::filesystem::rename(directory_ / "source_vocabulary.txt", directory_ / "other.txt");
  EXPECT_EQ(refusal(heads(model_.file())), "no source_vocabulary or shared_vocabulary, .json or .txt, in \"" +
                                               directory_.path() + "\": name it with --source-vocabulary");
  CTranslate2Import options;
  options.source_vocabulary = directory_ / "other.txt";
  EXPECT_LT(deviation(import(options)), 1e-5);
  directory_.file("other.txt", "<blank>\r\n<s>\r\n</s>\r\na\r\nb\r\nc\r\n");
  EXPECT_EQ(import(options).source->vocabulary().token(6), "c");
  options.source_vocabulary =
      directory_.file("other.json", R"(["<blank>", "<s>", "</s>", "a", "\n", "longer"])");
  const Seq2SeqModel model = import(options);
  EXPECT_EQ(model.source->vocabulary().token(5), "\n");
  EXPECT_EQ(model.source->spec().kind, TokenizerKind::word) << "not every token is a character";
  for (const char* broken : {"", "{}", "[1]", "[\"a\"", "null"}) {
    directory_.file("other.json", broken);
    EXPECT_NE(refusal(heads(model_.file()), options), "") << broken;
  }
}

// ---- what is not supported is refused by name -------------------------------------------------------------

TEST_F(Import, WhatThisProgramHasNoPartForIsNamed) {
  const auto expect = [&](const std::string& part, void (*change)(ModelBin&)) {
    ModelBin bin = current();
    change(bin);
    const std::string message = refusal(bin);
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  expect(
      "holds 1 tensors that this program has no part for, so that results would differ: "
      "\"encoder/layer_0/self_attention/relative_position_keys\" (3, 4)",
      [](ModelBin& b) {
        b.add<float>("encoder/layer_0/self_attention/relative_position_keys", {3, 4}, Stored::float32,
                     std::vector<float>(12));
      });
  expect("\"decoder/layer_0/self_attention/rotary_dim\" = 0", [](ModelBin& b) {
    b.add<int32_t>("decoder/layer_0/self_attention/rotary_dim", {}, Stored::int32, {0});
  });
  expect("\"encoder/layernorm_embedding/gamma\" (8)", [](ModelBin& b) {
    b.add<float>("encoder/layernorm_embedding/gamma", {8}, Stored::float32, std::vector<float>(8));
  });
  expect("activation 5 is not supported", [](ModelBin& b) {
    for (const char* side : {"encoder/activation", "decoder/activation"}) b.at(side).bytes = "\x05";
  });
  expect("pre_norm is 1 in the encoder and 0 in the decoder",
         [](ModelBin& b) { b.at("decoder/pre_norm").bytes = std::string(1, '\0'); });
  expect("does not say how many attention heads the model has: give --heads", [](ModelBin& b) {
    for (const char* side : {"encoder/num_heads", "decoder/num_heads"}) b.remove(side);
  });
  expect("only the encoder-decoder TransformerSpec can be imported",
         [](ModelBin& b) { b.specification = "TransformerDecoderSpec"; });
  expect("revision 8 of its layout", [](ModelBin& b) { b.revision = 8; });
  expect("decoder/alibi is not supported", [](ModelBin& b) { b.at("decoder/alibi").bytes = "\x01"; });
  expect("queries_scale is 1: only 1 / sqrt(head size), 0.5, is supported",
         [](ModelBin& b) { b.number("decoder/layer_0/attention/queries_scale", 1.0f); });
  expect("embeddings are multiplied by 2: only by sqrt(8) or not at all", [](ModelBin& b) {
    for (const std::string side : {"encoder", "decoder"}) {
      b.remove(side + "/scale_embeddings");
      b.number(side + "/scale_embeddings", 2.0f);
    }
  });
  expect("lacks the tensor \"decoder/layer_norm/gamma\"",
         [](ModelBin& b) { b.remove("decoder/layer_norm/gamma"); });
  expect("tensor \"decoder/layer_0/ffn/linear_1/weight\" must have shape (8, 6), got (6, 8)",
         [](ModelBin& b) {
           b.at("decoder/layer_0/ffn/linear_1/weight").shape = {6, 8};
         });
  expect("holds values that are not finite", [](ModelBin& b) {
    b.at("decoder/layer_0/ffn/linear_1/weight").bytes.replace(0, 4, std::string("\0\0\xC0\x7F", 4));
  });
}

TEST_F(Import, HeadsMayBeGivenButNotContradicted) {
  ModelBin bin = model_.file();
  bin.specification = "TransformerSpec";
  EXPECT_NE(refusal(bin), "");
  CTranslate2Import options;
  options.heads = 2;
  EXPECT_LT(deviation(import(bin, options)), 1e-5);
  options.heads = 4;
  EXPECT_NE(refusal(heads(model_.file()), options).find("has 2 attention heads, not the 4 asked for"),
            std::string::npos);
  // The kind of model says it where nothing else does: 8 for TransformerBase.
  EXPECT_EQ(import(model_.file()).transformer->config().heads, 8);
}

TEST_F(Import, SettingsThatCannotBeKeptAreRefused) {
  const auto refused = [&](const std::string& config) {
    directory_.file("config.json", config);
    return refusal(current());
  };
  EXPECT_NE(refused(R"({"add_source_bos": true})").find("add_source_bos"), std::string::npos);
  EXPECT_NE(refused(R"({"decoder_start_token": null})").find("decoder_start_token is null"),
            std::string::npos);
  EXPECT_NE(refused(R"({"add_source_eos": "yes"})").find("'add_source_eos' cannot be"), std::string::npos);
  EXPECT_NE(refused(R"({"layer_norm_epsilon": 7})").find("norm epsilon 7"), std::string::npos);
  EXPECT_NE(refused("[").find("is not a JSON object"), std::string::npos);
}

}  // namespace
}  // namespace transduce
