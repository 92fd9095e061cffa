#include "transduce/data/tasks.h"

#include <algorithm>
#include <utility>

#include "transduce/base/names.h"
#include "transduce/base/random.h"

namespace transduce {
namespace {

constexpr std::string_view symbols = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr int64_t longest_source = 100000;

// Example i draws from stream first_stream + i, far from the streams of other uses of the same seed ("task"
// in ASCII).
constexpr uint64_t first_stream = 0x7461736B00000000;

constexpr Name<TaskKind> kinds[] = {
    {TaskKind::reverse, "reverse"}, {TaskKind::copy, "copy"}, {TaskKind::sort, "sort"}};

}  // namespace

TaskKind parse_task_kind(std::string_view name) { return value_in(kinds, "task", name); }

const char* name_of(TaskKind kind) { return name_in(kinds, kind); }

Task::Task(const TaskSpec& spec) : spec_(spec) {
  check_input(spec.alphabet_size >= 1 && spec.alphabet_size <= static_cast<int64_t>(symbols.size()),
              "the task's alphabet of {} symbols is out of range: give 1 to {}", spec.alphabet_size,
              symbols.size());
  check_input(spec.min_length >= 1 && spec.min_length <= longest_source,
              "the task's minimum length {} is out of range: give 1 to {}", spec.min_length, longest_source);
  check_input(spec.max_length >= spec.min_length && spec.max_length <= longest_source,
              "the task's maximum length {} is out of range: give {} (its minimum length) to {}",
              spec.max_length, spec.min_length, longest_source);
  alphabet_ = symbols.substr(0, static_cast<size_t>(spec.alphabet_size));
}

TextPair Task::example(uint64_t seed, uint64_t index) const {
  Random random({seed, first_stream + index});
  const auto lengths = static_cast<uint64_t>(spec_.max_length - spec_.min_length + 1);
  const auto length = static_cast<size_t>(spec_.min_length) + random.below(lengths);
  std::vector<size_t> places(length);
  for (auto& place : places) place = random.below(alphabet_.size());
  const auto spell = [&] {
    std::string text;
    for (const auto place : places) text += alphabet_[place];
    return text;
  };
  TextPair pair;
  pair.source = spell();
  if (spec_.kind == TaskKind::reverse) std::reverse(places.begin(), places.end());
  if (spec_.kind == TaskKind::sort) std::sort(places.begin(), places.end());
  pair.target = spell();
  return pair;
}

}  // namespace transduce
