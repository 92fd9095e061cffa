#!/usr/bin/env python3
"""Prints BLEU of files of BPE pieces against a reference of such pieces, as JSON: sacreBLEU on the joined words."""

import argparse
import json
import re

import sacrebleu

import corpus


def joined(path):
    return [re.sub(r"@@( |$)", "", line) for line in corpus.read_lines(path)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", required=True)
    parser.add_argument("hypotheses", nargs="+")
    arguments = parser.parse_args()
    reference = joined(arguments.reference)
    scores = []
    for path in arguments.hypotheses:
        hypothesis = joined(path)
        # Fewer lines than the reference: the first ones were translated.
        bleu = sacrebleu.corpus_bleu(hypothesis, [reference[:len(hypothesis)]], tokenize="none", force=True)
        scores.append(bleu.score)
    print(json.dumps({"bleu": scores}))


if __name__ == "__main__":
    main()
