#!/usr/bin/env python3
"""Checks that torch_model.py is the model that transduce trains: with the parameters of a model trained on multi30k
(one vocabulary for both sides, tied), it must have the validation loss that transduce wrote into log.jsonl."""

import argparse
import json
import os
import sys

import torch

import corpus
from torch_batches import corpus_batches
from torch_model import Transformer
from torch_train import safetensors_header


def read_parameters(directory):
    header, begin, path = safetensors_header(directory)
    with open(path, "rb") as file:
        data = bytearray(file.read()[begin:])
    return {name: torch.frombuffer(data[first:end], dtype=torch.float32).view(entry["shape"])
            for name, entry in header.items() for first, end in [entry["data_offsets"]]}


def our_name(name):
    """encoder.0.self_attention.sublayer.output.weight -> encoder.layers.0.self_attention.output.weight"""
    if name in ("source", "target", "output"):
        return "shared_embedding.weight"
    name = name.replace("encoder_norm", "encoder.norm").replace("decoder_norm", "decoder.norm")
    if ".norm." in name and not name.startswith(("encoder.norm", "decoder.norm")):
        name = name.replace(".norm.", "_norm.")
    stack, rest = name.split(".", 1)
    return f"{stack}.{'' if rest.startswith('norm') else 'layers.'}{rest.replace('sublayer.', '')}"


def best_loss(directory):
    with open(os.path.join(directory, "log.jsonl"), encoding="utf-8") as file:
        return [line["loss"] for line in map(json.loads, file) if line.get("best")][-1]


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="directory of a trained model")
    parser.add_argument("--data", required=True, help="directory of multi30k-en-de-bpe")
    arguments = parser.parse_args()
    with open(os.path.join(arguments.model, "config.json"), encoding="utf-8") as file:
        model = Transformer(json.load(file)["model"]).eval()
    ours, names = read_parameters(arguments.model), {name: our_name(name) for name, _ in model.named_parameters()}
    assert set(names.values()) == set(ours), set(names.values()) ^ set(ours)
    for name, parameter in model.named_parameters():
        parameter.copy_(ours[names[name]])

    def pairs(part):
        return corpus.read_parallel(*(os.path.join(arguments.data, f"{part}.{side}.gz") for side in ("en", "de")))

    vocabulary = corpus.joint_vocabulary(pairs("train"))
    batches = corpus_batches(corpus.encode(pairs("valid"), vocabulary), 2048, 1)
    losses = [model.loss(batch, 0.0).item() * len(batch.expected) for batch in batches]
    found, expected = sum(losses) / sum(len(batch.expected) for batch in batches), best_loss(arguments.model)
    print(f"validation loss: PyTorch {found:.6f}, transduce {expected:.6f}")
    return int(abs(found - expected) > 1e-4)


if __name__ == "__main__":
    sys.exit(main())
