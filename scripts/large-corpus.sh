#!/usr/bin/env bash
# Trains on a made-up corpus that is far larger than what may be in memory, and prints how fast it was indexed and
# how much memory that took: PAIRS sentence pairs (five million), STEPS updates (300), words or sentencepiece.
#
#   scripts/large-corpus.sh build/release/transduce [PAIRS] [STEPS] [word|sentencepiece]
#
# Fails if the peak of resident memory, mapped pages of files included, is 1.5 GiB or more.
set -euo pipefail
program=$(realpath "${1:?name the program: scripts/large-corpus.sh build/release/transduce}")
pairs=${2:-5000000} steps=${3:-300} tokenizer=${4:-word}

place=$(mktemp -d)
child=
trap '[ -z "$child" ] || kill "$child" 2>/dev/null || true; rm -rf "$place"' EXIT
cd "$place"

awk -v pairs="$pairs" 'BEGIN {
  srand(1)
  for (w = 0; w < 20000; ++w) {  # words of 2 to 9 letters
    word = ""
    for (l = 2 + int(8 * rand()); l > 0; --l) word = word substr("abcdefghijklmnopqrstuvwxyz", 1 + int(26 * rand()), 1)
    words[w] = word
  }
  for (i = 0; i < pairs; ++i) {
    source = target = ""
    for (n = 3 + int(6 * rand()); n > 0; --n) {
      word = words[int(20000 * rand() * rand())]  # some are more frequent
      source = source " " word
      target = word " " target
    }
    print substr(source, 2) "\t" target
  }
}' >pairs.tsv
echo "corpus      $(wc -l <pairs.tsv) pairs, $(($(stat -c %s pairs.tsv) >> 20)) MiB of text"

"$program" train --model m --train pairs.tsv --source-tokenizer "$tokenizer" --target-tokenizer "$tokenizer" \
  --joint-vocabulary --vocabulary-size 8000 --encoder-layers 1 --decoder-layers 1 --width 64 --heads 4 \
  --feed-forward 128 --batch-tokens 2000 --steps "$steps" --log-every 50 &
child=$!

# What is resident, by kind, in MiB, every few seconds while it lives.
field() { awk -v name="$1:" '$1 == name { print int($2 / 1024) }' "/proc/$child/status" 2>/dev/null || true; }
peak=0
for ((tick = 0; ; ++tick)); do
  now=$(field VmHWM) anonymous=$(field RssAnon) mapped=$(field RssFile)
  [ -n "$now" ] || break
  peak=$now
  ((tick % 20)) || echo "memory      peak so far $now MiB; now $anonymous MiB of its own, $mapped MiB of files" >&2
  sleep 0.2
done
wait "$child"
child=
echo "index       $(($(stat -c %s m/training/corpus.index) >> 20)) MiB"
echo "memory      peak $peak MiB resident"
[ "$peak" -lt 1536 ]
