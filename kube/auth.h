/*
 * Where the API server is and who we are: read from a kubeconfig or from the pod, re-read when files change. What a
 * transfer needs is an immutable, reference-counted struct kube_creds, so that a change never pulls memory away under a
 * running handshake. Loop thread only.
 */
#ifndef SLUICE_KUBE_AUTH_H
#define SLUICE_KUBE_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/base/err.h"

/* Bytes that are wiped before they are freed. data is NUL-terminated behind len; NULL: there is none. */
struct kube_secret {
    char *data;
    size_t len;
};
void kube_secret_done(struct kube_secret *s);
void kube_secret_set(struct kube_secret *s, const char *data, size_t len);
/* Whole file of at most max bytes. SL_NOT_FOUND, SL_TOO_BIG, SL_IO. */
SL_MUST int kube_secret_read(struct kube_secret *s, const char *path, size_t max, struct sl_err *err);

/* One thing that may be given in line or as a file. */
struct kube_source {
    struct kube_secret inline_data;
    char *path;
};

/* What a kubeconfig or the pod says. */
struct kube_config {
    char *server;          /* without a slash at the end */
    char *tls_server_name; /* NULL: the server's host */
    char *ns;              /* of the context or the pod; NULL: none is named */
    bool insecure;
    struct kube_source ca, cert, key, token;
};
void kube_config_done(struct kube_config *config);
/* The files that make up a kubeconfig, in the order in which they count. */
struct kube_files {
    char **paths;
    size_t n;
    bool may_lack; /* files that do not exist are passed over, and together they need not say anything */
};
/* kubeconfig: that file alone, which has to be there. NULL with usual: those of $KUBECONFIG, a list with colons, else
 * ~/.kube/config; without: none. SL_TOO_BIG for more than 64. */
SL_MUST int kube_files_find(struct kube_files *ret, const char *kubeconfig, bool usual, struct sl_err *err);
void kube_files_done(struct kube_files *files);
/* Reads a kubeconfig. context NULL: current-context of the first file that has one. A cluster, user or context is taken
 * from the first file that has one of that name, and from no other; paths in it are relative to the folder of its file.
 * Errors name the file and the field. Where files may lack, ret->server stays NULL when no context is named anywhere.
 */
SL_MUST int kube_config_load(struct kube_config *ret, const struct kube_files *files, const char *context,
                             struct sl_err *err);
/* The same of one text, for tests and fuzzing; folder for relative paths. */
SL_MUST int kube_config_parse(struct kube_config *ret, const char *text, size_t len, const char *folder,
                              const char *context, struct sl_err *err);
/* The pod's own credentials; folder is the service account's, host and port come from the environment (NULL: error). */
SL_MUST int kube_config_in_cluster(struct kube_config *ret, const char *folder, const char *host, const char *port,
                                   struct sl_err *err);
#define KUBE_SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

struct kube_creds {
    unsigned refs;
    struct kube_secret ca, cert, key, token; /* PEM, PEM, PEM, bearer token; data NULL: none */
    bool insecure;
};
struct kube_creds *kube_creds_ref(struct kube_creds *c);
void kube_creds_unref(struct kube_creds *c); /* NULL is fine */

struct kube_auth;
/* Where the options say (sluice/kube/client.h). Everything is read and checked for form. */
struct sl_client_options;
SL_MUST int kube_auth_new(const struct sl_client_options *options, struct kube_auth **ret, struct sl_err *err);
void kube_auth_free(struct kube_auth *a);
const struct kube_config *kube_auth_config(const struct kube_auth *a);
/* Present credentials (owned reference). Files are looked at again when a minute has passed since the last look. */
struct kube_creds *kube_auth_get(struct kube_auth *a, int64_t now_mono_ms);
/* The server refused us, or we did not trust it: files are read again with the next get, but not more often than once a
 * second. */
void kube_auth_doubt(struct kube_auth *a);

#endif
