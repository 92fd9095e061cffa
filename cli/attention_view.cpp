#include "cli/attention_view.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/token_label.h"
#include "transduce/base/text.h"
#include "transduce/page/svg.h"

namespace transduce::cli {
namespace {

std::vector<ShownToken> tokens_of(const Vocabulary& vocabulary, const std::vector<int32_t>& ids) {
  std::vector<ShownToken> tokens;
  for (const int32_t id : ids) tokens.push_back({vocabulary.token(id), token_label(vocabulary, id)});
  return tokens;
}

void check_shown(const char* what, int64_t chosen, int64_t most, const char* of) {
  check_input(chosen >= 0 && chosen <= most, "{} {} is out of range: the model has 1 to {}{}; 0 shows all",
              what, chosen, most, of);
}

void keep(std::vector<AttentionMap>& maps, bool shown, const ShownHeads& heads) {
  std::erase_if(maps, [&](const AttentionMap& map) {
    return !shown || (heads.layer > 0 && map.layer != heads.layer) ||
           (heads.head > 0 && map.head != heads.head);
  });
}

// Rows of weights with six places: shorter in writing than float32, and a row still sums to 1.
nlohmann::ordered_json weights_json(const AttentionMatrix& matrix) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (int64_t t = 0; t < matrix.targets; ++t) {
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    for (int64_t s = 0; s < matrix.sources; ++s) {
      row.push_back(std::round(1e6 * static_cast<double>(matrix.at(t, s))) / 1e6);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

nlohmann::ordered_json maps_json(const AttentionView& view, const std::vector<AttentionMap>& maps,
                                 bool cross) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const AttentionMap& map : maps) {
    nlohmann::ordered_json one{{"layer", map.layer}, {"head", map.head}};
    if (cross) {
      const DiagonalShare share = view.share(map);
      one["diagonal"] = share.diagonal;
      one["anti_diagonal"] = share.anti_diagonal;
    }
    one["weights"] = weights_json(map.matrix);
    list.push_back(std::move(one));
  }
  return list;
}

nlohmann::ordered_json valid(const std::vector<ShownToken>& tokens) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ShownToken& token : tokens) list.push_back(to_valid_utf8(token.text));
  return list;
}

page::Drawing draw_heads(const char* title, const std::vector<AttentionMap>& maps,
                         const std::vector<ShownToken>& rows, const std::vector<ShownToken>& columns) {
  std::vector<page::Drawing> heads;
  size_t heads_a_layer = 0;
  for (const AttentionMap& map : maps) {
    page::HeatMap picture{map.matrix.weights, labels_of(rows), labels_of(columns)};
    picture.title = fmt::format("layer {}, head {}", map.layer, map.head);
    picture.limit = 1.0;
    heads.push_back(page::draw(picture));
    heads_a_layer += map.layer == maps.front().layer;
  }
  return page::stack({page::text(title, 18.0, true), page::grid(heads, heads_a_layer, 20.0)}, 10.0);
}

}  // namespace

std::vector<std::string> labels_of(const std::vector<ShownToken>& tokens) {
  std::vector<std::string> labels;
  for (const ShownToken& token : tokens) labels.push_back(token.label);
  return labels;
}

const AttentionMap* AttentionView::best(double DiagonalShare::*diagonal) const {
  const AttentionMap* best = nullptr;
  for (const AttentionMap& map : maps.cross) {
    if (best == nullptr || share(map).*diagonal > share(*best).*diagonal) best = &map;
  }
  return best;
}

AttentionView attention_view(const Seq2SeqModel& model, const std::vector<int32_t>& source,
                             const std::vector<int32_t>& output, const ShownHeads& shown) {
  const TransformerConfig& config = model.transformer->config();
  check_shown("layer", shown.layer,
              std::max(shown.encoder ? config.encoder_layers : 0,
                       shown.decoder || shown.cross ? config.decoder_layers : 0),
              " such layers");
  check_shown("head", shown.head, config.heads, " heads");
  AttentionView view;
  std::vector<int32_t> looked_at = source, read = output, chosen = output;
  if (config.source_end) looked_at.push_back(Vocabulary::end);
  read.insert(read.begin(), Vocabulary::start);
  chosen.push_back(Vocabulary::end);
  view.source = tokens_of(model.source->vocabulary(), looked_at);
  view.read = tokens_of(model.target->vocabulary(), read);
  view.chosen = tokens_of(model.target->vocabulary(), chosen);
  view.source_tokens = std::ssize(source);
  view.maps = attention_maps(*model.transformer, source, output);
  keep(view.maps.encoder, shown.encoder, shown);
  keep(view.maps.decoder, shown.decoder, shown);
  keep(view.maps.cross, shown.cross, shown);
  check_input(!view.maps.encoder.empty() || !view.maps.decoder.empty() || !view.maps.cross.empty(),
              "there is nothing to show: the model has no encoder layer");
  return view;
}

std::string attention_json(const AttentionView& view) {
  const nlohmann::ordered_json object{
      {"source_text", to_valid_utf8(view.source_text)},
      {"output_text", to_valid_utf8(view.output_text)},
      {"forced", view.forced},
      {"source", valid(view.source)},
      {"read", valid(view.read)},
      {"chosen", valid(view.chosen)},
      {"encoder", maps_json(view, view.maps.encoder, false)},
      {"decoder", maps_json(view, view.maps.decoder, false)},
      {"cross", maps_json(view, view.maps.cross, true)},
  };
  return object.dump() + "\n";
}

std::string attention_svg(const AttentionView& view) {
  std::vector<page::Drawing> parts;
  const auto add = [&](const char* title, const std::vector<AttentionMap>& maps,
                       const std::vector<ShownToken>& rows, const std::vector<ShownToken>& columns) {
    if (!maps.empty()) parts.push_back(draw_heads(title, maps, rows, columns));
  };
  add("Cross-attention: the token being chosen (row) looks at the source", view.maps.cross, view.chosen,
      view.source);
  add("Encoder self-attention: the source looks at itself", view.maps.encoder, view.source, view.source);
  add("Decoder self-attention: the token read last (row) looks at what was read", view.maps.decoder,
      view.read, view.read);
  return page::svg_file(page::stack(parts, 32.0), view.source_text + " \u2192 " + view.output_text);
}

}  // namespace transduce::cli
