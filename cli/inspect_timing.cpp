#include "cli/inspect_timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "transduce/train/trainer.h"

namespace transduce::cli {
namespace {

// The median of at least five runs and at least a fifth of a second, after one to warm up.
double median_seconds(const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  run();
  std::vector<double> seconds;
  for (double sum = 0.0; seconds.size() < 5 || (sum < 0.2 && seconds.size() < 200); sum += seconds.back()) {
    const Clock::time_point start = Clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + std::ssize(seconds) / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

Tensor random_rows(int64_t rows, int64_t width, uint64_t seed) {
  Tensor x({rows, width}, DType::float32);
  Random random({seed, 0});
  for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = static_cast<float>(random.uniform(-1.7, 1.7));
  return x;
}

std::vector<std::vector<int32_t>> random_sequences(int64_t count, int64_t length, int64_t vocabulary,
                                                   uint64_t seed) {
  Random random({seed, 1});
  std::vector<std::vector<int32_t>> sequences(static_cast<size_t>(count));
  for (auto& sequence : sequences) {
    for (int64_t t = 0; t < length; ++t) {
      sequence.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocabulary))));
    }
  }
  return sequences;
}

// Builds a part alone, with parameters of its own, and runs it.
class Bench {
 public:
  Bench(const TransformerConfig& config, const Lengths& lengths)
      : c_(config),
        l_(lengths),
        source_(Layout::packed(
            std::vector<int32_t>(static_cast<size_t>(l_.sentences), static_cast<int32_t>(l_.source)))),
        target_(Layout::packed(
            std::vector<int32_t>(static_cast<size_t>(l_.sentences), static_cast<int32_t>(l_.target)))) {}

  PartTime time(PartKind kind) {
    ParameterSet set;
    const std::function<Var()> run = make(kind, Scope(set));
    set.allocate();
    set.initialize(1);
    PartTime time;
    time.forward = median_seconds([&] { run(); });
    time.training = median_seconds([&] {
      const TrainingMode training({1, 1});
      Tape tape;
      const Var y = run();
      if (y.value().size() == 1) {  // a loss
        tape.backward(y);
        return;
      }
      // What would come back from the layers above.
      const Var loss(Tensor::of<float>({1}, {0.0f}), true);
      if (upstream_.empty() || upstream_.shape() != y.shape()) upstream_ = random_rows(y.dim(0), y.dim(1), 3);
      tape.record([this, y] { current_backend().accumulate(1.0, upstream_, y.gradient()); });
      tape.backward(loss);
    });
    return time;
  }

 private:
  bool on_source(PartKind kind) const {
    return kind == PartKind::source_embedding || kind == PartKind::encoder_self_attention ||
           kind == PartKind::encoder_feed_forward || kind == PartKind::encoder_norms ||
           kind == PartKind::encoder_final_norm;
  }
  // Rows that come from another layer: a gradient flows back to them.
  Var input(PartKind kind) const {
    return Var(random_rows(on_source(kind) ? source_.rows : target_.rows, c_.width, 2), true);
  }

  std::function<Var()> make(PartKind kind, const Scope& scope) {
    const AttentionOptions attention{c_.width, c_.heads, static_cast<float>(c_.attention_dropout)};
    switch (kind) {
      case PartKind::source_embedding:
      case PartKind::target_embedding:
        return make_embedding(kind, scope);
      case PartKind::encoder_self_attention:
      case PartKind::decoder_self_attention: {
        AttentionContext context;
        context.queries = context.keys = on_source(kind) ? source_ : target_;
        context.causal = kind == PartKind::decoder_self_attention;
        return
            [layer = SelfAttention(scope, attention), x = input(kind), context] { return layer(x, context); };
      }
      case PartKind::cross_attention: {
        AttentionContext context;
        context.queries = target_;
        context.keys = source_;
        return [layer = CrossAttention(scope, attention), x = input(kind),
                memory = input(PartKind::encoder_final_norm),
                context] { return layer(x, layer.project(memory), context); };
      }
      case PartKind::encoder_feed_forward:
      case PartKind::decoder_feed_forward:
        return [layer = FeedForward(scope, {c_.width, c_.feed_forward, c_.activation,
                                            static_cast<float>(c_.activation_dropout)}),
                x = input(kind)] { return layer(x); };
      case PartKind::encoder_norms:
      case PartKind::decoder_norms:
        return make_norms(kind, scope);
      case PartKind::encoder_final_norm:
      case PartKind::decoder_final_norm:
        return [norm = Norm(scope, c_.width, {c_.norm_kind, c_.norm_epsilon}), x = input(kind)] {
          return norm(x);
        };
      case PartKind::output:
        return make_output(scope);
    }
    return {};
  }

