#!/usr/bin/env python3
"""Prints the most GFLOP/s that float32 matrix products reach here, as JSON: best of many, over large shapes."""

import argparse
import json
import time

import torch

SHAPES = [(2048, 512, 2048), (2048, 2048, 512), (2048, 2048, 2048), (2000, 512, 32000), (4096, 4096, 4096)]


def fastest(shape, seconds):
    rows, inner, columns = shape
    a, b, out = torch.randn(rows, inner), torch.randn(inner, columns), torch.empty(rows, columns)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - begin)
    return 2 * rows * inner * columns / best / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each shape")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    found = {" x ".join(map(str, shape)): fastest(shape, arguments.seconds) for shape in SHAPES}
    print(json.dumps({"gflops": max(found.values()), "shapes": found}))


if __name__ == "__main__":
    main()
