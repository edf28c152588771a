/*
 * Serving credentials. Each sl_tls_set parses the PEM once into a generation: a list of GnuTLS certificates and a key
 * that all handshakes share read-only. Generations are counted references: one for being current, one for each
 * connection that shook hands under it, so that GnuTLS never looks at freed memory and the old pair goes away with its
 * last connection.
 */
#include "tls_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/webhook/pki.h"

#define MAX_CHAIN 16

struct sl_tls_generation {
    gnutls_pcert_st certs[MAX_CHAIN];
    unsigned count;
    gnutls_privkey_t key;
    unsigned refs; /* under the lock of the owner */
};

struct sl_tls {
    pthread_mutex_t lock;
    struct sl_tls_generation *current; /* NULL: none yet */
    unsigned number;
};

struct sl_tls *sl_tls_new(void) {
    struct sl_tls *tls = sl_xalloc(sizeof *tls);
    pthread_mutex_init(&tls->lock, NULL);
    return tls;
}

static void generation_free(struct sl_tls_generation *g) {
    if (!g)
        return;
    for (unsigned i = 0; i < g->count; i++)
        gnutls_pcert_deinit(&g->certs[i]);
    if (g->key)
        gnutls_privkey_deinit(g->key);
    free(g);
}

struct sl_tls_generation *sl_tls_generation_ref(struct sl_tls *tls) {
    pthread_mutex_lock(&tls->lock);
    struct sl_tls_generation *g = tls->current;
    if (g)
        g->refs++;
    pthread_mutex_unlock(&tls->lock);
    return g;
}

void sl_tls_generation_unref(struct sl_tls *tls, struct sl_tls_generation *g) {
    if (!g)
        return;
    pthread_mutex_lock(&tls->lock);
    bool last = --g->refs == 0;
    pthread_mutex_unlock(&tls->lock);
    if (last)
        generation_free(g);
}

void sl_tls_free(struct sl_tls *tls) {
    if (!tls)
        return;
    sl_tls_generation_unref(tls, tls->current);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

static int fail(struct sl_err *err, int code, const char *what) {
    if (err)
        err->sys = code;
    return sl_err_set(err, SL_INVALID, "%s: %s", what, gnutls_strerror(code));
}

static int load(struct sl_tls_generation *g, const char *cert_pem, const char *key_pem, struct sl_err *err) {
    gnutls_datum_t cert = {NULL, 0}, key = {NULL, 0};
    SL_AUTO_FREE char *cert_copy = sl_xstrdup(cert_pem); /* the library's texts are not const */
    cert.data = (unsigned char *)cert_copy;
    cert.size = (unsigned)strlen(cert_pem);
    gnutls_x509_crt_t *list = NULL;
    unsigned n = 0;
    int rc = gnutls_x509_crt_list_import2(&list, &n, &cert, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0)
        return fail(err, rc, "certificate");
    if (n > MAX_CHAIN)
        rc = GNUTLS_E_CERTIFICATE_LIST_UNSORTED;
    for (unsigned i = 0; rc >= 0 && i < n; i++) {
        rc = gnutls_pcert_import_x509(&g->certs[i], list[i], 0);
        if (rc >= 0)
            g->count = i + 1;
    }
    for (unsigned i = 0; i < n; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
    if (n > MAX_CHAIN)
        return sl_err_set(err, SL_INVALID, "certificate: a chain of more than %d", MAX_CHAIN);
    if (rc < 0)
        return fail(err, rc, "certificate");
    rc = gnutls_privkey_init(&g->key);
    if (rc >= 0) {
        char *key_copy = sl_xstrdup(key_pem);
        key.data = (unsigned char *)key_copy;
        key.size = (unsigned)strlen(key_pem);
        rc = gnutls_privkey_import_x509_raw(g->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
        gnutls_memset(key_copy, 0, key.size);
        free(key_copy);
    }
    return rc < 0 ? fail(err, rc, "key") : 0;
}

int sl_tls_set(struct sl_tls *tls, const char *cert_pem, const char *key_pem, struct sl_err *err) {
    if (!cert_pem || !key_pem)
        return sl_err_set(err, SL_INVALID, "certificate or key is missing");
    int rc = sl_pki_check_pair(cert_pem, key_pem, err);
    if (rc)
        return rc;
    struct sl_tls_generation *g = sl_xalloc(sizeof *g);
    g->refs = 1;
    rc = load(g, cert_pem, key_pem, err);
    if (rc) {
        generation_free(g);
        return rc;
    }
    pthread_mutex_lock(&tls->lock);
    struct sl_tls_generation *old = tls->current;
    tls->current = g;
    tls->number++;
    pthread_mutex_unlock(&tls->lock);
    sl_tls_generation_unref(tls, old);
    return 0;
}

bool sl_tls_ready(struct sl_tls *tls) {
    pthread_mutex_lock(&tls->lock);
    bool ready = tls->current != NULL;
    pthread_mutex_unlock(&tls->lock);
    return ready;
}

unsigned sl_tls_generation(struct sl_tls *tls) {
    pthread_mutex_lock(&tls->lock);
    unsigned n = tls->number;
    pthread_mutex_unlock(&tls->lock);
    return n;
}

void sl_tls_generation_give(struct sl_tls_generation *g, gnutls_pcert_st **ret_certs, unsigned *ret_count,
                            gnutls_privkey_t *ret_key) {
    *ret_certs = g->certs;
    *ret_count = g->count;
    *ret_key = g->key;
}
