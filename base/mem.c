/* Allocation that cannot fail; see mem.h for when it may be used. */
#include "sluice/base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void out_of_memory(void) {
    fputs("{\"level\":\"error\",\"msg\":\"out of memory, aborting\"}\n", stderr);
    abort();
}

void *sl_xalloc(size_t size) {
    void *p = calloc(1, size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *sl_xrealloc(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        out_of_memory();
    void *p = realloc(old, bytes ? bytes : 1);
    if (!p)
        out_of_memory();
    return p;
}

size_t sl_larger_cap(size_t cap, size_t n) {
    cap = cap ? cap * 2 : 8;
    while (cap <= n)
        cap *= 2;
    return cap;
}

char *sl_xstrndup(const char *text, size_t len) {
    char *p = sl_xalloc(len + 1);
    if (len)
        memcpy(p, text, len);
    return p;
}

char *sl_xstrdup(const char *text) {
    return text ? sl_xstrndup(text, strlen(text)) : NULL;
}

char *sl_xvprintf(const char *format, va_list args) {
    char *p = NULL;
    if (vasprintf(&p, format, args) < 0)
        out_of_memory();
    return p;
}

char *sl_xprintf(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *p = sl_xvprintf(format, args);
    va_end(args);
    return p;
}

void sl_cleanup_free(void *pp) {
    void *p;
    memcpy(&p, pp, sizeof p);
    free(p);
}

_Noreturn void sl_assert_failed(const char *what, const char *file, int line) {
    /* the text of a condition has quotes, a path has not */
    fputs("{\"level\":\"error\",\"msg\":\"assertion failed, aborting\",\"what\":\"", stderr);
    for (; *what; what++)
        fputc(*what == '"' || *what == '\\' || (unsigned char)*what < 0x20 ? '\'' : *what, stderr);
    fprintf(stderr, "\",\"at\":\"%s:%d\"}\n", file, line);
    abort();
}
