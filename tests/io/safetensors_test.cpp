#include "transduce/io/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "transduce/base/error.h"
#include "transduce/base/random.h"
#include "transduce/tensor/arena.h"

namespace transduce {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A directory of its own for each test, removed afterwards.
class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest() {
    directory_ = ::testing::TempDir() + "safetensors_test_" + std::to_string(::getpid());
    std::filesystem::create_directories(directory_);
  }
  ~SafetensorsTest() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name = "x.safetensors") const { return directory_ + "/" + name; }

  void put(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  TensorFile read(const std::string& bytes) const {
    put(bytes);
    return read_safetensors(path());
  }

  // The message with which these bytes are refused: one line that names the file, without much
  // memory.
  std::string refusal(const std::string& bytes) const {
    put(bytes);
    const size_t in_use = Arena::instance().statistics().in_use;
    Arena::instance().reset_peak();
    const std::clock_t start = std::clock();  // processor time: other programs do not count
    std::string message = "read without an error";
    try {
      read_safetensors(path());
    } catch (const InputError& error) {
      message = error.what();
    }
    // Recorded, not asserted: under a second in a release build, more where a sanitizer watches.
    const auto milliseconds = (std::clock() - start) * 1000 / CLOCKS_PER_SEC;
    ::testing::Test::RecordProperty("milliseconds", static_cast<int>(milliseconds));
    if (milliseconds >= 1000)
      std::printf("refused after %d ms: %s\n", static_cast<int>(milliseconds), message.c_str());
    EXPECT_LE(Arena::instance().statistics().peak, in_use + (1 << 20)) << message;
    EXPECT_NE(message.find("x.safetensors"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), path().size() + 500) << message;
    return message;
  }

  std::string directory_;
};

std::string length_of(uint64_t header_bytes) {
  return {reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes)};
}

std::string file_of(const std::string& header, const std::string& data = "") {
  return length_of(header.size()) + header + data;
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(elements_of(shape)));
  std::iota(values.begin(), values.end(), 0.5f);
  return Tensor::of(shape, values);
}

// A small valid file with metadata and several types, for the tests that break it.
std::string sample(const std::string& path) {
  write_safetensors(path,
                    {{"weight", counting({3, 2})},
                     {"ids", Tensor::of<int32_t>({2}, {7, -7})},
                     {"double", Tensor::of<double>({1, 2}, {0.1, -1e300})},
                     {"bytes", Tensor::of<uint8_t>({3}, {1, 2, 255})},
                     {"none", counting({0, 4})}},
                    {{"config", "{\"width\": 16}"}, {"by", "a test"}});
  return bytes_of(path);
}

TEST_F(SafetensorsTest, ReadsWhatItWrote) {
  sample(path());
  const TensorFile file = read_safetensors(path());
  EXPECT_EQ(file.metadata,
            (std::map<std::string, std::string>{{"config", "{\"width\": 16}"}, {"by", "a test"}}));
  ASSERT_EQ(file.tensors.size(), 5u);
  EXPECT_EQ(file.tensors.at("weight").shape(), (Shape{3, 2}));
  EXPECT_EQ(file.tensors.at("weight").to_vector<float>(), counting({3, 2}).to_vector<float>());
  EXPECT_EQ(file.tensors.at("ids").to_vector<int32_t>(), (std::vector<int32_t>{7, -7}));
  EXPECT_EQ(file.tensors.at("double").to_vector<double>(), (std::vector<double>{0.1, -1e300}));
  EXPECT_EQ(file.tensors.at("bytes").to_vector<uint8_t>(), (std::vector<uint8_t>{1, 2, 255}));
  EXPECT_EQ(file.tensors.at("none").shape(), (Shape{0, 4}));
}

TEST_F(SafetensorsTest, KeepsEveryBit) {
  const std::vector<float> values = {0.0f,     -0.0f,     1e-45f,
                                     INFINITY, -INFINITY, std::bit_cast<float>(0x7fc00123u)};
  write_safetensors(path(), {{"x", Tensor::of<float>({6}, values)}});
  const auto back = read_safetensors(path()).tensors.at("x").to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(values[i])) << i;
  }
}

