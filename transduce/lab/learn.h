#pragma once

// Learning a made-up task in seconds: what experiments about training share.

#include <functional>

#include "transduce/data/tasks.h"
#include "transduce/lab/lab.h"
#include "transduce/models/transformer.h"
#include "transduce/train/trainer.h"

namespace transduce::lab {

// A model small enough for a lesson: width 32, 4 heads, feed-forward 128, one encoder and one decoder layer,
// pre-norm, GELU, no dropout. Its vocabularies are set by `learn`.
TransformerConfig small_model();

struct Lesson {
  TaskSpec task{TaskKind::reverse, 10, 1, 8};
  TransformerConfig model = small_model();
  Schedule schedule{.kind = ScheduleKind::constant, .learning_rate = 3e-3};
  double label_smoothing = 0.0;
  int64_t updates = 300;
  int64_t batch = 32;       // examples an update, all of them fresh
  int64_t test_every = 25;  // updates
  uint64_t seed = 0;        // of parameters and examples
};

// How it went, on 256 examples that were not trained on. Accuracy is that of the next token with the right
// prefix given.
struct Learned {
  std::unique_ptr<Transformer> model;
  Series loss, accuracy;  // by update
  Validation last;
};
Learned learn(const Lesson& lesson, const std::string& name);

// Examples of a task as ids, the same for every call. Those of `learn` come from the seed of the lesson;
// these from another.
std::vector<Example> unseen(const TaskSpec& task, int64_t count);

// The examples that `learn` trains on first with seed 0.
std::vector<Example> seen(const TaskSpec& task, int64_t count);

// One batch of all the examples.
Seq2SeqBatch batch_of(const std::vector<Example>& examples);

// The quality of the next tokens with the right prefix given.
Validation test(const Transformer& model, const std::vector<Example>& examples);

// The share of the examples that the model, on its own from the start symbol on, gets right to the last
// token.
double generated_right(const Transformer& model, const std::vector<Example>& examples);

// The first point of the curve that reaches `value` and the updates it took; -1 where none does.
double first_at(const Series& curve, double value);

}  // namespace transduce::lab
