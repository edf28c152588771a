#!/usr/bin/env bash
# The layout of C is what clang-format 14 makes of it.
. "$(dirname "$0")/common.bash"

format=$(need_tool clang-format-14) || exit 1
[ -f .clang-format ] || { echo "no .clang-format"; exit 1; }
checked=0
while IFS= read -r file; do
    checked=$((checked + 1))
    "$format" --style=file "$file" | cmp -s - "$file" || wrong "$file:1: run clang-format-14 -i $file"
done < <(files '*.c' '*.h')
need "$checked" "C files"
exit $bad
