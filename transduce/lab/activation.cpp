// The bend in the feed-forward network (the paper, 3.3): without it two matrices in a row would be one.

#include "transduce/autograd/ops.h"
#include "transduce/lab/lab.h"
#include "transduce/lab/numbers.h"
#include "transduce/nn/feed_forward.h"

namespace transduce::lab {
namespace {

struct Point {
  double value, slope;
};

// An activation at x, with the slope that the tape finds. For swiglu x is the gate, and the value beside
// it 1.
Point at(Activation kind, double x) {
  const UseBackend float64(reference_backend());
  const bool gated = kind == Activation::swiglu;
  const Var pre(gated ? Tensor::of<double>({1, 2}, {x, 1.0}) : Tensor::of<double>({1, 1}, {x}), true);
  Tape tape;
  const Var y = ops::activation(pre, kind);
  tape.backward(y);
  return {numbers(y.value())[0], numbers(pre.gradient())[0]};
}

int64_t parameters_of(Activation kind, int64_t inner) {
  ParameterSet parameters;
  FeedForward(Scope(parameters), {512, inner, kind});
  return parameters.count();
}

}  // namespace

Findings activation() {
  LineChart values{{}, "Activations", "x", "value"}, slopes{{}, "Their slopes", "x", "slope"};
  double farthest = 0;  // of the tanh approximation from the exact function
  for (const auto& [name, kind] : {std::pair{"ReLU", Activation::relu},
                                   {"GELU", Activation::gelu},
                                   {"GELU by tanh", Activation::gelu_tanh},
                                   {"swish, the gate of SwiGLU", Activation::swiglu}}) {
    Series value{name}, slope{name};
    for (int step = -80; step <= 80; ++step) {
      const double x = step / 20.0;
      const Point point = at(kind, x);
      value.x.push_back(x), value.y.push_back(point.value);
      slope.x.push_back(x), slope.y.push_back(point.slope);
      if (kind == Activation::gelu_tanh)
        farthest = std::max(farthest, std::abs(point.value - at(Activation::gelu, x).value));
    }
    values.series.push_back(value);
    slopes.series.push_back(slope);
  }
  const double dead = at(Activation::relu, -1).slope, alive = at(Activation::gelu, -1).slope;
  const double plain = static_cast<double>(parameters_of(Activation::relu, 2048));
  const double gated = static_cast<double>(parameters_of(Activation::swiglu, 2048 * 2 / 3));

  Findings findings;
  findings.claims = {
      exact("GELU(1)", "0.8413", fmt::format("{:.4f}", at(Activation::gelu, 1).value)),
      exact("ReLU(1)", "1", fmt::format("{}", at(Activation::relu, 1).value)),
      holds("below zero ReLU's slope is 0, GELU's is not: at -1", fmt::format("{} and {:.4f}", dead, alive),
            dead == 0.0 && alive != 0.0,
            "a unit whose input is negative for every token learns nothing with ReLU"),
      holds("SwiGLU of gate 1 and value 1 is 1 / (1 + 1/e)",
            fmt::format("{:.4f}", at(Activation::swiglu, 1).value),
            std::abs(at(Activation::swiglu, 1).value - 1 / (1 + std::exp(-1.0))) < 1e-12),
      holds("GELU by tanh is off by less than 0.0005 from -4 to 4", fmt::format("{:.5f}", farthest),
            farthest < 0.0005),
      holds("SwiGLU has three matrices: with two thirds of the inner width it has as many parameters",
            fmt::format("{:.4f} times", gated / plain), std::abs(gated / plain - 1.0) < 0.001),
  };
  findings.pictures = {values, slopes};
  return findings;
}

}  // namespace transduce::lab
