#!/usr/bin/env python3
"""Runs transduce and its peers side by side on the same data and prints a table; README.md says what is measured."""

import argparse
import json
import os
import sys
import tempfile

import measure
import report
import training
import translation

CASES = {"reverse": training.reverse, "tiny": training.tiny, "base": training.base,
         "translate": translation.translate, "latency": translation.latency, "start": translation.start}


class Bench:
    """What the cases share: settings, the peak of matrix products, notes and raw figures."""

    def __init__(self, arguments, work):
        for name in ("data", "threads", "repeats", "scale", "compile", "tiny_model", "base_model",
                     "base_output_length"):
            setattr(self, name, getattr(arguments, name))
        self.program, self.work = os.path.abspath(arguments.program), work
        self.models = os.path.abspath(arguments.models) if arguments.models else os.path.join(work, "models")
        self.quick = arguments.quick
        self.notes, self.raw, self._peaks = [], {}, []

    def scaled(self, count, least):
        return max(least, round(count * self.scale))

    def data_file(self, name):
        path = os.path.abspath(os.path.join(self.data, name))
        if not os.path.exists(path):
            raise SystemExit(f"{path} is missing: --data names the directory of multi30k-en-de-bpe")
        return path

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def note(self, text):
        self.say(text)
        self.notes.append(text)

    def keep(self, case, figures):
        self.raw[case] = figures

    def measure_peak(self):
        self._peaks.append(measure.peak_gflops(self.threads, self.quick))
        self.say(f"matrix products: {self._peaks[-1]:,.1f} GFLOP/s")

    def peak(self):
        """Operations a second; the most that was seen in this run."""
        self.measure_peak()
        return max(self._peaks) * 1e9

    def most_gflops(self):
        return max(self._peaks, default=None)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="the transduce program")
    parser.add_argument("--data", required=True, help="directory of multi30k-en-de-bpe")
    parser.add_argument("--cases", default=",".join(CASES), help="of %(default)s")
    parser.add_argument("--repeats", type=int, default=5, help="of each side, in turns (default %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="so much of the work (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one repeat of very little: tries the programs out")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", choices=["auto", "never", "always"], default="auto",
                        help="torch.compile: where it is faster in a short run (default), never, or always")
    parser.add_argument("--tiny-model", help="directory of a trained tiny model (translate, start)")
    parser.add_argument("--base-model", help="directory of a base-size model (translate, latency)")
    parser.add_argument("--base-output-length", type=int, default=0,
                        help="the base-size model is untrained: every output has so many tokens, on both sides")
    parser.add_argument("--models", help="directory to keep converted models in")
    parser.add_argument("--json", help="file for all figures")
    arguments = parser.parse_args()
    arguments.cases = arguments.cases.split(",")
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown cases {', '.join(sorted(unknown))}: choose from {', '.join(CASES)}")
    if arguments.quick:
        arguments.scale, arguments.repeats = min(arguments.scale, 0.02), 1
    return arguments


def main():
    arguments = parse()
    machine = measure.machine(arguments.threads)
    rows = []
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(arguments, work)
        if machine["load"] > 0.5:
            bench.note(f"the machine is busy (load {machine['load']:.1f}): figures and ratios are not to be trusted")
        bench.measure_peak()
        for case in arguments.cases:
            rows += CASES[case](bench)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine, "peak_gflops": bench.most_gflops(), "repeats": arguments.repeats,
                       "scale": arguments.scale, "rows": rows, "notes": bench.notes, "raw": bench.raw}, file, indent=1)
    print(f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads; matrix products reach "
          f"{bench.most_gflops():,.1f} GFLOP/s; {arguments.repeats} repeats, scale {arguments.scale:g}\n")
    print(report.table(rows))
    print("".join(f"\n- {note}" for note in bench.notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
