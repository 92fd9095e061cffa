#pragma once

// Named parameters. All values of a model lie in one contiguous buffer and all gradients in another, so the
// optimiser, clipping and averaging are flat loops. Layers declare what they need while they are constructed;
// ParameterSet::allocate then lays the buffers out.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transduce/autograd/tape.h"

namespace transduce {

// How a parameter starts.
struct Init {
  enum class Kind { zeros, ones, uniform, normal } kind = Kind::zeros;
  double spread = 0.0;  // uniform: in [-spread, spread); normal: the standard deviation

  static Init zeros() { return {Kind::zeros, 0.0}; }
  static Init ones() { return {Kind::ones, 0.0}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  static Init normal(double deviation) { return {Kind::normal, deviation}; }
  // torch.nn.init.xavier_uniform_ (Glorot and Bengio 2010): bound sqrt(6 / (fan_in + fan_out)).
  static Init xavier_uniform(int64_t fan_in, int64_t fan_out);
};

struct Parameter {
  std::string name;
  Shape shape;
  Init init;
  Var variable;

  int64_t size() const { return elements_of(shape); }
};

// A weight in 8 bits. It is not trained; its values come from a file or from models/quantize.h.
struct Int8Parameter {
  std::string name;
  Shape shape;
  std::shared_ptr<Int8Matrix> matrix;
};

class ParameterSet {
 public:
  // Declares a parameter; its value exists after allocate(). Errors: InputError on a name declared twice.
  Var declare(const std::string& name, const Shape& shape, Init init);

  // Declares a weight (O, I) in 8 bits; it takes memory when its values are set.
  std::shared_ptr<const Int8Matrix> declare_int8(const std::string& name, const Shape& shape);

  // Lays the values out; what they hold is undefined until initialize() or whoever loads them has set them.
  // float32 for training; float64 and complex128 for the oracle.
  void allocate(DType dtype = DType::float32);

  // Before threads add their gradients in turn: see TakingTurns.
  void reset_turns() const;

  // Says that the values will not change any more (see Var::freeze): for inference.
  void freeze() const;

  // Draws every parameter: number i of the set from stream i of the seed.
  void initialize(uint64_t seed);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Int8Parameter>& int8_parameters() const { return int8_parameters_; }
  // The number of scalars. A tied matrix is one parameter and counts once.
  int64_t count() const;
  // The parameter of this name, or null.
  const Parameter* find(const std::string& name) const;

  const Tensor& values() const { return values_; }  // (P): all, each padded to 64 bytes by zeros
  // (P), laid out like the values when first asked for: a model that only translates needs no room for them.
  const Tensor& gradients() const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<Int8Parameter> int8_parameters_;
  std::unordered_map<std::string, size_t> by_name_;
  Tensor values_;
  mutable Tensor gradients_;
};

// A place in the tree of names: `scope / "encoder" / 3` declares parameters as "encoder.3.<name>".
class Scope {
 public:
  // With `int8`, the weights of linear layers are kept in 8 bits.
  explicit Scope(ParameterSet& set, std::string prefix = "", bool int8 = false)
      : set_(&set), prefix_(std::move(prefix)), int8_(int8) {}

  Scope operator/(const std::string& name) const { return Scope(*set_, prefix_ + name + ".", int8_); }
  Scope operator/(int64_t index) const { return *this / std::to_string(index); }

  Var declare(const std::string& name, const Shape& shape, Init init) const {
    return set_->declare(prefix_ + name, shape, init);
  }
  bool int8() const { return int8_; }
  std::shared_ptr<const Int8Matrix> declare_int8(const std::string& name, const Shape& shape) const {
    return set_->declare_int8(prefix_ + name, shape);
  }

 private:
  ParameterSet* set_;
  std::string prefix_;
  bool int8_;
};

}  // namespace transduce
