#!/usr/bin/env bash
# Who mistypes a command of ./dev is told what there is, and a script that does so hears of it: exit code 2, nothing on
# standard output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# refuses TEXT ARG...
refuses() {
    local code=0 out
    out=$(./dev "${@:2}" 2>"$errors") || code=$?
    [ "$code" = 2 ] && [ -z "$out" ] && grep -qF -- "$1" "$errors" && return
    echo "dev: ./dev ${*:2}: exit code $code, on standard output \"$out\", on standard error:" >&2
    cat "$errors" >&2
    exit 1
}

refuses "dev: unknown command foo" foo
refuses "./dev test --fast" foo
refuses "dev: test: unknown option --nope" test --nope
refuses "dev: test: --only needs a pattern" test --only
./dev help | grep -qF "./dev test --only PATTERN"
