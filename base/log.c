/* JSON lines. A line is built on the stack and written with one write(), so lines of several threads do not mix. */
#include "sluice/base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sluice/base/clock.h"

#define LINE_MAX_BYTES  4096
#define LINES_PER_SITE  20
#define WINDOW_MS       1000

static enum sl_log_level current_level = SL_LOG_INFO;
static int log_fd = 2;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the sites' buckets */

bool sl_log_enabled(enum sl_log_level level) { return level <= current_level && log_fd >= 0; }
void sl_log_set_level(enum sl_log_level level) { current_level = level; }
void sl_log_set_fd(int fd) { log_fd = fd; }

struct line {
    char text[LINE_MAX_BYTES];
    size_t len;
};

static void raw(struct line *l, const char *s) {
    size_t n = strlen(s);
    if (n > sizeof l->text - 8 - l->len)
        n = sizeof l->text - 8 - l->len; /* room for the end of the line */
    memcpy(l->text + l->len, s, n);
    l->len += n;
}

static void quoted(struct line *l, const char *s) {
    raw(l, "\"");
    for (int budget = 1024; *s && budget > 0; s++, budget--) {
        char c[8] = {*s, 0};
        unsigned char u = (unsigned char)*s;
        if (u == '"' || u == '\\')
            snprintf(c, sizeof c, "\\%c", u);
        else if (u < 0x20 || u == 0x7f)
            snprintf(c, sizeof c, "\\u%04x", u);
        if (l->len + strlen(c) > sizeof l->text - 64)
            break;
        raw(l, c);
    }
    raw(l, "\"");
}

void sl_log_write(struct sl_log_site *site, enum sl_log_level level, const char *message, const struct sl_log_field *fields) {
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
    struct line l = {.len = 0};
    char time[SL_TIME_TEXT], num[32];
    raw(&l, "{\"ts\":\"");
    raw(&l, sl_time_format_micro(sl_now_wall_ms(), time));
    raw(&l, "\",\"level\":\"");
    raw(&l, names[level]);
    raw(&l, "\",\"msg\":");
    quoted(&l, message);
    for (const struct sl_log_field *f = fields; f->key; f++) {
        raw(&l, ",\"");
        raw(&l, f->key);
        raw(&l, "\":");
        if (f->str && f->ns) {
            char object[600];
            snprintf(object, sizeof object, "%s%s%s", f->ns, *f->ns ? "/" : "", f->str);
            quoted(&l, object);
        } else if (f->str) {
            quoted(&l, f->str);
        } else {
            snprintf(num, sizeof num, "%lld", (long long)f->num);
            raw(&l, num);
        }
    }
    if (suppressed) {
        snprintf(num, sizeof num, ",\"suppressed\":%u", suppressed);
        raw(&l, num);
    }
    memcpy(l.text + l.len, "}\n", 2);
    ssize_t ignored = write(log_fd, l.text, l.len + 2);
    (void)ignored; /* nowhere to report a log that cannot be written */
}
