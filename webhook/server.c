/*
 * The webhook server. The state of a request, in the order of the library's calls:
 *
 *   headers  framing wrong, or a body past what we would read anyway: answer at once, which ends the connection
 *            refused otherwise (path, method, type, size): keep the verdict, let the body run through, then answer, so
 * that the client gets to read the answer and the connection lives on body     append within the limit of the route and
 * of all requests together; past either: drop what there is, keep the verdict end      answer: the verdict, or what the
 * handler says
 */
#include "sluice/webhook/server.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http.h"
#include "route.h"
#include "sluice/base/clock.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"

#define MAX_THREADS 16
/* A refused body is read to its end up to here: clients seldom read an answer while they send. */
#define DRAIN_BYTES ((size_t)32 << 20)
/* The tree of a review this large is tens of MiB, which the allocator would keep for ever. */
#define TRIM_BYTES ((size_t)512 << 10)

/* Bytes of bodies held now, for all requests of one kind together. */
struct pool {
    size_t limit;
    atomic_size_t used;
};

struct sl_server {
    struct sl_server_options o;
    struct sl_routes routes;
    struct pool reviews, conversions;
    struct sl_http *http;
};

struct request {
    bool begun, answered;
    const struct sl_route *route;
    struct pool *pool;
    struct sl_buf body;
    size_t seen; /* bytes of body that came */
    int verdict; /* HTTP status decided before the end; 0: none */
    const char *why;
};

static bool take(struct pool *p, size_t bytes) {
    size_t before = atomic_fetch_add(&p->used, bytes);
    if (before + bytes <= p->limit)
        return true;
    atomic_fetch_sub(&p->used, bytes);
    return false;
}

static void drop_body(struct request *r) {
    if (r->pool)
        atomic_fetch_sub(&r->pool->used, r->body.len);
    sl_buf_done(&r->body);
}

static const char *path_label(const struct request *r) {
    return r->route ? r->route->path : "other";
}

static void count(const struct request *r, int status) {
    char code[12];
    snprintf(code, sizeof code, "%d", status);
    sl_metric_add(SL_M_SLUICE_WEBHOOK_REQUESTS_TOTAL, 1, SL_LABELS(path_label(r), code));
}

static enum MHD_Result answer(struct sl_http *h, struct request *r, struct MHD_Connection *c,
                              const struct sl_http_answer *a) {
    r->answered = true;
    count(r, a->status);
    return sl_http_reply(h, c, a);
}

static enum MHD_Result answer_text(struct sl_http *h, struct request *r, struct MHD_Connection *c, int status,
                                   const char *why) {
    char *line = sl_xprintf("%s\n", why);
    return answer(h, r, c,
                  &(struct sl_http_answer){.status = status,
                                           .type = "text/plain; charset=utf-8",
                                           .data = line,
                                           .len = strlen(line),
                                           .allow = status == 405 ? "POST" : NULL,
                                           .retry = status == 503});
}

static void refuse(struct request *r, int status, const char *why) {
    drop_body(r);
    r->verdict = status;
    r->why = why;
}

static enum MHD_Result begin(struct sl_server *s, struct sl_http *h, struct request *r, struct MHD_Connection *c,
                             const char *url, const char *method) {
    r->begun = true;
    size_t declared = 0;
    bool json = false;
    const char *wrong = sl_http_check_framing(c, &declared, &json);
    if (wrong)
        return answer_text(h, r, c, 400, wrong);
    r->route = sl_routes_find(&s->routes, url);
    if (!r->route) {
        refuse(r, 404, "no such path");
    } else if (strcmp(method, "POST") != 0) {
        refuse(r, 405, "only POST");
    } else if (!json) {
        refuse(r, 415, "Content-Type must be application/json");
    } else {
        bool review = r->route->kind == SL_ROUTE_REVIEW;
        size_t limit = review ? s->o.max_review_bytes : s->o.max_conversion_bytes;
        r->pool = review ? &s->reviews : &s->conversions;
        r->body = (struct sl_buf)SL_BUF_INIT(limit);
        if (declared != SIZE_MAX && declared > limit)
            refuse(r, 413, "the review is too large");
    }
    if (r->verdict && declared != SIZE_MAX && declared > DRAIN_BYTES)
        return answer_text(h, r, c, r->verdict, r->why);
    return MHD_YES;
}

