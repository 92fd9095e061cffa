#include "transduce/data/tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/base/temporary_directory.h"

namespace transduce {
namespace {

using testing::error_of;

TEST(Task, TargetsFollowFromSources) {
  for (const auto kind : {TaskKind::reverse, TaskKind::copy, TaskKind::sort}) {
    const Task task({kind, 27, 1, 12});
    for (uint64_t i = 0; i < 1000; ++i) {
      const auto [source, target] = task.example(7, i);
      std::string expected = source;
      if (kind == TaskKind::reverse) std::reverse(expected.begin(), expected.end());
      if (kind == TaskKind::sort) {
        std::sort(expected.begin(), expected.end(),
                  [&](char a, char b) { return task.alphabet().find(a) < task.alphabet().find(b); });
      }
      EXPECT_EQ(target, expected);
    }
  }
}

TEST(Task, CoversLengthsAndAlphabetEvenly) {
  const Task task({TaskKind::copy, 27, 3, 6});
  EXPECT_EQ(task.alphabet(), "abcdefghijklmnopqrstuvwxyzA");
  std::map<size_t, int> lengths;
  std::map<char, int> symbols;
  int drawn = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    const auto source = task.example(1, i).source;
    ++lengths[source.size()];
    for (const char symbol : source) ++symbols[symbol], ++drawn;
  }
  ASSERT_EQ(lengths.size(), 4u);
  for (const auto& [length, count] : lengths) EXPECT_NEAR(count, 5000, 300) << length;
  ASSERT_EQ(symbols.size(), 27u);
  for (const auto& [symbol, count] : symbols) EXPECT_NEAR(count, drawn / 27.0, drawn / 270.0) << symbol;
}

TEST(Task, ExamplesArePureFunctions) {
  const Task task({TaskKind::sort, 62, 10, 20}), again({TaskKind::sort, 62, 10, 20});
  std::set<std::string> sources;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(task.example(3, i), again.example(3, i));
    sources.insert(task.example(3, i).source);
    sources.insert(task.example(4, i).source);
  }
  EXPECT_EQ(sources.size(), 2000u);
  EXPECT_EQ(again.example(3, 5), task.example(3, 5));
  EXPECT_EQ(task.example(UINT64_MAX, UINT64_MAX), again.example(UINT64_MAX, UINT64_MAX));
  // The draw is fixed: a change would silently change everyone's runs.
  EXPECT_EQ(Task({TaskKind::copy, 26, 1, 20}).example(1, 0).source, "rzywlvhhbtjow");
}

TEST(Task, NamesWhatIsOutOfRange) {
  EXPECT_EQ(error_of([] { parse_task_kind("revers"); }),
            "unknown task \"revers\": give reverse, copy or sort");
  for (const auto* name : {"reverse", "copy", "sort"}) EXPECT_STREQ(name_of(parse_task_kind(name)), name);
  EXPECT_EQ(error_of([] {
              Task({TaskKind::copy, 63, 1, 2});
            }),
            "the task's alphabet of 63 symbols is out of range: give 1 to 62");
  EXPECT_EQ(error_of([] {
              Task({TaskKind::copy, 26, 5, 2});
            }),
            "the task's maximum length 2 is out of range: give 5 (its minimum length) to 100000");
  EXPECT_NE(error_of([] { Task({TaskKind::copy, 0, 1, 2}); }), "");
  EXPECT_NE(error_of([] { Task({TaskKind::copy, 26, 0, 2}); }), "");
  EXPECT_NE(error_of([] { Task({TaskKind::copy, 26, 1, 100001}); }), "");
}

}  // namespace
}  // namespace transduce
