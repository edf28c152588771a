/* Health and metrics: a listener each, GET and HEAD only; bodies are not read. */
#include "sluice/webhook/probes.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"

#define MAX_CONNECTIONS    100
#define REQUEST_TIMEOUT_MS 5000
#define IDLE_TIMEOUT_MS    65000 /* Prometheus keeps its connection between scrapes */
#define MAX_PAGE           ((size_t)128 << 20)

struct sl_probes {
    struct sl_http *http;
    bool metrics; /* which of the two */
    struct sl_health_options health;
    struct sl_metrics_options page;
};

struct request {
    bool begun;
};

static enum MHD_Result probe(struct sl_probes *p, struct sl_http *h, struct MHD_Connection *c, sl_probe_fn fn) {
    char why[240] = "";
    if (!fn || fn(p->health.payload, why, sizeof why))
        return sl_http_reply_text(h, c, 200, "ok", false);
    return sl_http_reply_text(h, c, 503, *why ? why : "not well", false);
}

/* The token of "Authorization: Bearer TOKEN", NULL when there is none. */
static const char *bearer(struct MHD_Connection *c) {
    const char *value = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!value || strncasecmp(value, "Bearer ", 7) != 0)
        return NULL;
    value += 7;
    return value + strspn(value, " ");
}

static enum MHD_Result page(struct sl_probes *p, struct sl_http *h, struct MHD_Connection *c) {
    int status = p->page.authorize ? p->page.authorize(p->page.payload, bearer(c)) : 200;
    if (status != 200)
        return sl_http_reply_text(h, c, status,
                                  status == 401   ? "a valid bearer token is needed"
                                  : status == 403 ? "this user may not get the non-resource URL /metrics"
                                                  : "the API server did not say whether this user may read metrics",
                                  false);
    struct sl_buf out = SL_BUF_INIT(MAX_PAGE);
    sl_metrics_process();
    sl_metrics_expose(&out);
    size_t len = out.len;
    char *text = sl_buf_take(&out);
    if (!text) {
        sl_buf_done(&out);
        return sl_http_reply_text(h, c, 500, "the page is too large", false);
    }
    return sl_http_reply(
        h, c,
        &(struct sl_http_answer){
            .status = 200, .type = "text/plain; version=0.0.4; charset=utf-8", .data = text, .len = len});
}

static enum MHD_Result on_request(struct sl_http *h, void *owner, void *state, struct MHD_Connection *c,
                                  const char *url, const char *method, const char *data, size_t *len) {
    struct sl_probes *p = owner;
    struct request *r = state;
    (void)data;
    if (!r->begun) {
        r->begun = true;
        size_t length = 0;
        bool json;
        const char *wrong = sl_http_check_framing(c, &length, &json);
        if (wrong || length)
            return sl_http_reply_text(h, c, 400, wrong ? wrong : "no body is expected", true);
        return MHD_YES; /* answering now would end the connection */
    }
    if (*len)
        return MHD_NO;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        char *text = sl_xprintf("only GET\n");
        return sl_http_reply(h, c,
                             &(struct sl_http_answer){.status = 405,
                                                      .type = "text/plain; charset=utf-8",
                                                      .data = text,
                                                      .len = strlen(text),
                                                      .allow = "GET, HEAD"});
    }
    if (p->metrics && strcmp(url, "/metrics") == 0)
        return page(p, h, c);
    if (!p->metrics && strcmp(url, "/healthz") == 0)
        return probe(p, h, c, p->health.alive);
    if (!p->metrics && strcmp(url, "/readyz") == 0)
        return probe(p, h, c, p->health.ready);
    return sl_http_reply_text(h, c, 404, "no such path", false);
}

static int start(struct sl_probes *p, const char *name, const char *host, uint16_t port, struct sl_tls *tls,
                 struct sl_probes **ret, struct sl_err *err) {
    struct sl_http_options o = {.name = name,
                                .host = host,
                                .port = port,
                                .tls = tls,
                                .threads = 1,
                                .max_connections = MAX_CONNECTIONS,
                                .request_timeout_ms = REQUEST_TIMEOUT_MS,
                                .idle_timeout_ms = IDLE_TIMEOUT_MS,
                                .request_size = sizeof(struct request),
                                .handle = on_request,
                                .owner = p};
    int rc = sl_http_start(&o, &p->http, err);
    if (rc) {
        free(p);
        return rc;
    }
    *ret = p;
    return 0;
}

int sl_health_start(const struct sl_health_options *options, struct sl_probes **ret, struct sl_err *err) {
    struct sl_probes *p = sl_xalloc(sizeof *p);
    p->health = *options;
    return start(p, "health", options->host, options->port, NULL, ret, err);
}

int sl_metrics_start(const struct sl_metrics_options *options, struct sl_probes **ret, struct sl_err *err) {
    struct sl_probes *p = sl_xalloc(sizeof *p);
    p->metrics = true;
    p->page = *options;
    return start(p, "metrics", options->host, options->port, options->tls, ret, err);
}

uint16_t sl_probes_port(const struct sl_probes *p) {
    return sl_http_port(p->http);
}

void sl_probes_stop(struct sl_probes *p) {
    if (!p)
        return;
    sl_http_stop(p->http);
    free(p);
}
