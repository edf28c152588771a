/* What status shows besides ClusterQueues. */
#include "manager.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

static void say_active(const struct manager *m, const struct object *o, struct sl_json *q) {
    struct sl_queue_view cq;
    sl_engine_clusterqueue_view(m->engine, o->lq->cq, &cq);
    const char *reason = localqueue_reason(o, &cq);
    if (!strcmp(reason, SL_LOCALQUEUE_READY))
        sl_json_set_str(q, "active", "yes");
    else if (o->lq->stop == SL_STOP_NONE && cq.exists)
        sl_json_set(q, "active", sl_json_new_strf("%s (%s)", reason, cq.inactive_reason));
    else
        sl_json_set_str(q, "active", reason);
    sl_queue_view_done(&cq);
}

struct sl_json *sl_manager_local_queues(const struct manager *m) {
    struct sl_json *list = sl_json_new_array();
    SL_AUTO_FREE const char **names = sl_map_sorted_keys(&m->lqs);
    for (size_t i = 0; i < m->lqs.count; i++) {
        const struct object *o = sl_map_get(&m->lqs, names[i]);
        struct sl_queue_view v;
        sl_engine_localqueue_view(m->engine, o->ns, o->name, &v);
        struct sl_json *q = sl_json_new_object();
        sl_json_set_str(q, "namespace", o->ns);
        sl_json_set_str(q, "name", o->name);
        sl_json_set_str(q, "clusterQueue", o->lq->cq);
        say_active(m, o, q);
        sl_json_set_int(q, "pending", v.pending_active + v.pending_inadmissible);
        sl_json_set_int(q, "reserving", v.reserving);
        sl_json_set_int(q, "admitted", v.admitted);
        sl_json_append(list, q);
        sl_queue_view_done(&v);
    }
    return list;
}
