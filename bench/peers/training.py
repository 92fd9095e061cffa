"""Training, ours beside PyTorch: the cases reverse, tiny and base."""

import json
import os
import statistics

import corpus
import measure
import products
from report import at_least, row

EXAMPLES = os.path.join(measure.HERE, "..", "..", "examples")
SKIPPED = 5  # updates at the start that no rate counts, on either side
BASE_VOCABULARY = 32000


def skip(updates):
    """The updates that count: in a very short run the first alone is left out."""
    return updates[SKIPPED if len(updates) > 2 * SKIPPED else 1:]


def rate(result):
    """Real target tokens a second, end symbols counted, of updates alone."""
    counted = skip(result["updates"])
    return sum(tokens for tokens, _ in counted) / sum(seconds for _, seconds in counted)


def read_log(directory):
    """log.jsonl in the form that torch_train.py prints."""
    with open(os.path.join(directory, "log.jsonl"), encoding="utf-8") as file:
        lines = [line for line in map(json.loads, file) if "end" not in line]
    updates = [line for line in lines if "target_tokens" in line]
    return {"seconds": lines[-1]["seconds"], "losses": [line["loss"] for line in updates],
            "updates": [[line["target_tokens"], line["target_tokens"] / line["tokens_per_second"]]
                        for line in updates],
            "validations": sum("validation" in line for line in lines)}


class Sides:
    """The two programs on one case."""

    def __init__(self, bench, case, arguments):
        self.bench, self.case, self.arguments = bench, case, arguments
        self.directory = os.path.join(bench.work, case)
        self.compile = []

    def ours(self, *more):
        finished = measure.run([self.bench.program, "train", "--model", self.directory, "--overwrite", "--threads",
                                self.bench.threads, *self.arguments, *more])
        return {**read_log(self.directory), "process_seconds": finished.seconds, "process_peak": finished.peak}

    def peer(self, *more):
        return measure.python("torch_train.py", "--like", self.directory, "--threads", self.bench.threads,
                              *self.compile, *more)

    def choose(self, steps):
        """Eager or compiled, whichever is faster in a short run."""
        self.ours("--steps", steps)  # PyTorch learns from it what to train
        self.bench.say(f"{self.case}: PyTorch eager and compiled, {steps} updates each")
        eager = rate(self.peer("--steps", steps))
        self.compile = ["--compile"]
        try:
            compiled = rate(self.peer("--steps", steps))
        except SystemExit as error:
            self.bench.note(f"{self.case}: torch.compile does not work here: {str(error).splitlines()[-1]}")
            compiled = 0.0
        self.bench.note(f"{self.case}: PyTorch {eager:,.0f} target tokens/s eager, {compiled:,.0f} compiled")
        if compiled < eager and self.bench.compile == "auto":
            self.compile = []

    def run(self):
        if self.bench.compile != "never":
            self.choose(12)
        pairs = measure.in_turns(self.bench.repeats, self.ours, self.peer,
                                 lambda text: self.bench.say(f"{self.case}: {text}"))
        self.bench.keep(self.case, pairs)
        losses = [statistics.fmean(side["losses"][-10:]) for side in pairs[-1]]
        self.bench.note(f"{self.case}: loss of the last 10 updates, ours {losses[0]:.3f}, PyTorch {losses[1]:.3f}; "
                        f"{len(pairs[0][0]['updates'])} updates, PyTorch {'compiled' if self.compile else 'eager'}")
        return pairs

    def model(self):
        with open(os.path.join(self.directory, "config.json"), encoding="utf-8") as file:
            return json.load(file)["model"]


def memory_row(case, pairs, bound=None):
    found = measure.compare(pairs, lambda side: side["process_peak"] / 1e6, higher_is_better=False)
    return row(f"{case}: peak memory", "MB", found, bound and at_least(found, bound))


