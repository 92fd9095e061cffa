#pragma once

// Reverse-mode differentiation. An op computes its value at once (eagerly) and, while a Tape lives, leaves a
// record of how its gradient flows back. Tape::backward runs the records in reverse and drops each when it is
// done, so activations are freed on the way.
//
//   Tape tape;                          // records the ops of this thread from here on
//   Var loss = model.loss(batch);
//   tape.backward(loss);                // parameters' gradients are accumulated into
//
// Without a tape (inference) the same model code runs and nothing is recorded.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "transduce/kernels/backend.h"

namespace transduce {

// A differentiable variable: a value and, once something has flowed into it, a gradient of the same shape.
// Copying a Var copies the handle.
class Var {
 public:
  Var() = default;
  explicit Var(Tensor value, bool needs_gradient = false);

  bool empty() const { return state_ == nullptr; }
  explicit operator bool() const { return !empty(); }

  const Tensor& value() const { return *value_; }
  const Shape& shape() const { return state_->shape; }
  int64_t dim(size_t axis) const { return shape().at(axis); }
  DType dtype() const { return state_->dtype; }

  // Whether gradients flow into it: a parameter, or the result of an op on one.
  bool needs_gradient() const { return state_ != nullptr && state_->needs_gradient; }
  bool has_gradient() const;
  // Where to accumulate; zeros before the first use. An empty tensor when no gradient is needed: kernels
  // then leave it out.
  Tensor gradient() const;
  // Takes `gradient`, which nobody else may go on to use, for its own where nothing has flowed into it yet:
  // the same as accumulating into zeros, without the zeros. False where it must be accumulated instead.
  bool take_gradient(const Tensor& gradient) const;
  void clear_gradient() const { state_->gradient = Tensor(); }

  // (N, C) -> (N, end - begin): shares value and gradient with its parent, so it costs nothing either way.
  Var columns(int64_t begin, int64_t end) const;

  // The next turn at the gradient is the first worker's: see TakingTurns.
  void reset_turn() const { state_->turn.store(0, std::memory_order_relaxed); }

  // The same variable for the backward pass of an op that needs its gradient but not its value: holding it
  // does not hold the value's memory.
  Var without_value() const;

  // Says that the value will never change: a model that only translates. Products may then keep the weight in
  // the form they read it in.
  void freeze() const { state_->frozen = true; }
  bool frozen() const { return state_ != nullptr && state_->frozen; }
  // A frozen weight in that form (see Backend::pack), made at the first call, from whichever thread. Empty
  // where the backend has none.
  const Tensor& packed() const;

  // For the owners of parameters (nn/module.h), which place values and gradients in one buffer.
  void set_value(Tensor value) const;
  void set_gradient(Tensor gradient) const { state_->gradient = std::move(gradient); }

 private:
  friend class Turn;
  struct State {
    Shape shape;  // of the value, with its dtype
    DType dtype = DType::float32;
    Tensor gradient;
    bool needs_gradient = false;
    std::shared_ptr<State> parent;  // of a column range
    int64_t begin = 0, end = 0;
    bool frozen = false;
    std::atomic<uint32_t> turn{0};
    std::once_flag packing;
    Tensor packed;
  };
  static Tensor gradient_of(State& state);

  std::shared_ptr<Tensor> value_;  // apart from the rest: see without_value
  std::shared_ptr<State> state_;
};

class Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // The tape that ops of this thread record on; null when nothing is recorded.
  static Tape* current();

  void record(std::function<void()> backward) { records_.push_back(std::move(backward)); }

  // Runs the records in reverse from `loss` (1), whose own gradient is `seed`. Empties the tape.
  void backward(const Var& loss, double seed = 1.0);

 private:
  std::vector<std::function<void()>> records_;
  Tape* previous_;
};

// Data parallelism: several threads, the workers, make passes through one model at the same time, each with
// data and a tape of its own. While it lives, they add to the gradient of each parameter one after another:
// worker 0, 1, ..., workers - 1, and 0 again for its next addition. So one buffer serves all and the sums
// repeat to the bit. As all go through the same ops, each follows the one before it by about an op and hardly
// ever waits. All must make the same additions, from reset turns (ParameterSet::reset_turns) on.
class TakingTurns {
 public:
  // `failed` is shared by the workers: where one sets it, since it will take no more turns, the others' next
  // turns throw RunError in place of waiting for ever.
  TakingTurns(uint32_t worker, uint32_t workers, const std::atomic<bool>& failed);
  ~TakingTurns();
  TakingTurns(const TakingTurns&) = delete;
  TakingTurns& operator=(const TakingTurns&) = delete;
};

// This thread's turn at the gradient of `parameter`, and of what always goes with it, such as a layer's bias:
// waits for it to come, and passes it on at the end. Does nothing where no turns are taken.
class Turn {
 public:
  explicit Turn(const Var& parameter);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<uint32_t>* turn_ = nullptr;
};

// No recording while it lives.
class NoGradient {
 public:
  NoGradient();
  ~NoGradient();
  NoGradient(const NoGradient&) = delete;
  NoGradient& operator=(const NoGradient&) = delete;

 private:
  Tape* previous_;
};

// Dropout is active while it lives. `key.stream` names the step: the same key gives the same masks again.
class TrainingMode {
 public:
  explicit TrainingMode(RandomKey key);
  ~TrainingMode();
  TrainingMode(const TrainingMode&) = delete;
  TrainingMode& operator=(const TrainingMode&) = delete;

 private:
  struct Saved {
    bool active;
    RandomKey key;
    uint64_t calls;
  } saved_;
};

// The next mask of the step for a dropout of probability p; inactive outside of TrainingMode.
// Errors: InputError unless 0 <= p < 1.
Dropout next_dropout(float p);

// The backend that ops of this thread run on; cpu_backend() at first.
Backend& current_backend();

// Runs ops on another backend while it lives.
class UseBackend {
 public:
  explicit UseBackend(Backend& backend);
  ~UseBackend();
  UseBackend(const UseBackend&) = delete;
  UseBackend& operator=(const UseBackend&) = delete;

 private:
  Backend* previous_;
};

}  // namespace transduce
