#pragma once

// Just enough of an XML reader to know whether a picture is well-formed.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "transduce/base/text.h"

namespace transduce::testing {

inline size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size()) ++count;
  return count;
}

// Every tag is closed in order, attributes are quoted, "&" begins one of the five entities or a number, and
// no character is one that XML forbids.
inline void expect_well_formed(std::string_view text) {
  ASSERT_TRUE(is_valid_utf8(text));
  std::vector<std::string> open;
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    ASSERT_TRUE(c >= 0x20 || c == '\n' || c == '\t') << "control character at " << i;
    if (c == '&') {
      const size_t end = text.find(';', i);
      ASSERT_TRUE(end != std::string_view::npos && end - i < 8) << "stray & at " << i;
    }
    ASSERT_NE(c, '>') << "stray > at " << i;
    if (c != '<') {
      ++i;
      continue;
    }
    size_t end = i + 1;
    char quote = 0;
    for (; end < text.size() && (quote != 0 || text[end] != '>'); ++end) {
      ASSERT_NE(text[end], '<') << "stray < at " << end;
      if (text[end] == quote) {
        quote = 0;
      } else if (quote == 0 && (text[end] == '"' || text[end] == '\'')) {
        quote = text[end];
      }
    }
    ASSERT_LT(end, text.size()) << "a tag without an end at " << i;
    const std::string_view tag = text.substr(i + 1, end - i - 1);
    const std::string name(tag.substr(0, tag.find_first_of(" \n/", 1)));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
      if (name == "style") i = text.find("</style>", i) - 1, end = i;
    }
    i = end + 1;
  }
  EXPECT_TRUE(open.empty()) << open.back();
}

}  // namespace transduce::testing
