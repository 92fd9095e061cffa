#include "transduce/base/names.h"

#include <gtest/gtest.h>

namespace transduce {
namespace {

enum class Color { red, green, blue };
constexpr Name<Color> colors[] = {{Color::red, "red"}, {Color::green, "green"}};

TEST(NamesTest, ValuesAndNamesAreEachOthersInverse) {
  for (const auto& [value, name] : colors) {
    EXPECT_EQ(value_in(colors, "color", name), value);
    EXPECT_STREQ(name_in(colors, value), name);
  }
  EXPECT_STREQ(name_in(colors, Color::blue), "?");
}

TEST(NamesTest, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  try {
    value_in(colors, "color", "pink\n");
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "unknown color \"pink\\x0A\": give red or green");
  }
}

TEST(NamesTest, Alternatives) {
  EXPECT_EQ(alternatives({}), "");
  EXPECT_EQ(alternatives({"a"}), "a");
  EXPECT_EQ(alternatives({"a", "b"}), "a or b");
  EXPECT_EQ(alternatives({"a", "b", "c"}), "a, b or c");
}

}  // namespace
}  // namespace transduce
