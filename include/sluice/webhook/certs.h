/*
 * Which certificates to serve, when to renew them, and which caBundle to publish. A pure state machine: the content of
 * the Secret and the time go in, the next step comes out. The caller writes the Secret with its resourceVersion
 * (another replica may have won: read and ask again) and patches the bundle into webhook configurations, CRDs and
 * APIServices.
 *
 *   step             when                                                 Secret afterwards                      bundle
 *   CREATE           nothing usable there                                 ca, tls                                ca
 *   RENEW_SERVING    tls missing, broken, past 2/3 of life, other names   tls new, signed by ca                  ca (+
 * next, old) PREPARE_CA       ca past 2/3 of life, or its key unusable             next added; still serving under ca
 * ca + next SWITCH_CA        bundle with next published and publish_wait over     ca = next, tls new, old = former ca
 * ca + old DROP_OLD_CA      last certificate of old has expired                  old removed ca KEEP             else
 * as it is                               what the Secret says
 */
#ifndef SLUICE_WEBHOOK_CERTS_H
#define SLUICE_WEBHOOK_CERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/base/err.h"
#include "sluice/base/json.h"

enum sl_cert_field {                     /* keys of the Secret's data; see sl_cert_field_key */
                     SL_CERT_CA_CRT,     /* ca.crt */
                     SL_CERT_CA_KEY,     /* ca.key */
                     SL_CERT_TLS_CRT,    /* tls.crt */
                     SL_CERT_TLS_KEY,    /* tls.key */
                     SL_CERT_NEXT_CRT,   /* ca-next.crt: published, not yet signing */
                     SL_CERT_NEXT_KEY,   /* ca-next.key */
                     SL_CERT_NEXT_SINCE, /* ca-next.since: RFC 3339, when it was made */
                     SL_CERT_OLD_CRT,    /* ca-old.crt: no longer signing, still published */
                     SL_CERT_OLD_UNTIL,  /* ca-old.until: RFC 3339, when its last certificate expires */
                     SL_CERT__COUNT
};
struct sl_certs_data {
    char *field[SL_CERT__COUNT]; /* owned; NULL: absent */
};
#define SL_CERTS_DATA_INIT                                                                                             \
    {                                                                                                                  \
        { NULL }                                                                                                       \
    }
void sl_certs_data_done(struct sl_certs_data *data); /* keys are wiped */
const char *sl_cert_field_key(enum sl_cert_field f);
/* From a Secret object (its `data`, base64). A field that cannot be decoded counts as absent. NULL secret: nothing. */
void sl_certs_data_from_secret(const struct sl_json *secret, struct sl_certs_data *ret);
/* The `data` member of the Secret to write (owned). */
struct sl_json *sl_certs_data_to_secret(const struct sl_certs_data *data);

struct sl_certs_policy {
    const char *ca_name;      /* common name of a new CA */
    const char *const *names; /* DNS names and addresses the certificate must have; ended by NULL */
    int64_t ca_life_ms, serving_life_ms;
    int64_t publish_wait_ms; /* from making a new CA until it may sign: long enough for every API server to have seen
                                the bundle */
};
/* <service>.<ns>.svc first, then with .<domain> and without .svc: owned array ended by NULL, release with
 * sl_certs_names_free. */
char **sl_certs_service_names(const char *service, const char *ns, const char *domain);
void sl_certs_names_free(char **names);
#define SL_CERTS_PUBLISH_WAIT_MS ((int64_t)10 * 60 * 1000)

enum sl_certs_step {
    SL_CERTS_KEEP,
    SL_CERTS_CREATE,
    SL_CERTS_RENEW_SERVING,
    SL_CERTS_PREPARE_CA,
    SL_CERTS_SWITCH_CA,
    SL_CERTS_DROP_OLD_CA
};
const char *sl_certs_step_text(enum sl_certs_step step);

struct sl_certs_plan {
    enum sl_certs_step step;
    char why[160];             /* one line for the log; empty for KEEP */
    struct sl_certs_data data; /* owned; the Secret's content after the step (equal to the input for KEEP) */
    char *ca_bundle;           /* owned; PEM to publish once the step is written */
    int64_t next_ms;           /* ask again at this time at the latest */
    int64_t ca_not_after_ms, serving_not_after_ms;
};
void sl_certs_plan_done(struct sl_certs_plan *plan);
/*
 * published_bundle: the PEM that every configuration is known to carry (the manager wrote or read it), or NULL; it
 * decides whether SWITCH_CA is safe. One step a call: when step is not KEEP, write plan.data, then ask again with what
 * was written. Serve tls.crt and tls.key of the Secret as written, never of a plan whose write failed. SL_INTERNAL when
 * no key can be made; SL_INVALID for a bad policy.
 */
SL_MUST int sl_certs_plan(const struct sl_certs_policy *policy, const struct sl_certs_data *data,
                          const char *published_bundle, int64_t now_ms, struct sl_certs_plan *ret, struct sl_err *err);

/* ---- given certificates (cert-manager): a folder with tls.crt, tls.key and perhaps ca.crt ---- */

struct sl_certs_dir;
struct sl_certs_dir *sl_certs_dir_new(const char *path);
void sl_certs_dir_free(struct sl_certs_dir *dir);
/*
 * Reads the files again, by path. *ret_changed tells whether there is a new pair since the last call that said so; then
 * the getters give it. While the files do not belong together (they are being replaced) or cannot be read the last pair
 * stays and the error says why.
 */
SL_MUST int sl_certs_dir_poll(struct sl_certs_dir *dir, bool *ret_changed, struct sl_err *err);
const char *
sl_certs_dir_cert(const struct sl_certs_dir *dir); /* borrowed until the next poll; NULL before the first success */
const char *sl_certs_dir_key(const struct sl_certs_dir *dir);
const char *sl_certs_dir_ca(
    const struct sl_certs_dir *dir); /* NULL when there is no ca.crt: the bundle is somebody else's business */

#endif