TEST_F(SafetensorsTest, NamesMayHoldAnyText) {
  const std::string names[] = {"", "한국어", "a\"b\\c\n\t", std::string("nul\0nul", 7), "👍"};
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::map<std::string, std::string> metadata;
  for (const std::string& name : names) {
    tensors.emplace_back(name, counting({1}));
    metadata[name] = name;
  }
  write_safetensors(path(), tensors, metadata);
  const TensorFile file = read_safetensors(path());
  EXPECT_EQ(file.metadata, metadata);
  for (const std::string& name : names) EXPECT_EQ(file.tensors.count(name), 1u) << name;
}

TEST_F(SafetensorsTest, WritesTheFormatToTheByte) {
  write_safetensors(path(),
                    {{"b", Tensor::of<uint8_t>({1}, {9})},
                     {"z", Tensor::of<float>({}, {1.0f})},
                     {"a", Tensor::of<float>({1, 1}, {-2.0f})},
                     {"d", Tensor::of<double>({1}, {1.0})}},
                    {{"k", "v"}});
  std::string header = R"({"__metadata__":{"k":"v"},"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
                       R"("z":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
                       R"("a":{"dtype":"F32","shape":[1,1],"data_offsets":[12,16]},)"
                       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[16,17]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string data("\0\0\0\0\0\0\xf0\x3f\0\0\x80\x3f\0\0\0\xc0\x09", 17);
  EXPECT_EQ(bytes_of(path()), file_of(header, data));
}

TEST_F(SafetensorsTest, WritesStridedTensorsWithoutTheirGaps) {
  write_safetensors(path(),
                    {{"columns", counting({3, 4}).columns(1, 3)}, {"rows", counting({3, 4}).rows(1, 2)}});
  const TensorFile file = read_safetensors(path());
  EXPECT_EQ(file.tensors.at("columns").to_vector<float>(),
            (std::vector<float>{1.5f, 2.5f, 5.5f, 6.5f, 9.5f, 10.5f}));
  EXPECT_EQ(file.tensors.at("rows").to_vector<float>(), (std::vector<float>{4.5f, 5.5f, 6.5f, 7.5f}));
}

TEST_F(SafetensorsTest, EmptyFilesAreFiles) {
  write_safetensors(path(), {});
  EXPECT_EQ(bytes_of(path()), file_of("{}      "));
  EXPECT_TRUE(read_safetensors(path()).tensors.empty());
}

// Every 16-bit pattern, against the definition of the two formats.
TEST_F(SafetensorsTest, WidensHalfPrecision) {
  std::string patterns;
  for (int i = 0; i < 0x10000; ++i) patterns += {static_cast<char>(i & 255), static_cast<char>(i >> 8)};
  const auto values = [&](const std::string& dtype) {
    const auto file = read(file_of("{\"x\":" + entry(dtype, "[65536]", "[0,131072]") + "}", patterns));
    return file.tensors.at("x").to_vector<float>();
  };
  const auto expect = [](float got, int bits, int exponent_bits, int mantissa_bits) {
    const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
    const double fraction = mantissa / static_cast<double>(1 << mantissa_bits);
    double value = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    if (exponent == (1 << exponent_bits) - 1) value = mantissa == 0 ? INFINITY : NAN;
    ASSERT_EQ(std::signbit(got), bits >= 0x8000) << bits;
    ASSERT_TRUE(std::isnan(value) ? std::isnan(got) : std::abs(got) == value) << bits << " gave " << got;
  };
  const auto half = values("F16"), brain = values("BF16");
  for (int i = 0; i < 0x10000; ++i) {
    expect(half[static_cast<size_t>(i)], i, 5, 10);
    expect(brain[static_cast<size_t>(i)], i, 8, 7);
  }
}

