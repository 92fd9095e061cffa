#include "transduce/base/memory.h"

#include <gtest/gtest.h>

#include "tests/base/temporary_directory.h"
#include "transduce/base/error.h"

namespace transduce {
namespace {

TEST(Memory, SizesAreRead) {
  EXPECT_EQ(parse_bytes("1000"), 1000);
  EXPECT_EQ(parse_bytes("8G"), int64_t{8} << 30);
  EXPECT_EQ(parse_bytes("1.5 GiB"), int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("2kb"), 2048);
  EXPECT_EQ(parse_bytes("3T"), int64_t{3} << 40);
  for (const char* bad : {"", "G", "-1G", "0", "8X", "8GX", "nan", "inf", "1e30", "8 G 8", "1iB", "0.1"}) {
    EXPECT_THROW(parse_bytes(bad), InputError) << bad;
  }
}

TEST(Memory, SizesAreShown) {
  EXPECT_EQ(bytes_text(12), "12 B");
  EXPECT_EQ(bytes_text(int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(bytes_text(int64_t{200} << 20), "200 MiB");
  EXPECT_EQ(bytes_text(INT64_MAX), "8388608 TiB");
}

TEST(Memory, TheSystemSays) {
  EXPECT_GT(resident_bytes(), 100000);
  EXPECT_GT(available_bytes(), 0);
}

}  // namespace
}  // namespace transduce