static enum MHD_Result collect(struct request *r, const char *data, size_t *len) {
    size_t n = *len;
    r->seen += n;
    if (!r->verdict) {
        if (n > r->body.max - r->body.len) {
            refuse(r, 413, "the review is too large");
        } else if (!take(r->pool, n)) {
            refuse(r, 503, "too many reviews at once");
        } else {
            size_t before = r->body.len;
            sl_buf_add(&r->body, data, n);
            if (r->body.len == before) { /* out of memory */
                atomic_fetch_sub(&r->pool->used, n);
                refuse(r, 503, "too many reviews at once");
            }
        }
    }
    if (r->verdict && r->seen > DRAIN_BYTES)
        return MHD_NO;
    *len = 0;
    return MHD_YES;
}

static int run(struct sl_server *s, struct request *r, struct sl_buf *out) {
    bool denied = false;
    if (r->route->kind == SL_ROUTE_CONVERT)
        return sl_conversion_handle(r->route->convert, sl_buf_text(&r->body), r->body.len, s->o.max_conversion_bytes,
                                    out, NULL);
    const void *snapshot = s->o.acquire ? s->o.acquire(s->o.payload) : NULL;
    if (s->o.acquire && !snapshot) {
        sl_buf_puts(out, "not ready: the cluster's state is not known yet\n");
        return 503;
    }
    int status = sl_review_handle(r->route->review, snapshot, sl_buf_text(&r->body), r->body.len, out, &denied);
    if (s->o.acquire && s->o.release)
        s->o.release(s->o.payload, snapshot);
    if (denied)
        sl_metric_add(SL_M_SLUICE_WEBHOOK_DENIALS_TOTAL, 1, SL_LABELS(r->route->path));
    return status;
}

static double seconds_between(const struct timespec *from, const struct timespec *to) {
    return (double)(to->tv_sec - from->tv_sec) + (double)(to->tv_nsec - from->tv_nsec) / 1e9;
}

static enum MHD_Result finish(struct sl_server *s, struct sl_http *h, struct request *r, struct MHD_Connection *c) {
    if (r->verdict)
        return answer_text(h, r, c, r->verdict, r->why);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    struct sl_buf out = SL_BUF_INIT(2 * SL_REVIEW_MAX_BYTES);
    int status = run(s, r, &out);
    bool large = r->body.len >= TRIM_BYTES;
    drop_body(r);
    if (large)
        malloc_trim(0);
    size_t len = out.len;
    char *data = sl_buf_take(&out);
    if (!data) {
        sl_buf_done(&out);
        return answer_text(h, r, c, 500, "the answer is too large");
    }
    enum MHD_Result result =
        answer(h, r, c,
               &(struct sl_http_answer){.status = status,
                                        .type = status == 200 ? "application/json" : "text/plain; charset=utf-8",
                                        .data = data,
                                        .len = len,
                                        .retry = status == 503});
    clock_gettime(CLOCK_MONOTONIC, &to);
    sl_metric_observe(SL_M_SLUICE_WEBHOOK_SECONDS, seconds_between(&from, &to), SL_LABELS(r->route->path));
    return result;
}

static enum MHD_Result on_request(struct sl_http *h, void *owner, void *state, struct MHD_Connection *c,
                                  const char *url, const char *method, const char *data, size_t *len) {
    struct sl_server *s = owner;
    struct request *r = state;
    if (!r->begun)
        return begin(s, h, r, c, url, method);
    if (*len)
        return collect(r, data, len);
    return finish(s, h, r, c);
}

