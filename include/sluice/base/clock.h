/* Clocks and RFC 3339. Times are int64 milliseconds; wall time since 1970 UTC, monotonic time since some start. */
#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int64_t sl_now_wall_ms(void);
int64_t sl_now_mono_ms(void);
#define SL_TIME_TEXT 32
/* "2026-11-30T13:33:07Z" (whole seconds, rounded down); text needs SL_TIME_TEXT bytes; returns text. */
char *sl_time_format(int64_t wall_ms, char *text);
/* Microseconds, as metav1.MicroTime (leases, events): "2026-11-30T13:33:07.123000Z". */
char *sl_time_format_micro(int64_t wall_ms, char *text);
/* RFC 3339 with or without fraction and with Z or a numeric offset; false on anything else. */
bool sl_time_parse(const char *text, int64_t *ret_wall_ms);
/* Go duration text ("1h30m", "5s", "250ms", "0") to milliseconds; false when malformed or past int64. */
bool sl_duration_parse(const char *text, int64_t *ret_ms);

#endif
