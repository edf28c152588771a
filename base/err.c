/* The error object: a code and one line of text on the caller's stack. */
#include "sluice/base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sluice/base/utf8.h"

/* Cuts text that did not fit between two characters, and makes it one printable line. */
static void sanitise(char *text, bool cut) {
    if (cut)
        text[sl_utf8_trim(text, strlen(text))] = 0;
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
}

int sl_err_set(struct sl_err *err, enum sl_code code, const char *format, ...) {
    if (!err)
        return code;
    char text[sizeof err->text]; /* err->text may be among the arguments */
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sanitise(text, n >= (int)sizeof text);
    err->code = code;
    err->sys = 0;
    memcpy(err->text, text, strlen(text) + 1);
    return code;
}

int sl_err_wrap(struct sl_err *err, const char *format, ...) {
    if (!err)
        return SL_INTERNAL;
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bool cut = n >= (int)sizeof text;
    if (n >= 0 && !cut)
        cut = snprintf(text + n, sizeof text - (size_t)n, ": %s", err->text) >= (int)sizeof text - n;
    sanitise(text, cut);
    memcpy(err->text, text, strlen(text) + 1);
    return err->code ? (int)err->code : SL_INTERNAL;
}

const char *sl_code_text(int code) {
    switch (code) {
    case SL_OK: return "ok";
#define SL_ERROR(name, text)                                                                                           \
    case SL_##name:                                                                                                    \
        return text;
#include "sluice/defs/errors.def"
#undef SL_ERROR
    }
    return "unknown error";
}