TEST_F(SafetensorsTest, ReadsFilesOfTheOfficialLibrary) {
  const std::string fixture = TRANSDUCE_TESTS "/golden/fixtures/attention_self.safetensors";
  const TensorFile file = read_safetensors(fixture);
  EXPECT_EQ(file.tensors.at("input.query").shape(), (Shape{16, 16}));
  EXPECT_EQ(file.tensors.at("input.lengths").to_vector<int32_t>(), (std::vector<int32_t>{5, 1, 7, 3}));
  EXPECT_NE(file.metadata.at("config").find("\"heads\": 4"), std::string::npos);
}

// ---- what is refused
// -----------------------------------------------------------------------------------------

TEST_F(SafetensorsTest, RefusesWhatIsNoFile) {
  const auto message = [](const std::string& name) {
    try {
      read_safetensors(name);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_NE(message(path("missing")).find("missing"), std::string::npos);
  EXPECT_NE(message(directory_).find("not a file"), std::string::npos) << message(directory_);
  EXPECT_NE(message("/dev/zero").find("not a file"), std::string::npos);
  EXPECT_NE(message("").find("cannot read"), std::string::npos);
}

TEST_F(SafetensorsTest, RefusesHeaderLengthsThatCannotBe) {
  for (const uint64_t bytes : {uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7, uint64_t{100'000'001}}) {
    EXPECT_NE(refusal(length_of(bytes) + "{}").find(std::to_string(bytes)), std::string::npos);
  }
  EXPECT_NE(refusal(length_of(3) + "{}").find("does not fit"), std::string::npos);
  EXPECT_NE(refusal(length_of(100'000'000) + "{}").find("does not fit"), std::string::npos);
  EXPECT_NE(refusal("").find("too few"), std::string::npos);
}

struct Refused {
  std::string header;
  std::string says;  // part of the message
};

TEST_F(SafetensorsTest, RefusesHeadersThatBreakTheFormat) {
  const Refused cases[] = {
      // not the right JSON
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {"7", "not a JSON object"},
      {" {}", "not a JSON object"},
      {"\xef\xbb\xbf{}", "not a JSON object"},
      {"{", "not JSON"},
      {"{}{}", "not JSON"},
      {"{} x", "not JSON"},
      {"{\"a\xff\":1}", "not JSON"},
      {"{'a':1}", "not JSON"},
      {"{/**/}", "not JSON"},
      // not the right members
      {R"({"a":null})", "null for \"a\" where an object"},
      {R"({"a":[]})", "an array for \"a\""},
      {R"({"a":{}})", "\"a\" has no dtype"},
      {R"({"a":{"dtype":"U8","shape":[8]}})", "\"a\" has no data_offsets"},
      {R"({"a":{"dtype":"U8","data_offsets":[0,8]}})", "\"a\" has no shape"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[]}})", "0 data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0]}})", "1 data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8,8]}})", "the number 8 in its data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8],"data_offsets":[0,8]}})",
       "in its data_offsets"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]}})", "dtype or two"},
      {R"({"a":{"dtype":"U8","shape":[8],"shape":[8],"data_offsets":[0,8]}})", "an array in its shape"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8],"more":1}})", "a field \"more\""},
      {R"({"a":{"dtype":1,"shape":[8],"data_offsets":[0,8]}})", "the number 1 in its dtype"},
      {R"({"a":{"dtype":["U8"],"shape":[8],"data_offsets":[0,8]}})", "an array in its dtype"},
      {R"({"a":{"dtype":"U8","shape":8,"data_offsets":[0,8]}})", "the number 8 in its shape"},
      {R"({"a":{"dtype":"U8","shape":[[8]],"data_offsets":[0,8]}})", "an array in its shape"},
      {R"({"a":{"dtype":"U8","shape":[{}],"data_offsets":[0,8]}})", "an object in its shape"},
      {R"({"a":{"dtype":"U8","shape":["8"],"data_offsets":[0,8]}})", "a string in its shape"},
      {R"({"a":{"dtype":"U8","shape":[true],"data_offsets":[0,8]}})", "true in its shape"},
      {R"({"__metadata__":{"a":1}})", "the number 1 for \"a\" where a string"},
      {R"({"__metadata__":{"a":{}}})", "an object for \"a\" where a string"},
      {R"({"__metadata__":{"a":"","a":""}})", "names \"a\" twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "__metadata__ twice"},
      // numbers
      {R"({"a":{"dtype":"U8","shape":[-8],"data_offsets":[0,8]}})", "the number -8 in its shape"},
      {R"({"a":{"dtype":"U8","shape":[8.0],"data_offsets":[0,8]}})", "the number 8.0 in its shape"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8e0]}})", "the number 8e0 in its data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[-0,8]}})", "in its data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,8]}})", "9223372036854775808"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,18446744073709551616]}})", "18446744073709551616"},
      {R"({"a":{"dtype":"U8","shape":[1e999],"data_offsets":[0,8]}})", "not JSON"},
      {R"({"a":{"dtype":"U8","shape":[08],"data_offsets":[0,8]}})", "not JSON"},
      // types, shapes and ranges
      {R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "\"a\" has dtype \"I64\""},
      {R"({"a":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}})", "dtype \"f32\""},
      {R"({"a":{"dtype":"","shape":[2],"data_offsets":[0,8]}})", "empty dtype"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", "more bytes than"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,8]}})", "more bytes than"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,2147483648],"data_offsets":[0,8]}})", "more bytes than"},
      {R"({"a":{"dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8]}})", "more bytes than"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "F32 (3): 12 bytes, but"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", "F32 (1): 4 bytes, but"},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,8]}})", "F32 (): 4 bytes, but"},
      {R"({"a":{"dtype":"F32","shape":[274877906944],"data_offsets":[0,1099511627776]}})",
       "only 8 bytes follow"},
      {R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", "only 8 bytes follow"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[18446744073709551608,0]}})", "the end lies before"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[8,4]}})", "the end lies before"},
      {R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[1,8]}})", "a gap from 0"},
      {R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[0,7]}})", "1 bytes follow the last tensor"},
      {R"({})", "8 bytes follow the last tensor"},
  };
  for (const Refused& c : cases) {
    const std::string message = refusal(file_of(c.header, "8 bytes."));
    EXPECT_NE(message.find(c.says), std::string::npos) << c.header << "\n" << message;
  }
}

