"""Padded batches for the PyTorch side: of a corpus, sorted by length, and of the reversal task."""

import random
from typing import NamedTuple, Optional

import torch
from torch.nn.utils.rnn import pad_sequence

from corpus import END, PAD, SPECIAL, START


class Batch(NamedTuple):
    source: torch.Tensor          # (B, S), end symbols included
    target: torch.Tensor          # (B, T), shifted right
    expected: torch.Tensor        # (N), the real tokens that come next
    real: Optional[torch.Tensor]  # (N), their places in (B T); none where there are no pads
    mask: Optional[torch.Tensor]  # (B, 1, 1, S), true where the source is real; none where all of it is
    lengths: list                 # (S, T) of each pair, end symbols counted


def padded(rows):
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def make_batch(pairs, uniform=False):
    """From pairs of id lists without end symbols. `uniform`: with mask and places even where there are no pads, so
    that a compiled model is compiled once."""
    source = padded([s + [END] for s, _ in pairs])
    target = padded([[START] + t for _, t in pairs])
    expected = padded([t + [END] for _, t in pairs]).flatten()
    real = expected != PAD
    mask = (source != PAD)[:, None, None, :]
    return Batch(source, target, expected[real],
                 real.nonzero()[:, 0] if uniform or not bool(real.all()) else None,
                 mask if uniform or not bool(mask.all()) else None, [(len(s) + 1, len(t) + 1) for s, t in pairs])


def corpus_batches(pairs, batch_tokens, seed, uniform=False):
    """All batches of an epoch: sorted by length, cut where the next pair would put more than `batch_tokens`
    real tokens on either side (the bound that transduce has), then shuffled."""
    pairs = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0])))
    batches, filled = [], (0, 0)
    for source, target in pairs:
        filled = (filled[0] + len(source) + 1, filled[1] + len(target) + 1)
        if not batches or max(filled) > batch_tokens:
            batches.append([])
            filled = (len(source) + 1, len(target) + 1)
        batches[-1].append((source, target))
    random.Random(seed).shuffle(batches)
    return [make_batch(batch, uniform) for batch in batches]


def reversal_batch(size, settings, generator):
    """A fresh batch of strings and their reversals, made with a few tensor operations."""
    shortest, longest = settings["task-min-length"], settings["task-max-length"]
    lengths = torch.randint(shortest, longest + 1, (size, 1), generator=generator)  # (B, 1), without end symbol
    symbols = torch.randint(SPECIAL, SPECIAL + settings["task-alphabet"], (size, longest), generator=generator)
    width = int(lengths.max()) + 1
    place = torch.arange(width)[None, :]
    symbols = fit_columns(symbols, width)
    source = torch.where(place < lengths, symbols, torch.where(place == lengths, END, PAD))
    backward = symbols.gather(1, (lengths - 1 - place).clamp(min=0))
    following = torch.where(place < lengths, backward, torch.where(place == lengths, END, PAD))
    target = torch.cat([torch.full((size, 1), START), following[:, :-1]], 1)
    target = torch.where(place <= lengths, target, PAD)
    real = following.flatten() != PAD
    return Batch(source, target, following.flatten()[real], real.nonzero()[:, 0],
                 (source != PAD)[:, None, None, :], [(n + 1, n + 1) for n in lengths[:, 0].tolist()])


def fit_columns(symbols, width):
    """Columns added or cut so that there are `width`."""
    return torch.nn.functional.pad(symbols, (0, max(0, width - symbols.shape[1])))[:, :width]
