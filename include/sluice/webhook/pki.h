/*
 * Making and checking certificates: P-256, SHA-256, PEM in memory. Pure apart from the random generator; the time is
 * passed in. Thread-safe.
 */
#ifndef SLUICE_WEBHOOK_PKI_H
#define SLUICE_WEBHOOK_PKI_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/base/err.h"

#define SL_PKI_CA_LIFE_MS      ((int64_t)3650 * 86400 * 1000)
#define SL_PKI_SERVING_LIFE_MS ((int64_t)365 * 86400 * 1000)
#define SL_PKI_BACKDATE_MS     ((int64_t)5 * 60 * 1000) /* notBefore lies this far back, for clocks that are late */

struct sl_pki_pair {
    char *cert_pem, *key_pem; /* owned */
};
#define SL_PKI_PAIR_INIT                                                                                               \
    { NULL, NULL }
void sl_pki_pair_done(struct sl_pki_pair *pair); /* the key is wiped */

/* A self-signed CA with a key of its own. Two CAs of one name are told apart by their key identifiers. */
SL_MUST int sl_pki_make_ca(const char *common_name, int64_t now_ms, int64_t life_ms, struct sl_pki_pair *ret,
                           struct sl_err *err);
/* A serving certificate for names (ended by NULL; at least one; DNS names or numeric addresses). Never outlives the CA.
 * SL_INVALID names a bad name or says that the CA is unusable. */
SL_MUST int sl_pki_make_serving(const struct sl_pki_pair *ca, const char *const *names, int64_t now_ms, int64_t life_ms,
                                struct sl_pki_pair *ret, struct sl_err *err);

struct sl_pki_info {
    int64_t not_before_ms, not_after_ms;
    bool ca;
    char serial[42]; /* hexadecimal */
};
/* Of the first certificate in the text. SL_INVALID when there is none. */
SL_MUST int sl_pki_info(const char *cert_pem, struct sl_pki_info *ret, struct sl_err *err);
/* SL_INVALID unless both can be read (an encrypted key cannot) and belong together. */
SL_MUST int sl_pki_check_pair(const char *cert_pem, const char *key_pem, struct sl_err *err);
/* SL_INVALID unless a client that trusts only ca_bundle_pem would accept the first certificate for name at that time
 * (name NULL: any). Further certificates in cert_pem are intermediates. */
SL_MUST int sl_pki_check_chain(const char *cert_pem, const char *ca_bundle_pem, const char *name, int64_t now_ms,
                               struct sl_err *err);

#endif
