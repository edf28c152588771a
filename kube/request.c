/*
 * Requests. Each lane has a queue and a limit of requests under way; one that waits for its next attempt keeps its
 * place, which is how a struggling server slows a lane down. Requests on one object within a lane form a chain: the
 * first is in the queue or under way, the others hang behind it.
 *
 *   queued -> under way -> answered
 *               |  ^
 *               v  |  refused, 429, 503; or died under a repeatable request
 *             waiting (active, no transfer, retry_ms)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_internal.h"
#include "sluice/base/clock.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "status.h"

#define MAX_SERVER_ERRORS 5 /* attempts that end in 500, 502 or 504 */
#define MAX_LIST          ((size_t)64 << 20)

struct kube_request {
    struct kube_transfer t; /* first member */
    struct sl_request r;
    struct sl_buf path, body, reply;
    bool has_body;
    char *chain;
    struct kube_request *next, *behind; /* in the lane's queue; on the same object */
    int64_t queued_ms, deadline_ms, retry_ms;
    unsigned attempts, server_errors;
    bool ambiguous, was_401;
};

static bool is_read(const struct kube_request *q) {
    return q->r.verb == SL_GET || q->r.verb == SL_LIST;
}

static const char *verb_name(enum sl_verb v) {
    switch (v) {
    case SL_GET: return "get";
    case SL_LIST: return "list";
    case SL_CREATE: return "create";
    case SL_UPDATE: return "update";
    case SL_MERGE_PATCH:
    case SL_JSON_PATCH: return "patch";
    case SL_APPLY: return "apply";
    case SL_DELETE: return "delete";
    }
    return "";
}

/* Would doing it a second time do nothing else than doing it once, or be refused? */
static bool repeatable(const struct sl_request *r) {
    const char *rv = sl_json_path_str(r->body, "metadata.resourceVersion", "");
    switch (r->verb) {
    case SL_GET:
    case SL_LIST:
    case SL_APPLY: return true;
    case SL_CREATE:
        return *sl_json_path_str(r->body, "metadata.name", "") != 0; /* the second one is told that it exists */
    case SL_UPDATE:
    case SL_MERGE_PATCH: return *rv != 0;
    case SL_DELETE: return *sl_json_path_str(r->body, "preconditions.uid", "") != 0;
    case SL_JSON_PATCH:
        SL_JSON_ITEMS (r->body, e) {
            if (!strcmp(sl_json_get_str(e.value, "op", ""), "test") &&
                !strcmp(sl_json_get_str(e.value, "path", ""), "/metadata/resourceVersion"))
                return true;
        }
        return false;
    }
    return false;
}

static void request_free(struct kube_request *q) {
    kube_transfer_stop(&q->t);
    sl_buf_done(&q->path);
    sl_buf_done(&q->body);
    sl_buf_done(&q->reply);
    free(q->chain);
    free(q);
}

static void enqueue(struct kube_client *c, struct kube_request *q) {
    struct kube_lane *lane = &c->lanes[q->r.lane];
    q->next = NULL;
    if (lane->tail)
        lane->tail->next = q;
    else
        lane->head = q;
    lane->tail = q;
}

static void answer(struct kube_request *q, const struct sl_reply *reply) {
    const struct sl_resource *r = q->r.resource;
    if (!is_read(q) && reply->code != SL_CANCELLED) {
        char status[16];
        snprintf(status, sizeof status, "%d", reply->status);
        if (reply->code)
            sl_metric_add(SL_M_SLUICE_WRITE_ERRORS_TOTAL, 1, SL_LABELS(verb_name(q->r.verb), r->plural, status));
        else
            sl_metric_add(SL_M_SLUICE_WRITES_TOTAL, 1, SL_LABELS(verb_name(q->r.verb), r->plural));
    }
    if (q->r.done)
        q->r.done(q->r.payload, reply);
}

