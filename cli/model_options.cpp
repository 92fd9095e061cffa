#include "cli/model_options.h"

namespace transduce::cli {
namespace {

struct Preset {
  const char* name;
  int64_t layers, width, heads, feed_forward;
};

// tiny: 4+4 layers as small translation tasks use; base and big: the paper, table 3.
constexpr Preset kPresets[] = {{"tiny", 4, 128, 4, 256},
                               {"small", 3, 256, 4, 1024},
                               {"base", 6, 512, 8, 2048},
                               {"big", 6, 1024, 16, 4096}};

const Preset& preset_named(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return preset;
  }
  fail_input("unknown preset '{}': choose one of tiny, small, base, big", name);
}

}  // namespace

void ModelOptions::add_to(CLI::App& app) {
  const std::string group = "Model";
  app.add_option("--preset", preset_,
                 "layers, width, heads, feed-forward: tiny (4+4, 128, 4, 256), small (3+3, 256, 4, 1024), "
                 "base (6+6, 512, "
                 "8, 2048) or big (6+6, 1024, 16, 4096)")
      ->group(group);
  app.add_option("--encoder-layers", encoder_layers_, "layers of the encoder")->group(group);
  app.add_option("--decoder-layers", decoder_layers_, "layers of the decoder")->group(group);
  app.add_option("--width", width_, "d_model, the width of every layer")->group(group);
  app.add_option("--heads", heads_, "attention heads, a divisor of the width")->group(group);
  app.add_option("--feed-forward", feed_forward_, "inner width of the feed-forward networks")->group(group);
  app.add_option("--activation", activation_, "relu (default), gelu, gelu-tanh, swish or swiglu")
      ->group(group);
  app.add_option("--norm", norm_, "post (default, as the paper) or pre")->group(group);
  app.add_option("--norm-kind", norm_kind_, "layer (default) or rms")->group(group);
  app.add_option("--positions", positions_, "sinusoidal (default), learned or rotary")->group(group);
  app.add_option("--max-positions", max_positions_, "room for learned positions (default 1024)")
      ->group(group);
  app.add_option("--tie", tie_,
                 "share embeddings: none (default), decoder (with the output layer) or all three")
      ->group(group);
  app.add_flag("--output-bias", output_bias_, "a bias in the output layer")->group(group);
  app.add_option("--dropout", dropout_, "after each sublayer and on the embeddings (default 0.1)")
      ->group(group);
  app.add_option("--attention-dropout", attention_dropout_, "on the attention probabilities (default 0)")
      ->group(group);
  app.add_option("--activation-dropout", activation_dropout_, "inside the feed-forward networks (default 0)")
      ->group(group);
}

TransformerConfig ModelOptions::config() const {
  const Preset& preset = preset_named(preset_);
  TransformerConfig c;
  c.encoder_layers = encoder_layers_.value_or(preset.layers);
  c.decoder_layers = decoder_layers_.value_or(preset.layers);
  c.width = width_.value_or(preset.width);
  c.heads = heads_.value_or(preset.heads);
  c.feed_forward = feed_forward_.value_or(preset.feed_forward);
  c.max_positions = max_positions_.value_or(c.max_positions);
  if (activation_) c.activation = parse_activation(*activation_);
  if (norm_) c.norm = parse_norm_placement(*norm_);
  if (norm_kind_) c.norm_kind = parse_norm_kind(*norm_kind_);
  if (positions_) c.positions = parse_position_kind(*positions_);
  if (tie_) c.tie = parse_tie(*tie_);
  c.output_bias = output_bias_;
  c.dropout = dropout_.value_or(c.dropout);
  c.attention_dropout = attention_dropout_.value_or(c.attention_dropout);
  c.activation_dropout = activation_dropout_.value_or(c.activation_dropout);
  c.source_vocabulary = c.target_vocabulary = 1;
  c.validate();
  return c;
}

uint64_t held_out_seed(uint64_t seed) { return seed ^ 0x756E7365656E0000; }  // "unseen" in ASCII

}  // namespace transduce::cli
