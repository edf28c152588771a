/* JSON lines. A line is built on the stack and written with one write(), so lines of several threads do not mix. */
#include "sluice/base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sluice/base/clock.h"
#include "sluice/base/utf8.h"

#define LINE_MAX_BYTES  4096
#define VALUE_MAX_BYTES 1024 /* of one text, escapes counted */
#define LINE_END_BYTES  64   /* kept free for what ends the line */
#define LINES_PER_SITE  20
#define WINDOW_MS       1000

static int current_level = SL_LOG_INFO; /* these two are read by every thread; no order with anything else is needed */
static int log_fd = 2;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the sites' buckets */

bool sl_log_enabled(enum sl_log_level level) {
    return (int)level <= __atomic_load_n(&current_level, __ATOMIC_RELAXED) &&
           __atomic_load_n(&log_fd, __ATOMIC_RELAXED) >= 0;
}
void sl_log_set_level(enum sl_log_level level) {
    __atomic_store_n(&current_level, (int)level, __ATOMIC_RELAXED);
}
void sl_log_set_fd(int fd) {
    __atomic_store_n(&log_fd, fd, __ATOMIC_RELAXED);
}

struct line {
    char text[LINE_MAX_BYTES];
    size_t len;
};

static size_t room(const struct line *l) {
    return sizeof l->text - LINE_END_BYTES - l->len;
}

/* Callers see to it that it fits: LINE_END_BYTES are behind what room() admits. */
static void raw(struct line *l, const char *s, size_t n) {
    memcpy(l->text + l->len, s, n);
    l->len += n;
}
static void raw_text(struct line *l, const char *s) {
    raw(l, s, strlen(s));
}

/* A text in quotes, cut at VALUE_MAX_BYTES and at the end of the line; bytes that are no UTF-8 become U+FFFD. Always
 * well-formed. */
static void quoted(struct line *l, const char *s) {
    size_t left = strlen(s), budget = VALUE_MAX_BYTES;
    raw(l, "\"", 1);
    while (left) {
        size_t n = sl_utf8_at(s, left), len;
        char escape[8];
        const char *what = escape;
        if (!n)
            len = (size_t)snprintf(escape, sizeof escape, "\xef\xbf\xbd");
        else if (*s == '"' || *s == '\\')
            len = (size_t)snprintf(escape, sizeof escape, "\\%c", *s);
        else if ((unsigned char)*s < 0x20 || *s == 0x7f)
            len = (size_t)snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*s);
        else {
            what = s;
            len = n;
        }
        if (len > budget || len + 1 > room(l))
            break;
        raw(l, what, len);
        budget -= len;
        s += n ? n : 1;
        left -= n ? n : 1;
    }
    raw(l, "\"", 1);
}

/* False when the line has no room for another field. */
static bool field(struct line *l, const struct sl_log_field *f) {
    size_t key = strlen(f->key);
    if (key + 40 > room(l)) /* punctuation, and the longest number or an empty text */
        return false;
    raw(l, ",\"", 2);
    raw(l, f->key, key);
    raw(l, "\":", 2);
    if (f->str && f->ns) {
        char object[600];
        snprintf(object, sizeof object, "%s%s%s", f->ns, *f->ns ? "/" : "", f->str);
        object[sl_utf8_trim(object, strlen(object))] = 0;
        quoted(l, object);
    } else if (f->str) {
        quoted(l, f->str);
    } else {
        char num[32];
        raw(l, num, (size_t)snprintf(num, sizeof num, "%lld", (long long)f->num));
    }
    return true;
}

void sl_log_write(struct sl_log_site *site, enum sl_log_level level, const char *message,
                  const struct sl_log_field *fields) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    unsigned suppressed = 0;
    int64_t now = sl_now_mono_ms();
    pthread_mutex_lock(&lock);
    if (now - site->window_ms >= WINDOW_MS) {
        site->window_ms = now;
        site->in_window = 0;
    }
    bool drop = site->in_window >= LINES_PER_SITE;
    if (drop) {
        site->suppressed++;
    } else {
        site->in_window++;
        suppressed = site->suppressed;
        site->suppressed = 0;
    }
    pthread_mutex_unlock(&lock);
    if (drop)
        return;
    struct line l;
    char time[SL_TIME_TEXT], num[40];
    l.len = 0;
    raw_text(&l, "{\"ts\":\"");
    raw_text(&l, sl_time_format_micro(sl_now_wall_ms(), time));
    raw_text(&l, "\",\"level\":\"");
    raw_text(&l, names[level]);
    raw_text(&l, "\",\"msg\":");
    quoted(&l, message);
    const struct sl_log_field *f = fields;
    while (f->key && field(&l, f))
        f++;
    if (f->key)
        raw_text(&l, ",\"cut\":true");
    if (suppressed) /* with "cut" at most 12 + 25 + 2 of the bytes that were kept */
        raw(&l, num, (size_t)snprintf(num, sizeof num, ",\"suppressed\":%u", suppressed));
    raw_text(&l, "}\n");
    ssize_t ignored = write(__atomic_load_n(&log_fd, __ATOMIC_RELAXED), l.text, l.len);
    (void)ignored; /* nowhere to report a log that cannot be written */
}
