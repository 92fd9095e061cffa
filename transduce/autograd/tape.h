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

#include <functional>
#include <memory>
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

  const Tensor& value() const { return state_->value; }
  const Shape& shape() const { return state_->value.shape(); }
  int64_t dim(size_t axis) const { return state_->value.dim(axis); }
  DType dtype() const { return state_->value.dtype(); }

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

  // For the owners of parameters (nn/module.h), which place values and gradients in one buffer.
  void set_value(Tensor value) const { state_->value = std::move(value); }
  void set_gradient(Tensor gradient) const { state_->gradient = std::move(gradient); }

 private:
  struct State {
    Tensor value;
    Tensor gradient;
    bool needs_gradient = false;
    std::shared_ptr<State> parent;  // of a column range
    int64_t begin = 0, end = 0;
  };
  static Tensor gradient_of(State& state);

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
