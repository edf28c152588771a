/* A manager over a cluster in memory, for simulate, explain and the simulation tests. */
#ifndef SLUICE_CMD_SIMULATE_H
#define SLUICE_CMD_SIMULATE_H

#include "sluice/cmd/manager.h"

struct simulation {
    struct sl_cluster *cluster;
    struct manager *manager;
    const struct sl_config *config; /* borrowed */
    int64_t start_ms;               /* virtual wall time at which it began */
    int64_t end_ms;                 /* no time passes beyond; 0: none such */
};
/* The webhooks of the chart are in the way of every write but the manager's own. run_ms: how long pods of a Job run, 0
 * for ever. */
SL_MUST int simulation_init(struct simulation *s, const struct sl_config *config, int64_t run_ms, struct sl_err *err);
void simulation_done(struct simulation *s);
/* Whether a manifest is of a kind that has nothing to do with queues and jobs (a ConfigMap, a Deployment): a folder may
 * hold such too, and a simulation passes them over. */
bool simulation_foreign(const struct sl_json *object);
/* Creates an object as kubectl would (namespaces come into being as needed; v1beta1 is converted). Errors carry the
 * refusal. */
SL_MUST int simulation_create(struct simulation *s, const struct sl_json *object, struct sl_json **ret_warnings,
                              struct sl_err *err);
/* Until nothing happens without time passing, or the end has come; false: never. */
bool simulation_settle(struct simulation *s);
bool simulation_over(const struct simulation *s);                     /* the end has come */
bool simulation_advance(struct simulation *s, int64_t until_wall_ms); /* the same up to that virtual time */
int64_t simulation_next(struct simulation *s); /* virtual time of the next thing that will happen by itself, or -1 */

#endif
