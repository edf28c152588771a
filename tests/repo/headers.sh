#!/usr/bin/env bash
# Every public header compiles alone, twice in a row, without warnings, in both compilers; its guard follows from its path.
. "$(dirname "$0")/common.bash"

gcc=$(need_tool gcc) || exit 1
clang=$(need_tool clang-14 clang) || exit 1
temp=$(mktemp -d) || exit 1
trap 'rm -rf "$temp"' EXIT

checked=0
while IFS= read -r header; do
    checked=$((checked + 1))
    name=${header#include/}
    guard=$(tr 'a-z/.-' 'A-Z___' <<<"$name")
    grep -q "^#ifndef $guard\$" "$header" && grep -q "^#define $guard\$" "$header" || wrong "$header:1: the guard must be $guard"
    printf '#include "%s"\n#include "%s"\nextern int not_empty;\n' "$name" "$name" >"$temp/alone.c"
    for compiler in "$gcc" "$clang"; do
        "$compiler" -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -pedantic -Werror -fsyntax-only -Iinclude "$temp/alone.c" >"$temp/said" 2>&1 ||
            wrong "$header: does not compile alone (${compiler##*/}):
$(head -n 8 "$temp/said")"
    done
done < <(files '*.h' | grep '^include/')
need "$checked" "public headers"
exit $bad
