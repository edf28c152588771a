/* Checked and saturating int64 arithmetic, decimal parsing. No floating point. */
#ifndef SLUICE_BASE_NUM_H
#define SLUICE_BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/base/err.h"

static inline int64_t sl_sat_add(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return r;
}
static inline int64_t sl_sat_sub(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_sub_overflow(a, b, &r))
        return b < 0 ? INT64_MAX : INT64_MIN;
    return r;
}
static inline int64_t sl_sat_mul(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return r;
}
/* Whole text must be an optional '-' and digits (leading zeros are fine) within int64; SL_INVALID otherwise. */
SL_MUST int sl_parse_i64(const char *text, size_t len, int64_t *ret, struct sl_err *err);
/* The same for what Go's strconv.Atoi takes (an optional '+' too). */
bool sl_parse_int(const char *text, int64_t *ret);

#endif
