"""The Transformer of transduce/models/transformer.cpp in PyTorch, written to be fast on a processor.

Dimension letters as in docs/architecture.md: B sequences, T target length, S source length, C width, H heads,
D = C / H, F feed-forward width, V vocabulary.
"""

import math

import torch
from torch import nn
from torch.nn import functional


def linear(width, out, xavier_out=None, bias=None):
    """A linear layer that starts as ours does; `bias` bounds a uniform start, None is zero."""
    layer = nn.Linear(width, out)
    bound = math.sqrt(6 / (width + (xavier_out or out)))
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias) if bias is None else nn.init.uniform_(layer.bias, -bias, bias)
    return layer


def sinusoids(length, width):
    """(length, C), sine and cosine interleaved."""
    angle = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width].float()


class Attention(nn.Module):
    """Queries, keys and values as one product (self) or as two (cross)."""

    def __init__(self, model, cross):
        super().__init__()
        width, self.heads, self.cross = model["width"], model["heads"], cross
        if cross:
            self.query = linear(width, width, 3 * width)
            self.key_value = linear(width, 2 * width, 3 * width)
        else:
            self.query_key_value = linear(width, 3 * width)
        self.output = linear(width, width)

    def split(self, x, parts):
        """(B, T, parts C) -> parts of (B, H, T, D)"""
        return x.unflatten(2, (parts, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)

    def keys_values(self, memory):
        return self.split(self.key_value(memory), 2)

    def attend(self, q, k, v, mask=None, causal=False):
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.output(out.transpose(1, 2).flatten(2))

    def forward(self, x, memory=None, mask=None, causal=False):
        if self.cross:
            return self.attend(*self.split(self.query(x), 1), *self.keys_values(memory), mask)
        return self.attend(*self.split(self.query_key_value(x), 3), mask, causal)

    def step(self, x, cache):
        """One more token (B, 1, C); `cache` is (keys, values) (B, H, T, D), or None at the first."""
        q, k, v = self.split(self.query_key_value(x), 3)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        return self.attend(q, k, v), (k, v)


class FeedForward(nn.Module):
    def __init__(self, model):
        super().__init__()
        width, inner = model["width"], model["feed_forward"]
        self.inner = linear(width, inner, bias=width**-0.5)
        self.outer = linear(inner, width, bias=inner**-0.5)
        self.activation = {"relu": functional.relu, "gelu": functional.gelu}[model["activation"]]

    def forward(self, x):
        return self.outer(self.activation(self.inner(x)))


class Residual(nn.Module):
    """Residual connection, dropout and norm around a sublayer, in pre- or post-norm form."""

    def __init__(self, model, sublayer):
        super().__init__()
        self.sublayer, self.norm = sublayer, nn.LayerNorm(model["width"], model["norm_epsilon"])
        self.pre, self.dropout = model["norm"] == "pre", nn.Dropout(model["dropout"])

    def forward(self, x, *arguments, **more):
        if self.pre:
            return x + self.dropout(self.sublayer(self.norm(x), *arguments, **more))
        return self.norm(x + self.dropout(self.sublayer(x, *arguments, **more)))

    def step(self, x, run):
        """The same without dropout around `run`, which returns a result and its cache."""
        out, cache = run(self.norm(x) if self.pre else x)
        return (x + out if self.pre else self.norm(x + out)), cache


class Layer(nn.Module):
    def __init__(self, model, decoder):
        super().__init__()
        self.self_attention = Residual(model, Attention(model, cross=False))
        self.cross_attention = Residual(model, Attention(model, cross=True)) if decoder else None
        self.feed_forward = Residual(model, FeedForward(model))

    def forward(self, x, mask, memory=None):
        if self.cross_attention is None:
            return self.feed_forward(self.self_attention(x, mask=mask))
        x = self.self_attention(x, causal=True)  # pads stand behind the real tokens, which never see them
        return self.feed_forward(self.cross_attention(x, memory, mask=mask))

    def step(self, x, memory, mask, cache):
        """memory: keys and values of the source, as Attention.keys_values gives them."""
        cross = self.cross_attention.sublayer
        x, cache = self.self_attention.step(x, lambda h: self.self_attention.sublayer.step(h, cache))
        x, _ = self.cross_attention.step(
            x, lambda h: (cross.attend(*cross.split(cross.query(h), 1), *memory, mask), None))
        return self.feed_forward(x), cache


class Transformer(nn.Module):
    MAX_POSITIONS = 1024

    def __init__(self, model):
        super().__init__()
        plain = {"norm_kind": "layer", "positions": "sinusoidal", "embedding_scale": True, "output_bias": False,
                 "attention_dropout": 0.0, "activation_dropout": 0.0}
        for name, value in plain.items():
            if model[name] != value:
                raise SystemExit(f"{name} {model[name]} is not in the PyTorch model: it has {value}")
        self.width = width = model["width"]

        def table(rows):
            return nn.Parameter(torch.randn(rows, width) * width**-0.5)

        tie = model["tie"]
        self.source = table(model["source_vocabulary"])
        self.target = self.source if tie == "all" else table(model["target_vocabulary"])
        self.output = self.target
        if tie == "none":
            self.output = nn.Parameter(linear(width, model["target_vocabulary"]).weight.detach())
        self.dropout = nn.Dropout(model["dropout"])
        self.encoder = nn.ModuleList(Layer(model, False) for _ in range(model["encoder_layers"]))
        self.decoder = nn.ModuleList(Layer(model, True) for _ in range(model["decoder_layers"]))

        def final_norm():
            return nn.LayerNorm(width, model["norm_epsilon"]) if model["norm"] == "pre" else nn.Identity()

        self.encoder_norm, self.decoder_norm = final_norm(), final_norm()
        self.register_buffer("positions", sinusoids(self.MAX_POSITIONS, width), persistent=False)

    def embed(self, table, ids, first=0):
        x = functional.embedding(ids, table) * math.sqrt(self.width)
        return self.dropout(x + self.positions[first:first + ids.shape[1]])

    def encode(self, source, mask):
        x = self.embed(self.source, source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def decode(self, target, memory, mask):
        x = self.embed(self.target, target)
        for layer in self.decoder:
            x = layer(x, mask, memory)
        return self.decoder_norm(x)

    def loss(self, batch, smoothing):
        """Mean over the real target tokens; the output layer runs on those alone."""
        x = self.decode(batch.target, self.encode(batch.source, batch.mask), batch.mask).flatten(0, 1)
        if batch.real is not None:
            x = x.index_select(0, batch.real)
        return functional.cross_entropy(functional.linear(x, self.output), batch.expected, label_smoothing=smoothing)

    @torch.inference_mode()
    def generate(self, source, mask, start, end, max_length):
        """Greedy search with a cache of keys and values: ids (B, at most max_length)."""
        encoded = self.encode(source, mask)
        memory = [layer.cross_attention.sublayer.keys_values(encoded) for layer in self.decoder]
        caches = [None] * len(self.decoder)
        token = source.new_full((len(source), 1), start)
        finished = torch.zeros(len(source), dtype=torch.bool)
        outputs = []
        for place in range(max_length):
            x = self.embed(self.target, token, place)
            for i, layer in enumerate(self.decoder):
                x, caches[i] = layer.step(x, memory[i], mask, caches[i])
            token = functional.linear(self.decoder_norm(x[:, 0]), self.output).argmax(1, keepdim=True)
            outputs.append(token)
            finished |= token[:, 0] == end
            if finished.all():
                break
        return torch.cat(outputs, 1)
