/* The HTTPS implementation of the cluster seam (libcurl multi, HTTP/1.1), with credentials from a kubeconfig or from
 * the pod. */
#ifndef SLUICE_KUBE_CLIENT_H
#define SLUICE_KUBE_CLIENT_H

#include "sluice/kube/cluster.h"

struct sl_client_options {
    const char *kubeconfig; /* path; NULL: in-cluster (KUBERNETES_SERVICE_HOST, the service account's token and CA) */
    const char *context;    /* NULL: the kubeconfig's current-context */
    const char *user_agent; /* NULL: sluice/VERSION */
    int qps, burst;         /* ceiling of requests a second over all lanes but the lease; 0: 300 and 500 */
};
/* Reads credentials and checks them for form; does not connect. Errors name the file and the field. */
SL_MUST int sl_client_new(const struct sl_client_options *options, struct sl_cluster **ret, struct sl_err *err);

#endif
