#!/usr/bin/env bash
# Installs a build and uses it from another project, as README.md says.   install_test.sh BUILD_DIRECTORY
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$here/install" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/consumer" >/dev/null
[ "$("$work/consumer/consumer")" = "5 x 12" ]
"$work/prefix/bin/transduce" --version
