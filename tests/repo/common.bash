# What the checks of the repository share. Each check runs in the root of the tree (or in the folder given as its first argument),
# prints every violation as "file:line: what" and exits with 1 when there was one.

set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-$here/../..}" || exit 1
bad=0

# Files of the project by pattern: those that Git knows, or, in an unpacked archive, all but build folders.
files() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -- "$@" | while IFS= read -r f; do [ -f "$f" ] && printf '%s\n' "$f"; done
    else
        local pattern args=()
        for pattern in "$@"; do args+=(-o -name "$pattern"); done
        find . -path './build*' -prune -o -type f \( "${args[@]:1}" \) -print | sed 's|^\./||' | sort
    fi
}

wrong() {
    printf '%s\n' "$*"
    bad=1
}

# A check that looks at nothing proves nothing.
need() {
    if [ "$1" -eq 0 ]; then
        echo "no $2 found: this check looked at nothing"
        exit 1
    fi
}

need_tool() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null && { command -v "$tool"; return; }
    done
    echo "missing program: $1" >&2
    exit 1
}
