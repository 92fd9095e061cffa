#!/usr/bin/env python3
"""Translates a tokenised file with CTranslate2 and prints a JSON object with the time it took.

Without --setting it tries a small grid of settings and prints the fastest. Cutting lines into tokens and joining the
outputs counts, loading the model and a first small translation do not.
"""

import argparse
import itertools
import json
import time

import ctranslate2

import corpus

# Workers and threads of each, and the bound of a batch.
BATCHES = [("examples", 16), ("examples", 32), ("examples", 64), ("examples", 128), ("tokens", 1024), ("tokens", 3072)]


def splits(threads):
    return [(1, threads)] if threads == 1 else [(1, threads), (threads, 1)]


class Program:
    def __init__(self, arguments, workers):
        inter, intra = workers
        begin = time.perf_counter()
        self.translator = ctranslate2.Translator(arguments.model, device="cpu", compute_type=arguments.compute_type,
                                                 inter_threads=inter, intra_threads=intra)
        self.load_seconds = time.perf_counter() - begin
        # The one ranking that both programs have: log probability / length.
        self.options = {"beam_size": arguments.beam, "length_penalty": 1.0,
                        "min_decoding_length": arguments.min_length, "max_decoding_length": arguments.max_length}

    def translate(self, lines, **batches):
        """(outputs, seconds)"""
        begin = time.perf_counter()
        results = self.translator.translate_batch([line.split() for line in lines], **batches, **self.options)
        outputs = [" ".join(result.hypotheses[0]) for result in results]
        return outputs, time.perf_counter() - begin

    def warm_up(self, lines, **batches):
        return self.translate(lines[:8], **batches)[1]


def fastest(arguments, lines):
    """The setting that takes least time, and what each took."""
    tried = []
    for workers in splits(arguments.threads):
        program = Program(arguments, workers)
        program.warm_up(lines)
        for kind, size in BATCHES:
            _, seconds = program.translate(lines, batch_type=kind, max_batch_size=size)
            tried.append([seconds, [*workers, kind, size]])
    return {"setting": min(tried)[1], "tried": tried}


def translate_file(arguments, lines):
    inter, intra, kind, size = json.loads(arguments.setting)
    program = Program(arguments, (inter, intra))
    batches = {"batch_type": kind, "max_batch_size": size}
    warm_up_seconds = program.warm_up(lines, **batches)
    outputs, seconds = program.translate(lines, **batches)
    return outputs, {"seconds": seconds, "load_seconds": program.load_seconds, "warm_up_seconds": warm_up_seconds}


def one_by_one(arguments, lines):
    """The first lines warm up; the others are timed one by one."""
    program = Program(arguments, (1, arguments.threads))
    timed = [program.translate([line]) for line in lines]
    return [outputs[0] for outputs, _ in timed], {"latencies": [seconds for _, seconds in timed[arguments.warm_up:]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a CTranslate2 model directory")
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", help="file for the translations")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compute-type", default="float32", choices=["float32", "int8"])
    parser.add_argument("--min-length", type=int, default=0, help="tokens of an output at least")
    parser.add_argument("--max-length", type=int, default=256, help="tokens of an output at most")
    parser.add_argument("--setting", help='JSON: [workers, threads of each, "examples" or "tokens", batch size]')
    parser.add_argument("--one-by-one", action="store_true", help="a call for each line")
    parser.add_argument("--warm-up", type=int, default=0, help="lines that --one-by-one does not time")
    arguments = parser.parse_args()
    lines = corpus.read_lines(arguments.input)
    if not arguments.setting and not arguments.one_by_one:
        print(json.dumps(fastest(arguments, lines)))
        return
    outputs, found = (one_by_one if arguments.one_by_one else translate_file)(arguments, lines)
    if arguments.output:
        corpus.write_lines(arguments.output, outputs)
    print(json.dumps({"tokens": sum(len(line.split()) for line in outputs), **found}))


if __name__ == "__main__":
    main()
