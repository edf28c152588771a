#!/usr/bin/env bash
# The checks of this folder find what they are for, and nothing in a clean tree.
set -u
here=$(cd "$(dirname "$0")" && pwd)
temp=$(mktemp -d) || exit 1
trap 'rm -rf "$temp"' EXIT
failed=0

fresh() {
    rm -rf "$temp/tree"
    mkdir -p "$temp/tree"/{base,api,quota/engine,webhook,include/sluice/base,include/sluice/quota/engine,include/sluice/api}
    cd "$temp/tree" || exit 1
    cp "$here/../../.clang-format" .
    printf '/* base */\n#include "sluice/base/err.h"\n\n#include <jansson.h>\n\nconst char *text = "sprintf( // atoi(";\n' >base/json.c
    printf '#ifndef SLUICE_BASE_ERR_H\n#define SLUICE_BASE_ERR_H\n\nint sl_err(void);\n\n#endif\n' >include/sluice/base/err.h
    printf '#include "sluice/base/err.h"\n\n#include <stdio.h>\n\nint engine(char *p, int n) { return snprintf(p, (unsigned)n, "%%d", n); }\n' >quota/engine/tree.c
    clang-format-14 -i base/json.c quota/engine/tree.c include/sluice/base/err.h
}

# expect <check> <0|1> <text that must be printed> <what was planted>
expect() {
    local said rc
    said=$(bash "$here/$1.sh" "$temp/tree" 2>&1)
    rc=$?
    if [ "$rc" -ne "$2" ] || ! grep -qF -- "$3" <<<"$said"; then
        echo "$1: $4: exit $rc, said: $said"
        failed=1
    fi
}

# plant <check> <file> <content> <text that must be printed>
plant() {
    fresh
    mkdir -p "$(dirname "$2")"
    printf '%s\n' "$3" >"$2"
    expect "$1" 1 "$4" "$3"
}

for check in layers banned headers format words size metrics; do
    fresh
    [ "$check" = metrics ] || expect "$check" 0 '' 'a clean tree'
    rm -rf "$temp/tree"
    mkdir -p "$temp/tree"
    cp "$here/../../.clang-format" "$temp/tree"
    [ "$check" = words ] && rm "$temp/tree/.clang-format"
    expect "$check" 1 'looked at nothing' 'an empty tree'
done

plant layers base/x.c '#include "sluice/api/names.h"' 'base/x.c:1: base must not include api/names.h'
plant layers include/sluice/api/x.h '#include "sluice/kube/client.h"' 'api must not include kube/client.h'
plant layers quota/engine/x.c '#include "sluice/quota/ledger/ledger.h"' 'quota/engine must not include'
plant layers webhook/x.c '#include "sluice/quota/engine/engine.h"' 'webhook must not include'
plant layers api/x.c '#include <jansson.h>' '<jansson.h> belongs in base/json.c only'
plant layers base/x.c '  #  include <jansson.h>' '<jansson.h> belongs in base/json.c only'
plant layers webhook/x.c '#include <openssl/evp.h>' 'belongs in webhook/pki.c only'
plant layers api/x.c '#include "../base/secret.h"' 'not by relative path'
plant layers api/x.c '#include "none.h"' 'is not beside it'
plant layers api/x.c '#include HEADER' 'cannot read'
plant layers quota/engine/x.c '#include <pthread.h>' 'must not include <pthread.h>'
plant layers quota/engine/x.c '#include <time.h>' 'must not include <time.h>'
plant layers quota/engine/x.c '#include "sluice/base/clock.h"' 'must not include base/clock.h'
plant layers quota/engine/x.c 'void f(void) { printf("x"); }' 'the engine is pure'
plant layers quota/engine/x.c 'void f(void) { g(stderr); }' 'the engine is pure'
fresh
printf '#include "sluice/quota/engine/snapshot.h"\n' >webhook/x.c
expect layers 0 '' 'the exception for snapshots'

plant banned base/x.c 'void f(char *p) { strcpy(p, "x"); }' 'base/x.c:1: banned'
plant banned tests/unit/x.c 'int f(char *p) { return atoi (p); }' 'banned'
plant banned base/x.c 'int f(void) { return 0; } // why' '// comment'
plant banned base/x.c 'void f(void) { fork(); }' 'banned'
plant banned base/x.c '/* TO''DO later */' 'base/x.c:1'
plant banned docs/x.md 'FIX''ME' 'docs/x.md:1'
fresh
printf '/* strcpy( */\nchar c = %s;\nconst char *url = "https://example.com"; /* http://x */\nvoid my_strcpy(void);\n' "'\"'" >base/x.c
expect banned 0 '' 'comments, strings and longer names'
fresh
mkdir -p tests
printf 'void f(void) { fork(); }\n' >tests/x.c
expect banned 0 '' 'fork in a test'

plant headers include/sluice/base/x.h '#ifndef SLUICE_BASE_X_H
#define SLUICE_BASE_X_H
size_t f(void);
#endif' 'does not compile alone'
plant headers include/sluice/base/x.h '#ifndef X_H
#define X_H
#endif' 'the guard must be SLUICE_BASE_X_H'
plant format base/x.c 'int  f( void ){return 0 ;}' 'base/x.c:1: run clang-format-14'
plant words docs/x.md 'see /wo''rk/main for more' 'docs/x.md:1'
plant words docs/x.md 'from https://pro''xy.golang.org/' 'docs/x.md:1'
plant size base/x.c "$(seq -f '/* %g */' 901)" '901 lines'
# metrics <file> <sed command> <text that must be printed>: two metrics that agree with their table, but for one change
metrics() {
    fresh
    mkdir -p include/sluice/defs tests
    printf '%s\t%s\t%s\t%s\t%s\n' name type labels values buckets a_total counter queue '' '' a_seconds histogram b,c '' '1 2.5 +Inf' \
        kueue_pod_scheduling_gate_removal_seconds histogram name '' '1 +Inf' >tests/metrics.tsv
    printf 'SL_METRIC(%s)\n' 'A_TOTAL, "a_total", COUNTER, "queue", NONE, "A"' 'A_SECONDS, "a_seconds", HISTOGRAM, "c,b", TWO, "A"' >include/sluice/defs/metrics.def
    printf 'static const double buckets_%s\n' 'NONE[] = {INFINITY};' 'TWO[] = {1, 2.5, INFINITY};' >base/metrics.c
    printf 'int a = SL_M_A_TOTAL, b = SL_M_A_SECONDS;\n' >base/x.c
    sed -i "$2" "$1"
    expect metrics "${4-1}" "$3" "$2"
}
metrics base/x.c '' '' 0
metrics base/x.c 's/SL_M_A_TOTAL/0/' 'no code sets A_TOTAL'
metrics include/sluice/defs/metrics.def 1d 'a_total is not in'
metrics include/sluice/defs/metrics.def 's/COUNTER/GAUGE/' 'type should be counter'
metrics include/sluice/defs/metrics.def 's/c,b/b/' 'labels should be'
metrics include/sluice/defs/metrics.def 's/A_SECONDS/A SECONDS/' 'cannot be read'
metrics include/sluice/defs/metrics.def 2p 'a second time'
metrics base/metrics.c 's/2.5/3/' 'bounds should be'
metrics tests/metrics.tsv 4d 'not in the table'
exit $failed
