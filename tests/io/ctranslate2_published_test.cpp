// A published model, trained by the OpenNMT authors: import of its float32, int16 and int8 forms against the
// published outputs, against log-probabilities that a float64 computation gave, and against CTranslate2
// itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/io/ctranslate2_live.h"
#include "tests/io/teacher_forcing.h"
#include "tests/shared_data.h"
#include "transduce/decode/translator.h"
#include "transduce/io/ctranslate2.h"
#include "transduce/io/safetensors.h"

namespace transduce {
namespace {

using nlohmann::json;
using testing::log_probabilities;
using Ids = std::vector<int32_t>;

constexpr const char* forms[] = {"aren-transliteration", "aren-transliteration-i16",
                                 "aren-transliteration-i8"};
constexpr int classes = 43;

// Their ids to ours: <unk>, which is their last, is our 3.
int32_t our_id(int id) { return id < 3 ? id : id == classes - 1 ? 3 : id + 1; }

std::string text_of(const json& tokens) {
  std::string text;
  for (const json& token : tokens) text += token.get<std::string>();
  return text;
}

class PublishedModel : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = testing::shared_data("ckpt-aren-transliteration");
    if (data_.empty())
      GTEST_SKIP() << "no ckpt-aren-transliteration: name its parent folder in TRANSDUCE_DATA";
    expected_ = json::parse(read_file((data_ / "expected.json").string(), 1 << 20));
  }

  Seq2SeqModel import(const std::string& form) const {
    CTranslate2Import options;
    options.source_vocabulary = (data_ / "source_vocabulary.txt").string();
    options.target_vocabulary = (data_ / "target_vocabulary.txt").string();
    return import_ctranslate2((data_ / form).string(), options);
  }

  // The largest difference of log-probabilities from the float32 model's, over all steps and classes.
  double deviation(const Seq2SeqModel& model) const {
    double most = 0.0;
    for (const json& pair : expected_.at("measured")) {
      const Ids source = model.source->encode(text_of(pair.at("source")));
      Ids target;
      for (const int id : pair.at("teacher_forced_ids")) target.push_back(our_id(id));
      target.pop_back();  // the end symbol is only predicted
      const auto got = log_probabilities(*model.transformer, source, target);
      const json& steps = pair.at("log_probs_per_step_43_classes");
      EXPECT_EQ(got.size(), steps.size());
      for (size_t t = 0; t < got.size(); ++t) {
        for (int id = 0; id < classes; ++id) {
          const double step = steps[t][static_cast<size_t>(id)];
          most = std::max(most, std::abs(got[t][static_cast<size_t>(our_id(id))] - step));
        }
      }
    }
    return most;
  }

  std::filesystem::path data_;
  json expected_;
};

TEST_F(PublishedModel, HasTheExpectedConfiguration) {
  const Seq2SeqModel model = import(forms[0]);
  const TransformerConfig& c = model.transformer->config();
  EXPECT_EQ(model.transformer->parameters().count(), 182731);
  EXPECT_EQ(c.source_vocabulary, 51);
  EXPECT_EQ(c.target_vocabulary, classes);
  EXPECT_EQ(c.encoder_layers, 6);
  EXPECT_EQ(c.decoder_layers, 6);
  EXPECT_EQ(c.width, 32);
  EXPECT_EQ(c.heads, 8);
  EXPECT_EQ(c.feed_forward, 128);
  EXPECT_EQ(c.norm, NormPlacement::pre);
  EXPECT_EQ(c.sinusoid_layout, SinusoidLayout::concatenated);
  EXPECT_EQ(c.timescales, Timescales::tensor2tensor);
  EXPECT_EQ(c.position_offset, 1);
  EXPECT_FALSE(c.source_end);
  EXPECT_TRUE(c.output_bias);
  EXPECT_EQ(c.tie, Tie::none);
  EXPECT_EQ(model.source->spec().kind, TokenizerKind::character);
}

TEST_F(PublishedModel, EncoderOutputIsTheExpected) {
  const Seq2SeqModel model = import(forms[0]);
  const NoGradient inference;
  for (const json& pair : expected_.at("measured")) {
    const Ids source = model.source->encode(text_of(pair.at("source")));
    const Tensor out = model.transformer->encode(make_source_batch({source}, false)).value();
    const json& row = pair.at("encoder_output_first_position");
    for (int64_t c = 0; c < 32; ++c) {
      EXPECT_NEAR(out.row<float>(0)[c], row[static_cast<size_t>(c)].get<double>(), 1e-5);
    }
  }
}

