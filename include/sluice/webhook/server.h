/*
 * The HTTPS server for reviews. It checks the request, collects the body within bounds, calls the route's handler on
 * one of its threads with a snapshot, and sends the answer. Handlers never block. Start it with SIGPIPE ignored (it
 * sees to that itself).
 *
 * Bounds: bytes of bodies held at any time, connections, headers of 16 KiB, time for a whole request, time idle.
 * Answers besides 200 are plain text: 400 malformed (framing, missing Host, review), 404 path, 405 method, 413 size,
 * 415 content type, 503 with Retry-After (no snapshot yet, or too many bytes in flight), 408 past the time of a
 * request, which ends the connection; who sends headers that late is cut off three seconds later.
 */
#ifndef SLUICE_WEBHOOK_SERVER_H
#define SLUICE_WEBHOOK_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/base/err.h"
#include "sluice/webhook/review.h"
#include "sluice/webhook/tls.h"

enum sl_route_kind { SL_ROUTE_REVIEW, SL_ROUTE_CONVERT };

/* One row of the route table. Only POST. A query in the URL (the API server adds ?timeout=) does not count. */
struct sl_route {
    const char *path; /* exact, e.g. "/mutate-batch-v1-job" */
    enum sl_route_kind kind;
    sl_review_fn review;   /* SL_ROUTE_REVIEW */
    sl_convert_fn convert; /* SL_ROUTE_CONVERT; gets no snapshot */
};

/* Zero means the default in brackets. */
struct sl_server_options {
    const char *host;              /* numeric address; NULL: every address, IPv6 and IPv4 */
    uint16_t port;                 /* 0: one the kernel picks, see sl_server_port */
    struct sl_tls *tls;            /* NULL: plain HTTP, for tests only */
    const struct sl_route *routes; /* borrowed until stop */
    size_t route_count;
    /* Snapshot for reviews: acquire is called on a server thread right before the handler, release right after. acquire
     * NULL: handlers get NULL. When acquire gives NULL, nothing is known yet and the review is answered with 503. */
    const void *(*acquire)(void *payload);
    void (*release)(void *payload, const void *snapshot);
    void *payload;
    unsigned threads;                   /* [2] 1 to 16 */
    unsigned max_connections;           /* [1000] shared out among the threads */
    size_t max_review_bytes;            /* [SL_REVIEW_MAX_BYTES] */
    size_t max_conversion_bytes;        /* [SL_CONVERSION_MAX_BYTES] */
    size_t max_review_bytes_in_flight;  /* [64 MiB] over all requests */
    size_t max_convert_bytes_in_flight; /* [max_conversion_bytes] over all requests */
    int request_timeout_ms; /* [10000] from the first line of a request, or from connecting, until the body is complete
                             */
    int idle_timeout_ms;    /* [180000] between requests; above the 90 s of the API server's client, so that it closes
                               first */
};

struct sl_server;

/* SL_IO when the port cannot be had, SL_INVALID for a bad address or route table. */
SL_MUST int sl_server_start(const struct sl_server_options *options, struct sl_server **ret, struct sl_err *err);
uint16_t sl_server_port(const struct sl_server *s);
unsigned sl_server_in_flight(const struct sl_server *s);   /* requests begun and not answered completely */
unsigned sl_server_connections(const struct sl_server *s); /* open now */
size_t sl_server_body_bytes(const struct sl_server *s);    /* held now */
/*
 * Shutdown, in this order: make /readyz fail; sl_server_drain; sl_server_stop. Drain keeps accepting (the endpoints are
 * still in use by API servers), closes each connection after its next answer, and returns when min_ms have passed and
 * nothing is in flight, at the latest after max_ms. Blocks; true when nothing was left in flight. sl_server_drain_begin
 * does the first half without waiting.
 */
void sl_server_drain_begin(struct sl_server *s);
bool sl_server_drain(struct sl_server *s, int64_t min_ms, int64_t max_ms);
void sl_server_stop(struct sl_server *s); /* closes what is left, joins the threads, frees s; NULL is fine */

#endif
