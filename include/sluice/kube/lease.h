/* Leader election over a coordination.k8s.io/v1 Lease. Loop thread only. */
#ifndef SLUICE_KUBE_LEASE_H
#define SLUICE_KUBE_LEASE_H

#include "sluice/kube/cluster.h"

struct sl_lease;
struct sl_lease_options {
    const char *ns, *name, *identity;
    int64_t duration_ms, renew_deadline_ms, retry_ms; /* 15000, 10000, 2000 */
};
struct sl_lease *sl_lease_new(struct sl_cluster *c, const struct sl_lease_options *options);
/* Does what is due (acquire, renew); returns milliseconds until it wants to be called again. */
int64_t sl_lease_tick(struct sl_lease *l);
/* True only while the last successful renewal was sent less than renew_deadline_ms ago: with no news the lease counts
 * as lost before anybody else may take it. Ask right before every decision. */
bool sl_lease_held(const struct sl_lease *l);
/* Gives the lease up so that another replica need not wait (a last write is queued). */
void sl_lease_release(struct sl_lease *l);
void sl_lease_free(struct sl_lease *l);

#endif
