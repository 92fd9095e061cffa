#!/usr/bin/env python3
"""Makes the golden fixtures in tests/golden/fixtures from PyTorch; tests/golden/README.md describes them.

  make_golden.py                            writes every fixture anew
  make_golden.py --check                    makes them again and compares with the files that are there
  make_golden.py --live SEED --output FILE  writes one whole-model fixture of random shape

Needs torch and safetensors. Dimension letters as in docs/architecture.md: B sequences, N packed rows,
T target length, S source length, C width, H heads, D = C / H, F feed-forward width, V vocabulary.
"""

import argparse
import json
import math
import random
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "golden" / "fixtures"
PAD = 0  # only in the padded form; real ids start at 1
STEPS = 10
TOLERANCE = 1e-12  # of --check


# ---- packed and padded form -------------------------------------------------------------------------------


def real_rows(lengths):
    """(B, longest) booleans: true where a row is real."""
    return torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]


def pack(padded, lengths):
    """(B, T, ...) -> (N, ...)"""
    return padded[real_rows(lengths)]


def pad(packed, lengths, value=0):
    """(N, ...) -> (B, T, ...)"""
    padded = packed.new_full((len(lengths), max(lengths), *packed.shape[1:]), value)
    padded[real_rows(lengths)] = packed
    return padded


def causal_mask(length):
    """(T, T), as PyTorch wants it: true where a position may NOT be seen."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


# ---- the models, from PyTorch's own layers ----------------------------------------------------------------


def sinusoids(length, width):
    """(length, C): sine in even columns, cosine in odd ones, interleaved; an odd width ends with a sine."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    column = torch.arange(width)
    angle = position / 10000.0 ** ((column - column % 2).double() / width)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


def layer_arguments(config):
    return dict(d_model=config["width"], nhead=config["heads"], dim_feedforward=config["feed_forward"],
                dropout=0.0, activation=config["activation"], norm_first=config["norm"] == "pre",
                batch_first=True, dtype=torch.float64)


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, tie = config["width"], config["tie"]
        self.width = width
        self.source = nn.Embedding(config["source_vocabulary"], width, dtype=torch.float64)
        self.target = self.source
        if tie != "all":
            self.target = nn.Embedding(config["target_vocabulary"], width, dtype=torch.float64)
        self.output = nn.Linear(width, config["target_vocabulary"], config["output_bias"],
                                dtype=torch.float64)
        if tie != "none":
            self.output.weight = self.target.weight

        def final_norm():  # the paper's post-norm model has none; nn.Transformer would always add one
            return nn.LayerNorm(width, dtype=torch.float64) if config["norm"] == "pre" else None

        self.transformer = nn.Transformer(
            **layer_arguments(config),
            custom_encoder=nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer_arguments(config)),
                                                 config["encoder_layers"], final_norm(),
                                                 enable_nested_tensor=False),
            custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer_arguments(config)),
                                                 config["decoder_layers"], final_norm()))

    def embed(self, table, ids):
        return table(ids) * math.sqrt(self.width) + sinusoids(ids.shape[1], self.width)

    def forward(self, source_ids, source_pads, target_ids, target_pads):
        """ids (B, S) and (B, T), pads true at pads -> encoder output (B, S, C), logits (B, T, V)"""
        memory = self.transformer.encoder(self.embed(self.source, source_ids),
                                          src_key_padding_mask=source_pads)
        state = self.transformer.decoder(self.embed(self.target, target_ids), memory,
                                         tgt_mask=causal_mask(target_ids.shape[1]),
                                         tgt_key_padding_mask=target_pads,
                                         memory_key_padding_mask=source_pads)
        return memory, self.output(state)


