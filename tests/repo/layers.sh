#!/usr/bin/env bash
# Who may include whom. Dependencies point one way, third-party headers stay in one folder, and the engine is pure.
. "$(dirname "$0")/common.bash"

# folder: folders whose public headers it may include (besides its own and defs)
allowed='
base:
api: base
jobs: base api
flavors: base api
quota/engine: base api flavors
quota/ledger: base api
kube: base
webhook: base api jobs flavors
cmd: base api jobs flavors quota/engine quota/ledger kube webhook
'
# single headers beyond that
exceptions='
webhook quota/engine/snapshot.h
webhook quota/engine/explain.h
'
# third-party header (or its folder): the only place for it
third_party='
jansson.h base/json.c
yaml.h base/yaml.c
curl/ kube/
lmdb.h quota/ledger/
microhttpd.h webhook/
gnutls/ webhook/
openssl/ webhook/pki.c
'
# all that the engine may have of the outside: nothing with I/O, threads or clocks
pure_system=' assert.h errno.h inttypes.h limits.h math.h stdarg.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h '
pure_base=' buf.h err.h json.h map.h mem.h num.h utf8.h '
pure_calls='fopen|freopen|fdopen|fprintf|vfprintf|printf|vprintf|fputs|fputc|puts|putchar|fwrite|fread|fgets|getline|open|read|write|remove|rename|getenv|setenv|system|popen|abort|exit|time|clock|clock_gettime|gettimeofday|nanosleep|usleep|sleep|rand|random|getrandom|pthread_[a-z_]*|sl_now_[a-z_]*|SL_LOG'

folder_of() {
    local f=${1#include/sluice/}
    case $f in
    quota/engine/* | quota/ledger/*) echo "${f%/*}" ;;
    */*) echo "${f%%/*}" ;;
    esac
}

checked=0
while IFS= read -r file; do
    folder=$(folder_of "$file")
    row=$(grep "^$folder:" <<<"$allowed") || continue # tests and tools may include everything
    checked=$((checked + 1))
    while IFS=: read -r line text; do
        header=$(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\([<"][^>"]*\).*/\1/p' <<<"$text")
        case $header in
        '"sluice/defs/'*) ;;
        '"sluice/'*)
            name=${header#'"sluice/'}
            target=$(folder_of "$name")
            [[ $target == "$folder" || " ${row#*:} " == *" $target "* ]] || grep -qx "$folder $name" <<<"$exceptions" ||
                wrong "$file:$line: $folder must not include $name"
            [[ $folder != quota/engine || $target != base || $pure_base == *" ${name#base/} "* ]] ||
                wrong "$file:$line: the engine is pure, it must not include $name"
            ;;
        '"../'* | '"./'*) wrong "$file:$line: include by folder, not by relative path" ;;
        '"'*) [[ -f ${file%/*}/${header#'"'} ]] || wrong "$file:$line: ${header#'"'} is not beside it" ;;
        '<'*)
            name=${header#<}
            while read -r prefix place; do
                [[ -n $prefix && $name == "$prefix"* ]] || continue
                [[ $file == "$place"* ]] || wrong "$file:$line: <$name> belongs in $place only"
            done <<<"$third_party"
            [[ $folder != quota/engine || $pure_system == *" $name "* ]] || wrong "$file:$line: the engine is pure, it must not include <$name>"
            ;;
        *) wrong "$file:$line: an include that this check cannot read" ;;
        esac
    done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' "$file")
    if [[ $folder == quota/engine ]]; then
        while IFS=: read -r line text; do
            wrong "$file:$line: the engine is pure: $text"
        done < <(awk -f "$here/strip.awk" "$file" | grep -nE "(^|[^A-Za-z0-9_.>])($pure_calls)[[:space:]]*\(|(^|[^A-Za-z0-9_])(stderr|stdout|stdin|FILE)([^A-Za-z0-9_]|$)")
    fi
done < <(files '*.c' '*.h' | grep -v '^tests/')
need "$checked" "C files"
exit $bad
