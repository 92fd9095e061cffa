#!/usr/bin/env bash
# Installs what the project is built with: system packages of Debian or Ubuntu, nothing else.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config   # compiler and build
  libhwy-dev                         # Highway: SIMD
  libutf8proc-dev zlib1g-dev         # Unicode normal forms, gzip
  libsentencepiece-dev               # SentencePiece: subwords
  libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev  # options, their files, JSON, formatting
  libgtest-dev libbenchmark-dev      # tests, benchmarks
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || { echo "setup.sh: needs Debian or Ubuntu (apt-get); install by hand: ${missing[*]}" >&2; exit 1; }
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup.sh: not root and no sudo; install by hand: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
