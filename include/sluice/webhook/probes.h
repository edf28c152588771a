/*
 * The two small GET servers beside the webhook: health (/healthz, /readyz; plain HTTP, for the kubelet) and metrics
 * (/metrics, HTTPS with the serving certificate or plain; with or without a bearer token). One thread each, few
 * connections, short timeouts.
 */
#ifndef SLUICE_WEBHOOK_PROBES_H
#define SLUICE_WEBHOOK_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/base/err.h"
#include "sluice/webhook/tls.h"

struct sl_probes;

/* true: well. Otherwise why (size bytes, always ended) gets one line that goes into the 503 answer. Called on the probe
 * thread; must not block. */
typedef bool (*sl_probe_fn)(void *payload, char *why, size_t size);

struct sl_health_options {
    const char *host;  /* numeric; NULL: every address */
    uint16_t port;     /* 0: the kernel's choice */
    sl_probe_fn alive; /* /healthz; NULL: always well */
    sl_probe_fn ready; /* /readyz; NULL: always well */
    void *payload;
};
SL_MUST int sl_health_start(const struct sl_health_options *options, struct sl_probes **ret, struct sl_err *err);

struct sl_metrics_options {
    const char *host;
    uint16_t port;
    struct sl_tls *tls; /* NULL: plain HTTP */
    /* Whether the bearer token that came with a request may read the page; token NULL: none came. The HTTP status: 200,
     * 401, 403 or 503. May block for less than 5 s. Called on the metrics thread. NULL: everybody may. */
    int (*authorize)(void *payload, const char *token);
    void *payload;
};
SL_MUST int sl_metrics_start(const struct sl_metrics_options *options, struct sl_probes **ret, struct sl_err *err);

uint16_t sl_probes_port(const struct sl_probes *p);
void sl_probes_stop(struct sl_probes *p); /* NULL is fine */

#endif
