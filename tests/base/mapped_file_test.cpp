#include "transduce/base/mapped_file.h"

#include <gtest/gtest.h>

#include "tests/base/temporary_directory.h"
#include "transduce/base/file.h"
#include "transduce/base/hash.h"
#include "transduce/base/temporary_file.h"

namespace transduce {
namespace {

using testing::error_of;
using testing::TemporaryDirectory;

TEST(MappedFile, HasTheBytesOfTheFile) {
  const TemporaryDirectory directory;
  const std::string bytes = std::string(10000, 'x') + std::string("\0end", 4);
  const MappedFile file(directory.file("a", bytes));
  EXPECT_EQ(file.bytes(), bytes);
  file.let_go();
  EXPECT_EQ(file.bytes(), bytes);
  write_file_atomic(directory / "a", "another");  // renamed over: what is mapped stays
  EXPECT_EQ(file.bytes(), bytes);
  EXPECT_EQ(MappedFile(directory.file("empty", "")).bytes(), "");
}

TEST(MappedFile, WhatIsNoFileIsRefused) {
  const TemporaryDirectory directory;
  EXPECT_NE(error_of([&] { MappedFile(directory / "missing"); }).find("missing"), std::string::npos);
  EXPECT_NE(error_of([&] { MappedFile{directory.path()}; }).find("no regular file"), std::string::npos);
  EXPECT_NE(error_of([&] { MappedFile("/dev/zero"); }).find("no regular file"), std::string::npos);
}

TEST(TemporaryFile, IsReadAgainAndAgainAndLeavesNothing) {
  const TemporaryDirectory directory;
  TemporaryFile file(directory.path());
  file.write("one\n");
  file.write("two\n");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(read_lines(file.path()), (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  EXPECT_NE(error_of([&] { TemporaryFile(directory / "missing"); }).find("missing"), std::string::npos);
}

// The values that the authors of FNV publish (http://www.isthe.com/chongo/tech/comp/fnv/, test vectors).
TEST(Hash, IsFnv1a) {
  const auto hash = [](std::string_view bytes) {
    Hash h;
    h.add(bytes);
    return h.value();
  };
  EXPECT_EQ(hash(""), 0xcbf29ce484222325U);
  EXPECT_EQ(hash("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(hash("foobar"), 0x85944171f73967e8U);
}

}  // namespace
}  // namespace transduce
