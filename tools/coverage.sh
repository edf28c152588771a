#!/usr/bin/env bash
# Branches of quota/engine that its tests take: tools/coverage.sh [build folder] [-v]; -v lists those not taken.
# Lines with SL_ASSERT are left out: their other side aborts.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/coverage}
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DSL_COVERAGE=ON > /dev/null
find "$build" -name '*.gcda' -delete
tests='^(unit_engine_|scenario_|unit_cmd_sim$)'
(cd "$build" && ctest -N) | awk '/Test +#/ { print $NF }' | grep -E "$tests" | xargs ninja -C "$build" > /dev/null
(cd "$build" && ctest -R "$tests" --output-on-failure) | grep "tests passed"
mkdir -p "$build/gcov"
cd "$build/gcov"
rm -f ./*.gcov
gcov -b -c "$build"/CMakeFiles/sl_engine.dir/quota/engine/*.gcda > /dev/null
awk -v list="${2:-}" '
    FNR == 1 { file = FILENAME; sub(/\.gcov$/, "", file); line = "" }
    /^ *[-#=0-9*]+:/ { line = $0; asserts = line ~ /SL_ASSERT/ }
    /^branch/ && !asserts {
        total[file]++
        if ($0 ~ /taken [1-9]/)
            taken[file]++
        else if (list == "-v") {
            text = line
            sub(/^[^:]*: */, "", text)
            print file ":" text
        }
    }
    END {
        for (file in total) {
            printf "%-12s %5d %5d %5.1f %%\n", file, total[file], taken[file], 100 * taken[file] / total[file]
            all += total[file]
            got += taken[file]
        }
        printf "%-12s %5d %5d %5.1f %%\n", "total", all, got, 100 * got / all
    }' [a-z]*.c.gcov | sort
