#include "transduce/autograd/tape.h"

#include <stdexcept>
#include <thread>
#include <utility>

namespace transduce {
namespace {

struct ThreadState {
  Tape* tape = nullptr;
  Backend* backend = nullptr;
  bool training = false;
  RandomKey key;
  uint64_t dropout_calls = 0;
  uint32_t worker = 0, workers = 1;  // see TakingTurns
  const std::atomic<bool>* failed = nullptr;
};

ThreadState& state() {
  thread_local ThreadState instance;
  return instance;
}

// Dropout masks of one pass lie 2^16 streams apart from the next one's: more calls than a model makes.
constexpr int kCallBits = 16;

void fill(const Tensor& t, double value) {
  switch (t.dtype()) {
    case DType::float32:
      *t.data<float>() = static_cast<float>(value);
      return;
    case DType::float64:
      *t.data<double>() = value;
      return;
    default:
      throw std::logic_error("a loss must be float32 or float64");
  }
}

}  // namespace

Var::Var(Tensor value, bool needs_gradient)
    : value_(std::make_shared<Tensor>()), state_(std::make_shared<State>()) {
  set_value(std::move(value));
  state_->needs_gradient = needs_gradient;
}

void Var::set_value(Tensor value) const {
  state_->shape = value.shape();
  state_->dtype = value.dtype();
  *value_ = std::move(value);
}

bool Var::has_gradient() const {
  return state_ != nullptr &&
         (state_->parent != nullptr ? !state_->parent->gradient.empty() : !state_->gradient.empty());
}

Tensor Var::gradient_of(State& state) {
  if (!state.needs_gradient) return Tensor();
  if (state.parent != nullptr) return gradient_of(*state.parent).columns(state.begin, state.end);
  if (state.gradient.empty()) state.gradient = Tensor::zeros(state.shape, state.dtype);
  return state.gradient;
}

bool Var::take_gradient(const Tensor& gradient) const {
  if (!needs_gradient() || state_->parent != nullptr || !state_->gradient.empty()) return false;
  state_->gradient = gradient;
  return true;
}

Tensor Var::gradient() const { return state_ == nullptr ? Tensor() : gradient_of(*state_); }

Var Var::without_value() const {
  Var gradient = *this;
  gradient.value_.reset();
  return gradient;
}

const Tensor& Var::packed() const {
  std::call_once(state_->packing, [this] { state_->packed = current_backend().pack(value()); });
  return state_->packed;
}

Var Var::columns(int64_t begin, int64_t end) const {
  Var view(value().columns(begin, end), state_->needs_gradient);
  const bool nested = state_->parent != nullptr;  // always refer to the owner of the gradient
  view.state_->parent = nested ? state_->parent : state_;
  view.state_->begin = begin + (nested ? state_->begin : 0);
  view.state_->end = end + (nested ? state_->begin : 0);
  return view;
}

Tape::Tape() : previous_(std::exchange(state().tape, this)) {}
Tape::~Tape() { state().tape = previous_; }
Tape* Tape::current() { return state().tape; }

void Tape::backward(const Var& loss, double seed) {
  if (loss.value().size() != 1) {
    fail_input("[backward] expected a loss of one element, got shape {}", to_string(loss.shape()));
  }
  if (!loss.needs_gradient()) fail_input("[backward] the loss depends on no parameter, or was not recorded");
  fill(loss.gradient(), seed);
  const NoGradient pause;
  while (!records_.empty()) {
    const std::function<void()> run = std::move(records_.back());
    records_.pop_back();
    run();
  }
}

TakingTurns::TakingTurns(uint32_t worker, uint32_t workers, const std::atomic<bool>& failed) {
  state().worker = worker;
  state().workers = workers;
  state().failed = &failed;
}

TakingTurns::~TakingTurns() { state().workers = 1; }

Turn::Turn(const Var& parameter) {
  const ThreadState& s = state();
  if (s.workers == 1) return;
  turn_ = &parameter.state_->turn;
  constexpr int kAwake = 10000;  // looks before the core is offered to others
  for (int looks = 0; turn_->load(std::memory_order_acquire) % s.workers != s.worker; ++looks) {
    if (s.failed->load(std::memory_order_relaxed)) {
      turn_ = nullptr;
      fail_run("another thread failed");
    }
    if (looks > kAwake) std::this_thread::yield();
  }
}

Turn::~Turn() {
  if (turn_ != nullptr) turn_->fetch_add(1, std::memory_order_release);
}

NoGradient::NoGradient() : previous_(std::exchange(state().tape, nullptr)) {}
NoGradient::~NoGradient() { state().tape = previous_; }

TrainingMode::TrainingMode(RandomKey key) : saved_{state().training, state().key, state().dropout_calls} {
  state().training = true;
  state().key = key;
  state().dropout_calls = 0;
}

TrainingMode::~TrainingMode() {
  state().training = saved_.active;
  state().key = saved_.key;
  state().dropout_calls = saved_.calls;
}

Dropout next_dropout(float p) {
  check_input(p >= 0.0f && p < 1.0f, "dropout {} is out of range: give a probability from 0 to below 1", p);
  ThreadState& s = state();
  if (!s.training || p == 0.0f) return {};
  return {p, {s.key.seed, (s.key.stream << kCallBits) + s.dropout_calls++}};
}

Backend& current_backend() {
  Backend* backend = state().backend;
  return backend != nullptr ? *backend : cpu_backend();
}

UseBackend::UseBackend(Backend& backend) : previous_(std::exchange(state().backend, &backend)) {}
UseBackend::~UseBackend() { state().backend = previous_; }

}  // namespace transduce
