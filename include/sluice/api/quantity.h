/*
 * Kubernetes quantities: exact in nano units within +-1.7e29, clamped beyond (values of the API beyond int64 whole
 * units clamp anyway). Rules: scheduling.md 1.1, 1.10; api.md 0.1 (P_QTY), 2.5.
 */
#ifndef SLUICE_API_QUANTITY_H
#define SLUICE_API_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/base/json.h"

__extension__ typedef __int128 sl_int128;
enum sl_quantity_format { SL_QTY_DECIMAL_SI, SL_QTY_BINARY_SI, SL_QTY_DECIMAL_EXPONENT };
struct sl_quantity {
    sl_int128 nano;
    enum sl_quantity_format format;
};

/* Text by P_QTY; below nano rounds up (away from zero). SL_INVALID otherwise. */
SL_MUST int sl_quantity_parse(const char *text, struct sl_quantity *ret, struct sl_err *err);
/* String, integer or real node; SL_INVALID for anything else. */
SL_MUST int sl_quantity_from_json(const struct sl_json *j, struct sl_quantity *ret, struct sl_err *err);
int sl_quantity_compare(const struct sl_quantity *a, const struct sl_quantity *b);
struct sl_quantity sl_quantity_add(struct sl_quantity a, struct sl_quantity b);
/* Engine units of a resource: cpu in milli, everything else whole; rounded up, clamped to int64. */
int64_t sl_quantity_amount(const struct sl_quantity *q, const char *resource);
/* The same for quotas: what is too large for the unit is SL_UNLIMITED (scheduling.md 1.1). */
int64_t sl_quantity_quota(const struct sl_quantity *q, const char *resource);
#define SL_QUANTITY_TEXT 64
/* Canonical text of the quantity as Kubernetes prints it. */
char *sl_quantity_format(const struct sl_quantity *q, char *text);
/* Amount in engine units as text: cpu decimal SI of milli, memory, storage and hugepages binary SI, others decimal SI;
 * SL_UNLIMITED is printed as the largest value (in statuses) or as "<unlimited>" for people. */
char *sl_amount_format(const char *resource, int64_t amount, char *text);
char *sl_amount_format_people(const char *resource, int64_t amount, char *text);

#endif
