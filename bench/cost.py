#!/usr/bin/env python3
"""How the cost of training and of translating grows: one table for each thing that it can grow with.

Everything is held at a common size but one thing, which doubles from row to row. Beside the time stands the
arithmetic of the matrix products (peers/products.py). Where the time grows as the arithmetic does, the cost is as it
should be; where it grows less, work that was too small to fill the machine fills it better.

  python3 bench/cost.py --program build/release/transduce
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import measure  # noqa: E402
import products  # noqa: E402

COMMON = {"length": 16, "sentences": 64, "layers": 2, "width": 256, "vocabulary": 4000, "beam": 1}
TRAINING = {
    "length": [4, 8, 16, 32, 64, 128, 256, 512],  # of a fixed number of tokens a batch
    "sentences": [1, 2, 4, 8, 16, 32, 64, 128, 256],
    "width": [32, 64, 128, 256, 512, 1024],
    "layers": [1, 2, 4, 8],
    "vocabulary": [500, 1000, 2000, 4000, 8000, 16000, 32000],
    "threads": [1, 2, 4, 8, 16],
}
TRANSLATING = {**TRAINING, "beam": [1, 2, 4, 8, 16]}
TOKENS = 2048   # a batch in the tables of lengths
UPDATES = 8     # timed, after WARM_UP
WARM_UP = 3


class Costs:
    def __init__(self, program, threads, work):
        self.program, self.threads, self.work = os.path.abspath(program), threads, work

    def run(self, *arguments):
        return measure.run([self.program, *arguments]).stdout

    def sentences(self, count, size):
        """Lines of random words, every word of the vocabulary among them; an end symbol makes `length` tokens."""
        rng, words = random.Random(1), size["length"] - 1
        order = rng.sample(range(size["vocabulary"] - 4), size["vocabulary"] - 4)
        count = max(count, -(-len(order) // words))
        while len(order) < count * words:
            order.append(rng.choice(order))
        return [" ".join(f"w{i}" for i in order[at:at + words]) for at in range(0, count * words, words)]

    def train(self, size, updates):
        """A model directory after so many updates."""
        directory, pairs = os.path.join(self.work, "model"), os.path.join(self.work, "pairs.tsv")
        with open(pairs, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\t{line}\n" for line in self.sentences(updates * size["sentences"], size))
        self.run("train", "--model", directory, "--overwrite", "--train", pairs, "--source-tokenizer", "word",
                 "--target-tokenizer", "word", "--joint-vocabulary", "--tie", "all", "--norm", "pre",
                 "--encoder-layers", size["layers"], "--decoder-layers", size["layers"],
                 "--width", size["width"], "--heads", max(1, size["width"] // 64),
                 "--feed-forward", 4 * size["width"], "--steps", updates, "--batch-size", size["sentences"],
                 "--threads", size["threads"])
        return directory

    @staticmethod
    def model(directory):
        with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
            return json.load(file)["model"]

    def training(self, size):
        """Operations and seconds of an update."""
        directory = self.train(size, WARM_UP + UPDATES)
        with open(os.path.join(directory, "log.jsonl"), encoding="utf-8") as file:
            updates = [entry for entry in map(json.loads, file) if "tokens_per_second" in entry]
        seconds = [entry["target_tokens"] / entry["tokens_per_second"] for entry in updates[WARM_UP:]]
        lengths = [(size["length"], size["length"])] * size["sentences"]
        return products.training(self.model(directory), lengths), statistics.median(seconds)

    def translating(self, size):
        """Operations and seconds of translating the sentences that are in work at the same time."""
        directory = self.train({**size, "sentences": 8, "threads": self.threads}, 1)
        source, count, words = os.path.join(self.work, "source"), size["sentences"], size["length"] - 1
        with open(source, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in self.sentences(count, size)[:count])
        found = json.loads(self.run("bench", "--model", directory, "--input", source, "--lines", count,
                                    "--batch-size", count, "--beam", size["beam"], "--min-length", words,
                                    "--max-length", words, "--threads", size["threads"], "--repeats", 5, "--json"))
        model = self.model(directory)
        lengths = [(size["length"], size["length"])] * size["sentences"]
        encoder = products.forward({**model, "decoder_layers": 0, "target_vocabulary": 0}, lengths)
        rows = products.forward(model, lengths) - encoder
        return encoder + size["beam"] * rows, found["seconds"]


def table(costs, what, axis, values, say):
    lines = [f"| {axis} | GFLOP | ms | GFLOP/s | time grows | arithmetic grows |",
             "| --- | --- | --- | --- | --- | --- |"]
    before = None
    for value in values:
        size = {**COMMON, "threads": costs.threads, axis: value}
        if axis == "length":
            size["sentences"] = max(1, TOKENS // value)
        say(f"{what}: {axis} {value}")
        operations, seconds = getattr(costs, what)(size)
        grows = ["", ""] if before is None else [f"x {seconds / before[1]:.2f}", f"x {operations / before[0]:.2f}"]
        lines.append(f"| {value:,} | {operations / 1e9:.3g} | {1e3 * seconds:.3g} | {operations / seconds / 1e9:.1f} | "
                     f"{grows[0]} | {grows[1]} |")
        before = operations, seconds
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the transduce program")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of all tables but the one of threads")
    parser.add_argument("--tables", default="", help="e.g. training-length,translating-beam; default: all")
    arguments = parser.parse_args()
    wanted = arguments.tables.split(",") if arguments.tables else None
    known = [(what, axis, values) for what, axes in (("training", TRAINING), ("translating", TRANSLATING))
             for axis, values in axes.items()]
    unknown = set(wanted or []) - {f"{what}-{axis}" for what, axis, _ in known}
    if unknown:
        parser.error(f"unknown tables {', '.join(sorted(unknown))}")
    machine = measure.machine(arguments.threads)
    print(f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads, load {machine['load']:.1f}")
    with tempfile.TemporaryDirectory() as work:
        costs = Costs(arguments.program, arguments.threads, work)
        for what, axis, values in known:
            if wanted is None or f"{what}-{axis}" in wanted:
                if axis == "threads":
                    values = [value for value in values if value <= machine["cores"]]
                print(f"\n{what}, by {axis}\n", flush=True)
                print(table(costs, what, axis, values, lambda text: print(text, file=sys.stderr)), flush=True)


if __name__ == "__main__":
    main()
