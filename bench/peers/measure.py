"""Runs programs as fresh processes, one side after the other in turns, and measures time and peak memory."""

import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))


class Finished(NamedTuple):
    seconds: float  # of the whole process
    peak: int       # bytes of resident memory at most
    stdout: str
    stderr: str


def run(command, stdin=subprocess.DEVNULL):
    """Runs a command to its end. Its peak memory is the kernel's count for this one process; that count starts
    at the size of the parent, which is why run.py imports no large package."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.perf_counter()
        process = subprocess.Popen([str(part) for part in command], stdin=stdin, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {process.returncode}:\n{texts[1][-2000:]}")
    return Finished(seconds, usage.ru_maxrss * 1024, *texts)


def python(script, *arguments):
    """Runs a script of this folder that prints a JSON object; returns it with what `run` measured."""
    finished = run([sys.executable, os.path.join(HERE, script), *arguments])
    return {**json.loads(finished.stdout.splitlines()[-1]), "process_seconds": finished.seconds,
            "process_peak": finished.peak}


def in_turns(repeats, ours, peer, say):
    """[(ours(), peer())], A B A B and so on."""
    pairs = []
    for i in range(repeats):
        say(f"repeat {i + 1} of {repeats}: ours")
        a = ours()
        say(f"repeat {i + 1} of {repeats}: peer")
        pairs.append((a, peer()))
    return pairs


def percentile(values, share):
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def compare(pairs, figure, higher_is_better):
    """Medians of a figure of both sides, and how many times better ours is: of the medians, and the median of the
    ratios within each pair."""
    values = [(figure(a), figure(b)) for a, b in pairs]
    ours, peer = (statistics.median(side) for side in zip(*values))

    def better(a, b):
        return a / b if higher_is_better else b / a

    return {"ours": ours, "peer": peer, "ratio": better(ours, peer),
            "paired_ratio": statistics.median(better(a, b) for a, b in values), "values": values}


def machine(threads):
    model = "unknown processor"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or model
    return {"processor": model, "cores": os.cpu_count(), "threads": threads, "system": platform.platform(),
            "load": os.getloadavg()[0]}


def peak_gflops(threads, quick):
    """Of large float32 matrix products, in a process of its own."""
    return python("matmul_peak.py", "--threads", threads, "--seconds", 0.3 if quick else 2.0)["gflops"]
