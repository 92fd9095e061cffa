// Residual connections (He et al. 2016; the paper, 3.1): y = x + layer(x) has the derivative 1 + layer'(x),
// so that a gradient finds a way back through any number of layers.

#include "transduce/nn/residual.h"
#include "transduce/autograd/ops.h"
#include "transduce/lab/lab.h"
#include "transduce/lab/numbers.h"
#include "transduce/nn/feed_forward.h"

namespace transduce::lab {
namespace {

constexpr uint64_t kSeed = 0;
constexpr int kDepth = 50;

enum class Connection { none, residual, residual_and_norm };

// A chain of layers y = 0.5 x: what the tape finds for dy/dx.
double gradient_through_chain(int layers, bool residual) {
  const UseBackend float64(reference_backend());
  const Var x(Tensor::of<double>({1, 1}, {1.0}), true), half(Tensor::of<double>({1, 1}, {0.5}));
  Tape tape;
  Var y = x;
  for (int i = 0; i < layers; ++i) {
    const Var branch = ops::linear(y, half, {});
    y = residual ? ops::residual(y, branch) : branch;
  }
  tape.backward(y);
  return numbers(x.gradient())[0];
}

// The same through feed-forward layers as a Transformer has them, freshly drawn: the length of the gradient
// that a random direction of the output, of length 1, leaves at the input.
double gradient_through_layers(int layers, Connection connection) {
  constexpr int64_t width = 64;
  ParameterSet parameters;
  const Scope scope(parameters);
  std::vector<FeedForward> feed_forward;
  std::vector<Residual> residual;
  for (int i = 0; i < layers; ++i) {
    feed_forward.emplace_back(scope / i, FeedForward::Options{width, 4 * width, Activation::relu});
    residual.emplace_back(scope / i / "norm", width, Residual::Options{NormPlacement::pre});
  }
  parameters.allocate();
  parameters.initialize(kSeed);

  const Var x(normal({1, width}, kSeed), true);
  const Tensor direction = normal({1, width}, kSeed + 1);
  Tape tape;
  Var y = x;
  for (size_t i = 0; i < feed_forward.size(); ++i) {
    const auto layer = [&](const Var& h) { return feed_forward[i](h); };
    if (connection == Connection::none) y = layer(y);
    if (connection == Connection::residual) y = ops::residual(y, layer(y));
    if (connection == Connection::residual_and_norm) y = residual[i](y, layer);
  }
  tape.backward(ops::linear(y, Var(direction), {}));
  return norm(numbers(x.gradient())) / norm(numbers(direction));
}

}  // namespace

Findings residual() {
  Findings findings;
  findings.claims = {
      exact("gradient through 50 layers of derivative 0.5", "8.882e-16",
            fmt::format("{:.3e}", gradient_through_chain(kDepth, false))),
      exact("the same with residual connections", "6.376e+08",
            fmt::format("{:.3e}", gradient_through_chain(kDepth, true))),
  };

  LineChart chart{
      {}, "The gradient at the input of a stack", "feed-forward layers", "length of the gradient"};
  chart.log_y = true;
  const auto measure = [&](const char* name, Connection connection) {
    Series curve{name};
    for (const int layers : {1, 2, 5, 10, 20, 30, 40, kDepth}) {
      curve.x.push_back(layers);
      curve.y.push_back(gradient_through_layers(layers, connection));
    }
    chart.series.push_back(curve);
    return curve.y.back();
  };
  const double without = measure("without", Connection::none);
  const double with = measure("residual", Connection::residual);
  const double with_norm = measure("residual and norm, as in a model", Connection::residual_and_norm);
  findings.claims.push_back(holds("50 real feed-forward layers: the gradient all but vanishes",
                                  fmt::format("{:.1e}", without), without < 1e-8));
  findings.claims.push_back(
      holds("with residual connections it grows", fmt::format("{:.1e}", with), with > 1e2));
  findings.claims.push_back(holds("with residual connections and a norm before each layer it keeps its size",
                                  fmt::format("{:.1f}", with_norm), with_norm > 0.1 && with_norm < 10));
  findings.pictures.emplace_back(chart);
  return findings;
}

}  // namespace transduce::lab
