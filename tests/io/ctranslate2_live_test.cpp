// Against CTranslate2 itself: models that its own specifications write are imported, and both programs say
// the same of the same text. Skipped where no Python has it.

#include <gtest/gtest.h>

#include "tests/io/ctranslate2_live.h"
#include "tests/io/teacher_forcing.h"
#include "transduce/io/ctranslate2.h"

namespace transduce {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

json tokens_of(const std::string& text) {
  json tokens = json::array();
  for (const auto character : utf8_characters(text)) tokens.push_back(std::string(character));
  return tokens;
}

// Sources of lower-case and targets of upper-case letters, as the models below have them; x is unknown to
// them.
struct Pair {
  std::string source, target;
};

// The largest difference of the log-probabilities that the two programs give the targets.
double difference(const Seq2SeqModel& model, const std::string& python, const std::string& directory,
                  const std::vector<Pair>& pairs) {
  json request{{"sources", json::array()}, {"targets", json::array()}, {"beam", 1}, {"max_length", 5}};
  for (const Pair& pair : pairs) {
    request["sources"].push_back(tokens_of(pair.source));
    request["targets"].push_back(tokens_of(pair.target));
  }
  const json answer = testing::run_ctranslate2(python, directory, request);
  double most = 0.0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    Ids expected = model.target->encode(pairs[i].target), read = expected;
    read.insert(read.begin(), Vocabulary::start);
    expected.push_back(Vocabulary::end);
    const auto got =
        testing::log_probabilities(*model.transformer, model.source->encode(pairs[i].source), read);
    for (size_t t = 0; t < expected.size(); ++t) {
      const double theirs = answer["log_probabilities"][i][t];
      most = std::max(most, std::abs(got[t][static_cast<size_t>(expected[t])] - theirs));
    }
  }
  return most;
}

TEST(CTranslate2Live, ModelsThatItsConvertersWriteAreImported) {
  const std::string python = testing::python_with_ctranslate2();
  if (python.empty()) GTEST_SKIP() << "no Python with ctranslate2; name one in TRANSDUCE_PYTHON";
  const json common{
      {"seed", 1},       {"width", 16},    {"feed_forward", 24},       {"tokens", 5},
      {"tie", "none"},   {"bias", true},   {"config", json::object()}, {"positions", 0},
      {"num_layers", 2}, {"num_heads", 4}, {"activation", 0},          {"quantization", nullptr}};
  const std::vector<std::pair<const char*, json>> variants{
      {"pre-norm relu", {{"pre_norm", true}}},
      {"post-norm gelu", {{"pre_norm", false}, {"activation", 3}, {"config", {{"add_source_eos", true}}}}},
      {"gelu by tanh, tied decoder, no bias", {{"activation", 1}, {"tie", "decoder"}, {"bias", false}}},
      {"swish, all tied", {{"activation", 2}, {"tie", "all"}, {"num_layers", {1, 2}}}},
      {"SwiGLU, RMSNorm", {{"activation", 2}, {"ffn_glu", true}, {"rms_norm", true}}},
      {"epsilon", {{"config", {{"layer_norm_epsilon", 0.01}}}}},
      {"learned positions", {{"positions", 30}, {"pre_norm", false}}},
      {"starts from </s>", {{"config", {{"decoder_start_token", "</s>"}}}, {"tie", "decoder"}}},
      {"int8", {{"quantization", "int8"}}},
      {"int16, all tied", {{"quantization", "int16"}, {"tie", "all"}}},
      {"float16", {{"quantization", "float16"}}},
  };
  const std::vector<Pair> lower{{"abcde", "ABCDE"}, {"a", "EE"}, {"caxcade", "DAXBACADEB"}},
      joint{{"abcde", "abcde"}, {"a", "ee"}, {"caxcade", "daxbacadeb"}};
  for (const auto& [name, changes] : variants) {
    json options = common;
    options.update(changes);
    const testing::TemporaryDirectory place;
    const std::string command =
        golden::quoted(python) + " " + golden::quoted(TRANSDUCE_TESTS "/io/make_ctranslate2.py") + " " +
        golden::quoted(place / "model") + " <" + golden::quoted(place.file("options.json", options.dump()));
    ASSERT_EQ(std::system(command.c_str()), 0) << name;
    const Seq2SeqModel model = import_ctranslate2(place / "model");
    const double most = difference(model, python, place / "model", options["tie"] == "all" ? joint : lower);
    std::printf("%s: largest difference of a log-probability %.3g\n", name, most);
    EXPECT_LT(most, 5e-6) << name;
  }
}

}  // namespace
}  // namespace transduce
