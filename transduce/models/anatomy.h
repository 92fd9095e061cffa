#pragma once

// What a Transformer is made of, counted before it takes any memory: the shapes of every part at given
// lengths, its parameters, its arithmetic, and the memory that training and decoding need for it.

#include <string>
#include <vector>

#include "transduce/models/transformer.h"

namespace transduce {

// What passes through: B sentences, each of S source and T target tokens, end symbols counted.
struct Lengths {
  int64_t sentences = 1;  // B
  int64_t source = 20;    // S
  int64_t target = 20;    // T

  // Errors: InputError on a value out of range.
  void validate() const;
};

enum class PartKind {
  source_embedding,
  target_embedding,
  encoder_self_attention,
  decoder_self_attention,
  cross_attention,
  encoder_feed_forward,
  decoder_feed_forward,
  encoder_norms,  // with the residual connections and their dropout
  decoder_norms,
  encoder_final_norm,  // pre-norm only
  decoder_final_norm,
  output,  // with the softmax
};

struct Part {
  PartKind kind;
  std::string name;  // "self-attention"
  std::string
      shapes;  // "(20, 512) -> 8 x (20, 20) -> (20, 512)": what goes in, what is in between, what comes out
  int64_t parameters = 0;
  int64_t parameter_bytes = 0;
  // Of the products of matrices in one forward pass over the whole batch; a multiplication and an addition
  // are two. Norms, activations and softmax add a few operations an element, which is not counted. A causal
  // attention counts what may be seen. The backward pass does twice as many.
  double operations = 0.0;
  int64_t tokens = 0;          // rows it is run on: those of the whole batch
  int64_t training_bytes = 0;  // what the backward pass needs of the whole batch, kept until then
  int64_t decoding_bytes = 0;  // keys and values kept of the whole batch while decoding token by token
};

// Parts that stand in the model `count` times. Figures of the parts are for one of them.
struct PartGroup {
  std::string name;  // "encoder layer"
  int64_t count = 1;
  std::vector<Part> parts;

  // The sum over the parts, of one.
  template <class Field>
  Field sum(Field Part::*field) const {
    Field all{};
    for (const Part& part : parts) all += part.*field;
    return all;
  }
};

struct Anatomy {
  std::vector<PartGroup> groups;  // in the order of the forward pass

  // The sum over everything.
  template <class Field>
  Field total(Field Part::*field) const {
    Field all{};
    for (const PartGroup& group : groups) all += static_cast<Field>(group.count) * group.sum(field);
    return all;
  }
};

// Activations are float32. Of the loss, which works through the rows in chunks, only the gradients that it
// keeps are counted. Errors: InputError from TransformerConfig::validate and Lengths::validate.
Anatomy anatomy(const TransformerConfig& config, const Lengths& lengths);

}  // namespace transduce
