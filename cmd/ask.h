/* One question to the API server, for verbs that have nothing else to do meanwhile. */
#ifndef SLUICE_CMD_ASK_H
#define SLUICE_CMD_ASK_H

#include "sluice/kube/cluster.h"

/* Sends a reading request and waits for its answer, until answer_by (monotonic ms) at the latest. 0 and the object
 * (owned), or what the reply says; SL_TIMEOUT when none came. done and payload of the request are set here. */
SL_MUST int ask_cluster(struct sl_cluster *c, struct sl_request request, int64_t answer_by, struct sl_json **ret,
                        struct sl_err *err);

#endif