TEST_F(SafetensorsTest, RefusesRangesThatDoNotCoverTheDataOnce) {
  const auto two = [](const std::string& first, const std::string& second) {
    return "{" + first + "," + second + "}";
  };
  const auto bytes = [](const std::string& name, int begin, int end) {
    const std::string shape = fmt::format("[{}]", end - begin), offsets = fmt::format("[{},{}]", begin, end);
    return "\"" + name + "\":" + entry("U8", shape, offsets);
  };
  const Refused cases[] = {
      {two(bytes("a", 0, 8), bytes("a", 0, 8)), "\"a\" is in the header twice"},
      {two(bytes("a", 0, 5), bytes("b", 4, 8)), "\"b\" has data_offsets 4 to 8, but bytes up to 5"},
      {two(bytes("a", 0, 8), bytes("b", 0, 8)), "but bytes up to 8 belong to another"},
      {two(bytes("a", 0, 8), bytes("b", 2, 4)), "\"b\" has data_offsets 2 to 4, but bytes up to 8"},
      {two(bytes("a", 0, 3), bytes("b", 4, 8)), "\"b\" has data_offsets 4 to 8, which leaves a gap from 3"},
      {two(bytes("a", 4, 8), bytes("b", 0, 3)), "\"a\" has data_offsets 4 to 8, which leaves a gap from 3"},
      {two(bytes("a", 9, 9), bytes("b", 0, 8)), "\"a\" has data_offsets 9 to 9 but only 8 bytes follow"},
      {two(bytes("a", 4, 4), bytes("b", 0, 8)), "but bytes up to 8 belong to another"},
      {two(bytes("a", 0, 4), bytes("b", 4, 7)), "1 bytes follow the last tensor"},
  };
  for (const Refused& c : cases) {
    const std::string message = refusal(file_of(c.header, "8 bytes."));
    EXPECT_NE(message.find(c.says), std::string::npos) << c.header << "\n" << message;
  }
}