static void on_finished(void *owner, void *state, int status) {
    (void)owner;
    struct request *r = state;
    if (!r->answered)
        count(r, status); /* 0: cut off, by us or by the client */
    drop_body(r);
}

/* ---- lifecycle ---- */

static void set_defaults(struct sl_server_options *o) {
    o->threads = o->threads ? o->threads : 2;
    o->max_connections = o->max_connections ? o->max_connections : 1000;
    o->max_review_bytes = o->max_review_bytes ? o->max_review_bytes : SL_REVIEW_MAX_BYTES;
    o->max_conversion_bytes = o->max_conversion_bytes ? o->max_conversion_bytes : SL_CONVERSION_MAX_BYTES;
    o->max_review_bytes_in_flight = o->max_review_bytes_in_flight ? o->max_review_bytes_in_flight : (size_t)64 << 20;
    o->max_convert_bytes_in_flight =
        o->max_convert_bytes_in_flight ? o->max_convert_bytes_in_flight : o->max_conversion_bytes;
    o->request_timeout_ms = o->request_timeout_ms > 0 ? o->request_timeout_ms : 10000;
    o->idle_timeout_ms = o->idle_timeout_ms > 0 ? o->idle_timeout_ms : 180000;
}

int sl_server_start(const struct sl_server_options *options, struct sl_server **ret, struct sl_err *err) {
    if (options->threads > MAX_THREADS)
        return sl_err_set(err, SL_INVALID, "at most %d webhook threads", MAX_THREADS);
    struct sl_server *s = sl_xalloc(sizeof *s);
    s->o = *options;
    set_defaults(&s->o);
    s->reviews.limit = s->o.max_review_bytes_in_flight;
    s->conversions.limit = s->o.max_convert_bytes_in_flight;
    int rc = sl_routes_init(&s->routes, s->o.routes, s->o.route_count, err);
    if (!rc) {
        struct sl_http_options o = {.name = "webhook",
                                    .host = s->o.host,
                                    .port = s->o.port,
                                    .tls = s->o.tls,
                                    .threads = s->o.threads,
                                    .max_connections = s->o.max_connections,
                                    .request_timeout_ms = s->o.request_timeout_ms,
                                    .idle_timeout_ms = s->o.idle_timeout_ms,
                                    .request_size = sizeof(struct request),
                                    .handle = on_request,
                                    .finished = on_finished,
                                    .owner = s};
        rc = sl_http_start(&o, &s->http, err);
    }
    if (rc) {
        sl_routes_done(&s->routes);
        free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

uint16_t sl_server_port(const struct sl_server *s) {
    return sl_http_port(s->http);
}
unsigned sl_server_in_flight(const struct sl_server *s) {
    return sl_http_in_flight(s->http);
}
unsigned sl_server_connections(const struct sl_server *s) {
    return sl_http_connections(s->http);
}
size_t sl_server_body_bytes(const struct sl_server *s) {
    return atomic_load(&s->reviews.used) + atomic_load(&s->conversions.used);
}

void sl_server_drain_begin(struct sl_server *s) {
    sl_http_close_after_reply(s->http);
}

bool sl_server_drain(struct sl_server *s, int64_t min_ms, int64_t max_ms) {
    sl_server_drain_begin(s);
    int64_t start = sl_now_mono_ms();
    for (;;) {
        int64_t spent = sl_now_mono_ms() - start;
        unsigned left = sl_server_in_flight(s);
        if ((spent >= min_ms && !left) || spent >= max_ms) {
            if (left)
                SL_LOG(WARN, "webhook requests left at the end of the drain", SL_I64("count", left));
            return !left;
        }
        nanosleep(&(struct timespec){0, 10 * 1000000}, NULL);
    }
}

void sl_server_stop(struct sl_server *s) {
    if (!s)
        return;
    sl_http_stop(s->http);
    sl_routes_done(&s->routes);
    free(s);
}
