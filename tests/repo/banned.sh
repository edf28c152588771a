#!/usr/bin/env bash
# Functions that overflow, depend on the locale, hide errors or break under threads; comments that are no comments.
. "$(dirname "$0")/common.bash"

everywhere='sprintf|vsprintf|strcpy|stpcpy|strcat|strtod|strtof|strtold|atoi|atol|atoll|atof|alloca|setlocale|gets|system|popen|strtok|mktemp|tmpnam|tempnam|asctime|ctime|localtime|gmtime|strerror_l|longjmp|siglongjmp'
product='fork|vfork|pthread_cancel|pthread_detach|sscanf|scanf|fscanf|rand|srand|random|srandom|assert|exit|usleep'

checked=0
while IFS= read -r file; do
    checked=$((checked + 1))
    names=$everywhere
    case $file in
    tests/*) ;;
    cmd/*) names="$names|${product%|exit|*}|usleep" ;;
    *) names="$names|$product" ;;
    esac
    while IFS=: read -r line text; do
        wrong "$file:$line: banned:$(sed 's/^[[:space:]]*/ /' <<<"$text")"
    done < <(awk -f "$here/strip.awk" "$file" | grep -nE "(^|[^A-Za-z0-9_])($names)[[:space:]]*\(")
    while IFS=: read -r line text; do
        wrong "$file:$line: // comment"
    done < <(awk -v keep=1 -f "$here/strip.awk" "$file" | grep -n '//')
done < <(files '*.c' '*.h' '*.def')
need "$checked" "C files"

# Work that is left undone is said in an issue, not in a comment. (The names are split so that this file does not find itself.)
while IFS= read -r file; do
    case $file in tests/repo/selftest.sh) continue ;; esac
    while IFS=: read -r line text; do
        wrong "$file:$line:$text"
    done < <(grep -nwE 'TO''DO|FIX''ME|XX''X|HA''CK' "$file")
done < <(files '*.c' '*.h' '*.def' '*.sh' '*.bash' '*.py' '*.md' '*.cmake' 'CMakeLists.txt' '.ci/run' 'dev')
exit $bad
