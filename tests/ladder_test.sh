#!/usr/bin/env bash
# The ladder of folders (docs/architecture.md): a folder of transduce/ may include its own headers and those of the
# folders above it in this list, nothing below. Files everywhere stay readable in size.
set -euo pipefail
cd "$(dirname "$0")/.."

ladder=(base page tensor kernels autograd nn models data io train decode eval serve lab)
declare -A rank
for i in "${!ladder[@]}"; do rank[${ladder[$i]}]=$i; done
failed=0

for folder in transduce/*/; do
  name=$(basename "$folder")
  [ -n "${rank[$name]:-}" ] || { echo "transduce/$name is not on the ladder: add it to docs/architecture.md and to this test"; failed=1; }
done

while IFS=: read -r file included; do
  from=$(cut -d/ -f2 <<<"$file")
  to=$(cut -d/ -f2 <<<"$included")
  if [ -z "${rank[$to]:-}" ] || [ -z "${rank[$from]:-}" ] || [ "${rank[$to]}" -gt "${rank[$from]}" ]; then
    echo "$file includes $included, which lies below it on the ladder"
    failed=1
  fi
done < <(grep -rHoP '#include "\K[^"]+' transduce --include='*.h' --include='*.cpp')

while read -r lines file; do
  [ "$file" = total ] && continue
  if [ "$lines" -gt 600 ]; then echo "$file has $lines lines: split it (about 500 is the ceiling)"; failed=1; fi
done < <(find transduce cli -name '*.h' -o -name '*.cpp' | xargs wc -l)

lines=$(wc -l <CMakeLists.txt)
if [ "$lines" -ge 150 ]; then echo "CMakeLists.txt has $lines lines: keep it under 150"; failed=1; fi
exit $failed
