"""Translating, ours beside CTranslate2: the cases translate, latency and start."""

import hashlib
import json
import os
import statistics
import subprocess
import time

import corpus
import measure
from report import at_least, row

RANKING = ["--length-normalization", "average", "--length-penalty", 1]  # the one that both programs have
MAX_LENGTH = 128  # tokens of an output, so that one that never ends costs both the same
GRID_LINES = 400  # that CTranslate2's settings are tried on
WARM_UP = 10      # sentences before the latencies that count


class Model:
    """A model of ours, and what it becomes for the other program and in int8; converted once and kept."""

    def __init__(self, bench, label, directory, output_length=0):
        self.bench, self.label, self.output_length = bench, label, output_length
        self.directory = os.path.abspath(directory)
        with open(os.path.join(self.directory, "model.safetensors"), "rb") as file:
            self.digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]

    def converted(self, kind, *arguments):
        """The directory of a conversion, or None where the program cannot make it."""
        directory = os.path.join(self.bench.models, f"{self.label}-{kind}-{self.digest}")
        if os.path.isdir(directory):
            return directory
        known = subprocess.run([self.bench.program, "convert", "--help"], capture_output=True, text=True)
        if known.returncode != 0 or arguments[0] not in known.stdout:
            self.bench.note(f"{self.label}: skipped what needs `convert {' '.join(arguments)}`: this program has none")
            return None
        os.makedirs(self.bench.models, exist_ok=True)
        unfinished = f"{directory}-unfinished-{os.getpid()}"
        measure.run([self.bench.program, "convert", *arguments, "--model", self.directory, "--output", unfinished])
        os.rename(unfinished, directory)
        return directory

    def ctranslate2(self):
        return self.converted("ctranslate2", "--to", "ctranslate2")

    def ours(self, compute_type):
        return self.directory if compute_type == "float32" else self.converted("int8", "--quantize", "int8")

    def search(self, beam):
        shortest, longest = self.lengths()
        return ["--beam", beam, *RANKING, "--min-length", shortest, "--max-length", longest]

    def lengths(self):
        """The fewest and the most tokens of an output; equal where the model is untrained."""
        return (self.output_length, self.output_length) if self.output_length else (0, MAX_LENGTH)

    def peer(self, beam, compute_type, threads, *arguments):
        shortest, longest = self.lengths()
        return measure.python("ctranslate2_translate.py", "--model", self.ctranslate2(), "--beam", beam,
                              "--compute-type", compute_type, "--threads", threads,
                              "--min-length", shortest, "--max-length", longest, *arguments)


def command(bench, directory, search, threads, *arguments):
    return [str(part) for part in (bench.program, "translate", "--model", directory, "--threads", threads, *search,
                                   *arguments)]


def test_lines(bench, count):
    """The first lines of test.2016, in a plain file."""
    path = os.path.join(bench.work, f"test.{count}.en")
    corpus.write_lines(path, corpus.read_lines(bench.data_file("test.2016.en.gz"))[:count])
    return path


def models_given(bench, *labels):
    given = {"tiny": (bench.tiny_model, 0), "base": (bench.base_model, bench.base_output_length)}
    for label in labels:
        directory, output_length = given[label]
        if directory is None:
            bench.note(f"{label}: skipped, --{label}-model names no directory")
        else:
            yield Model(bench, label, directory, output_length)


def piped(arguments):
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def ask(program, line):
    """Writes a line into a program and waits for the line that it answers."""
    program.stdin.write(line.encode() + b"\n")
    program.stdin.flush()
    if not program.stdout.readline():
        raise SystemExit(f"{' '.join(program.args)}\nended early")


# ---- translate --------------------------------------------------------------------------------------------


