#!/usr/bin/env bash
# The metrics are those that dashboards for Kueue ask for: every row of tests/metrics.tsv (name, type, labels, bounds, as scraped) is in
# include/sluice/defs/metrics.def, which differs on purpose only where a reason stands below. And a metric that no code sets is none.
. "$(dirname "$0")/common.bash"

python=$(need_tool python3) || exit 1
"$python" - <(files '*.c' '*.h' | grep -v '^tests/') <<'EOF' || bad=1
import os
import re
import sys

TABLE, OURS, CODE = "tests/metrics.tsv", "include/sluice/defs/metrics.def", "base/metrics.c"
DIFFERENT = {  # name: why it differs or is missing on purpose
    "kueue_pod_scheduling_gate_removal_seconds": "plain pods are not managed",
}
wrong = 0


def say(where, what):
    global wrong
    wrong = 1
    print(f"{where}: {what}")


def read(name):
    if not os.path.exists(name):
        print(f"no {name} found: this check looked at nothing")
        sys.exit(1)
    with open(name, encoding="utf-8") as f:
        return f.read()


def bound(text):
    return float("inf") if text in ("INFINITY", "+Inf") else float(text)


lists = {m[1]: [bound(b.strip()) for b in m[2].split(",")] for m in re.finditer(r"\bbuckets_(\w+)\[\] = \{([^}]*)\};", read(CODE))}
ours, ids = {}, {}
for number, line in enumerate(read(OURS).splitlines(), 1):
    if not line.startswith("SL_METRIC("):
        continue
    m = re.fullmatch(r'SL_METRIC\((\w+), "(\w+)", (\w+), "([\w,]*)", (\w+), "[^"]+"\)', line)
    if not m:
        say(f"{OURS}:{number}", "this row cannot be read")
        continue
    id, name, kind, labels, buckets = m.groups()
    if name in ours or id in ids:
        say(f"{OURS}:{number}", f"{name} stands here a second time")
    if (kind == "HISTOGRAM") != (buckets != "NONE") or buckets not in lists:
        say(f"{OURS}:{number}", f"{name}: a {kind} with the bounds {buckets}")
    ours[name] = (number, kind.lower(), set(filter(None, labels.split(","))), lists.get(buckets) if kind == "HISTOGRAM" else [])
    ids[id] = number

header, *rows = [line.split("\t") for line in read(TABLE).splitlines()]
for number, (name, kind, labels, _, bounds) in enumerate(rows, 2):
    want = (kind, set(filter(None, labels.split(","))), [bound(b) for b in bounds.split()])
    at, *got = ours.get(name, (0, None, None, None))
    if name in DIFFERENT:
        if tuple(got) == want:
            say(f"{TABLE}:{number}", f"{name} does not differ: take it off the list of differences")
    elif not at:
        say(f"{TABLE}:{number}", f"{name} is not in {OURS}")
    else:
        for what, a, b in zip(("type", "labels", "bounds"), want, got):
            if a != b:
                say(f"{OURS}:{at}", f"{name}: {what} should be {sorted(a) if isinstance(a, set) else a}, is {sorted(b) if isinstance(b, set) else b}")
for name in DIFFERENT.keys() - {r[0] for r in rows}:
    say(TABLE, f"{name} is on the list of differences, but not in the table")

used = set()
with open(sys.argv[1]) as names:
    for name in names.read().split("\n"):
        if name:
            used |= set(re.findall(r"\bSL_M_(\w+)", read(name)))
for id, number in ids.items():
    if id not in used:
        say(f"{OURS}:{number}", f"no code sets {id}: dead")
if not rows or not ours:
    print("no metrics found: this check looked at nothing")
    wrong = 1
sys.exit(wrong)
EOF
exit $bad