/* Takes q off the active ones, lets the next on the same object go, answers and frees. */
static void finish(struct kube_request *q, int code, bool unknown, const struct sl_json *object, const char *text) {
    struct kube_client *c = q->t.client;
    struct sl_reply reply = {code, q->t.status, unknown && !is_read(q), object, text};
    for (size_t i = 0; i < c->active_count; i++) {
        if (c->active[i] == q) {
            c->active[i] = c->active[--c->active_count];
            c->lanes[q->r.lane].active--;
            break;
        }
    }
    c->lanes[q->r.lane].pending--;
    if (q->chain) {
        sl_map_del(&c->chains, q->chain);
        if (q->behind) {
            sl_map_set(&c->chains, q->chain, q->behind);
            enqueue(c, q->behind);
        }
    }
    c->progress = true;
    answer(q, &reply);
    request_free(q);
}

static bool wait_and_repeat(struct kube_request *q, int64_t at_least_ms) {
    struct kube_client *c = q->t.client;
    int64_t wait = c->tuning.request_backoff_ms << (q->attempts < 6 ? q->attempts : 6), now = sl_now_mono_ms();
    wait += kube_random(c, wait);
    if (wait < at_least_ms)
        wait = at_least_ms;
    if (now + wait >= q->deadline_ms)
        return false;
    q->retry_ms = now + wait;
    return true;
}

static void lost(struct kube_request *q, CURLcode result) {
    struct kube_client *c = q->t.client;
    char text[CURL_ERROR_SIZE];
    snprintf(text, sizeof text, "%s", kube_transfer_error(&q->t, result));
    bool sent = q->t.sends > 0;
    q->ambiguous = q->ambiguous || sent;
    if (!sent && !c->down_since_ms)
        c->down_since_ms = sl_now_mono_ms();
    q->t.status = 0;
    kube_transfer_stop(&q->t);
    if ((!sent || q->t.repeatable) && wait_and_repeat(q, 0))
        return;
    finish(q, result == CURLE_OPERATION_TIMEDOUT && sent ? SL_TIMEOUT : SL_UNAVAILABLE, q->ambiguous, NULL, text);
}

static void succeeded(struct kube_request *q) {
    struct sl_json *object = NULL;
    struct sl_err err = SL_ERR_INIT;
    char *text = q->reply.len ? q->reply.data : NULL;
    int rc = text ? kube_parse(text, q->reply.len, 0, &object, &err) : sl_err_set(&err, SL_PROTOCOL, "empty answer");
    /* A write whose answer cannot be read has been done all the same. */
    finish(q, rc && is_read(q) ? SL_PROTOCOL : 0, false, object, rc ? err.text : "");
    sl_json_unref(object);
}

/* True when the answer asks for another attempt, which then is under way. */
static bool try_again(struct kube_request *q, int64_t retry_after_ms) {
    int status = q->t.status;
    if (status == 429 || status == 503)
        return wait_and_repeat(q, retry_after_ms);
    if (status == 401 &&
        !q->was_401) { /* the token may have been replaced in its file; files are read once a second at most */
        q->was_401 = true;
        return wait_and_repeat(q, 1000);
    }
    if (status == 500 || status == 502 || status == 504) {
        q->ambiguous = true;
        return q->t.repeatable && ++q->server_errors < MAX_SERVER_ERRORS && wait_and_repeat(q, retry_after_ms);
    }
    return false;
}

static void on_done(struct kube_transfer *t, CURLcode result) {
    struct kube_request *q = (struct kube_request *)(void *)t;
    if (t->sends > 1)
        q->ambiguous = true; /* libcurl repeated it on a fresh connection */
    if (q->reply.failed) {
        kube_transfer_stop(t);
        finish(q, SL_TOO_BIG, true, NULL, "answer is larger than the limit");
        return;
    }
    if (result) {
        lost(q, result);
        return;
    }
    t->client->down_since_ms = 0;
    int64_t retry_after = kube_transfer_retry_after_ms(t);
    kube_transfer_stop(t);
    if (t->status >= 200 && t->status < 300) {
        succeeded(q);
        return;
    }
    if (try_again(q, retry_after))
        return;
    struct sl_json *status = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (q->reply.len && kube_parse(q->reply.data, q->reply.len, 0, &status, &err))
        status = NULL; /* a proxy's page; the HTTP status says enough */
    char text[400];
    kube_status_text(t->status, status, text, sizeof text);
    /* After an attempt without an answer, "conflict" or "not found" may be the echo of our own success. */
    finish(q, kube_status_code(t->status, status), q->ambiguous, status, text);
    sl_json_unref(status);
}

