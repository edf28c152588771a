#!/usr/bin/env bash
# Generated tables are what their tools make of their sources.
. "$(dirname "$0")/common.bash"

python=$(need_tool python3) || exit 1
checked=0
while IFS= read -r tool; do
    grep -q -- '--check' "$tool" || continue
    checked=$((checked + 1))
    message=$("$python" "$tool" --check 2>&1) || wrong "$tool:1: $message"
done < <(files '*gen_schema.py')
need "$checked" "generators"
exit $bad
