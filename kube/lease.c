/*
 * Leader election. Of the Lease we believe only what the server stored: every write carries the resourceVersion it was
 * based on, so of two replicas that try at once one gets a conflict. Clocks of different machines are never compared: a
 * rival's lease counts as expired when its resourceVersion has not changed for its duration on our own monotonic clock.
 * Our own counts from the moment a renewal was sent.
 *
 *   tick -> GET -> (absent) CREATE, (free, ours or expired) PATCH, (held by another) wait
 *   tick while we have it -> PATCH with the resourceVersion of our last write
 */
#include "sluice/kube/lease.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/clock.h"
#include "sluice/base/mem.h"

struct sl_lease {
    struct sl_cluster *cluster;
    char *ns, *name, *identity;
    int64_t duration_ms, renew_deadline_ms, retry_ms;
    char *rv;           /* of what we saw or wrote last; NULL: unknown */
    char *holder;       /* in that version */
    int64_t changed_ms; /* when we first saw that version */
    int64_t rival_ms;   /* duration that version claims */
    int64_t
        rival_until; /* until then a rival may believe to have it, even when the Lease is gone; INT64_MIN: no rival */
    int64_t transitions;
    int64_t tried_ms;   /* start of the last round; INT64_MIN: none yet */
    int64_t sent_ms;    /* of the write under way */
    int64_t renewed_ms; /* sending time of the last write that succeeded */
    bool ours;          /* the last thing we know is that the lease is ours */
    bool stale;         /* a write's outcome is unknown: rv is not what to base the next write on */
    bool busy, releasing, released, freed;
};

static const struct sl_resource leases = {"coordination.k8s.io", "v1", "leases", "Lease", true};

static int64_t now_ms(const struct sl_lease *l) {
    return sl_cluster_mono_ms(l->cluster);
}

struct sl_lease *sl_lease_new(struct sl_cluster *c, const struct sl_lease_options *o) {
    struct sl_lease *l = sl_xalloc(sizeof *l);
    SL_ASSERT(o->ns && o->name && o->identity && *o->identity);
    SL_ASSERT(o->retry_ms > 0 && o->renew_deadline_ms > o->retry_ms && o->duration_ms > o->renew_deadline_ms);
    l->cluster = c;
    l->ns = sl_xstrdup(o->ns);
    l->name = sl_xstrdup(o->name);
    l->identity = sl_xstrdup(o->identity);
    l->duration_ms = o->duration_ms;
    l->renew_deadline_ms = o->renew_deadline_ms;
    l->retry_ms = o->retry_ms;
    l->tried_ms = l->rival_until = INT64_MIN;
    return l;
}

static void destroy(struct sl_lease *l) {
    free(l->ns);
    free(l->name);
    free(l->identity);
    free(l->rv);
    free(l->holder);
    free(l);
}

void sl_lease_free(struct sl_lease *l) {
    if (!l)
        return;
    l->freed = true; /* a reply that is still to come frees it */
    if (!l->busy)
        destroy(l);
}

static void send(struct sl_lease *l, enum sl_verb verb, struct sl_json *take_body, sl_reply_fn done) {
    struct sl_request q = {.verb = verb,
                           .resource = &leases,
                           .ns = l->ns,
                           .name = verb == SL_CREATE ? NULL : l->name,
                           .body = take_body,
                           .lane = SL_LANE_LEASE,
                           .done = done,
                           .payload = l};
    l->busy = true;
    sl_cluster_send(l->cluster, &q);
}

/* Remembers a version of the Lease. */
static void see(struct sl_lease *l, const struct sl_json *lease) {
    const char *rv = sl_json_path_str(lease, "metadata.resourceVersion", "");
    const struct sl_json *spec = sl_json_get(lease, "spec");
    if (!l->rv || strcmp(l->rv, rv))
        l->changed_ms = now_ms(l);
    free(l->rv);
    l->stale = false;
    l->rv = *rv ? sl_xstrdup(rv) : NULL;
    free(l->holder);
    l->holder = sl_xstrdup(sl_json_get_str(spec, "holderIdentity", ""));
    l->transitions = sl_json_get_int(spec, "leaseTransitions", 0);
    int64_t seconds = sl_json_get_int(spec, "leaseDurationSeconds", 0);
    l->rival_ms = seconds > 0 && seconds < 86400 ? seconds * 1000 : l->duration_ms;
    l->rival_until = *l->holder && strcmp(l->holder, l->identity) ? l->changed_ms + l->rival_ms : INT64_MIN;
}

