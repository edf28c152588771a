/*
 * Keeps the webhook's certificates: the Secret they live in, the pair that is served, and the caBundle in the webhook
 * configurations and CRDs. What to do is decided by webhook/certs.h; this file reads and writes. Every replica runs
 * one; the Secret's resourceVersion makes them agree. Loop thread only.
 */
#ifndef SLUICE_CMD_CERTKEEPER_H
#define SLUICE_CMD_CERTKEEPER_H

#include "sluice/kube/cluster.h"
#include "sluice/webhook/tls.h"

struct certkeeper;
struct certkeeper_options {
    struct sl_cluster *cluster;
    struct sl_tls *tls;
    const char *ns, *service, *secret;
    const char *mutating, *validating; /* names of the webhook configurations; "" or NULL: none */
    const char *cert_dir;              /* given certificates: read only these files, write nothing; NULL: our own */
    int64_t ca_life_ms, serving_life_ms, publish_wait_ms; /* 0: 10 years, 1 year, 10 minutes */
};
struct certkeeper *certkeeper_new(const struct certkeeper_options *options);
void certkeeper_tick(struct certkeeper *k);        /* does what is due; cheap when nothing is */
bool certkeeper_ready(const struct certkeeper *k); /* a pair is being served, and its CA is published */
void certkeeper_free(struct certkeeper *k);

#endif
