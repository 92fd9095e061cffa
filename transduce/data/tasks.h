#pragma once

// Made-up tasks with an answer that is known exactly: they show in minutes whether a model learns at all.

#include <cstdint>
#include <string>
#include <string_view>

#include "transduce/data/corpus.h"

namespace transduce {

enum class TaskKind {
  reverse,  // abca -> acba
  copy,     // abca -> abca
  sort,     // abca -> aabc, in the order of the alphabet
};

// From "reverse", "copy" or "sort". Errors: as value_in of base/names.h.
TaskKind parse_task_kind(std::string_view name);
const char* name_of(TaskKind kind);

struct TaskSpec {
  TaskKind kind = TaskKind::reverse;
  int64_t alphabet_size = 26;  // 1 to 62 symbols: a-z, then A-Z, then 0-9
  int64_t min_length = 1;      // symbols in a source, drawn uniformly between these two; 1 to 100000
  int64_t max_length = 20;
};

class Task {
 public:
  // Errors: InputError naming the field, its value and its range.
  explicit Task(const TaskSpec& spec);

  // Example `index` of a seed: a pure function of the two (and the spec), whatever was asked before. Training
  // and validation take different seeds. One symbol is one character, without blanks: it suits the char
  // tokenizer.
  TextPair example(uint64_t seed, uint64_t index) const;

  // The symbols in order, e.g. for a vocabulary that does not depend on a sample.
  const std::string& alphabet() const { return alphabet_; }

  const TaskSpec& spec() const { return spec_; }

 private:
  TaskSpec spec_;
  std::string alphabet_;
};

}  // namespace transduce
