/* The HTTPS implementation of the cluster seam (libcurl multi, HTTP/1.1), with credentials from a kubeconfig or from
 * the pod. */
#ifndef SLUICE_KUBE_CLIENT_H
#define SLUICE_KUBE_CLIENT_H

#include "sluice/kube/cluster.h"

struct sl_client_options {
    const char *kubeconfig; /* path; NULL: in-cluster (KUBERNETES_SERVICE_HOST, the service account's token and CA) */
    bool usual_places;      /* kubeconfig NULL: as kubectl does, the files of $KUBECONFIG, else ~/.kube/config, and
                               in-cluster only when they name no context */
    const char *context;    /* NULL: the kubeconfig's current-context */
    const char *user_agent; /* NULL: sluice/VERSION */
    int qps, burst;         /* ceiling of requests a second over all lanes but the lease; 0: 300 and 500 */
};
/* Reads credentials and checks them for form; does not connect. Errors name the file and the field. */
SL_MUST int sl_client_new(const struct sl_client_options *options, struct sl_cluster **ret, struct sl_err *err);
/* Of the context, else of the pod, else "default"; never NULL. Only of what sl_client_new made. */
const char *sl_client_namespace(const struct sl_cluster *cluster);

#endif
