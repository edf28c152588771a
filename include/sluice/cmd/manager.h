/*
 * The manager: watches the cluster, keeps the engine fed, writes what it decides, starts and stops jobs. It runs over
 * any implementation of the cluster seam, so `sluice manager`, `sluice simulate` and the simulation tests are the same
 * code. One thread calls everything; only the snapshot box may be used from others (webhook threads).
 */
#ifndef SLUICE_CMD_MANAGER_H
#define SLUICE_CMD_MANAGER_H

#include "sluice/api/config.h"
#include "sluice/kube/cluster.h"
#include "sluice/quota/engine/engine.h"
#include "sluice/webhook/snapshot.h"

struct manager;

struct sl_manager_options {
    struct sl_cluster *cluster;     /* borrowed; outlives the manager */
    const struct sl_config *config; /* borrowed */
    const char *identity;           /* of this replica, for the lease and events */
    bool elect;           /* leader election; without it the manager leads as soon as it has seen everything */
    bool observe;         /* only watches: never leads, writes nothing */
    const char *data_dir; /* of the ledger; NULL: none */
    int64_t status_quiet_ms, status_max_ms; /* queue statuses are written this long after the last change, or at the
                                               latest this long after the first; 0: 500 and 5000 */
};
SL_MUST int sl_manager_new(const struct sl_manager_options *options, struct manager **ret, struct sl_err *err);
/* One turn: waits up to timeout_ms for events, then reconciles, decides and writes. */
void sl_manager_step(struct manager *m, int64_t timeout_ms);
bool sl_manager_synced(const struct manager *m); /* everything that exists has been seen once */
bool sl_manager_leading(const struct manager *m);
/* Nothing to do now: no work queued, no write under way, no status to publish. *ret_next_ms: wall time of the next
 * timer, or -1. */
bool sl_manager_idle(const struct manager *m, int64_t *ret_next_ms);
/* At shutdown: what the ledger still has to hear is committed, another replica may take over at once, and nothing is
 * decided any more; turns may go on, so that webhooks keep fresh snapshots. */
void sl_manager_retire(struct manager *m);
void sl_manager_free(struct manager *m); /* after its cluster was freed, which answers everything that is under way */
struct sl_snapshot_box *sl_manager_snapshots(struct manager *m);
const struct sl_engine *sl_manager_engine(const struct manager *m); /* for explanations */
/* A pass of an observer: the engine tries everything, and nothing is written. What would be admitted counts as holding
 * quota from then on. */
void sl_manager_consider(struct manager *m);

/* uid of the Workload of that name, or of the job named "job/NAME"; owned, NULL when there is none. */
char *sl_manager_find(const struct manager *m, const char *ns, const char *name);
/* Why the job of that name has no Workload, in words; owned, NULL when there is no such job. */
char *sl_manager_without_workload(const struct manager *m, const char *ns, const char *job);
/* Every ClusterQueue with its numbers:
 * [{"name","active","pending","reserving","admitted","quota":[{"flavor","resource","nominal","used","borrowed"}]}];
 * owned. */
struct sl_json *sl_manager_queues(const struct manager *m);
/* Every LocalQueue: [{"namespace","name","clusterQueue","active","pending","reserving","admitted"}]; active is "yes" or
 * why not; owned. */
struct sl_json *sl_manager_local_queues(const struct manager *m);

/* Differences between the books and the objects of the cluster (I4); 0 is right. Sets sluice_quota_drift. */
int64_t sl_manager_recount(struct manager *m);

#endif
