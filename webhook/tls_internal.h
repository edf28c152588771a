/* What the listeners need of tls.c: counted references to one generation of the serving certificate. */
#ifndef SLUICE_WEBHOOK_TLS_INTERNAL_H
#define SLUICE_WEBHOOK_TLS_INTERNAL_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "sluice/webhook/tls.h"

struct sl_tls_generation;

struct sl_tls_generation *sl_tls_generation_ref(struct sl_tls *tls); /* the newest; NULL when there is none yet */
void sl_tls_generation_unref(struct sl_tls *tls, struct sl_tls_generation *g);
/* Borrowed for as long as the reference is held. */
void sl_tls_generation_give(struct sl_tls_generation *g, gnutls_pcert_st **ret_certs, unsigned *ret_count,
                            gnutls_privkey_t *ret_key);

#endif
