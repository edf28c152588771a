/* Dispatch of the cluster seam to its implementation. */
#include "sluice/kube/cluster.h"

#include <stddef.h>

#include "sluice/base/mem.h"

struct sl_watch *sl_cluster_watch(struct sl_cluster *c, const struct sl_resource *resource,
                                  const struct sl_watch_options *options, sl_watch_fn fn, void *payload) {
    static const struct sl_watch_options none;
    SL_ASSERT(fn != NULL);
    return c->ops->watch(c, resource, options ? options : &none, fn, payload);
}

bool sl_watch_synced(const struct sl_watch *w) {
    return w->cluster->ops->watch_synced(w);
}
int64_t sl_watch_age_ms(const struct sl_watch *w) {
    return w->cluster->ops->watch_age_ms(w);
}
void sl_cluster_send(struct sl_cluster *c, const struct sl_request *request) {
    c->ops->send(c, request);
}
unsigned sl_cluster_pending(const struct sl_cluster *c, enum sl_lane lane) {
    return c->ops->pending(c, lane);
}
void sl_cluster_step(struct sl_cluster *c, int64_t timeout_ms) {
    c->ops->step(c, timeout_ms);
}
void sl_cluster_wakeup(struct sl_cluster *c) {
    c->ops->wakeup(c);
}
int64_t sl_cluster_wall_ms(const struct sl_cluster *c) {
    return c->ops->wall_ms(c);
}
int64_t sl_cluster_mono_ms(const struct sl_cluster *c) {
    return c->ops->mono_ms(c);
}

void sl_cluster_free(struct sl_cluster *c) {
    if (c)
        c->ops->free(c);
}
