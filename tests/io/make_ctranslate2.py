"""Makes up a CTranslate2 model as its converters write one: `make_ctranslate2.py DIRECTORY < OPTIONS.json`.

The options are arguments of TransformerSpec.from_config, and besides them "seed", "width", "feed_forward", "tokens"
(ordinary tokens a side), "tie" (none, decoder, all), "bias" (of the output layer), "config" (fields of config.json),
"positions" (rows of a learned table; 0: sinusoids) and "quantization" (int8, int16, float16, bfloat16 or null).
"""

import json
import os
import sys

import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

options = json.load(sys.stdin)
seed, width, inner = (options.pop(name) for name in ("seed", "width", "feed_forward"))
tokens, tie, bias = (options.pop(name) for name in ("tokens", "tie", "bias"))
config, positions, quantization = (options.pop(name) for name in ("config", "positions", "quantization"))
options["activation"] = common_spec.Activation(options["activation"])
random = np.random.default_rng(seed)


def draw(*shape, around=0.0):
    return (around + 0.3 * random.standard_normal(shape)).astype(np.float32)


def set_linear(spec, out, inside, with_bias=True):
    spec.weight = draw(out, inside)
    if with_bias:
        spec.bias = draw(out)


def set_norm(spec):
    spec.gamma = draw(width, around=1.0)
    if hasattr(spec, "beta"):
        spec.beta = draw(width)


def set_attention(spec, outs):
    set_norm(spec.layer_norm)
    for linear, out in zip(spec.linear, outs):
        set_linear(linear, out, width)


def set_stack(spec):
    for layer in spec.layer:
        set_attention(layer.self_attention, [3 * width, width])
        if hasattr(layer, "attention"):
            set_attention(layer.attention, [width, 2 * width, width])
        set_norm(layer.ffn.layer_norm)
        set_linear(layer.ffn.linear_0, inner, width)
        set_linear(layer.ffn.linear_1, width, inner)
        if hasattr(layer.ffn, "linear_0_noact"):
            set_linear(layer.ffn.linear_0_noact, inner, width)
    if hasattr(spec, "layer_norm"):
        set_norm(spec.layer_norm)
    if positions:
        spec.position_encodings.encodings = draw(positions, width)


spec = transformer_spec.TransformerSpec.from_config(**options)
special = ["<blank>", "<s>", "</s>"]
source = special + [chr(ord("a") + i) for i in range(tokens)] + ["<unk>"]
target = source if tie == "all" else special + [chr(ord("A") + i) for i in range(tokens)] + ["<unk>"]
spec.encoder.embeddings[0].weight = draw(len(source), width)
spec.decoder.embeddings.weight = spec.encoder.embeddings[0].weight if tie == "all" else draw(len(target), width)
set_linear(spec.decoder.projection, len(target), width, bias)
if tie != "none":
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
set_stack(spec.encoder)
set_stack(spec.decoder)
for name, value in config.items():
    setattr(spec.config, name, value)
spec.register_source_vocabulary(source)
spec.register_target_vocabulary(target)
spec.validate()
spec.optimize(quantization=quantization)
os.makedirs(sys.argv[1], exist_ok=True)
spec.save(sys.argv[1])
