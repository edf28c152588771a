/* Parts of the HTTPS client that its files share. Loop thread only. */
#ifndef SLUICE_KUBE_CLIENT_INTERNAL_H
#define SLUICE_KUBE_CLIENT_INTERNAL_H

#include <curl/curl.h>

#include "auth.h"
#include "framer.h"
#include "sluice/base/map.h"
#include "sluice/kube/client.h"

struct kube_client;

/* ---- one HTTP exchange (client.c) ---- */

struct kube_transfer {
    struct kube_client *client;
    CURL *easy; /* NULL: nothing under way */
    struct kube_creds *creds;
    struct curl_slist *headers, *connect_to;
    char error[CURL_ERROR_SIZE];
    unsigned sends; /* how often the request went out: libcurl repeats it when a kept-alive connection turns out dead */
    bool repeatable; /* may it go out more than once? */
    bool paused;
    int status; /* HTTP status, once known */
    bool (*on_data)(struct kube_transfer *t, const char *data, size_t len, bool *ret_pause); /* false: abort */
    void (*on_done)(struct kube_transfer *t, CURLcode result);
};
struct kube_call {
    const char *method, *path, *accept, *content_type;
    const char *body; /* must live until the transfer is over */
    size_t body_len;
    int64_t timeout_ms; /* 0: none */
    bool is_stream;     /* no low-speed limit: silence is normal */
};
void kube_transfer_start(struct kube_client *c, struct kube_transfer *t, const struct kube_call *call);
void kube_transfer_stop(struct kube_transfer *t); /* on_done is not called; nothing happens when none is under way */
void kube_transfer_resume(struct kube_transfer *t);
int64_t kube_transfer_retry_after_ms(const struct kube_transfer *t); /* 0: the server did not say */
int kube_transfer_status(const struct kube_transfer *t); /* HTTP status of a transfer under way; 0: no headers yet */
const char *kube_transfer_error(const struct kube_transfer *t, CURLcode result);

/* /apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME/SUBRESOURCE; ns, name, subresource may be NULL. */
void kube_path(struct sl_buf *out, const struct sl_resource *r, const char *ns, const char *name,
               const char *subresource);
void kube_escape(struct sl_buf *out, const char *text); /* percent-encoding of everything that is not unreserved */
/* Text of one object: without managedFields, parsed. depth as in kube_strip_managed_fields. */
SL_MUST int kube_parse(char *text, size_t len, unsigned depth, struct sl_json **ret, struct sl_err *err);

/* Times that tests shorten. */
struct kube_tuning {
    int64_t watch_backoff_ms, watch_backoff_max_ms, watch_header_ms, absent_retry_ms, calm_ms;
    int64_t patience_ms;          /* as long a watch that is answered 429 is nothing to worry about */
    int64_t watch_seconds;        /* least timeoutSeconds of a watch; up to twice that */
    int64_t request_ms, lease_ms; /* a request's time from its first attempt to its answer */
    int64_t request_backoff_ms, connect_ms;
    int64_t slice_ms;
    size_t page, backlog;
};

/* ---- requests (request.c) ---- */

struct kube_request;
struct kube_lane {
    struct kube_request *head, *tail; /* ready to go out */
    unsigned pending, active, limit;
};
void kube_request_send(struct sl_cluster *cluster, const struct sl_request *request);
void kube_requests_run(struct kube_client *c, int64_t now);
int64_t kube_requests_next(const struct kube_client *c,
                           int64_t now); /* when run is wanted again; INT64_MAX: not by time */
void kube_requests_cancel(struct kube_client *c);

/* ---- watches (reflector.c) ---- */

struct kube_watch;
struct sl_watch *kube_watch_start(struct sl_cluster *cluster, const struct sl_resource *resource,
                                  const struct sl_watch_options *options, sl_watch_fn fn, void *payload);
bool kube_watch_synced(const struct sl_watch *w);
int64_t kube_watch_age_ms(const struct sl_watch *w);
/* Starts what is due and delivers what has arrived, for at most until_ms; true when something was delivered or more is
 * waiting. */
bool kube_watch_run(struct kube_watch *w, int64_t now, int64_t until_ms);
bool kube_watch_has_backlog(const struct kube_watch *w);
size_t kube_watch_waiting(const struct kube_watch *w); /* bytes that have arrived and are not delivered */
int64_t kube_watch_next(const struct kube_watch *w);
void kube_watch_free(struct kube_watch *w);

/* ---- the client ---- */

#define KUBE_MAX_ACTIVE 32 /* at least the sum of the lanes' limits */

struct kube_client {
    struct sl_cluster base;
    CURLM *multi;
    struct kube_auth *auth;
    struct kube_tuning tuning;
    char *user_agent;
    char *url, *connect_to, *host_header; /* the last two only with tls-server-name */
    CURL *idle[KUBE_MAX_ACTIVE];
    size_t idle_count;
    struct kube_watch **watches;
    size_t watch_count, watch_cap, turn;
    struct kube_lane lanes[SL_LANE__COUNT];
    struct kube_request *active[KUBE_MAX_ACTIVE];
    size_t active_count;
    struct sl_map chains; /* key -> request on that object that goes first, the others linked behind it */
    int64_t tokens_milli, tokens_ms;
    int qps, burst;
    int64_t down_since_ms; /* 0: the server is believed to be reachable */
    int64_t put_off_ms;    /* when it last asked a watch to come again; 0: never */
    uint64_t random;
    bool closing, progress;
};
struct kube_client *kube_client_of(struct sl_cluster *cluster);
/* random in [0, below) for jitter */
int64_t kube_random(struct kube_client *c, int64_t below);

#endif
