/*
 * The reviews: pure functions of (request, snapshot); the snapshot is a const struct sl_snapshot *
 * (webhook/snapshot.h).
 */
#ifndef SLUICE_WEBHOOK_HANDLERS_H
#define SLUICE_WEBHOOK_HANDLERS_H

#include "sluice/webhook/review.h"
#include "sluice/webhook/server.h"

void sl_mutate_job(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply);
void sl_validate_job(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply);
void sl_mutate_clusterqueue(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply);
void sl_validate_clusterqueue(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply);
void sl_mutate_resourceflavor(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply);
void sl_validate_resourceflavor(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply);
void sl_validate_cohort(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply);
void sl_mutate_workload(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply);
void sl_validate_workload(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply);

/* Route table with the paths of the webhook configurations and /convert; *ret_n rows, static. */
const struct sl_route *sl_handler_routes(size_t *ret_n);

#endif
