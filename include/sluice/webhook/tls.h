/*
 * The serving certificate of one or more HTTPS listeners, replaceable while they run. A connection keeps the generation
 * it started with; new handshakes get the newest. Owned by the caller; must outlive the servers that use it.
 * Thread-safe.
 */
#ifndef SLUICE_WEBHOOK_TLS_H
#define SLUICE_WEBHOOK_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/base/err.h"

struct sl_tls;

struct sl_tls *sl_tls_new(void); /* without a certificate: handshakes fail until sl_tls_set */
void sl_tls_free(struct sl_tls *tls);
/* Installs a chain (leaf first) and its PKCS#8, SEC1 or PKCS#1 key. SL_INVALID, and the old pair stays, when either
 * cannot be read or they do not match. */
SL_MUST int sl_tls_set(struct sl_tls *tls, const char *cert_pem, const char *key_pem, struct sl_err *err);
bool sl_tls_ready(struct sl_tls *tls);
unsigned sl_tls_generation(struct sl_tls *tls); /* how often sl_tls_set succeeded */

#endif
