#pragma once

// What a model is made of. Every field has its default in place; config.json holds the same names.

#include <cstdint>
#include <string>

#include "transduce/nn/positions.h"
#include "transduce/nn/residual.h"

namespace transduce {

// Which of the three (V, C) matrices are one.
enum class Tie {
  none,     // source embedding, target embedding and output layer are three
  decoder,  // the target embedding serves as the output layer
  all,      // one matrix for all three (the paper, 3.4); needs one vocabulary for both sides
};

// How the weights of linear layers are kept.
enum class WeightKind {
  float32,
  int8,  // for inference: made by quantize() of models/quantize.h
};

struct TransformerConfig {
  int64_t source_vocabulary = 0;  // V of the source
  int64_t target_vocabulary = 0;  // V of the target
  int64_t width = 512;            // C, d_model in the paper
  int64_t heads = 8;              // H
  int64_t feed_forward = 2048;    // F, d_ff in the paper
  int64_t encoder_layers = 6;
  int64_t decoder_layers = 6;
  NormPlacement norm = NormPlacement::post;
  NormKind norm_kind = NormKind::layer;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::relu;
  PositionKind positions = PositionKind::sinusoidal;
  int64_t max_positions = 1024;  // of learned positions
  // Of sinusoidal positions; other programs' models differ from the paper here (nn/positions.h).
  SinusoidLayout sinusoid_layout = SinusoidLayout::interleaved;
  Timescales timescales = Timescales::paper;
  int64_t position_offset = 0;  // the position of a sequence's first token
  Tie tie = Tie::none;
  bool embedding_scale = true;  // times sqrt(C)
  bool attention_scale = true;  // scores over sqrt(D); false as in T5
  bool output_bias = false;
  WeightKind weights = WeightKind::float32;
  bool source_end = true;  // source sequences end with the end symbol
  double dropout = 0.1;    // after each sublayer and on the embeddings
  double attention_dropout = 0.0;
  double activation_dropout = 0.0;

  // Errors: InputError that names the field, its value and what fits.
  void validate() const;
};

// Names as the command line and config.json have them. Errors of the parsers: as value_in of
// base/names.h.
const char* to_string(NormPlacement value);
const char* to_string(NormKind value);
const char* to_string(Activation value);
const char* to_string(PositionKind value);
const char* to_string(SinusoidLayout value);
const char* to_string(Timescales value);
const char* to_string(Tie value);
const char* to_string(WeightKind value);
NormPlacement parse_norm_placement(const std::string& name);
NormKind parse_norm_kind(const std::string& name);
Activation parse_activation(const std::string& name);
PositionKind parse_position_kind(const std::string& name);
SinusoidLayout parse_sinusoid_layout(const std::string& name);
Timescales parse_timescales(const std::string& name);
Tie parse_tie(const std::string& name);
WeightKind parse_weight_kind(const std::string& name);

// The whole configuration as a JSON object with the fields' names, and back. Fields that are absent keep
// their defaults. Errors: InputError that names an unknown field, a wrong type or an unfit value.
std::string to_json(const TransformerConfig& config);
TransformerConfig transformer_config_from_json(const std::string& text);

}  // namespace transduce
