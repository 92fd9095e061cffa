// Post-norm, norm(x + layer(x)), as the paper has it (3.1), or pre-norm, x + layer(norm(x)) (Xiong et al.
// 2020): what becomes of the numbers on their way up, and of training.

#include "transduce/lab/lab.h"
#include "transduce/lab/learn.h"
#include "transduce/lab/numbers.h"
#include "transduce/models/transformer.h"

namespace transduce::lab {
namespace {

// ---- how large the activations are --------------------------------------------------------------------

constexpr int kLayers = 12, kTokens = 16, kDraws = 200;
constexpr std::array<int, 3> kReported = {1, 6, 12};

// A sequence of 16 tokens, 32 wide: 512 numbers. A published deviation of 1.001 behind a norm says that there
// were 334 to 1,000: dividing by one less than n makes it sqrt(n / (n - 1)).
TransformerConfig encoder_config(NormPlacement placement) {
  TransformerConfig config;
  config.width = 32;
  config.heads = 4;
  config.feed_forward = 128;
  config.norm = placement;
  config.dropout = 0.0;
  return config;
}

// Draws the matrices as torch.nn.TransformerEncoderLayer does when it stands alone: uniform to 1 /
// sqrt(inputs), but for queries, keys and values. (torch.nn.Transformer, whose start is this project's, draws
// them all by Xavier's rule, which makes the sums of pre-norm grow about twice as fast.)
void draw_like_a_single_layer(ParameterSet& parameters, uint64_t seed) {
  parameters.initialize(seed);
  uint64_t stream = 1u << 20;
  for (const Parameter& parameter : parameters.parameters()) {
    if (parameter.shape.size() != 2 || parameter.name.find("query_key_value") != std::string::npos) continue;
    Random random({seed, stream++});
    const double bound = 1.0 / std::sqrt(static_cast<double>(parameter.shape[1]));
    float* value = parameter.variable.value().data<float>();
    for (int64_t i = 0; i < parameter.size(); ++i)
      value[i] = static_cast<float>(random.uniform(-bound, bound));
  }
}

// The deviation of the activations after each layer, for normal input.
Numbers deviations_by_layer(NormPlacement placement, uint64_t seed) {
  const TransformerConfig config = encoder_config(placement);
  ParameterSet parameters;
  std::vector<EncoderLayer> layers;
  for (int i = 0; i < kLayers; ++i) layers.emplace_back(Scope(parameters) / i, config);
  parameters.allocate();
  draw_like_a_single_layer(parameters, seed);

  AttentionContext context;
  context.queries = context.keys = Layout::packed({kTokens});
  Var x(normal({kTokens, config.width}, seed));
  Numbers deviations;
  for (const EncoderLayer& layer : layers) {
    x = layer(x, context);
    deviations.push_back(deviation(numbers(x.value()), true));
  }
  return deviations;
}

void measure_activations(Findings& findings) {
  LineChart chart{{}, "Activations on their way up", "layer", "deviation"};
  const auto measure = [&](NormPlacement placement) {
    std::vector<Numbers> draws(kLayers);  // by layer
    for (int draw = 0; draw < kDraws; ++draw) {
      const Numbers one = deviations_by_layer(placement, static_cast<uint64_t>(draw));
      for (size_t i = 0; i < draws.size(); ++i) draws[i].push_back(one[i]);
    }
    Series curve{fmt::format("{}-norm", to_string(placement))};
    for (size_t i = 0; i < draws.size(); ++i) {
      curve.x.push_back(static_cast<double>(i + 1));
      curve.y.push_back(mean(draws[i]));
    }
    chart.series.push_back(curve);
    return draws;
  };
  const std::vector<Numbers> post = measure(NormPlacement::post), pre = measure(NormPlacement::pre);
  constexpr std::array<double, 3> published_pre = {0.984, 1.196, 1.390};
  for (size_t i = 0; i < kReported.size(); ++i) {
    const auto layer = static_cast<size_t>(kReported[i] - 1);
    findings.claims.push_back(exact(fmt::format("post-norm: deviation after layer {}", kReported[i]), "1.001",
                                    fmt::format("{:.3f}", mean(post[layer]))));
  }
  for (size_t i = 0; i < kReported.size(); ++i) {
    const auto layer = static_cast<size_t>(kReported[i] - 1);
    const double spread = deviation(pre[layer], true);
    findings.claims.push_back(near(
        fmt::format("pre-norm: deviation after layer {}", kReported[i]), published_pre[i], mean(pre[layer]),
        {3 * spread, fmt::format("three times the {:.3f} by which single draws of 512 numbers scatter; "
                                 "ours is the mean of {} draws, the published one a single draw",
                                 spread, kDraws)}));
  }
  findings.pictures.emplace_back(chart);
}

// ---- how it trains ------------------------------------------------------------------------------------

constexpr std::array<int64_t, 3> kDepths = {1, 3, 6};

// Reversing strings with `depth` encoder and as many decoder layers.
Learned train(NormPlacement placement, int64_t depth, bool warm_up) {
  Lesson lesson;
  lesson.task = {TaskKind::reverse, 10, 1, 6};
  lesson.model.norm = placement;
  lesson.model.encoder_layers = lesson.model.decoder_layers = depth;
  lesson.schedule.warmup = warm_up ? 100 : 0;
  lesson.updates = 200;
  return learn(lesson, fmt::format("{}-norm, {} + {} layers, {} warm-up", to_string(placement), depth, depth,
                                   warm_up ? "with" : "without"));
}

void train_at_growing_depth(Findings& findings) {
  HeatMap map{{}, {}, {}, "Loss after 200 updates"};
  for (const int64_t depth : kDepths) map.column_labels.push_back(fmt::format("{0} + {0} layers", depth));
  const auto losses = [&](NormPlacement placement, bool warm_up) {
    Numbers all;
    for (const int64_t depth : kDepths) {
      all.push_back(train(placement, depth, warm_up).last.loss);
      map.values.push_back(static_cast<float>(all.back()));
    }
    map.row_labels.push_back(
        fmt::format("{}-norm, {} warm-up", to_string(placement), warm_up ? "with" : "without"));
    return all;
  };
  const Numbers post = losses(NormPlacement::post, false), post_warm = losses(NormPlacement::post, true);
  const Numbers pre = losses(NormPlacement::pre, false), pre_warm = losses(NormPlacement::pre, true);
  const auto both = [](const Numbers& without, const Numbers& with) {
    return fmt::format("{:.2f}; {:.2f}", fmt::join(without, ", "), fmt::join(with, ", "));
  };
  findings.claims.push_back(
      holds("loss at 1, 3 and 6 layers, post-norm, without warm-up; with it: deep ones need it",
            both(post, post_warm), post.back() > 1.5 * post_warm.back()));
  findings.claims.push_back(holds("the same with pre-norm: deep ones train without it", both(pre, pre_warm),
                                  pre.back() < 0.5 * post.back()));
  findings.pictures.emplace_back(map);
}

}  // namespace

Findings norm_placement() {
  Findings findings;
  measure_activations(findings);
  train_at_growing_depth(findings);
  return findings;
}

}  // namespace transduce::lab
