#!/usr/bin/env bash
# The project speaks of itself: no paths of somebody's machine, no hosts of package registries, nothing about who or what typed it.
# Brackets keep the patterns from finding themselves.
. "$(dirname "$0")/common.bash"

patterns='/[w]ork/(main|shared|brief|\.library)|/[t]mp/build|/[t]mp/bash_|/[h]ome/[a-z]
([p]roxy|sum)\.golang\.org|(^|[^a-z.])[p]ypi\.org|[f]iles\.pythonhosted\.org|[r]egistry\.npmjs\.org|[d]eb\.debian\.org|[s]ecurity\.debian\.org|[c]rates\.io|[a]rtifactory
[C]laude|[A]nthropic|[O]penAI|[C]hatGPT|[C]opilot|[l]anguage model|[s]ub-?agent|[h]elper session|[A]I[- ](generated|assisted)|[a]s an AI'

checked=0
while IFS= read -r file; do
    case $file in
    LICENSE | *.sum | *.png | *.svg | tests/fuzz/corpus/*) continue ;;
    esac
    checked=$((checked + 1))
    while IFS= read -r pattern; do
        while IFS=: read -r line text; do
            wrong "$file:$line: $(cut -c1-160 <<<"$text")"
        done < <(grep -nIiE -- "$pattern" "$file")
    done <<<"$patterns"
done < <(files '*')
need "$checked" "files"
exit $bad
