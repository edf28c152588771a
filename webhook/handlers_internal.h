/* What the handlers share. */
#ifndef SLUICE_WEBHOOK_HANDLERS_INTERNAL_H
#define SLUICE_WEBHOOK_HANDLERS_INTERNAL_H

#include "sluice/api/fielderr.h"
#include "sluice/webhook/handlers.h"

/* The operation is this one, on the object itself or its status. */
bool sl_request_is(const struct sl_json *request, const char *operation);
const char *sl_request_namespace(const struct sl_json *request); /* "" for cluster scope */
/* Nothing when there are no errors; a denial with all of them otherwise, 422 when a rule of a schema is among them. */
void sl_reply_errors(const struct sl_fielderrs *errors, struct sl_review_reply *reply);

#endif
