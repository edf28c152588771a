/*
 * The one error convention. A fallible function returns 0, or a negative enum sl_code and fills *err (which may be
 * NULL). Outputs are untouched on failure. Errors live on the caller's stack and are never freed.
 */
#ifndef SLUICE_BASE_ERR_H
#define SLUICE_BASE_ERR_H

enum sl_code {
    SL_OK = 0,
    SL__FIRST_ERROR = -100,
#define SL_ERROR(name, text) SL_##name,
#include "sluice/defs/errors.def"
#undef SL_ERROR
    SL__END_ERROR
};

struct sl_err {
    enum sl_code code;
    int sys; /* errno, CURLcode, MDB code, HTTP status ... of the wrapped library; for the log only */
    char text[240];
};

#define SL_ERR_INIT                                                                                                    \
    { SL_OK, 0, "" }
#define SL_MUST         __attribute__((warn_unused_result))
#define SL_PRINTF(a, b) __attribute__((format(printf, a, b)))

/* Fills err (NULL is fine) and returns code, so that `return sl_err_set(...)` reads well. Text is cut to fit and
 * control characters become '?'. */
int sl_err_set(struct sl_err *err, enum sl_code code, const char *format, ...) SL_PRINTF(3, 4);
/* Puts "context: " in front of the text; returns the code that err holds (SL_INTERNAL when err is NULL). */
int sl_err_wrap(struct sl_err *err, const char *format, ...) SL_PRINTF(2, 3);
/* Name of a code in words; never NULL. */
const char *sl_code_text(int code);

#endif
