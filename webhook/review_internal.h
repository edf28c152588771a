/* Shared by the two kinds of review. */
#ifndef SLUICE_WEBHOOK_REVIEW_INTERNAL_H
#define SLUICE_WEBHOOK_REVIEW_INTERNAL_H

#include "sluice/webhook/review.h"

/* An object of 3 MiB with small members has about 150,000 elements; with this limit its tree stays below 100 MiB. */
#define SL_REVIEW_MAX_ELEMENTS 250000

/* out becomes one line of plain text; returns status. */
int sl_review_refuse(struct sl_buf *out, int status, const char *text);

#endif