class Translation:
    """A whole file translated by one model, beam and type of arithmetic on both sides."""

    def __init__(self, model, beam, compute_type):
        self.model, self.beam, self.type, bench = model, beam, compute_type, model.bench
        self.name = f"translate {model.label}, beam {beam}, {compute_type}"
        self.input = test_lines(bench, bench.scaled(1000, 40))
        self.outputs = [os.path.join(bench.work, f"{side}.out") for side in ("ours", "peer")]
        self.directory = model.ours(compute_type)

    def command(self, input_file):
        bench = self.model.bench
        return command(bench, self.directory, self.model.search(self.beam), bench.threads, "--input", input_file,
                       "--output", self.outputs[0])

    def prepare(self):
        """Our time to start and load the model, from an empty file; their best setting."""
        bench = self.model.bench
        nothing = os.path.join(bench.work, "nothing")
        corpus.write_lines(nothing, [])
        self.start_up = statistics.median(measure.run(self.command(nothing)).seconds for _ in range(3))
        bench.say(f"{self.name}: trying settings of CTranslate2")
        some = test_lines(bench, min(bench.scaled(1000, 40), GRID_LINES))
        self.setting = self.model.peer(self.beam, self.type, bench.threads, "--input", some)["setting"]

    def ours(self):
        finished = measure.run(self.command(self.input))
        tokens = sum(len(line.split()) for line in corpus.read_lines(self.outputs[0]))
        return {"seconds": finished.seconds - self.start_up, "tokens": tokens, "process_seconds": finished.seconds,
                "process_peak": finished.peak}

    def peer(self):
        found = self.model.peer(self.beam, self.type, self.model.bench.threads, "--input", self.input, "--output",
                                self.outputs[1], "--setting", json.dumps(self.setting))
        found["process_seconds"] -= found["warm_up_seconds"]  # nobody who translates one file would do that
        return found

    def bleu_row(self):
        reference = self.model.bench.data_file("test.2016.de.gz")
        ours, peer = measure.python("bleu.py", "--reference", reference, *self.outputs)["bleu"]
        return row(f"{self.name}: BLEU", "", {"ours": ours, "peer": peer},
                   ("same or better", round(ours, 1) >= round(peer, 1)))

    def rows(self):
        bench = self.model.bench
        self.prepare()
        pairs = measure.in_turns(bench.repeats, self.ours, self.peer, lambda text: bench.say(f"{self.name}: {text}"))
        bench.keep(self.name, pairs)
        goal = 1.5 if self.type == "float32" else 1.3
        found = {unit: measure.compare(pairs, lambda side, name=unit: side[name], higher_is_better=False)
                 for unit in ("seconds", "process_seconds", "process_peak")}
        memory = {**found["process_peak"], **{side: found["process_peak"][side] / 1e6 for side in ("ours", "peer")}}
        workers, threads, kind, size = self.setting
        note = (f"{pairs[0][0]['tokens']:,} and {pairs[0][1]['tokens']:,} tokens; CTranslate2: {workers} workers x "
                f"{threads} threads, batches of {size} {kind}")
        rows = [row(self.name, "s", found["seconds"], at_least(found["seconds"], goal), note=note),
                row(f"{self.name}: with start-up", "s", found["process_seconds"]),
                row(f"{self.name}: peak memory", "MB", memory)]
        return rows + ([] if self.model.output_length else [self.bleu_row()])


def translate(bench):
    rows = []
    for model in models_given(bench, "tiny", "base"):
        if model.ctranslate2() is None:
            continue
        for compute_type in ("float32", "int8"):
            if model.ours(compute_type) is not None:
                for beam in (1, 5):
                    rows += Translation(model, beam, compute_type).rows()
    return rows


# ---- latency ----------------------------------------------------------------------------------------------


def ours_one_by_one(arguments, lines):
    """Seconds from writing a line into the program to reading its translation, without the first WARM_UP."""
    latencies = []
    with piped(arguments) as program:
        for line in lines:
            begin = time.perf_counter()
            ask(program, line)
            latencies.append(time.perf_counter() - begin)
        program.stdin.close()
    return {"latencies": latencies[WARM_UP:]}


def latency_rows(model, compute_type, threads, beam):
    bench = model.bench
    name = f"latency {model.label}, {compute_type}, beam {beam}, {threads} thread{'s' if threads > 1 else ''}"
    file = test_lines(bench, WARM_UP + bench.scaled(200, 10))
    lines = corpus.read_lines(file)
    directory = model.ours(compute_type)

    def ours():
        return ours_one_by_one(command(bench, directory, model.search(beam), threads), lines)

    def peer():
        return model.peer(beam, compute_type, threads, "--input", file, "--one-by-one", "--warm-up", WARM_UP)

    pairs = measure.in_turns(bench.repeats, ours, peer, lambda text: bench.say(f"{name}: {text}"))
    bench.keep(name, pairs)
    rows = []
    for label, share in (("median", 0.5), ("99th percentile", 0.99)):
        found = measure.compare(pairs, lambda side, share=share: 1e3 * measure.percentile(side["latencies"], share),
                                higher_is_better=False)
        rows.append(row(f"{name}: {label}", "ms", found, at_least(found, 1)))
    return rows


def latency(bench):
    rows = []
    for model in models_given(bench, "base"):
        if model.ctranslate2() is None:
            continue
        for compute_type in ("float32", "int8"):
            if model.ours(compute_type) is not None:
                for threads in sorted({1, bench.threads}):
                    for beam in (1, 5):
                        rows += latency_rows(model, compute_type, threads, beam)
    return rows


# ---- start ------------------------------------------------------------------------------------------------


def start(bench):
    """From starting the program to having the translation of one sentence."""
    rows = []
    file = test_lines(bench, 1)
    line = corpus.read_lines(file)[0]
    for model in models_given(bench, "tiny"):
        def ours():
            begin = time.perf_counter()
            with piped(command(bench, model.directory, model.search(1), bench.threads)) as program:
                ask(program, line)
                seconds = time.perf_counter() - begin
                program.stdin.close()
            return {"process_seconds": seconds}

        def peer():
            return model.peer(1, "float32", bench.threads, "--input", file, "--one-by-one")

        if model.ctranslate2() is None:
            found = {"ours": statistics.median(1e3 * ours()["process_seconds"] for _ in range(20))}
        else:
            pairs = measure.in_turns(20, ours, peer, lambda text: None)
            bench.keep("start", pairs)
            found = measure.compare(pairs, lambda side: 1e3 * side["process_seconds"], higher_is_better=False)
        rows.append(row("start to first translation", "ms", found, ("ours < 50 ms", found["ours"] < 50),
                        note="tiny; CTranslate2: with Python"))
    return rows
