/* Bounded buffer: capacity doubles up to max; the byte behind len is always NUL, so cap >= len + 1 whenever data is
 * set. */
#include "sluice/base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

void sl_buf_done(struct sl_buf *b) {
    if (!b)
        return;
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
    b->failed = false;
}

void sl_buf_clear(struct sl_buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = 0;
}

static bool room(struct sl_buf *b, size_t more) {
    if (b->failed)
        return false;
    if (more > b->max || b->len > b->max - more) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    if (cap - 1 > b->max) /* never more than the maximum and its NUL */
        cap = b->max + 1;
    char *data = realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void sl_buf_add(struct sl_buf *b, const void *data, size_t len) {
    if (!room(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = 0;
}

void sl_buf_puts(struct sl_buf *b, const char *text) {
    sl_buf_add(b, text, strlen(text));
}
void sl_buf_putc(struct sl_buf *b, char c) {
    sl_buf_add(b, &c, 1);
}

void sl_buf_vprintf(struct sl_buf *b, const char *format, va_list args) {
    char small[256];
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    if (n < 0) {
        b->failed = true;
    } else if ((size_t)n < sizeof small) {
        sl_buf_add(b, small, (size_t)n);
    } else if (room(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, format, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void sl_buf_printf(struct sl_buf *b, const char *format, ...) {
    va_list args;
    va_start(args, format);
    sl_buf_vprintf(b, format, args);
    va_end(args);
}

const char *sl_buf_text(const struct sl_buf *b) {
    return b->data ? b->data : "";
}

char *sl_buf_take(struct sl_buf *b) {
    if (b->failed)
        return NULL;
    char *data = b->data ? b->data : sl_xstrdup("");
    b->data = NULL;
    b->len = b->cap = 0;
    return data;
}

int sl_buf_check(const struct sl_buf *b, struct sl_err *err) {
    return b->failed ? sl_err_set(err, SL_TOO_BIG, "more than %zu bytes", b->max) : 0;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void sl_buf_add_base64(struct sl_buf *b, const void *data, size_t len) {
    const unsigned char *p = data;
    if (len > b->max || !room(b, (len + 2) / 3 * 4)) {
        b->failed = true;
        return;
    }
    b->data[b->len] = 0; /* also when nothing follows */
    for (size_t i = 0; i < len; i += 3) {
        unsigned v = (unsigned)p[i] << 16 | (i + 1 < len ? (unsigned)p[i + 1] << 8 : 0) | (i + 2 < len ? p[i + 2] : 0u);
        char four[4] = {base64_digits[v >> 18], base64_digits[v >> 12 & 63],
                        i + 1 < len ? base64_digits[v >> 6 & 63] : '=', i + 2 < len ? base64_digits[v & 63] : '='};
        sl_buf_add(b, four, 4);
    }
}

int sl_buf_add_unbase64(struct sl_buf *b, const char *text, size_t len, struct sl_err *err) {
    size_t before = b->len;
    if (len % 4)
        return sl_err_set(err, SL_INVALID, "base64: length is not a multiple of 4");
    for (size_t i = 0; i < len; i += 4) {
        unsigned v = 0;
        int pad = 0;
        for (size_t j = 0; j < 4; j++) {
            char c = text[i + j];
            const char *at = c ? strchr(base64_digits, c) : NULL;
            if (c == '=' && j >= 2 && i + 4 == len)
                pad++;
            else if (!at || pad) {
                if (b->data)
                    b->data[b->len = before] = 0;
                return sl_err_set(err, SL_INVALID, "base64: character %zu is not allowed", i + j);
            }
            v = v << 6 | (c == '=' ? 0u : (unsigned)(at - base64_digits));
        }
        char three[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};
        sl_buf_add(b, three, (size_t)(3 - pad));
    }
    return sl_buf_check(b, err);
}
