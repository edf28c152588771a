/*
 * Growing byte buffer with a mandatory maximum. Failure is sticky: a run of appends is checked once at the end. The
 * content is always NUL-terminated behind len. Owner: whoever declared it; sl_buf_done (or SL_AUTO_BUF) releases.
 */
#ifndef SLUICE_BASE_BUF_H
#define SLUICE_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "sluice/base/err.h"

struct sl_buf {
    char *data; /* may be NULL while empty; see sl_buf_text */
    size_t len, cap, max;
    bool failed; /* an append went past max */
};

#define SL_BUF_INIT(max_bytes)                                                                                         \
    { NULL, 0, 0, (max_bytes), false }
#define SL_AUTO_BUF __attribute__((cleanup(sl_buf_done))) struct sl_buf

void sl_buf_done(struct sl_buf *b);
void sl_buf_clear(struct sl_buf *b); /* len 0, failure forgotten, memory kept */
void sl_buf_add(struct sl_buf *b, const void *data, size_t len);
void sl_buf_puts(struct sl_buf *b, const char *text);
void sl_buf_putc(struct sl_buf *b, char c);
void sl_buf_printf(struct sl_buf *b, const char *format, ...) SL_PRINTF(2, 3);
void sl_buf_vprintf(struct sl_buf *b, const char *format, va_list args) SL_PRINTF(2, 0);
const char *sl_buf_text(const struct sl_buf *b); /* never NULL; borrowed until the next append */
char *sl_buf_take(struct sl_buf *b);             /* owned text (free()), buffer empty afterwards; NULL when failed */
SL_MUST int sl_buf_check(const struct sl_buf *b, struct sl_err *err); /* SL_TOO_BIG when an append failed */
/* Standard base64. Decode accepts no white space; SL_INVALID on bad input. */
void sl_buf_add_base64(struct sl_buf *b, const void *data, size_t len);
SL_MUST int sl_buf_add_unbase64(struct sl_buf *b, const char *text, size_t len, struct sl_err *err);

#endif
