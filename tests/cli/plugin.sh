#!/usr/bin/env bash
# Installed, sluice is a plugin of kubectl too: `kubectl sluice VERB` finds it in the PATH, and it speaks as it was called.
#
#   plugin.sh BUILD-FOLDER
#
# kubectl is stood in for by the rule it has for plugins: kubectl NAME ARG... runs kubectl-NAME ARG... of the PATH. The
# tests of the cluster take the real one.
set -euo pipefail
build=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
    printf '%s\n' "plugin: $1" "it said:" "${said-}" >&2
    exit 1
}

cmake --install "$build" --prefix "$dir/usr" >/dev/null
[ -x "$dir/usr/bin/sluice" ] || fail "sluice was not installed"
[ -L "$dir/usr/bin/kubectl-sluice" ] || fail "kubectl-sluice is no link"
[ "$(readlink "$dir/usr/bin/kubectl-sluice")" = sluice ] || fail "kubectl-sluice leads elsewhere: moved, it would break"
mv "$dir/usr" "$dir/moved"

cat >"$dir/kubectl" <<'EOF'
#!/bin/sh
plugin=$(command -v "kubectl-$1") || exit 127
shift
exec "$plugin" "$@"
EOF
chmod +x "$dir/kubectl"
export PATH="$dir/moved/bin:$dir:$PATH"

# says EXIT-CODE TEXT COMMAND...
says() {
    local code=0
    said=$("${@:3}" 2>&1) || code=$?
    [ "$code" = "$1" ] || fail "${*:3}: exit code $code, not $1"
    case $said in *"$2"*) ;; *) fail "${*:3}: does not say \"$2\"" ;; esac
}

says 0 "usage: kubectl sluice VERB" kubectl sluice --help
says 0 "usage: sluice VERB" sluice --help
says 0 $'\nkubectl sluice explain [-n NAMESPACE] WORKLOAD|job/NAME --simulate PATH' kubectl sluice explain --help
says 0 $'\nsluice explain [-n NAMESPACE] WORKLOAD|job/NAME --simulate PATH' sluice explain --help
says 2 'kubectl sluice: unknown verb "nope"; try kubectl sluice --help' kubectl sluice nope
says 2 "kubectl sluice explain: unknown option --nope" kubectl sluice explain --nope
says 2 "sluice status: takes options only" sluice status nope
says 3 "kubectl sluice status: kubeconfig" kubectl sluice status --kubeconfig /nonexistent/config
says 1 "kubectl sluice explain: no Job nobody" kubectl sluice explain job/nobody --simulate "$root/examples/quickstart"
says 0 "held by team-vision/job-finetune-" kubectl sluice explain job/evaluate -n team-vision --simulate "$root/examples/quickstart"
says 0 "sluice " kubectl sluice version
