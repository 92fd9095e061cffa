#include <iostream>

#include "transduce/models/transformer.h"
#include "transduce/nn/tokens.h"

int main() {
  transduce::TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = 12;
  config.width = 16;
  config.heads = 4;
  config.feed_forward = 32;
  config.encoder_layers = config.decoder_layers = 1;
  transduce::Transformer model(config);
  model.parameters().initialize(1);
  const auto source = transduce::pack({{5, 6, 7}, {8}});
  const auto target = transduce::pack({{1, 7}, {1, 8, 9}});
  const auto logits = model.logits(model.forward(source, target));
  std::cout << logits.dim(0) << " x " << logits.dim(1) << '\n';
}
