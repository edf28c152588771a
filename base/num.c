/* Decimal integers from text, without locale and without silent overflow. */
#include "sluice/base/num.h"

#include <string.h>

static bool parse(const char *text, size_t len, bool plus, int64_t *ret) {
    bool negative = len && text[0] == '-';
    size_t i = negative || (plus && len && text[0] == '+') ? 1 : 0;
    if (i == len)
        return false;
    int64_t v = 0;
    for (; i < len; i++) {
        int digit = text[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, digit, &v))
            return false; /* counted downwards, so that INT64_MIN is reached without overflow */
    }
    if (!negative && v == INT64_MIN)
        return false;
    *ret = negative ? v : -v;
    return true;
}

int sl_parse_i64(const char *text, size_t len, int64_t *ret, struct sl_err *err) {
    if (!parse(text, len, false, ret))
        return sl_err_set(err, SL_INVALID, "\"%.*s\" is not a 64-bit integer", (int)(len > 40 ? 40 : len), text);
    return 0;
}

bool sl_parse_int(const char *text, int64_t *ret) {
    return text && parse(text, strlen(text), true, ret);
}