TEST_F(SafetensorsTest, RefusesNulInTheHeader) {
  EXPECT_NE(refusal(file_of(std::string("{}\0trailing", 11))).find("not a JSON object"), std::string::npos);
}

TEST_F(SafetensorsTest, RefusesDeepNestingAndHugeMembersQuickly) {
  constexpr size_t many = 2'000'000;
  const auto repeated = [](const std::string& text, size_t times) {
    std::string all;
    for (size_t i = 0; i < times; ++i) all += text;
    return all;
  };
  refusal(file_of(std::string(many, '[')));
  refusal(file_of("{\"a\":" + std::string(many, '[')));
  refusal(file_of(repeated("{\"a\":", many)));
  refusal(file_of("{\"__metadata__\":" + repeated("{\"a\":", many)));
  refusal(file_of("{\"a\":{\"shape\":" + std::string(many, '[')));
  refusal(file_of("{\"a\":{\"more\":" + std::string(many, '[')));
  EXPECT_NE(refusal(file_of("{\"a\":{\"shape\":[1" + repeated(",1", many))).find("32 sizes"),
            std::string::npos);
  std::string members;
  for (int i = 0; i < 200'000; ++i) members += fmt::format("\"{}\":\"\",", i);
  EXPECT_NE(refusal(file_of("{\"__metadata__\":{" + members)).find("more than 100000"), std::string::npos);
  refusal(file_of("{\"" + std::string(many, 'a') + "\":1}"));
  refusal(
      file_of("{\"a\":{\"dtype\":\"" + std::string(many, 'F') + "\",\"shape\":[],\"data_offsets\":[0,0]}}"));
  refusal(file_of("{\"a\":" + std::string(many, '9')));
  refusal(file_of("{\"line\\nbreak\":{\"dtype\":\"a\\nb\",\"shape\":[],\"data_offsets\":[0,0]}}"));
}

TEST_F(SafetensorsTest, RefusesFilesCutShortAnywhere) {
  const std::string whole = sample(path());
  for (size_t size = 0; size < whole.size(); ++size) refusal(whole.substr(0, size));
  EXPECT_NE(refusal(whole + "x").find("1 bytes follow the last tensor"), std::string::npos);
}

// Changes a valid file at random: it is read or refused, and what is read lies within the file.
TEST_F(SafetensorsTest, SurvivesRandomChanges) {
  const std::string whole = sample(path());
  int accepted = 0, refused = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    Random random({42, i});
    std::string bytes = whole;
    for (uint64_t change = 0; change <= random.below(3); ++change) {
      const size_t at = random.below(random.below(2) ? bytes.size() : std::min<size_t>(bytes.size(), 420));
      switch (random.below(6)) {
        case 0:
          bytes[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
          break;
        case 2:
          bytes[at] = "0123456789[]{},:\" -.e"[random.below(21)];
          break;
        case 3:
          bytes.erase(at, 1 + random.below(4));
          break;
        case 4:
          bytes.insert(at, bytes.substr(random.below(bytes.size()), random.below(9)));
          break;
        default:
          bytes.resize(at + 1);
          break;
      }
    }
    try {
      size_t elements = 0;
      for (const auto& [name, tensor] : read(bytes).tensors) elements += static_cast<size_t>(tensor.size());
      EXPECT_LE(elements, bytes.size());
      ++accepted;
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 1000);
}

TEST_F(SafetensorsTest, RefusesToWriteWhatCannotBeRead) {
  sample(path());
  const std::string before = bytes_of(path());
  const Tensor x = counting({2});
  EXPECT_THROW(write_safetensors(path(), {{"x", x}, {"x", x}}), InputError);
  EXPECT_THROW(write_safetensors(path(), {{"__metadata__", x}}), InputError);
  EXPECT_THROW(write_safetensors(path(), {{"x", Tensor()}}), InputError);
  EXPECT_THROW(write_safetensors(path(), {{"x", Tensor::zeros({1}, DType::complex128)}}), InputError);
  EXPECT_THROW(write_safetensors(path(), {{"\xff", x}}), InputError);
  EXPECT_THROW(write_safetensors(path(), {{"x", x}}, {{"key", "\xff"}}), InputError);
  EXPECT_THROW(write_safetensors(path(), {{"x", x}}, {{"key", std::string(100'000'001, 'a')}}), InputError);
  EXPECT_THROW(write_safetensors(path("no/such/directory"), {{"x", x}}), InputError);
  EXPECT_EQ(bytes_of(path()), before);
  const std::filesystem::directory_iterator files(directory_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "something was left beside the file";
}

// ---- with the official library
// -------------------------------------------------------------------------------

// A Python that has the safetensors package, or nothing.
std::string python() {
  const char* chosen = std::getenv("TRANSDUCE_PYTHON");
  const std::string program = chosen != nullptr ? chosen : "python3";
  const std::string trial = "'" + program + "' -c 'import safetensors.numpy' > /dev/null 2>&1";
  return std::system(trial.c_str()) == 0 ? program : "";
}

TEST_F(SafetensorsTest, ExchangesFilesWithPython) {
  const std::string program = python();
  if (program.empty()) GTEST_SKIP() << "no Python with safetensors and numpy; name one in TRANSDUCE_PYTHON";
  sample(path());
  std::ofstream(path("exchange.py")) << R"(
import sys
import numpy
from safetensors import safe_open
from safetensors.numpy import save_file

with safe_open(sys.argv[1], "np") as file:
    assert file.metadata() == {"config": '{"width": 16}', "by": "a test"}, file.metadata()
    tensors = {name: file.get_tensor(name) for name in file.keys()}
expected = {
    "weight": numpy.arange(6, dtype=numpy.float32).reshape(3, 2) + numpy.float32(0.5),
    "ids": numpy.array([7, -7], dtype=numpy.int32),
    "double": numpy.array([[0.1, -1e300]]),
    "bytes": numpy.array([1, 2, 255], dtype=numpy.uint8),
    "none": numpy.zeros((0, 4), dtype=numpy.float32),
}
assert tensors.keys() == expected.keys(), tensors.keys()
for name, value in expected.items():
    assert tensors[name].dtype == value.dtype and tensors[name].shape == value.shape, name
    assert (tensors[name] == value).all(), name
tensors["half"] = numpy.array([[0.5], [-65504], [6e-8]], dtype=numpy.float16)
save_file(tensors, sys.argv[2], {"a": "b"})
)";
  const std::string command =
      "'" + program + "' '" + path("exchange.py") + "' '" + path() + "' '" + path("theirs") + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);

  const TensorFile ours = read_safetensors(path()), theirs = read_safetensors(path("theirs"));
  EXPECT_EQ(theirs.metadata, (std::map<std::string, std::string>{{"a", "b"}}));
  ASSERT_EQ(theirs.tensors.size(), 6u);
  EXPECT_EQ(theirs.tensors.at("weight").to_vector<float>(), ours.tensors.at("weight").to_vector<float>());
  EXPECT_EQ(theirs.tensors.at("double").to_vector<double>(), ours.tensors.at("double").to_vector<double>());
  EXPECT_EQ(theirs.tensors.at("half").shape(), (Shape{3, 1}));
  EXPECT_EQ(theirs.tensors.at("half").to_vector<float>(), (std::vector<float>{0.5f, -65504.0f, 0x1p-24f}));
}

}  // namespace
}  // namespace transduce
