/*
 * Quantities as nano units in 128 bits. The text forms are those of Kubernetes: a decimal number and a suffix (n u m k
 * M G T P E, Ki .. Ei, or an exponent). Parsing is exact as long as the value fits; digits below nano round away from
 * zero; values beyond the range clamp, since everything downstream clamps to int64 whole units anyway. Printing is
 * canonical: the largest suffix that leaves no fraction.
 */
#include "sluice/api/quantity.h"

#include <stdio.h>
#include <string.h>

typedef __int128 i128;
typedef unsigned __int128 u128;

#define NANO ((i128)1000000000)
/* A tenth of the range of __int128, so that one addition of two values never overflows. */
#define QTY_MAX ((((i128)1) << 124) - 1)

struct suffix {
    const char *text;
    int exp10; /* decimal exponent, or */
    int exp2;  /* binary one */
    enum sl_quantity_format format;
};
static const struct suffix suffixes[] = {
    {"", 0, 0, SL_QTY_DECIMAL_SI},   {"n", -9, 0, SL_QTY_DECIMAL_SI}, {"u", -6, 0, SL_QTY_DECIMAL_SI},
    {"m", -3, 0, SL_QTY_DECIMAL_SI}, {"k", 3, 0, SL_QTY_DECIMAL_SI},  {"M", 6, 0, SL_QTY_DECIMAL_SI},
    {"G", 9, 0, SL_QTY_DECIMAL_SI},  {"T", 12, 0, SL_QTY_DECIMAL_SI}, {"P", 15, 0, SL_QTY_DECIMAL_SI},
    {"E", 18, 0, SL_QTY_DECIMAL_SI}, {"Ki", 0, 10, SL_QTY_BINARY_SI}, {"Mi", 0, 20, SL_QTY_BINARY_SI},
    {"Gi", 0, 30, SL_QTY_BINARY_SI}, {"Ti", 0, 40, SL_QTY_BINARY_SI}, {"Pi", 0, 50, SL_QTY_BINARY_SI},
    {"Ei", 0, 60, SL_QTY_BINARY_SI},
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* value * factor, clamped to QTY_MAX; both non-negative. */
static i128 mul_clamp(i128 value, i128 factor) {
    i128 r;
    if (__builtin_mul_overflow(value, factor, &r) || r > QTY_MAX)
        return QTY_MAX;
    return r;
}

/* Suffix or exponent at p, which must end the text. The exponent form is clamped to a range in which everything is 0 or
 * QTY_MAX. */
static bool parse_suffix(const char *p, int *exp10, int *exp2, enum sl_quantity_format *format) {
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (!strcmp(p, suffixes[i].text)) {
            *exp10 = suffixes[i].exp10;
            *exp2 = suffixes[i].exp2;
            *format = suffixes[i].format;
            return true;
        }
    if (*p != 'e' && *p != 'E')
        return false;
    p++;
    bool negative = *p == '-';
    if (*p == '+' || *p == '-')
        p++;
    if (!is_digit(*p))
        return false;
    int e = 0;
    for (; is_digit(*p); p++)
        e = e > 1000 ? 1000 : e * 10 + (*p - '0');
    if (*p)
        return false;
    *exp10 = negative ? -e : e;
    *exp2 = 0;
    *format = SL_QTY_DECIMAL_EXPONENT;
    return true;
}

int sl_quantity_parse(const char *text, struct sl_quantity *ret, struct sl_err *err) {
    const char *p = text ? text : "";
    bool negative = *p == '-';
    if (*p == '+' || *p == '-')
        p++;
    const char *whole = p;
    while (is_digit(*p))
        p++;
    size_t n_whole = (size_t)(p - whole);
    const char *fraction = p;
    size_t n_fraction = 0;
    if (*p == '.') {
        fraction = ++p;
        while (is_digit(*p))
            p++;
        n_fraction = (size_t)(p - fraction);
    }
    if (n_whole + n_fraction > 1000)
        return sl_err_set(err, SL_INVALID, "\"%.60s...\" is too long for a quantity", text);
    if (n_whole + n_fraction == 0)
        return sl_err_set(err, SL_INVALID, "\"%.60s\" is not a quantity", text ? text : "");
    int exp10, exp2;
    enum sl_quantity_format format;
    if (!parse_suffix(p, &exp10, &exp2, &format))
        return sl_err_set(err, SL_INVALID, "\"%.60s\" is not a quantity: unknown suffix", text ? text : "");

    /* Walk the digits with the decimal exponent of the current digit, counted in nano; a binary factor is applied to
     * whole digits at once and to the fraction as a ratio. */
    i128 factor2 = (i128)1 << exp2;
    i128 nano = 0;
    bool lost = false; /* a non-zero digit below nano */
    if (exp2 == 0) {
        int e = exp10 + 9 + (int)n_whole - 1;
        for (size_t i = 0; i < n_whole + n_fraction; i++, e--) {
            char c = i < n_whole ? whole[i] : fraction[i - n_whole];
            if (e >= 0)
                nano = mul_clamp(nano, 10), nano = nano >= QTY_MAX ? QTY_MAX : nano + (c - '0');
            else
                lost |= c != '0';
        }
        for (; e >= 0 && nano > 0 && nano < QTY_MAX; e--) /* places behind the last digit */
            nano = mul_clamp(nano, 10);
    } else {
        for (size_t i = 0; i < n_whole; i++)
            nano = mul_clamp(nano, 10), nano = nano >= QTY_MAX ? QTY_MAX : nano + (whole[i] - '0');
        nano = mul_clamp(mul_clamp(nano, NANO), factor2);
        /* The fraction is the ratio (part[0] * 10^18 + part[1]) / 10^36; both halves times 2^60 fit. Later digits only
         * round up. */
        i128 part[2] = {0, 0};
        for (size_t i = 0; i < 36; i++)
            part[i / 18] = part[i / 18] * 10 + (i < n_fraction ? fraction[i] - '0' : 0);
        for (size_t i = 36; i < n_fraction; i++)
            lost |= fraction[i] != '0';
        const i128 e27 = NANO * NANO * NANO;
        i128 high = part[0] * factor2, low = part[1] * factor2;
        i128 rest = high % NANO * NANO * NANO + low % e27;
        i128 add = high / NANO + low / e27 + rest / e27;
        lost |= rest % e27 != 0;
        nano = nano >= QTY_MAX - add ? QTY_MAX : nano + add;
    }
    if (lost && nano < QTY_MAX)
        nano++;
    ret->nano = negative ? -nano : nano;
    ret->format = format;
    return 0;
}

int sl_quantity_from_json(const struct sl_json *j, struct sl_quantity *ret, struct sl_err *err) {
    switch (sl_json_type(j)) {
    case SL_JSON_STRING: return sl_quantity_parse(sl_json_str(j, ""), ret, err);
    case SL_JSON_INT: ret->nano = (i128)sl_json_int(j, 0) * NANO; break;
    case SL_JSON_REAL: { /* 0.5 in YAML without quotes */
        char text[64];
        snprintf(text, sizeof text, "%.15g", sl_json_real(j, 0)); /* as many digits as a double holds */
        return sl_quantity_parse(text, ret, err);
    }
    default: return sl_err_set(err, SL_INVALID, "must be a quantity (a string or a number)");
    }
    ret->format = SL_QTY_DECIMAL_SI;
    return 0;
}

int sl_quantity_compare(const struct sl_quantity *a, const struct sl_quantity *b) {
    return a->nano < b->nano ? -1 : a->nano > b->nano;
}

struct sl_quantity sl_quantity_add(struct sl_quantity a, struct sl_quantity b) {
    i128 sum = a.nano + b.nano; /* cannot overflow: both are within 2^124 */
    if (sum > QTY_MAX)
        sum = QTY_MAX;
    if (sum < -QTY_MAX)
        sum = -QTY_MAX;
    return (struct sl_quantity){sum, a.nano == 0 ? b.format : a.format};
}

static i128
divide_up(i128 value,
          i128 unit) { /* toward plus infinity is what rounding a request up means; negatives away from zero */
    i128 q = value / unit;
    if (value % unit)
        q += value > 0 ? 1 : -1;
    return q;
}

static i128 unit_of(const char *resource) {
    return !strcmp(resource, "cpu") ? NANO / 1000 : NANO;
}

int64_t sl_quantity_amount(const struct sl_quantity *q, const char *resource) {
    i128 v = divide_up(q->nano, unit_of(resource));
    return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

int64_t sl_quantity_quota(const struct sl_quantity *q, const char *resource) {
    /* Whole cores from INT64_MAX/1000 on are unlimited even though the last few would fit as milli. */
    if (!strcmp(resource, "cpu") && q->nano >= (i128)(INT64_MAX / 1000) * NANO)
        return INT64_MAX;
    return sl_quantity_amount(q, resource);
}

static char *print_i128(i128 v, const char *suffix, char *text) {
    char digits[48];
    size_t at = sizeof digits;
    u128 u = v < 0 ? -(u128)v : (u128)v;
    for (; u > UINT64_MAX; u /= 10) /* 128-bit division is a library call: only where it is needed */
        digits[--at] = (char)('0' + (int)(u % 10));
    uint64_t low = (uint64_t)u;
    do {
        digits[--at] = (char)('0' + (int)(low % 10));
        low /= 10;
    } while (low);
    size_t n = sizeof digits - at;
    char *end = text;
    if (v < 0)
        *end++ = '-';
    memcpy(end, digits + at, n);
    memcpy(end + n, suffix, strlen(suffix) + 1);
    return text;
}

char *sl_quantity_format(const struct sl_quantity *q, char *text) {
    if (q->nano == 0) {
        snprintf(text, SL_QUANTITY_TEXT, "0");
        return text;
    }
    i128 magnitude = q->nano < 0 ? -q->nano : q->nano;
    if (q->format == SL_QTY_BINARY_SI && magnitude >= 1024 * NANO && q->nano % NANO == 0) {
        static const char *const names[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
        i128 v = q->nano / NANO;
        int i = 0;
        for (; i < 6 && v % 1024 == 0; i++)
            v /= 1024;
        return print_i128(v, names[i], text);
    }
    i128 v = q->nano;
    int exp = -9;
    if (v % NANO == 0) { /* most are whole: not digit by digit then */
        v /= NANO;
        exp = 0;
    }
    while (v % 1000 == 0 && exp < (q->format == SL_QTY_DECIMAL_EXPONENT ? 36 : 18)) {
        v /= 1000;
        exp += 3;
    }
    if (q->format == SL_QTY_DECIMAL_EXPONENT) {
        char suffix[8] = "";
        if (exp)
            snprintf(suffix, sizeof suffix, "e%d", exp);
        return print_i128(v, suffix, text);
    }
    static const char *const names[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
    return print_i128(v, names[exp / 3 + 3], text);
}

static bool is_bytes(const char *resource) {
    return !strcmp(resource, "memory") || !strcmp(resource, "ephemeral-storage") || !strcmp(resource, "storage") ||
           !strncmp(resource, "hugepages-", 10);
}

char *sl_amount_format(const char *resource, int64_t amount, char *text) {
    struct sl_quantity q = {(i128)amount * unit_of(resource),
                            is_bytes(resource) ? SL_QTY_BINARY_SI : SL_QTY_DECIMAL_SI};
    return sl_quantity_format(&q, text);
}

char *sl_amount_format_people(const char *resource, int64_t amount, char *text) {
    if (amount != INT64_MAX)
        return sl_amount_format(resource, amount, text);
    snprintf(text, SL_QUANTITY_TEXT, "<unlimited>");
    return text;
}
