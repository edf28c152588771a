#!/usr/bin/env bash
# A C file past 900 lines wants splitting by responsibility.
. "$(dirname "$0")/common.bash"

checked=0
while IFS= read -r file; do
    checked=$((checked + 1))
    lines=$(wc -l <"$file")
    [ "$lines" -le 900 ] || wrong "$file:900: $lines lines, at most 900"
done < <(files '*.c' '*.h')
need "$checked" "C files"
exit $bad