  std::function<Var()> make_embedding(PartKind kind, const Scope& scope) const {
    const int64_t V = kind == PartKind::source_embedding ? c_.source_vocabulary : c_.target_vocabulary;
    const Tokens tokens = pack(random_sequences(l_.sentences, on_source(kind) ? l_.source : l_.target, V, 4));
    const Positions positions(scope / "positions", c_.positions, c_.max_positions, c_.width,
                              {c_.sinusoid_layout, c_.timescales, c_.position_offset});
    const TokenEmbedding embedding(Embedding(scope / "embedding", V, c_.width), positions,
                                   {c_.embedding_scale ? std::sqrt(static_cast<double>(c_.width)) : 1.0,
                                    static_cast<float>(c_.dropout)});
    return [embedding, tokens] { return embedding(tokens); };
  }

  // One after another, around sublayers that cost nothing.
  std::function<Var()> make_norms(PartKind kind, const Scope& scope) const {
    std::vector<Residual> residuals;
    for (int64_t i = 0; i < (on_source(kind) ? 2 : 3); ++i) {
      residuals.emplace_back(
          scope / i, c_.width,
          Residual::Options{c_.norm, {c_.norm_kind, c_.norm_epsilon}, static_cast<float>(c_.dropout)});
    }
    const bool pre = c_.norm == NormPlacement::pre;
    return [residuals, pre, x = input(kind), branch = input(kind)] {
      Var y = x;
      for (const Residual& residual : residuals)
        y = residual(y, [&](const Var& h) { return pre ? h : branch; });
      return y;
    };
  }

  std::function<Var()> make_output(const Scope& scope) const {
    const Linear layer(scope, c_.width, c_.target_vocabulary,
                       {Init::xavier_uniform(c_.width, c_.target_vocabulary), Init::zeros(), c_.output_bias});
    const auto expected = pack(random_sequences(l_.sentences, l_.target, c_.target_vocabulary, 5)).ids;
    return
        [layer, expected, x = input(PartKind::output)] { return layer.cross_entropy(x, expected, 0.1).sum; };
  }

  const TransformerConfig& c_;
  const Lengths l_;
  const Layout source_, target_;
  Tensor upstream_;
};

}  // namespace

ModelTime measure_parts(const TransformerConfig& config, const Lengths& lengths, const Anatomy& anatomy) {
  check_input(config.weights == WeightKind::float32,
              "weights in 8 bits cannot be trained, so there is no training to measure");
  ModelTime times;
  Bench bench(config, lengths);
  for (const PartGroup& group : anatomy.groups) {
    times.parts.emplace_back();
    for (const Part& part : group.parts) times.parts.back().push_back(bench.time(part.kind));
  }
  Transformer model(config);
  model.parameters().initialize(1);
  const auto sequences = [&](int64_t length, int64_t vocabulary) {
    return pack(random_sequences(lengths.sentences, length, vocabulary, 6));
  };
  const Seq2SeqBatch batch{sequences(lengths.source, config.source_vocabulary),
                           sequences(lengths.target, config.target_vocabulary),
                           sequences(lengths.target, config.target_vocabulary).ids};
  {
    Trainer trainer(model, TrainerOptions());
    trainer.update({batch});
    Arena::instance().reset_peak();
    trainer.update({batch});
    times.peak_bytes = static_cast<int64_t>(Arena::instance().statistics().peak);
    times.update = median_seconds([&] { trainer.update({batch}); });
  }
  Optimizer optimizer(model.parameters(), OptimizerOptions());
  times.optimizer = median_seconds([&] { optimizer.step(1e-6, 1.0); });
  return times;
}

}  // namespace transduce::cli
