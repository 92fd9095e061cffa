"""For each line of a file its ids and the text they become again, a line each: sentencepiece_ids.py MODEL TEXTS

Lines end with LF alone, and are bytes: what is not UTF-8 is handed to the library as it is.
"""
import sys

import sentencepiece

processor = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
out = sys.stdout.buffer
for line in open(sys.argv[2], "rb").read().split(b"\n")[:-1]:
    ids = processor.encode(line, out_type=int)
    out.write("".join(f"{i} " for i in ids).encode() + b"\n")
    out.write(processor.decode(ids).replace("\n", " ").encode() + b"\n")
