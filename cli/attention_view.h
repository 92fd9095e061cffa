#pragma once

// The attention of one pair of sentences, ready to be shown.

#include <string>
#include <vector>

#include "transduce/decode/attention_maps.h"
#include "transduce/io/model_directory.h"

namespace transduce::cli {

// Which heads are shown.
struct ShownHeads {
  bool encoder = true, decoder = true, cross = true;
  int64_t layer = 0, head = 0;  // counted from 1; 0: all
};

struct ShownToken {
  std::string text;   // as the vocabulary has it
  std::string label;  // as it is drawn: see token_label
};

struct AttentionView {
  std::string source_text, output_text;  // as they were given or generated
  bool forced = false;                   // the output was given
  // Looked at, and looking in the encoder; read and chosen by the decoder.
  std::vector<ShownToken> source, read, chosen;
  int64_t source_tokens = 0;  // of `source`, the end symbol left out
  AttentionMaps maps;         // those that are shown

  DiagonalShare share(const AttentionMap& cross) const { return diagonal_share(cross.matrix, source_tokens); }
  // Of the cross-attention that is shown, the head whose share of a diagonal is largest; null without any.
  const AttentionMap* best(double DiagonalShare::*diagonal) const;
};

std::vector<std::string> labels_of(const std::vector<ShownToken>& tokens);

// Errors: InputError when the model has no such layer or head, and as attention_maps.
AttentionView attention_view(const Seq2SeqModel& model, const std::vector<int32_t>& source,
                             const std::vector<int32_t>& output, const ShownHeads& shown);

// All weights and tokens as one object; weights are rounded to six places.
std::string attention_json(const AttentionView& view);

// A picture file: the heads of each layer in a row.
std::string attention_svg(const AttentionView& view);

// A page that stands alone (transduce/page/html.h).
std::string attention_page(const AttentionView& view);

}  // namespace transduce::cli
