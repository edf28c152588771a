#!/usr/bin/env bash
# Branches of quota/engine that its tests take.
#
#   tools/coverage.sh [--check | --list] [BUILD FOLDER]
#
# --check fails when a branch that no test takes is not named in tests/unit/engine/untaken.tsv, or when one that is named
# there is taken after all or stands nowhere any more; --list prints every branch that is not taken.
# Lines with SL_ASSERT are left out: their other side aborts.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
what=table
case ${1-} in
--check | --list) what=${1#--} && shift ;;
-*) echo "coverage.sh: unknown option $1 (known: --check, --list)" >&2 && exit 2 ;;
esac
mkdir -p "${1:-$root/build/coverage}"
build=$(cd "${1:-$root/build/coverage}" && pwd)
CC=gcc cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DSL_COVERAGE=ON >/dev/null
tests='^(unit_engine_|scenario_decisions$)'
mapfile -t targets < <(cd "$build" && ctest -N -R "$tests" | awk '/Test +#/ { print $NF }')
ninja -C "$build" --quiet "${targets[@]}" >"$build/build.log" || {
	cat "$build/build.log"
	exit 1
}
find "$build" -name '*.gcda' -delete # after the build: counts of a former one do not fit
(cd "$build" && ctest -R "$tests" -j 2 --output-on-failure >"$build/tests.log") || {
	cat "$build/tests.log"
	exit 1
}
# the tests count for what stands in model.h only: the rest is compiled once
gcov --json-format --stdout --branch-probabilities "$build"/CMakeFiles/sl_engine.dir/quota/engine/*.gcda \
	"$build"/CMakeFiles/unit_engine_*.dir/tests/unit/engine/*.gcda >"$build/counts.json"
python3 - "$root" "$what" "$build/counts.json" <<'EOF'
import collections, json, os, sys

root, what, measured = sys.argv[1:]
folder = "quota/engine/"
lines = {}  # file -> its text
taken = collections.defaultdict(list)  # (file, line) -> how often each branch was taken, over all that include it
for document in map(json.loads, open(measured)):
    for source in document["files"]:
        name = os.path.relpath(os.path.join(document["current_working_directory"], source["file"]), root)
        if not name.startswith(folder):
            continue
        name = name[len(folder):]
        if name not in lines:
            lines[name] = [text.strip() for text in open(os.path.join(root, folder, name))]
        here = collections.defaultdict(list)
        for line in source["lines"]:
            here[line["line_number"]] += [branch["count"] for branch in line["branches"]]
        for number, counts in here.items():
            if "SL_ASSERT" in lines[name][number - 1] or not counts:
                continue
            sums = taken[name, number]
            sums += [0] * (len(counts) - len(sums))
            for i, n in enumerate(counts):
                sums[i] += n

untaken = collections.Counter()
table = collections.defaultdict(lambda: [0, 0])
for (name, number), counts in sorted(taken.items()):
    missed = counts.count(0)
    for row in table[name], table["all"]:
        row[0] += len(counts)
        row[1] += len(counts) - missed
    if missed:
        untaken[name, lines[name][number - 1]] += missed
        if what == "list":
            print(f"{folder}{name}:{number}: {missed} of {len(counts)}: {lines[name][number - 1]}")

if what == "table":
    for name in sorted(table, key=lambda n: (n == "all", n)):
        n, got = table[name]
        print(f"{name:12} {n:5} {got:5} {100 * got / n:5.1f} %")
if what != "check":
    sys.exit()

wrong = [f"{name}: not in any test" for name in sorted(os.listdir(os.path.join(root, folder)))
         if name.endswith(".c") and name not in lines]
named = {}
for number, row in enumerate(open(os.path.join(root, "tests/unit/engine/untaken.tsv")), 1):
    row = row.rstrip("\n").split("\t")
    if row[0].startswith("#"):
        continue
    if len(row) != 4 or not row[1].isdigit() or not all(row) or (row[0], row[2]) in named:
        wrong.append(f"untaken.tsv:{number}: not a new row of file, number, line and reason")
        continue
    named[row[0], row[2]] = int(row[1])
for name, text in sorted(set(untaken) | set(named)):
    have, want = untaken[name, text], named.get((name, text), 0)
    if want and text not in lines.get(name, []):
        wrong.append(f"{name}: a named line is not there any more: {text}")
    elif have > want:
        wrong.append(f"{name}: {have - want} branches that no test takes and untaken.tsv does not name: {text}")
    elif have < want:
        wrong.append(f"{name}: {want - have} branches named in untaken.tsv are taken: {text}")
print("\n".join(wrong + [f"{table['all'][1]} of {table['all'][0]} branches taken"]))
sys.exit(1 if wrong else 0)
EOF