static void forget(struct sl_lease *l) {
    free(SL_TAKE(l->rv));
    free(SL_TAKE(l->holder));
}

static void write_lease(struct sl_lease *l, bool give_up);

/* True when l is no more. */
static bool settle(struct sl_lease *l, const struct sl_reply *reply) {
    l->busy = false;
    if (l->freed) {
        destroy(l);
        return true;
    }
    return reply->code == SL_CANCELLED;
}

static void release_now(struct sl_lease *l) {
    l->releasing = false;
    l->released = true;
    bool was_ours = l->ours && l->rv && !l->stale;
    l->ours = false;
    if (was_ours)
        write_lease(l, true);
}

static void on_written(void *payload, const struct sl_reply *reply) {
    struct sl_lease *l = payload;
    if (settle(l, reply))
        return;
    if (reply->code || !reply->object) {
        /* Lost to another, or nobody knows: look before the next attempt. Until the deadline of the last success it is
         * still ours, unless the server said that somebody wrote or deleted it. */
        if ((reply->code == SL_CONFLICT || reply->code == SL_NOT_FOUND) && !reply->unknown)
            l->ours = false;
        l->stale = true;
    } else {
        see(l, reply->object);
        l->ours = !l->released && !strcmp(l->holder, l->identity);
        l->renewed_ms = l->sent_ms;
    }
    if (l->releasing)
        release_now(l);
}

static void write_lease(struct sl_lease *l, bool give_up) {
    char now[SL_TIME_TEXT];
    bool taken_over = !l->holder || strcmp(l->holder, l->identity) != 0;
    struct sl_json *body = sl_json_new_object(), *meta = sl_json_make_object(body, "metadata"),
                   *spec = sl_json_make_object(body, "spec");
    sl_time_format_micro(sl_cluster_wall_ms(l->cluster), now);
    sl_json_set_str(spec, "holderIdentity", give_up ? "" : l->identity);
    sl_json_set_int(spec, "leaseDurationSeconds", give_up ? 1 : (l->duration_ms + 999) / 1000);
    sl_json_set_str(spec, "renewTime", now);
    if (taken_over && !give_up) {
        sl_json_set_str(spec, "acquireTime", now);
        sl_json_set_int(spec, "leaseTransitions", l->rv ? l->transitions + 1 : 0);
    }
    if (l->rv)
        sl_json_set_str(meta, "resourceVersion", l->rv);
    else
        sl_json_set_str(meta, "name", l->name);
    l->sent_ms = now_ms(l);
    send(l, l->rv ? SL_MERGE_PATCH : SL_CREATE, body, on_written);
}

static bool may_take(const struct sl_lease *l) {
    return now_ms(l) >= l->rival_until;
}

static void on_read(void *payload, const struct sl_reply *reply) {
    struct sl_lease *l = payload;
    if (settle(l, reply))
        return;
    if (reply->code == 0 && reply->object) {
        see(l, reply->object);
        if (strcmp(l->holder, l->identity))
            l->ours = false;
        if (!l->releasing && may_take(l))
            write_lease(l, false);
    } else if (reply->code == SL_NOT_FOUND) {
        forget(l);
        l->ours = false;
        if (!l->releasing && now_ms(l) >= l->rival_until)
            write_lease(l, false);
    }
    if (l->releasing && !l->busy)
        release_now(l);
}

static int64_t due_in(const struct sl_lease *l) {
    if (l->tried_ms == INT64_MIN)
        return 0;
    int64_t now = now_ms(l), next = l->tried_ms + l->retry_ms;
    if (!l->ours && l->rival_until != INT64_MIN && l->rival_until < next)
        next = l->rival_until; /* a rival's lease runs out before our next look */
    if (next <= l->tried_ms)
        next = l->tried_ms + 1;
    return next > now ? next - now : 0;
}

int64_t sl_lease_tick(struct sl_lease *l) {
    if (l->released || l->busy)
        return l->retry_ms;
    int64_t wait = due_in(l);
    if (wait > 0)
        return wait;
    l->tried_ms = now_ms(l);
    if (l->ours && l->rv && !l->stale)
        write_lease(l, false);
    else
        send(l, SL_GET, NULL, on_read);
    return l->retry_ms;
}

bool sl_lease_held(const struct sl_lease *l) {
    return l->ours && !l->released && !l->releasing && now_ms(l) - l->renewed_ms < l->renew_deadline_ms;
}

void sl_lease_release(struct sl_lease *l) {
    if (l->released || l->releasing)
        return;
    if (l->busy)
        l->releasing = true;
    else
        release_now(l);
}