TEST_F(PublishedModel, LogProbabilitiesAreTheExpected) {
  // float32 differs by rounding alone. The others are what 10 and 7 bits a weight keep of them: the bounds
  // tell a wrong scale, which is off by whole units, from rounding.
  const double bounds[] = {1e-4, 0.5, 4.0};
  for (size_t i = 0; i < std::size(forms); ++i) {
    const double most = deviation(import(forms[i]));
    std::printf("%s: largest deviation of a log-probability %.3g\n", forms[i], most);
    EXPECT_LT(most, bounds[i]) << forms[i];
  }
}

// The weights were cut to whole numbers, not rounded: each is within a step of the float32 model's, which is
// 1 / 1000 in the int16 form and the row's largest value / 127 in the int8 form.
TEST_F(PublishedModel, QuantisedWeightsAreWithinAStep) {
  const Seq2SeqModel whole = import(forms[0]);
  for (size_t form = 1; form < std::size(forms); ++form) {
    const Seq2SeqModel model = import(forms[form]);
    for (const Parameter& parameter : whole.transformer->parameters().parameters()) {
      const Tensor a = parameter.variable.value(),
                   b = model.transformer->parameters().find(parameter.name)->variable.value();
      if (a.rank() != 2) {
        EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>()) << parameter.name;
        continue;
      }
      for (int64_t i = 0; i < a.dim(0); ++i) {
        const float* row = a.row<float>(i);
        float most = 0.0f;
        for (int64_t c = 0; c < a.dim(1); ++c) most = std::max(most, std::abs(row[c]));
        const double step = form == 1 ? 1e-3 : static_cast<double>(most) / 127.0;
        for (int64_t c = 0; c < a.dim(1); ++c) {
          ASSERT_NEAR(b.row<float>(i)[c], row[c], step * 1.001) << forms[form] << " " << parameter.name;
        }
      }
    }
  }
}

// The data set has the float32 model a second time, as safetensors under CTranslate2's names.
TEST_F(PublishedModel, WeightsAreThoseOfTheSafetensorsTwin) {
  const Seq2SeqModel model = import(forms[0]);
  const TensorFile twin = read_safetensors((data_ / "model.float32.safetensors").string());
  const auto value = [&](const char* name) {
    return model.transformer->parameters().find(name)->variable.value();
  };
  EXPECT_EQ(value("decoder.layers.5.cross_attention.key_value.weight").to_vector<float>(),
            twin.tensors.at("decoder/layer_5/attention/linear_1/weight").to_vector<float>());
  const Tensor rows = twin.tensors.at("decoder/projection/weight");
  for (int id = 0; id < classes; ++id) {
    EXPECT_EQ(value("output.weight").rows(our_id(id), our_id(id) + 1).to_vector<float>(),
              rows.rows(id, id + 1).to_vector<float>());
  }
}

TEST_F(PublishedModel, GivesThePublishedOutputs) {
  Translator::Options options;
  options.search.beam = options.search.n_best = 2;
  options.search.ranking.length_penalty = 0.0;
  for (const char* form : forms) {
    const Seq2SeqModel model = import(form);
    const Translator translator(model, options);
    for (const json& pair : expected_.at("published")) {
      if (pair.contains("target_prefix")) continue;
      const auto found = translator.translate(std::vector<std::string>{text_of(pair.at("source"))});
      EXPECT_EQ(found[0][0].text, text_of(pair.at("target"))) << form;
    }
  }
  const Seq2SeqModel model = import(forms[0]);
  const Translator translator(model, options);
  for (const json& pair : expected_.at("measured")) {
    const auto found = translator.translate(std::vector<std::string>{text_of(pair.at("source"))});
    EXPECT_EQ(found[0][0].text, pair.at("greedy"));
    EXPECT_NEAR(found[0][0].hypothesis.log_probability, pair.at("greedy_sum_logprob"), 1e-4);
    for (size_t k = 0; k < 2; ++k) {
      const json& beam = pair.at("beam2_sum_logprob_over_length")[k];
      const Hypothesis& hypothesis = found[0][k].hypothesis;
      EXPECT_EQ(found[0][k].text, beam[0]);
      const auto length = static_cast<double>(hypothesis.token_log_probability.size());
      EXPECT_NEAR(hypothesis.log_probability / length, beam[1].get<double>(), 2e-5);
    }
  }
}

