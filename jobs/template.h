#ifndef SLUICE_JOBS_TEMPLATE_H
#define SLUICE_JOBS_TEMPLATE_H

#include "sluice/base/json.h"

/* The member of two pod specs is semantically equal: null, absent and empty are one, amounts are compared by value. */
bool sl_template_same_part(const struct sl_json *a, const struct sl_json *b, const char *member);

#endif