def randomise(module):
    """Every parameter away from its initial value, so that no bias or gain goes untested."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            noise = torch.randn(p.shape, dtype=torch.float64)
            if "norm" in name:
                p.copy_(0.2 * noise + (1.0 if name.endswith("weight") else 0.0))
            else:
                p.copy_(noise / math.sqrt(p.shape[-1]) if p.dim() == 2 else 0.2 * noise)


# ---- our names of PyTorch's parameters --------------------------------------------------------------------
# Each returns {our name: (parameter, first row, last row + 1)}.


def rows_of(prefix, module, begin=None, end=None, weight="weight", bias="bias"):
    names = {"weight": getattr(module, weight), "bias": getattr(module, bias)}
    return {f"{prefix}.{name}": (p, begin, end) for name, p in names.items() if p is not None}


def self_attention_names(prefix, attention):
    return {**rows_of(f"{prefix}.query_key_value", attention, weight="in_proj_weight", bias="in_proj_bias"),
            **rows_of(f"{prefix}.output", attention.out_proj)}


def cross_attention_names(prefix, attention):
    width = attention.embed_dim
    return {**rows_of(f"{prefix}.query", attention, 0, width, "in_proj_weight", "in_proj_bias"),
            **rows_of(f"{prefix}.key_value", attention, width, 3 * width, "in_proj_weight", "in_proj_bias"),
            **rows_of(f"{prefix}.output", attention.out_proj)}


def layer_names(prefix, layer):
    names = {**self_attention_names(f"{prefix}self_attention", layer.self_attn),
             **rows_of(f"{prefix}self_attention_norm", layer.norm1)}
    feed_forward_norm = layer.norm2
    if isinstance(layer, nn.TransformerDecoderLayer):
        names |= cross_attention_names(f"{prefix}cross_attention", layer.multihead_attn)
        names |= rows_of(f"{prefix}cross_attention_norm", layer.norm2)
        feed_forward_norm = layer.norm3
    return {**names, **rows_of(f"{prefix}feed_forward.inner", layer.linear1),
            **rows_of(f"{prefix}feed_forward.outer", layer.linear2),
            **rows_of(f"{prefix}feed_forward_norm", feed_forward_norm)}


def model_names(model, config):
    if config["tie"] == "all":
        names = {"shared_embedding.weight": (model.source.weight, None, None)}
    else:
        names = {"source_embedding.weight": (model.source.weight, None, None),
                 "target_embedding.weight": (model.target.weight, None, None)}
    if config["tie"] == "none":
        names["output.weight"] = (model.output.weight, None, None)
    if config["output_bias"]:
        names["output.bias"] = (model.output.bias, None, None)
    for role in ("encoder", "decoder"):
        stack = getattr(model.transformer, role)
        for i, layer in enumerate(stack.layers):
            names |= layer_names(f"{role}.layers.{i}.", layer)
        if stack.norm is not None:
            names |= rows_of(f"{role}.norm", stack.norm)
    return names


def values_of(names):
    return {name: p[begin:end].detach().clone() for name, (p, begin, end) in names.items()}


def gradients_of(names):
    return {f"grad.{name}": p.grad[begin:end].clone() for name, (p, begin, end) in names.items()}


# ---- fixtures: each returns {name: tensor} ----------------------------------------------------------------


def model_batch(config, source_lengths, target_lengths):
    def ids(vocabulary, lengths):
        return torch.randint(1, vocabulary, (sum(lengths),))

    packed = {"source_ids": ids(config["source_vocabulary"], source_lengths),
              "target_input_ids": ids(config["target_vocabulary"], target_lengths),
              "target_output_ids": ids(config["target_vocabulary"], target_lengths)}
    padded = {f"{name}_padded": pad(x, source_lengths if name == "source_ids" else target_lengths, PAD)
              for name, x in packed.items()}
    return {**packed, **padded, "source_lengths": torch.tensor(source_lengths),
            "target_lengths": torch.tensor(target_lengths)}


def model_fixture(config, source_lengths, target_lengths):
    model = Transformer(config)
    randomise(model)
    names = model_names(model, config)
    assert {id(p) for p, _, _ in names.values()} == {id(p) for p in model.parameters()}
    batch = model_batch(config, source_lengths, target_lengths)
    parameters = values_of(names)

    def run():
        memory, logits = model(batch["source_ids_padded"], ~real_rows(source_lengths),
                               batch["target_input_ids_padded"], ~real_rows(target_lengths))
        loss = functional.cross_entropy(logits.flatten(0, 1), batch["target_output_ids_padded"].flatten(),
                                        ignore_index=PAD, label_smoothing=config["label_smoothing"])
        return memory, logits, loss

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        memory, logits, loss = run()
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            expected = {"encoder_output": pack(memory, source_lengths),
                        "logits": pack(logits, target_lengths), "loss": loss.reshape(1)}
            gradients = gradients_of(names)
        optimizer.step()
    expected["losses"] = torch.stack(losses)
    return {**parameters, **{f"input.{k}": x for k, x in batch.items()},
            **{f"expected.{k}": x.detach() for k, x in expected.items()}, **gradients}


def layer_fixture(config, lengths, source_lengths=None):
    """An encoder layer, or with `source_lengths` a decoder layer: loss = sum(output * weights)."""
    decoder = source_lengths is not None
    layer = (nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer)(**layer_arguments(config))
    randomise(layer)
    names = layer_names("", layer)
    assert {id(p) for p, _, _ in names.values()} == {id(p) for p in layer.parameters()}

    def rows(n):
        return torch.randn(n, config["width"], dtype=torch.float64)

    inputs = {"x": rows(sum(lengths)).requires_grad_()}
    if decoder:
        inputs["memory"] = rows(sum(source_lengths)).requires_grad_()
    weights = rows(sum(lengths))
    x, pads = pad(inputs["x"], lengths), ~real_rows(lengths)
    if decoder:
        output = layer(x, pad(inputs["memory"], source_lengths), tgt_mask=causal_mask(max(lengths)),
                       tgt_key_padding_mask=pads, memory_key_padding_mask=~real_rows(source_lengths))
    else:
        output = layer(x, src_key_padding_mask=pads)
    output = pack(output, lengths)
    loss = (output * weights).sum()
    loss.backward()
    fixture = {**values_of(names), "input.lengths": torch.tensor(lengths), "input.weights": weights,
               "expected.output": output.detach(), "expected.loss": loss.detach().reshape(1),
               **gradients_of(names)}
    if decoder:
        fixture["input.source_lengths"] = torch.tensor(source_lengths)
    for name, value in inputs.items():
        fixture |= {f"input.{name}": value.detach(), f"grad.input.{name}": value.grad}
    return fixture


def attention_fixture(config, lengths, source_lengths):
    """Scaled dot-product attention alone, by PyTorch's function on padded input with a mask."""
    width, heads = config["width"], config["heads"]
    shapes = {"query": lengths, "key": source_lengths, "value": source_lengths}
    inputs = {name: torch.randn(sum(n), width, dtype=torch.float64).requires_grad_()
              for name, n in shapes.items()}
    weights = torch.randn(sum(lengths), width, dtype=torch.float64)

    def split(name):  # (N, C) -> (B, H, T, D)
        x = pad(inputs[name], shapes[name])
        return x.view(*x.shape[:2], heads, width // heads).transpose(1, 2)

    seen = real_rows(source_lengths)[:, None, None, :]  # (B, 1, 1, S); this function's true means "is seen"
    if config["causal"]:
        seen = seen & ~causal_mask(max(lengths))
    query, key, value = split("query"), split("key"), split("value")
    output = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    output = pack(output.transpose(1, 2).flatten(2), lengths)
    scores = (query @ key.transpose(2, 3) / math.sqrt(width // heads)).masked_fill(~seen, -math.inf)
    loss = (output * weights).sum()
    loss.backward()
    fixture = {"input.lengths": torch.tensor(lengths), "input.source_lengths": torch.tensor(source_lengths),
               "input.weights": weights, "expected.output": output.detach(),
               "expected.loss": loss.detach().reshape(1),
               "expected.log_sum_exp": pack(scores.logsumexp(3).transpose(1, 2), lengths).detach()}
    for name, value in inputs.items():
        fixture |= {f"input.{name}": value.detach(), f"grad.input.{name}": value.grad}
    return fixture


# ---- the cases --------------------------------------------------------------------------------------------

SIZES = {16: dict(width=16, heads=4, feed_forward=32), 15: dict(width=15, heads=3, feed_forward=31)}
SOURCE_LENGTHS, TARGET_LENGTHS = [5, 1, 7, 3], [4, 6, 1, 2]


def model_config(width, norm, activation, tie, output_bias, label_smoothing, layers=(2, 2)):
    source, target = (12, 12) if tie == "all" else (11, 13)
    return dict(kind="model", source_vocabulary=source, target_vocabulary=target, **SIZES[width],
                encoder_layers=layers[0], decoder_layers=layers[1], norm=norm, activation=activation, tie=tie,
                output_bias=output_bias, label_smoothing=label_smoothing)


def layer_config(kind, width, norm, activation):
    return dict(kind=kind, **SIZES[width], norm=norm, activation=activation)


MODELS = {
    "model_post_relu": model_config(16, "post", "relu", "none", True, 0.1),
    "model_pre_relu": model_config(16, "pre", "relu", "none", True, 0.0),
    "model_post_gelu_tied_all": model_config(16, "post", "gelu", "all", False, 0.0),
    "model_pre_gelu_tied_decoder": model_config(16, "pre", "gelu", "decoder", False, 0.1),
    "model_post_relu_tied_decoder_odd": model_config(15, "post", "relu", "decoder", True, 0.1, (1, 2)),
    "model_pre_gelu_tied_all_odd": model_config(15, "pre", "gelu", "all", True, 0.1),
    "model_post_gelu_odd": model_config(15, "post", "gelu", "none", False, 0.0, (2, 1)),
}
LAYERS = {
    f"{kind}_layer_{norm}_{activation}{odd}": layer_config(f"{kind}_layer", width, norm, activation)
    for kind in ("encoder", "decoder")
    for norm, activation, width, odd in [("post", "relu", 16, ""), ("pre", "gelu", 16, ""),
                                         ("pre", "relu", 15, "_odd"), ("post", "gelu", 15, "_odd")]
}
ATTENTIONS = {  # config, lengths of the queries, lengths of the keys and values
    "attention_self": (dict(width=16, heads=4, causal=False), SOURCE_LENGTHS, SOURCE_LENGTHS),
    "attention_causal": (dict(width=15, heads=3, causal=True), TARGET_LENGTHS, TARGET_LENGTHS),
    "attention_cross": (dict(width=15, heads=5, causal=False), TARGET_LENGTHS, SOURCE_LENGTHS),
}


def all_fixtures():
    """Yields (name, config, tensors); each case has its own seed, so adding one leaves the others alone."""
    for name, config in MODELS.items():
        torch.manual_seed(seed_of(name))
        yield name, config, model_fixture(config, SOURCE_LENGTHS, TARGET_LENGTHS)
    for name, config in LAYERS.items():
        torch.manual_seed(seed_of(name))
        decoder = config["kind"] == "decoder_layer"
        yield name, config, layer_fixture(config, *([TARGET_LENGTHS, SOURCE_LENGTHS] if decoder
                                                    else [SOURCE_LENGTHS]))
    for name, (config, lengths, source_lengths) in ATTENTIONS.items():
        torch.manual_seed(seed_of(name))
        yield name, dict(kind="attention", **config), attention_fixture(config, lengths, source_lengths)


def seed_of(name):
    return int.from_bytes(name.encode(), "little") % (2**31 - 1)


def live_fixture(seed):
    """A whole model of random shape."""
    pick = random.Random(seed)
    torch.manual_seed(seed)
    heads = pick.randint(1, 4)
    tie = pick.choice(["none", "decoder", "all"])
    source = pick.randint(5, 40)
    config = dict(kind="model", source_vocabulary=source,
                  target_vocabulary=source if tie == "all" else pick.randint(5, 40),
                  width=heads * pick.randint(4, 9), heads=heads, feed_forward=pick.randint(1, 70),
                  encoder_layers=pick.randint(1, 3), decoder_layers=pick.randint(1, 3),
                  norm=pick.choice(["post", "pre"]), activation=pick.choice(["relu", "gelu"]), tie=tie,
                  output_bias=pick.choice([True, False]), label_smoothing=pick.choice([0.0, 0.1, 0.3]))
    batch = pick.randint(1, 6)
    lengths = [[pick.randint(1, 20) for _ in range(batch)] for _ in range(2)]
    return config, model_fixture(config, *lengths)


# ---- files ------------------------------------------------------------------------------------------------


def narrow(tensors):
    """Ids and lengths as int32; all else is float64 already."""
    return {name: (x if x.dtype == torch.float64 else x.to(torch.int32)).contiguous()
            for name, x in tensors.items()}


def write(path, config, tensors):
    save_file(narrow(tensors), path, metadata={"config": json.dumps(config)})


def differences(path, config, tensors):
    """What differs between a file and a fixture made anew, as lines."""
    if not path.exists():
        return [f"{path.name}: missing"]
    with safe_open(path, "pt") as file:
        there = {name: file.get_tensor(name) for name in file.keys()}
        found = [] if json.loads(file.metadata()["config"]) == config else [f"{path.name}: config differs"]
    made = narrow(tensors)
    found += [f"{path.name}: {name} is only in one of the two" for name in sorted(there.keys() ^ made.keys())]
    for name in sorted(there.keys() & made.keys()):
        a, b = there[name], made[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            found.append(f"{path.name}: {name} is {a.dtype} {tuple(a.shape)}, "
                         f"made {b.dtype} {tuple(b.shape)}")
        elif not torch.allclose(a.double(), b.double(), rtol=TOLERANCE, atol=TOLERANCE):
            found.append(f"{path.name}: {name} differs by {(a - b).abs().max().item():.3g}")
    return found


def check():
    found, names = [], set()
    for name, config, tensors in all_fixtures():
        names.add(f"{name}.safetensors")
        found += differences(FIXTURES / f"{name}.safetensors", config, tensors)
    found += [f"{path.name}: no case makes it"
              for path in sorted(FIXTURES.iterdir()) if path.name not in names]
    print("\n".join(found) if found else f"{len(names)} fixtures agree within {TOLERANCE}")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="compare with the files that are there")
    mode.add_argument("--live", type=int, metavar="SEED", help="write one whole model of random shape")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where --live writes")
    arguments = parser.parse_args()
    if (arguments.live is None) != (arguments.output is None):
        parser.error("--live SEED and --output FILE go together")
    torch.set_num_threads(1)
    if arguments.check:
        return check()
    if arguments.live is not None:
        write(arguments.output, *live_fixture(arguments.live))
        return 0
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for name, config, tensors in all_fixtures():
        write(FIXTURES / f"{name}.safetensors", config, tensors)
    return 0


if __name__ == "__main__":
    sys.exit(main())