def reverse(bench):
    steps = bench.scaled(2000, 20)
    # As often as in the whole run, so that a part of it is like the whole.
    sides = Sides(bench, "reverse", ["--config", os.path.join(EXAMPLES, "reverse", "reverse.toml"), "--steps", steps,
                                     "--valid-every", min(steps, 200)])
    pairs = sides.run()
    # Lengths are uniform and both sides have an end symbol, so the expectation is exact.
    lengths = [(n + 1, n + 1) for n in range(5, 21)]
    model, trained, evaluated = sides.model(), 64 * steps, 128 * pairs[0][0]["validations"]
    # A validation is a forward pass with the right answers, and greedy search: as many products as another.
    operations = (trained * products.training(model, lengths)
                  + evaluated * 2 * products.forward(model, lengths)) / len(lengths)
    floor = operations / bench.peak()
    seconds = measure.compare(pairs, lambda side: side["seconds"], higher_is_better=False)
    whole = measure.compare(pairs, lambda side: side["process_seconds"], higher_is_better=False)
    over = seconds["ours"] / floor
    return [row("reverse: run", "s", seconds, at_least(seconds, 4)),
            row("reverse: run against floor", "s", {"ours": seconds["ours"]}, ("ours/floor <= 2", over <= 2),
                (floor, over), f"{operations / 1e9:,.0f} GFLOP"),
            row("reverse: with start-up", "s", whole), memory_row("reverse", pairs)]


def rate_rows(bench, sides, pairs, lengths, goals):
    """Rows of a case that is measured in tokens a second. goals: of the ratio, of the share of the peak, or None."""
    case = sides.case
    found = measure.compare(pairs, rate, higher_is_better=True)
    operations = products.training(sides.model(), lengths) / sum(t for _, t in lengths)  # a target token
    floor = bench.peak() / operations
    share = found["ours"] / floor
    goal = None if goals[1] is None else (f"share >= {goals[1]:.0%}", share >= goals[1])
    whole = measure.compare(pairs, lambda side: side["process_seconds"], higher_is_better=False)
    return [row(f"{case}: training", "target tokens/s", found, at_least(found, goals[0])),
            row(f"{case}: against floor", "target tokens/s", {"ours": found["ours"]}, goal, (floor, 1 / share),
                f"{share:.0%} of the peak, {operations / 1e6:,.0f} MFLOP a token"),
            row(f"{case}: with start-up", "s", whole), memory_row(case, pairs, 2)]


def lengths_of(source_file, target_file):
    return [(len(s) + 1, len(t) + 1) for s, t in corpus.read_parallel(source_file, target_file)]


def tiny(bench):
    files = [bench.data_file("train.en.gz"), bench.data_file("train.de.gz")]
    limit = ["--steps", bench.scaled(110, 8)] if bench.scale < 1 else []
    sides = Sides(bench, "tiny", ["--config", os.path.join(EXAMPLES, "multi30k", "multi30k.toml"),
                                  "--train-source", files[0], "--train-target", files[1],
                                  "--batch-tokens", 4096, "--epochs", 1, *limit])
    return rate_rows(bench, sides, sides.run(), lengths_of(*files), (2.5, None))


def base(bench):
    files = [os.path.join(bench.work, f"words.{side}") for side in ("source", "target")]
    corpus.write_made_up(*files, 4000, BASE_VOCABULARY)
    sides = Sides(bench, "base", ["--train-source", files[0], "--train-target", files[1], "--source-tokenizer", "word",
                                  "--target-tokenizer", "word", "--joint-vocabulary", "--tie", "all",
                                  "--preset", "base", "--batch-tokens", 2000, "--steps", bench.scaled(30, 3),
                                  "--optimizer", "adam", "--beta2", 0.98, "--learning-rate", 7e-4,
                                  "--schedule", "inverse-sqrt", "--warmup", 4000,
                                  "--label-smoothing", 0.1, "--seed", 1])
    return rate_rows(bench, sides, sides.run(), lengths_of(*files), (1.5, 0.75))
