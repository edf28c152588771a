/* The error object: a code and one line of text on the caller's stack. */
#include "sluice/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void sanitise(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
}

int sl_err_set(struct sl_err *err, enum sl_code code, const char *format, ...) {
    if (!err)
        return code;
    err->code = code;
    err->sys = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    sanitise(err->text);
    return code;
}

int sl_err_wrap(struct sl_err *err, const char *format, ...) {
    if (!err)
        return SL_INTERNAL;
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof err->text)
        snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", old);
    sanitise(err->text);
    return err->code ? (int)err->code : SL_INTERNAL;
}

const char *sl_code_text(int code) {
    switch (code) {
    case SL_OK: return "ok";
#define SL_ERROR(name, text)                                                                                           \
    case SL_##name: return text;
#include "sluice/defs/errors.def"
#undef SL_ERROR
    }
    return "unknown error";
}
