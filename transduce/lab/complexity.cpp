// What a layer costs: attention's scores and sums take n^2 d multiplications, the feed-forward network n d^2
// (the paper, table 1). Which is more depends on whether the sentence is longer than the model is wide.

#include <chrono>

#include "transduce/autograd/ops.h"
#include "transduce/lab/lab.h"
#include "transduce/lab/numbers.h"
#include "transduce/nn/feed_forward.h"

namespace transduce::lab {
namespace {

using Clock = std::chrono::steady_clock;

// Milliseconds of a run: the least of several, since what disturbs a measurement only adds to it.
template <class Run>
double milliseconds(const Run& run) {
  double least = INFINITY, total = 0;
  while (total < 150) {
    const Clock::time_point start = Clock::now();
    run();
    const double now = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    least = std::min(least, now);
    total += now;
  }
  return least;
}

// softmax(q k^T / sqrt(D)) v with 8 heads for one sentence of n tokens: 2 n^2 d multiplications.
double attention(int64_t n, int64_t d) {
  const Var q(normal({n, d}, 0)), k(normal({n, d}, 1)), v(normal({n, d}, 2));
  AttentionSpec spec;
  spec.queries = spec.keys = Layout::packed({static_cast<int32_t>(n)});
  spec.heads = 8;
  return milliseconds([&] { ops::attention(q, k, v, spec); });
}

// The feed-forward network of inner width 4 d: 8 n d^2 multiplications.
double feed_forward(int64_t n, int64_t d) {
  ParameterSet parameters;
  const FeedForward network(Scope(parameters), {d, 4 * d, Activation::relu});
  parameters.allocate();
  parameters.initialize(0);
  const Var x(normal({n, d}, 0));
  return milliseconds([&] { network(x); });
}

// The slope of the curve on double logarithmic axes, by least squares: x^slope.
double exponent(const Series& curve) {
  Numbers x, y;
  for (const double value : curve.x) x.push_back(std::log(value));
  for (const double value : curve.y) y.push_back(std::log(value));
  const double centre_x = mean(x), centre_y = mean(y);
  double above = 0, below = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    above += (x[i] - centre_x) * (y[i] - centre_y);
    below += (x[i] - centre_x) * (x[i] - centre_x);
  }
  return above / below;
}

// What the curve would be from its last point down if time followed the arithmetic: x^power.
Series arithmetic(const Series& measured, const char* name, int power) {
  Series line{name, measured.x, {}};
  for (const double x : measured.x)
    line.y.push_back(measured.y.back() * std::pow(x / measured.x.back(), power));
  line.dashed = true;
  return line;
}

}  // namespace

Findings complexity() {
  constexpr int64_t d = 256, n = 512;
  Findings findings;
  const auto measure = [&](LineChart chart, std::pair<int, int> powers, auto&& time_of) {
    Series scores{"attention"}, network{"feed-forward"};
    for (const int64_t size : {128, 256, 512, 1024}) {
      const auto [a, f] = time_of(size);
      scores.x.push_back(static_cast<double>(size)), network.x.push_back(static_cast<double>(size));
      scores.y.push_back(a), network.y.push_back(f);
    }
    chart.series = {scores, network, arithmetic(scores, "n^2 d", powers.first),
                    arithmetic(network, "n d^2", powers.second)};
    chart.log_x = chart.log_y = true;
    findings.pictures.emplace_back(chart);
    return std::pair{exponent(scores), exponent(network)};
  };
  const auto [attention_n, network_n] =
      measure({{}, "Longer sentences, width 256", "tokens", "milliseconds"}, {2, 1}, [](int64_t size) {
        return std::pair{attention(size, d), feed_forward(size, d)};
      });
  const auto [attention_d, network_d] =
      measure({{}, "Wider models, 512 tokens", "width", "milliseconds"}, {1, 2}, [](int64_t size) {
        return std::pair{attention(n, size), feed_forward(n, size)};
      });

  const std::string why =
      "on this machine; small products run less well than large ones, and the softmax "
      "costs n^2 whatever the width, so all four exponents may be off by 0.5";
  const auto power = [&](const char* text, double exponent_measured, double expected) {
    findings.claims.push_back(timed(text, fmt::format("{:.2f}", exponent_measured),
                                    std::abs(exponent_measured - expected) <= 0.5,
                                    findings.claims.empty() ? why : ""));
  };
  power("attention, n^2 d: exponent of the length, 2", attention_n, 2);
  power("feed-forward, n d^2: exponent of the length, 1", network_n, 1);
  power("attention: exponent of the width, 1", attention_d, 1);
  power("feed-forward: exponent of the width, 2", network_d, 2);
  return findings;
}

}  // namespace transduce::lab
