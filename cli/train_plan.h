#pragma once

// What a training will do and need, worked out and told before it takes any memory.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/train_loop.h"
#include "transduce/train/memory_plan.h"

namespace transduce::cli {

class MemoryOption {
 public:
  void add_to(CLI::App& app);

  // Bytes that the process may hold, this many of them already.
  // Errors: InputError for what is no size.
  int64_t budget(int64_t resident) const;

 private:
  std::string text_ = "free";
};

struct TrainingPlan {
  TransformerConfig config;  // with its vocabulary sizes
  bool joint_vocabulary = false;
  int64_t train_pairs = 0;                       // 0: fresh examples
  int64_t source_tokens = 0, target_tokens = 0;  // of these, end symbols counted
  int64_t valid_pairs = 0;
  std::vector<std::string> notes;  // on texts that were too long
  int64_t batches_per_epoch = 0;   // 0: data without end
  int64_t steps = 0;
  int64_t micro_batch_tokens = 0;
  int64_t budget = 0;  // bytes
  MemoryNeed need;

  // To standard error, a line a topic.
  void print(const LoopOptions& loop) const;
};

}  // namespace transduce::cli
