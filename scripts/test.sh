#!/usr/bin/env bash
# Sets the machine up, builds everything and runs all tests. Ends with ctest's summary.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release
ctest --preset release --parallel 2
