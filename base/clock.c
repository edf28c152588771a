/* Time text without locale and without time zones other than UTC and numeric offsets. */
#include "sluice/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t read_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
int64_t sl_now_wall_ms(void) {
    return read_clock(CLOCK_REALTIME);
}
int64_t sl_now_mono_ms(void) {
    return read_clock(CLOCK_MONOTONIC);
}

#define YEAR_0    (-62167219200000)
#define YEAR_9999 253402300799999

static void split(int64_t wall_ms, struct tm *tm, int *ms) {
    if (wall_ms < YEAR_0)
        wall_ms = YEAR_0;
    if (wall_ms > YEAR_9999)
        wall_ms = YEAR_9999;
    int64_t s = wall_ms / 1000;
    *ms = (int)(wall_ms % 1000);
    if (*ms < 0) {
        *ms += 1000;
        s--;
    }
    time_t t = (time_t)s;
    gmtime_r(&t, tm);
}

char *sl_time_format(int64_t wall_ms, char *text) {
    struct tm tm;
    int ms;
    split(wall_ms, &tm, &ms);
    snprintf(text, SL_TIME_TEXT, "%04d-%02d-%02dT%02d:%02d:%02dZ", (tm.tm_year + 1900) % 10000, tm.tm_mon + 1,
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    return text;
}

char *sl_time_format_micro(int64_t wall_ms, char *text) {
    struct tm tm;
    int ms;
    split(wall_ms, &tm, &ms);
    snprintf(text, SL_TIME_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d.%03d000Z", (tm.tm_year + 1900) % 10000, tm.tm_mon + 1,
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, ms);
    return text;
}

static bool digits(const char **p, int n, int *ret) {
    int v = 0;
    for (int i = 0; i < n; i++, (*p)++) {
        if (**p < '0' || **p > '9')
            return false;
        v = v * 10 + (**p - '0');
    }
    *ret = v;
    return true;
}

static int days_in(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap);
}

bool sl_time_parse(const char *text, int64_t *ret) {
    if (!text)
        return false;
    struct tm tm = {0};
    const char *p = text;
    if (!digits(&p, 4, &tm.tm_year) || *p++ != '-' || !digits(&p, 2, &tm.tm_mon) || *p++ != '-' ||
        !digits(&p, 2, &tm.tm_mday) || (*p != 'T' && *p != 't') || !digits((p++, &p), 2, &tm.tm_hour) || *p++ != ':' ||
        !digits(&p, 2, &tm.tm_min) || *p++ != ':' || !digits(&p, 2, &tm.tm_sec))
        return false;
    if (tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > days_in(tm.tm_year, tm.tm_mon) ||
        tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
        return false;
    int ms = 0;
    if (*p == '.') {
        int weight = 100, seen = 0;
        for (p++; *p >= '0' && *p <= '9'; p++, seen = 1) {
            ms += (*p - '0') * weight;
            weight /= 10;
        }
        if (!seen)
            return false;
    }
    int64_t offset = 0;
    if (*p == 'Z' || *p == 'z') {
        p++;
    } else if (*p == '+' || *p == '-') {
        int sign = *p++ == '-' ? -1 : 1, h, m;
        if (!digits(&p, 2, &h) || *p++ != ':' || !digits(&p, 2, &m) || h > 23 || m > 59)
            return false;
        offset = sign * (h * 3600 + m * 60);
    } else {
        return false;
    }
    if (*p)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret = ((int64_t)timegm(&tm) - offset) * 1000 + ms;
    return true;
}

bool sl_duration_parse(const char *text, int64_t *ret_ms) {
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = {{"ns", 1},       {"us", 1000},      {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
                 {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000},  {"h", 3600000000000}};
    if (!text || !*text)
        return false;
    bool negative = *text == '-';
    const char *p = text + (*text == '-' || *text == '+');
    if (!strcmp(p, "0")) {
        *ret_ms = 0;
        return true;
    }
    if (!*p)
        return false;
    int64_t total = 0;
    while (*p) {
        int64_t whole = 0, fraction = 0, scale = 1;
        bool seen = false;
        for (; *p >= '0' && *p <= '9'; p++, seen = true)
            if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, *p - '0', &whole))
                return false;
        if (*p == '.')
            for (p++; *p >= '0' && *p <= '9'; p++, seen = true)
                if (scale < 1000000000) {
                    fraction = fraction * 10 + (*p - '0');
                    scale *= 10;
                }
        if (!seen)
            return false;
        size_t best = 0;
        int64_t ns = 0;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (!strncmp(p, units[i].unit, strlen(units[i].unit)) && strlen(units[i].unit) > best) {
                best = strlen(units[i].unit);
                ns = units[i].ns;
            }
        if (!best)
            return false;
        p += best;
        int64_t part;
        if (__builtin_mul_overflow(whole, ns, &part) || __builtin_add_overflow(total, part, &total) ||
            __builtin_add_overflow(total, (int64_t)((__int128)fraction * ns / scale), &total))
            return false;
    }
    *ret_ms = (negative ? -total : total) / 1000000;
    return true;
}
