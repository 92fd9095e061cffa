// model.bin files that are broken or hostile.

#include "transduce/io/ctranslate2_file.h"

#include <gtest/gtest.h>

#include "tests/base/temporary_directory.h"
#include "tests/io/made_up_ctranslate2.h"
#include "transduce/io/ctranslate2.h"

namespace transduce {
namespace {

using testing::error_of;
using testing::ModelBin;
using testing::Stored;
using testing::TemporaryDirectory;

class ModelBinTest : public ::testing::Test {
 protected:
  // One short line that names the file, and no more memory than a few times the file.
  std::string refusal(const std::string& bytes) {
    const std::string path = directory_.file("model.bin", bytes);
    const size_t in_use = Arena::instance().statistics().in_use;
    Arena::instance().reset_peak();
    const std::string message = error_of([&] { CTranslate2File{path}; });
    EXPECT_LE(Arena::instance().statistics().peak, in_use + (1 << 20)) << message;
    EXPECT_NE(message.find("model.bin"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), path.size() + 400) << message;
    return message;
  }

  static ModelBin sample(uint32_t version) {
    ModelBin bin;
    bin.version = version;
    bin.add<float>("a/weight", {2, 3}, Stored::float32, {1, 2, 3, 4, 5, 6});
    bin.add<int8_t>("b/weight", {2, 2}, Stored::int8, {127, -64, 1, 0});
    bin.add<float>("b/weight_scale", {2}, Stored::float32, {127, 2});
    bin.add<int16_t>("c/weight", {1, 2}, Stored::int16, {1000, -500});
    bin.number("c/weight_scale", 1000);
    if (version >= 3) bin.aliases = {{"d/weight", "b/weight"}};
    return bin;
  }