// The first translation that begins with the prefix.
std::string continued(const Seq2SeqModel& model, const std::string& source, const std::string& prefix) {
  Translator::Options options;
  options.search.beam = 2;
  options.search.ranking.length_penalty = 0.0;
  std::string text;
  bool given = false;
  Translator(model, options)
      .run(
          [&](Translator::Line& line, bool) {
            line = {source, prefix};
            return std::exchange(given, true) ? Translator::Next::end : Translator::Next::line;
          },
          [&](const Translator::Result& result) { text = result.translations[0].text; });
  return text;
}

TEST_F(PublishedModel, GivesThePublishedOutputsWithForcedPrefixes) {
  int prefixes = 0;
  for (const char* form : forms) {
    const Seq2SeqModel model = import(form);
    for (const json& pair : expected_.at("published")) {
      if (!pair.contains("target_prefix")) continue;
      ++prefixes;
      EXPECT_EQ(continued(model, text_of(pair.at("source")), text_of(pair.at("target_prefix"))),
                text_of(pair.at("target")))
          << form;
    }
  }
  EXPECT_EQ(prefixes, 6);
}

// A line without text has no end symbol to stand for it here, and still is a line.
TEST_F(PublishedModel, EmptyLinesComeOutEmpty) {
  const Seq2SeqModel model = import(forms[0]);
  const Translator translator(model, {});
  const auto found = translator.translate(std::vector<std::string>{"", "آزا", "  "});
  EXPECT_EQ(found[0][0].text, "");
  EXPECT_EQ(found[1][0].text, "azza");
  EXPECT_EQ(found[2][0].text, "");
}

TEST_F(PublishedModel, AgreesWithCTranslate2) {
  const std::string python = testing::python_with_ctranslate2();
  if (python.empty()) GTEST_SKIP() << "no Python with ctranslate2; name one in TRANSDUCE_PYTHON";
  json request{{"sources", json::array()}, {"targets", json::array()}, {"beam", 2}};
  for (const json& pair : expected_.at("published")) {
    request["sources"].push_back(pair.at("source"));
    request["targets"].push_back(pair.at("target"));
  }
  for (const char* form : forms) {
    testing::TemporaryDirectory place;
    std::filesystem::copy(data_ / form / "model.bin", place / "model.bin");
    for (const char* name : {"source_vocabulary.txt", "target_vocabulary.txt"})
      std::filesystem::copy(data_ / name, place / name);
    const json answer = testing::run_ctranslate2(python, place.path(), request);
    const Seq2SeqModel model = import(form);
    Translator::Options options;
    options.search.beam = options.search.n_best = 2;
    options.search.ranking.length_penalty = 0.0;
    const Translator translator(model, options);
    double most = 0.0;
    for (size_t i = 0; i < request["sources"].size(); ++i) {
      const std::string source = text_of(request["sources"][i]);
      Ids target = model.target->encode(text_of(request["targets"][i])), read = target;
      read.insert(read.begin(), Vocabulary::start);
      target.push_back(Vocabulary::end);
      const auto got = log_probabilities(*model.transformer, model.source->encode(source), read);
      for (size_t t = 0; t < target.size(); ++t) {
        const double theirs = answer["log_probabilities"][i][t];
        most = std::max(most, std::abs(got[t][static_cast<size_t>(target[t])] - theirs));
      }
      const auto found = translator.translate(std::vector<std::string>{source});
      for (size_t k = 0; k < 2; ++k) {
        EXPECT_EQ(found[0][k].text, text_of(answer["hypotheses"][i][k])) << form;
        EXPECT_NEAR(found[0][k].hypothesis.log_probability, answer["scores"][i][k], 1e-4) << form;
      }
    }
    std::printf("%s: largest difference from CTranslate2's log-probabilities %.3g\n", form, most);
    EXPECT_LT(most, 1e-4) << form;
  }
}

}  // namespace
}  // namespace transduce