static bool on_data(struct kube_transfer *t, const char *data, size_t len, bool *ret_pause) {
    struct kube_request *q = (struct kube_request *)(void *)t;
    (void)ret_pause;
    sl_buf_add(&q->reply, data, len);
    return !q->reply.failed;
}

static void attempt(struct kube_request *q, int64_t now) {
    static const char *const methods[] = {"GET", "GET", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE"};
    static const char *const types[] = {"",
                                        "",
                                        "application/json",
                                        "application/json",
                                        "application/merge-patch+json",
                                        "application/json-patch+json",
                                        "application/apply-patch+yaml",
                                        "application/json"};
    sl_buf_clear(&q->reply);
    q->attempts++;
    q->retry_ms = 0;
    int64_t left = q->deadline_ms - now;
    struct kube_call call = {.method = methods[q->r.verb],
                             .path = sl_buf_text(&q->path),
                             .content_type = types[q->r.verb],
                             .body = q->has_body ? sl_buf_text(&q->body) : NULL,
                             .body_len = q->body.len,
                             .timeout_ms = left > 1 ? left : 1};
    kube_transfer_start(q->t.client, &q->t, &call);
}

/* ---- queueing ---- */

static void build_path(struct kube_request *q) {
    const struct sl_request *r = &q->r;
    struct sl_buf *p = &q->path;
    kube_path(p, r->resource, r->ns, r->name, r->subresource);
    char mark = '?';
    if (r->query && *r->query) {
        sl_buf_printf(p, "?%s", r->query);
        mark = '&';
    }
    if (r->field_manager && *r->field_manager) {
        sl_buf_printf(p, "%cfieldManager=", mark);
        kube_escape(p, r->field_manager);
        mark = '&';
    }
    if (r->verb == SL_APPLY && r->force)
        sl_buf_printf(p, "%cforce=true", mark);
}

/* A server-side apply body must say what it is. */
static void identify(struct sl_json *body, const struct sl_request *r) {
    SL_AUTO_FREE char *version = *r->resource->group ? sl_xprintf("%s/%s", r->resource->group, r->resource->version)
                                                     : sl_xstrdup(r->resource->version);
    if (!sl_json_get(body, "apiVersion"))
        sl_json_set_str(body, "apiVersion", version);
    if (!sl_json_get(body, "kind"))
        sl_json_set_str(body, "kind", r->resource->kind);
    struct sl_json *meta = sl_json_make_object(body, "metadata");
    if (r->name && !sl_json_get(meta, "name"))
        sl_json_set_str(meta, "name", r->name);
}

static void refuse(struct kube_request *q, int code, const char *text) {
    q->t.client->lanes[q->r.lane].pending++;
    free(SL_TAKE(q->chain));
    finish(q, code, false, NULL, text);
}

void kube_request_send(struct sl_cluster *cluster, const struct sl_request *request) {
    struct kube_client *c = kube_client_of(cluster);
    struct kube_request *q = sl_xalloc(sizeof *q);
    q->t =
        (struct kube_transfer){.client = c, .on_data = on_data, .on_done = on_done, .repeatable = repeatable(request)};
    q->r = *request;
    q->path.max = 8192;
    q->body.max = KUBE_MAX_OBJECT;
    q->reply.max = request->verb == SL_LIST ? MAX_LIST : KUBE_MAX_OBJECT;
    q->queued_ms = sl_now_mono_ms();
    q->has_body = request->body != NULL;
    build_path(q);
    if (request->body) {
        if (request->verb == SL_APPLY || request->verb == SL_CREATE || request->verb == SL_UPDATE)
            identify(request->body, request);
        sl_json_dump(request->body, false, &q->body);
        sl_json_unref(request->body);
    }
    if (request->name)
        q->chain = sl_xprintf("%d\x01%s\x01%s\x01%s\x01%s", (int)request->lane, request->resource->group,
                              request->resource->plural, request->ns ? request->ns : "", request->name);
    /* what was borrowed from the caller is in path, body and chain now */
    q->r.body = NULL;
    q->r.ns = q->r.name = q->r.subresource = q->r.query = q->r.field_manager = NULL;
    if (c->closing || q->path.failed || q->body.failed) {
        refuse(q, c->closing ? SL_CANCELLED : SL_TOO_BIG,
               c->closing ? "the cluster was closed" : "request is larger than the limit");
        return;
    }
    c->lanes[q->r.lane].pending++;
    struct kube_request *head = q->chain ? sl_map_get(&c->chains, q->chain) : NULL;
    if (head) {
        while (head->behind)
            head = head->behind;
        head->behind = q;
        return;
    }
    if (q->chain)
        sl_map_set(&c->chains, q->chain, q);
    enqueue(c, q);
}

static void refill(struct kube_client *c, int64_t now) {
    int64_t full = (int64_t)c->burst * 1000;
    c->tokens_milli += (now - c->tokens_ms) * c->qps;
    c->tokens_ms = now;
    if (c->tokens_milli > full)
        c->tokens_milli = full;
}

static bool may_start(const struct kube_client *c, enum sl_lane lane) {
    const struct kube_lane *l = &c->lanes[lane];
    return l->head && l->active < l->limit && c->active_count < KUBE_MAX_ACTIVE &&
           (lane == SL_LANE_LEASE || c->tokens_milli >= 1000);
}

void kube_requests_run(struct kube_client *c, int64_t now) {
    refill(c, now);
    for (size_t i = 0; i < c->active_count; i++) {
        struct kube_request *q = c->active[i];
        if (!q->t.easy && now >= q->retry_ms)
            attempt(q, now);
    }
    for (int lane = 0; lane < SL_LANE__COUNT; lane++) {
        struct kube_lane *l = &c->lanes[lane];
        while (may_start(c, (enum sl_lane)lane)) {
            struct kube_request *q = l->head;
            l->head = q->next;
            if (!l->head)
                l->tail = NULL;
            /* A server that has been unreachable all the while this one waited will not answer it either: say so, so
             * that a long queue is not worked off one timeout after the other. */
            if (c->down_since_ms && now - q->queued_ms > c->tuning.request_ms) {
                finish(q, SL_UNAVAILABLE, false, NULL, "the API server is unreachable");
                continue;
            }
            if (lane != SL_LANE_LEASE)
                c->tokens_milli -= 1000;
            l->active++;
            c->active[c->active_count++] = q;
            /* A renewal that hangs must make way for the next one before the lease is lost. */
            q->deadline_ms = now + (lane == SL_LANE_LEASE ? c->tuning.lease_ms : c->tuning.request_ms);
            attempt(q, now);
        }
    }
}

int64_t kube_requests_next(const struct kube_client *c, int64_t now) {
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < c->active_count; i++) {
        if (!c->active[i]->t.easy && c->active[i]->retry_ms < next)
            next = c->active[i]->retry_ms;
    }
    for (int lane = 0; lane < SL_LANE__COUNT; lane++) {
        const struct kube_lane *l = &c->lanes[lane];
        if (may_start(c, (enum sl_lane)lane))
            return now;
        if (l->head && l->active < l->limit && c->active_count < KUBE_MAX_ACTIVE) { /* only a token is missing */
            int64_t at = now + (1000 - c->tokens_milli + c->qps - 1) / c->qps;
            next = at < next ? at : next;
        }
    }
    return next;
}

static void cancel(struct kube_request *q) {
    struct sl_reply reply = {SL_CANCELLED, 0, (q->ambiguous || (q->t.easy && q->t.sends)) && !is_read(q), NULL,
                             "the cluster was closed"};
    q->t.client->lanes[q->r.lane].pending--;
    answer(q, &reply);
    request_free(q);
}

static void cancel_chain(struct kube_request *q) {
    while (q) {
        struct kube_request *behind = q->behind;
        cancel(q);
        q = behind;
    }
}

void kube_requests_cancel(struct kube_client *c) {
    while (c->active_count)
        cancel_chain(c->active[--c->active_count]);
    for (int lane = 0; lane < SL_LANE__COUNT; lane++) {
        while (c->lanes[lane].head) {
            struct kube_request *q = c->lanes[lane].head;
            c->lanes[lane].head = q->next;
            cancel_chain(q);
        }
        c->lanes[lane].tail = NULL;
    }
}
