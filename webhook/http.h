/*
 * A listener: libmicrohttpd with our sockets, our certificates, and deadlines that the library does not have. Used by
 * the webhook server and by the probes. The library's threads call handle; a sweeper thread cuts connections that are
 * late.
 */
#ifndef SLUICE_WEBHOOK_HTTP_H
#define SLUICE_WEBHOOK_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <microhttpd.h>

#include "sluice/base/err.h"
#include "sluice/webhook/tls.h"

struct sl_http;

struct sl_http_options {
    const char *name; /* for the log; constant */
    const char *host; /* numeric; NULL: every address */
    uint16_t port;
    struct sl_tls *tls; /* NULL: plain */
    unsigned threads, max_connections;
    int request_timeout_ms, idle_timeout_ms;
    size_t request_size; /* bytes of state a request has; zeroed when a request begins */
    /* One call when the headers are complete (*len is 0), one for each piece of the body, one at the end of the body
     * (*len is 0): as the library does it. Sends the answer with sl_http_reply. Calls may come before sl_http_start has
     * returned, so h is given here. */
    enum MHD_Result (*handle)(struct sl_http *h, void *owner, void *request, struct MHD_Connection *c, const char *url,
                              const char *method, const char *data, size_t *len);
    /* After each request that began, answered or not. status: 408 when it was late and has just been told so, else 0.
     * May be NULL. */
    void (*finished)(void *owner, void *request, int status);
    void *owner;
};

SL_MUST int sl_http_start(const struct sl_http_options *options, struct sl_http **ret, struct sl_err *err);
void sl_http_stop(struct sl_http *h);
uint16_t sl_http_port(const struct sl_http *h);
unsigned sl_http_in_flight(const struct sl_http *h);
unsigned sl_http_connections(const struct sl_http *h);
void sl_http_close_after_reply(struct sl_http *h); /* from now on every answer ends its connection */

struct sl_http_answer {
    int status;
    const char *type; /* Content-Type; constant */
    char *data;       /* taken, free() */
    size_t len;
    const char *allow; /* Allow header, or NULL */
    bool retry, close; /* Retry-After: 1; Connection: close */
};
enum MHD_Result sl_http_reply(struct sl_http *h, struct MHD_Connection *c, const struct sl_http_answer *answer);
/* Plain text of one line. */
enum MHD_Result sl_http_reply_text(struct sl_http *h, struct MHD_Connection *c, int status, const char *text,
                                   bool close);

/* What the library lets pass and we do not: NULL when the request is well framed, otherwise what is wrong (constant).
 * *ret_length: declared length of the body, 0 when there is none, SIZE_MAX when it is chunked. *ret_json: whether the
 * Content-Type is JSON without an encoding. */
const char *sl_http_check_framing(struct MHD_Connection *c, size_t *ret_length, bool *ret_json);

#endif
