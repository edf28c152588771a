/*
 * One JSON object a line on standard error: {"ts","level","msg",fields...}. A fixed message, facts in fields. Folders
 * below cmd/ return errors and log only at debug, except one line per state change of a long-lived thing. Never log
 * object bodies, tokens, annotation values. SL_LOG(INFO, "quota reserved", SL_STR("queue", name), SL_I64("wait_ms",
 * n)); Thread-safe. Each call site may log 20 lines a second; what is suppressed is counted and said with the next line
 * of that site.
 */
#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum sl_log_level { SL_LOG_ERROR, SL_LOG_WARN, SL_LOG_INFO, SL_LOG_DEBUG };

struct sl_log_field {
    const char *key;
    const char *str; /* NULL: an integer */
    int64_t num;
    const char *ns; /* with str: an object reference ns/name; NULL otherwise */
};
struct sl_log_site {
    int64_t window_ms;
    unsigned in_window, suppressed;
};

static inline const char *sl_log_text(const char *text) {
    return text ? text : "";
}
#define SL_STR(k, v)               ((struct sl_log_field){(k), sl_log_text(v), 0, NULL})
#define SL_I64(k, v)               ((struct sl_log_field){(k), NULL, (v), NULL})
#define SL_OBJ(k, namespace, name) ((struct sl_log_field){(k), sl_log_text(name), 0, sl_log_text(namespace)})
#define SL_LOG(level, message, ...)                                                                                    \
    do {                                                                                                               \
        if (sl_log_enabled(SL_LOG_##level)) {                                                                          \
            static struct sl_log_site sl_site;                                                                         \
            struct sl_log_field sl_fields[] = {__VA_ARGS__ __VA_OPT__(, ){NULL, NULL, 0, NULL}};                       \
            sl_log_write(&sl_site, SL_LOG_##level, message, sl_fields);                                                \
        }                                                                                                              \
    } while (0)

bool sl_log_enabled(enum sl_log_level level);
void sl_log_set_level(enum sl_log_level level); /* default INFO */
void sl_log_set_fd(int fd);                     /* default 2; -1 silences */
void sl_log_write(struct sl_log_site *site, enum sl_log_level level, const char *message,
                  const struct sl_log_field *fields);

#endif
