#!/usr/bin/env python3
"""Scores texts with sacreBLEU for live_test.cpp: reads a JSON file, writes a JSON list to standard output.

Input: {"hypotheses": [line, ...], "references": [[line, ...], ...], "metrics": [{"metric": "BLEU" | "CHRF" | "TER",
"options": {...}}, ...]}, options by sacreBLEU's names. Output, for each metric: {"score", "signature", "lines"},
where "lines" holds each line's score (BLEU with effective order)."""

import json
import sys

from sacrebleu.metrics import METRICS


def scores(case, metric, options):
    corpus = METRICS[metric](**options)
    single = METRICS[metric](**options, **({"effective_order": True} if metric == "BLEU" else {}))
    total = corpus.corpus_score(case["hypotheses"], case["references"])
    lines = [
        single.sentence_score(hypothesis, list(references)).score
        for hypothesis, *references in zip(case["hypotheses"], *case["references"])
    ]
    return {"score": total.score, "name": total.name, "signature": str(corpus.get_signature()), "lines": lines}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        case = json.load(file)
    json.dump([scores(case, m["metric"], m["options"]) for m in case["metrics"]], sys.stdout)


if __name__ == "__main__":
    main()