  TemporaryDirectory directory_;
};

TEST_F(ModelBinTest, GivesValuesAndRemembersWhatWasTaken) {
  for (const uint32_t version : {2u, 3u, 4u, 5u, 6u}) {
    const CTranslate2File file(directory_.file("model.bin", sample(version).bytes()));
    EXPECT_EQ(file.specification(), "TransformerBase");
    EXPECT_EQ(file.revision(), 2u);
    EXPECT_EQ(file.shape("a/weight"), (Shape{2, 3}));
    EXPECT_EQ(file.values("a/weight").to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(file.values("b/weight").to_vector<float>(), (std::vector<float>{1, -64.0f / 127.0f, 0.5, 0}));
    EXPECT_EQ(file.values("c/weight").to_vector<float>(), (std::vector<float>{1, -0.5}));
    if (version >= 3) {
      EXPECT_EQ(file.untaken(), std::vector<std::string>{"\"d/weight\" (2, 2)"});
      EXPECT_EQ(file.values("d/weight").to_vector<float>(), file.values("b/weight").to_vector<float>());
    }
    EXPECT_TRUE(file.untaken().empty());
    EXPECT_FALSE(file.scalar("e").has_value());
    EXPECT_EQ(file.scalar("c/weight_scale"), 1000.0);
    EXPECT_NE(error_of([&] { file.scalar("a/weight"); }), "");
    EXPECT_NE(error_of([&] { file.values("e"); }).find("lacks the tensor \"e\""), std::string::npos);
  }
}

TEST_F(ModelBinTest, CutShortAnywhereItIsRefused) {
  for (const uint32_t version : {2u, 6u}) {
    const std::string whole = sample(version).bytes();
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_NE(refusal(whole.substr(0, size)), "") << size << " of " << whole.size() << " bytes";
    }
    EXPECT_NE(refusal(whole + "x").find("1 bytes follow"), std::string::npos);
  }
}

// Every byte changed to the values that hurt most: a value or an error, never a crash or a huge allocation.
TEST_F(ModelBinTest, AnyByteMayBeWrong) {
  testing::MadeUp model;
  model.width = model.inner = 4;
  model.draw();
  ModelBin bin = model.file();
  bin.flag("num_heads", 2);
  std::string whole = bin.bytes();
  directory_.file("source_vocabulary.txt", "<blank>\n<s>\n</s>\na\nb\nc\n");
  directory_.file("target_vocabulary.txt", "<blank>\n<s>\n</s>\nx\ny\n");
  size_t refused = 0;
  for (size_t i = 0; i < whole.size(); i += 7) {
    const char before = whole[i];
    for (const char wrong : {'\xFF', '\x7F', '\0'}) {
      whole[i] = wrong;
      directory_.file("model.bin", whole);
      const size_t in_use = Arena::instance().statistics().in_use;
      Arena::instance().reset_peak();
      refused += error_of([&] { import_ctranslate2(directory_.path()); }).empty() ? 0 : 1;
      EXPECT_LE(Arena::instance().statistics().peak, in_use + (4 << 20)) << "byte " << i;
    }
    whole[i] = before;
  }
  EXPECT_GT(refused, whole.size() / 7);
}

TEST_F(ModelBinTest, CountsAreNotBelieved) {
  const auto with = [](auto change) {
    ModelBin bin = sample(6);
    change(bin);
    return bin.bytes();
  };
  // 4 billion tensors, in a file that holds one.
  std::string many = sample(2).bytes();
  const size_t count_at = 4 + 2 + 16 + 4;
  many.replace(count_at, 4, "\xFF\xFF\xFF\xFF");
  EXPECT_NE(refusal(many).find("tensor 6 of 4294967295"), std::string::npos);

  EXPECT_NE(
      refusal(with([](ModelBin& b) {
        b.at("a/weight").shape = {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF};
      }))
          .find("tensor \"a/weight\" of shape (4294967295, 4294967295, 4294967295) does not go with the 24 "
                "bytes stated"),
      std::string::npos);
  EXPECT_NE(
      refusal(with([](ModelBin& b) { b.at("a/weight").shape = std::vector<uint32_t>(9, 1); })).find("rank 9"),
      std::string::npos);
  EXPECT_NE(refusal(with([](ModelBin& b) { b.at("a/weight").type = static_cast<Stored>(77); })), "");
  EXPECT_NE(refusal(with([](ModelBin& b) { b.at("a/weight").name = "b/weight"; })).find("\"b/weight\" twice"),
            std::string::npos);
  EXPECT_NE(refusal(with([](ModelBin& b) {
              b.aliases = {{"x", "y"}};
            })).find("stands for \"y\""),
            std::string::npos);
  EXPECT_NE(refusal(with([](ModelBin& b) { b.aliases = {{"a/weight", "b/weight"}}; })), "");
  EXPECT_NE(refusal(with([](ModelBin& b) { b.at("a/weight").name = std::string("a\0b", 3); })), "");
  EXPECT_NE(refusal(with([](ModelBin& b) { b.version = 7; })).find("version 7"), std::string::npos);
  EXPECT_NE(refusal(with([](ModelBin& b) { b.version = 1; })).find("version 1"), std::string::npos);
  EXPECT_NE(refusal("PK\3\4 something else entirely"), "");
}

TEST_F(ModelBinTest, ScalesMustFit) {
  const auto error = [&](auto change) {
    ModelBin bin = sample(2);
    change(bin);
    const CTranslate2File file(directory_.file("model.bin", bin.bytes()));
    return error_of([&] { file.values("b/weight"); });
  };
  EXPECT_NE(
      error([](ModelBin& b) { b.remove("b/weight_scale"); }).find("lacks the tensor \"b/weight_scale\""),
      std::string::npos);
  EXPECT_NE(error([](ModelBin& b) {
              b.remove("b/weight_scale");
              b.add<float>("b/weight_scale", {3}, Stored::float32, {1, 2, 3});
            }).find("of shape (3) does not fit the tensor (2, 2)"),
            std::string::npos);
  EXPECT_NE(
      error([](ModelBin& b) { b.at("b/weight_scale").bytes = std::string(8, '\0'); }).find("the scale 0"),
      std::string::npos);
}

// A row of 65,536 columns does not make a model of that width.
TEST_F(ModelBinTest, AModelMayNotBeLargerThanItsFile) {
  ModelBin bin;
  constexpr uint32_t width = 65536;
  const std::vector<float> row(width, 0.5f);
  for (const char* name :
       {"encoder/embeddings/weight", "decoder/embeddings/weight", "decoder/projection/weight"}) {
    std::vector<float> rows;
    for (int i = 0; i < 4; ++i) rows.insert(rows.end(), row.begin(), row.end());
    bin.add(name, {4, width}, Stored::float32, rows);
  }
  bin.add<float>("encoder/layer_0/self_attention/linear_0/weight", {1}, Stored::float32, {1});
  bin.add<float>("decoder/layer_0/self_attention/linear_0/weight", {1}, Stored::float32, {1});
  bin.add<float>("decoder/layer_0/ffn/linear_0/weight", {1000, 1}, Stored::float32, std::vector<float>(1000));
  bin.flag("num_heads", 1);
  directory_.file("model.bin", bin.bytes());
  directory_.file("shared_vocabulary.txt", "<blank>\n<s>\n</s>\n");
  const size_t in_use = Arena::instance().statistics().in_use;
  Arena::instance().reset_peak();
  EXPECT_NE(error_of([&] { import_ctranslate2(directory_.path()); }).find("but a model of its shape has"),
            std::string::npos);
  EXPECT_LE(Arena::instance().statistics().peak, in_use + (32 << 20));
}

}  // namespace
}  // namespace transduce
