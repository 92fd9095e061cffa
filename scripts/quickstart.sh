#!/usr/bin/env bash
# From a fresh clone to a trained Transformer: builds the program, trains it to reverse strings, tests it on strings
# it has not seen, and reverses one.   scripts/quickstart.sh [STRING]
set -euo pipefail
cd "$(dirname "$0")/.."
text=${1:-transformer}

scripts/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release --target transduce
transduce=build/release/transduce
model=out/reverse

echo
echo "== Training a Transformer to reverse strings =="
"$transduce" train --config examples/reverse/reverse.toml --model "$model" --overwrite

echo
echo "== 128 strings it has not seen, generated greedily =="
"$transduce" evaluate --model "$model" --task reverse --task-alphabet 27 --task-min-length 5 --task-max-length 20

echo
echo "== $text, reversed by the model =="
echo "$text" | "$transduce" translate --model "$model"
