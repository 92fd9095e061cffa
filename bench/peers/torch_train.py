#!/usr/bin/env python3
"""Trains in PyTorch what `transduce train` trained: the same model, data, batches and optimiser.

All of it is read from the directory of a model that transduce made: config.json and model.safetensors (structure,
number of parameters), train.toml (data, optimiser, loop). Prints a JSON object; see README.md for what is measured.
"""

import argparse
import itertools
import json
import math
import os
import resource
import struct
import sys
import time
import tomllib

import torch

import corpus
from torch_batches import corpus_batches, reversal_batch
from torch_model import Transformer


def safetensors_header(directory):
    """The header of a model.safetensors, where its data begin, and its path."""
    path = os.path.join(directory, "model.safetensors")
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return header, 8 + size, path


def count_parameters(directory):
    return sum(math.prod(tensor["shape"]) for tensor in safetensors_header(directory)[0].values())


def learning_rate(settings, step):
    peak, warmup = settings["learning-rate"], settings["warmup"]
    if step < warmup:
        return peak * step / warmup
    if settings["schedule"] == "constant":
        return peak
    if settings["schedule"] == "inverse-sqrt":
        return peak * math.sqrt(max(warmup, 1) / step)
    raise SystemExit(f"schedule {settings['schedule']} is not in the PyTorch program")


class Trainer:
    def __init__(self, model, settings, compiled):
        self.model, self.settings, self.step = model, settings, 0
        kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        self.optimizer = kinds[settings["optimizer"]](
            model.parameters(), lr=0.0, betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"],
            weight_decay=settings["weight-decay"], fused=True)
        self.loss = torch.compile(model.loss, dynamic=True) if compiled else model.loss

    def forward(self, batch):
        return self.loss(batch._replace(lengths=None), self.settings["label-smoothing"])

    def compile_now(self, batches):
        """Compiles before the clock starts, on batches of different sizes."""
        for batch in batches:
            self.forward(batch).backward()
            self.optimizer.zero_grad(set_to_none=True)

    def update(self, batch):
        """Returns the loss."""
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.settings, self.step)
        loss = self.forward(batch)
        loss.backward()
        if self.settings["clip-norm"] > 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings["clip-norm"])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


@torch.inference_mode()
def evaluate(model, batches):
    """What transduce does at a validation of a task: the loss of the examples, and greedy search of each. The
    share of them that is right."""
    model.eval()
    right = total = 0
    for batch in batches:
        model.loss(batch._replace(lengths=None), 0.0)
        longest = 2 * max(s - 1 for s, _ in batch.lengths) + 50
        found = model.generate(batch.source, batch.mask, corpus.START, corpus.END, longest).tolist()
        expected = batch.expected.tolist()
        for (_, length), row in zip(batch.lengths, found):
            right += row[:length] == expected[:length]
            expected = expected[length:]
            total += 1
    model.train()
    return right / total


def reversal(settings):
    """An endless stream of batches, and those of the validation. A batch is made when its turn comes."""
    generator = torch.Generator().manual_seed(1)
    examples, most = settings["valid-examples"], 64  # transduce generates so many at a time
    valid = [reversal_batch(min(most, examples - i), settings, generator) for i in range(0, examples, most)]

    def stream():
        while True:
            yield reversal_batch(settings["batch-size"], settings, generator)

    return stream(), valid


def one(value):
    return value if isinstance(value, str) else value[0]


def epochs_of(settings, uniform):
    """All batches lie in memory before the clock starts."""
    pairs = corpus.read_parallel(one(settings["train-source"]), one(settings["train-target"]))
    batches = corpus_batches(corpus.encode(pairs, corpus.joint_vocabulary(pairs)), settings["batch-tokens"],
                             settings["seed"], uniform)

    def stream():
        for _ in range(settings["epochs"] or sys.maxsize):
            yield from batches

    return stream(), []


def run(trainer, settings, stream, valid):
    """Trains; returns what was measured, in the form that the log of transduce is read into as well."""
    model, updates, losses, accuracy = trainer.model, [], [], None
    every = settings["valid-every"]
    begin = time.perf_counter()
    if valid:
        accuracy = evaluate(model, valid)
    while not settings["steps"] or trainer.step < settings["steps"]:
        before = time.perf_counter()
        batch = next(stream, None)
        if batch is None:
            break
        losses.append(trainer.update(batch))
        updates.append([len(batch.expected), time.perf_counter() - before])
        if valid and (trainer.step % every == 0 or trainer.step == settings["steps"]):
            accuracy = evaluate(model, valid)
    return {"seconds": time.perf_counter() - begin, "updates": updates, "losses": losses, "accuracy": accuracy}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--like", required=True, help="directory of the model that transduce trained")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="so many updates instead")
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    with open(os.path.join(arguments.like, "train.toml"), "rb") as file:
        settings = tomllib.load(file)
    with open(os.path.join(arguments.like, "config.json"), encoding="utf-8") as file:
        model = Transformer(json.load(file)["model"])
    settings["steps"] = arguments.steps or settings["steps"]
    parameters, expected = sum(p.numel() for p in model.parameters()), count_parameters(arguments.like)
    assert parameters == expected, f"{parameters} parameters, but transduce's model has {expected}"
    stream, valid = reversal(settings) if settings.get("task") else epochs_of(settings, arguments.compile)
    trainer = Trainer(model, settings, arguments.compile)
    if arguments.compile:
        first = [next(stream) for _ in range(3)]
        trainer.compile_now(first)
        stream = itertools.chain(first, stream)
    found = run(trainer, settings, stream, valid)
    found["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"parameters": parameters, **found}))


if __name__ == "__main__":
    main()
