"""Runs a CTranslate2 model: `run_ctranslate2.py MODEL_DIRECTORY < REQUEST.json > ANSWER.json`.

The request holds "sources" and "targets", lists of lists of tokens, and "beam". The answer holds for each pair
"log_probabilities", one for each target token and for the end symbol, and for each source "hypotheses", lists of
tokens, best first, with "scores": sums of log-probabilities, the end symbol's included.
"""

import json
import sys

import ctranslate2

request = json.load(sys.stdin)
translator = ctranslate2.Translator(
    sys.argv[1], device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
)
scored = translator.score_batch(request["sources"], request["targets"])
found = translator.translate_batch(
    request["sources"],
    beam_size=request["beam"],
    num_hypotheses=request["beam"],
    length_penalty=0,
    return_scores=True,
    min_decoding_length=0,
    max_decoding_length=request.get("max_length", 256),
)
json.dump(
    {
        "log_probabilities": [result.log_probs for result in scored],
        "hypotheses": [result.hypotheses for result in found],
        "scores": [result.scores for result in found],
    },
    sys.stdout,
)
