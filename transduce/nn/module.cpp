#include "transduce/nn/module.h"

#include <cmath>

namespace transduce {
namespace {

// Parameters start at multiples of 16 elements: 64 bytes of float32, a cache line and the widest vector.
constexpr int64_t kAlignment = 16;

int64_t padded(int64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
void draw(const Parameter& parameter, Random& random) {
  T* value = parameter.variable.value().data<T>();
  for (int64_t i = 0; i < parameter.size(); ++i) {
    switch (parameter.init.kind) {
      case Init::Kind::zeros:
        value[i] = T(0);
        break;
      case Init::Kind::ones:
        value[i] = T(1);
        break;
      case Init::Kind::uniform:
        value[i] = static_cast<T>(random.uniform(-parameter.init.spread, parameter.init.spread));
        break;
      case Init::Kind::normal:
        value[i] = static_cast<T>(parameter.init.spread * random.normal());
        break;
    }
  }
}

}  // namespace

Init Init::xavier_uniform(int64_t fan_in, int64_t fan_out) {
  return uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}

Var ParameterSet::declare(const std::string& name, const Shape& shape, Init init) {
  check_input(by_name_.emplace(name, parameters_.size()).second, "[parameters] '{}' is declared twice", name);
  parameters_.push_back({name, shape, init, Var(Tensor(), true)});
  return parameters_.back().variable;
}

std::shared_ptr<const Int8Matrix> ParameterSet::declare_int8(const std::string& name, const Shape& shape) {
  int8_parameters_.push_back({name, shape, std::make_shared<Int8Matrix>()});
  return int8_parameters_.back().matrix;
}

void ParameterSet::allocate(DType dtype) {
  int64_t total = 0;
  for (const Parameter& p : parameters_) total += padded(p.size());
  values_ = Tensor({total}, dtype);
  gradients_ = Tensor();
  int64_t at = 0;
  for (const Parameter& p : parameters_) {
    p.variable.set_value(values_.flat(at, p.size()).reshape(p.shape));
    values_.flat(at + p.size(), padded(p.size()) - p.size()).fill_zero();
    at += padded(p.size());
  }
}

const Tensor& ParameterSet::gradients() const {
  if (gradients_ || values_.empty()) return gradients_;
  gradients_ = Tensor::zeros(values_.shape(), values_.dtype());
  int64_t at = 0;
  for (const Parameter& p : parameters_) {
    const Tensor place = gradients_.flat(at, p.size()).reshape(p.shape);
    if (p.variable.has_gradient()) place.copy_from(p.variable.gradient());
    p.variable.set_gradient(place);
    at += padded(p.size());
  }
  return gradients_;
}

void ParameterSet::reset_turns() const {
  for (const Parameter& p : parameters_) p.variable.reset_turn();
}

void ParameterSet::freeze() const {
  for (const Parameter& p : parameters_) p.variable.freeze();
}

void ParameterSet::initialize(uint64_t seed) {
  uint64_t stream = 0;
  for (const Parameter& p : parameters_) {
    Random random({seed, stream++});
    switch (values_.dtype()) {
      case DType::float32:
        draw<float>(p, random);
        break;
      case DType::float64:
        draw<double>(p, random);
        break;
      default:
        draw<std::complex<double>>(p, random);
    }
  }
}

int64_t ParameterSet::count() const {
  int64_t total = 0;
  for (const Parameter& p : parameters_) total += p.size();
  for (const Int8Parameter& p : int8_parameters_) total += elements_of(p.shape);
  return total;
}

const Parameter* ParameterSet::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &parameters_[found->second];
}

}  // namespace transduce
