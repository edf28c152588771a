/*
 * The HTTPS cluster: one libcurl multi handle, driven by sl_cluster_step. HTTP/1.1 only: a watch is a connection of its
 * own, so that a full consumer closes one TCP window and nothing else. libcurl's callbacks only move bytes; everything
 * that calls back into the program runs from step, outside of libcurl. Options follow libcurl 7.88: CAPATH must be NULL
 * or the distribution's folder of public CAs is trusted besides ours, and the CA goes in as a blob because a CA file's
 * path is cached for a day.
 */
#include "client_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "sluice/base/clock.h"
#include "sluice/base/mem.h"

#define DEAD_PEER_MS 30000

struct kube_client *kube_client_of(struct sl_cluster *cluster) {
    return (struct kube_client *)(void *)cluster;
}
static const struct kube_client *of_const(const struct sl_cluster *c) {
    return (const struct kube_client *)(const void *)c;
}

int64_t kube_random(struct kube_client *c, int64_t below) {
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return below > 0 ? (int64_t)(c->random % (uint64_t)below) : 0;
}

void kube_escape(struct sl_buf *out, const char *text) {
    static const char hex[] = "0123456789ABCDEF";
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || strchr("-._~", *p)) {
            sl_buf_putc(out, (char)*p);
        } else {
            sl_buf_putc(out, '%');
            sl_buf_putc(out, hex[*p >> 4]);
            sl_buf_putc(out, hex[*p & 15]);
        }
    }
}

void kube_path(struct sl_buf *out, const struct sl_resource *r, const char *ns, const char *name,
               const char *subresource) {
    if (*r->group)
        sl_buf_printf(out, "/apis/%s/%s", r->group, r->version);
    else
        sl_buf_printf(out, "/api/%s", r->version);
    if (ns && r->namespaced) {
        sl_buf_puts(out, "/namespaces/");
        kube_escape(out, ns);
    }
    sl_buf_printf(out, "/%s", r->plural);
    if (name) {
        sl_buf_putc(out, '/');
        kube_escape(out, name);
    }
    if (name && subresource) {
        sl_buf_putc(out, '/');
        kube_escape(out, subresource);
    }
}

int kube_parse(char *text, size_t len, unsigned depth, struct sl_json **ret, struct sl_err *err) {
    len = kube_strip_managed_fields(text, len, depth);
    int rc = sl_json_parse_limited(text, len, KUBE_MAX_OBJECT + 4096, SL_JSON_MAX_ELEMENTS, ret, err);
    if (!rc && !sl_json_is_object(*ret)) {
        sl_json_unref(SL_TAKE(*ret));
        return sl_err_set(err, SL_PROTOCOL, "answer is no JSON object");
    }
    return rc;
}

/* ---- transfers ---- */

static size_t on_write(char *data, size_t size, size_t count, void *payload) {
    struct kube_transfer *t = payload;
    long status = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    t->status = (int)status;
    t->client->down_since_ms = 0; /* somebody answers */
    bool pause = false;
    if (!t->on_data(t, data, size * count, &pause))
        return 0;
    t->paused = pause;
    return pause ? CURL_WRITEFUNC_PAUSE : size * count;
}

/* Runs after the connection (with TLS) stands and before the request goes out; also when libcurl repeats a request. */
static int on_prerequest(void *payload, char *remote_ip, char *local_ip, int remote_port, int local_port) {
    struct kube_transfer *t = payload;
    (void)remote_ip;
    (void)local_ip;
    (void)remote_port;
    (void)local_port;
    if (t->sends && !t->repeatable)
        return CURL_PREREQFUNC_ABORT;
    t->sends++;
    return CURL_PREREQFUNC_OK;
}

/* Unacknowledged data must not hang for the kernel's quarter of an hour. */
static int on_socket(void *payload, curl_socket_t fd, curlsocktype purpose) {
    (void)payload;
    (void)purpose;
    unsigned ms = DEAD_PEER_MS;
    if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms))
        return CURL_SOCKOPT_OK; /* keep-alive still finds dead peers, only later */
    return CURL_SOCKOPT_OK;
}

static void add_header(struct kube_transfer *t, const char *name, const char *value) {
    if (!value)
        return;
    struct kube_secret line = {sl_xprintf("%s: %s", name, value), 0};
    line.len = strlen(line.data);
    struct curl_slist *list = curl_slist_append(t->headers, line.data);
    SL_ASSERT(list != NULL);
    t->headers = list;
    kube_secret_done(&line);
}

static void drop_headers(struct kube_transfer *t) {
    for (struct curl_slist *h = t->headers; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data)); /* one of them is the token */
    curl_slist_free_all(t->headers);
    curl_slist_free_all(t->connect_to);
    t->headers = t->connect_to = NULL;
}

static void set_blob(CURL *easy, CURLoption option, const struct kube_secret *s) {
    struct curl_blob blob = {s->data, s->len, CURL_BLOB_NOCOPY}; /* the transfer holds a reference to the credentials */
    if (s->data)
        curl_easy_setopt(easy, option, &blob);
}

static void set_trust(const struct kube_client *c, struct kube_transfer *t) {
    CURL *e = t->easy;
    const struct kube_creds *creds = t->creds;
    curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, creds->insecure ? 0L : 2L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, creds->insecure ? 0L : 1L);
    if (creds->ca.data) {
        curl_easy_setopt(e, CURLOPT_CAINFO, NULL);
        curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
        set_blob(e, CURLOPT_CAINFO_BLOB, &creds->ca);
    }
    set_blob(e, CURLOPT_SSLCERT_BLOB, &creds->cert);
    set_blob(e, CURLOPT_SSLKEY_BLOB, &creds->key);
    if (creds->cert.data) {
        curl_easy_setopt(e, CURLOPT_SSLCERTTYPE, "PEM");
        curl_easy_setopt(e, CURLOPT_SSLKEYTYPE, "PEM");
    }
    if (creds->token.data) {
        SL_AUTO_FREE char *value = sl_xprintf("Bearer %s", creds->token.data);
        add_header(t, "Authorization", value);
        explicit_bzero(value, strlen(value));
    }
    if (c->connect_to) {
        t->connect_to = curl_slist_append(NULL, c->connect_to);
        curl_easy_setopt(e, CURLOPT_CONNECT_TO, t->connect_to);
        add_header(t, "Host", c->host_header);
    }
}

void kube_transfer_start(struct kube_client *c, struct kube_transfer *t, const struct kube_call *call) {
    SL_ASSERT(!t->easy);
    CURL *e = t->easy = c->idle_count ? c->idle[--c->idle_count] : curl_easy_init();
    SL_ASSERT(e != NULL);
    t->client = c;
    t->creds = kube_auth_get(c->auth, sl_now_mono_ms());
    t->error[0] = 0;
    t->sends = 0;
    t->paused = false;
    t->status = 0;
    SL_AUTO_FREE char *url = sl_xprintf("%s%s", c->url, call->path);
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, strncasecmp(c->url, "http:", 5) ? "https" : "http");
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_USERAGENT, c->user_agent);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->error);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_prerequest);
    curl_easy_setopt(e, CURLOPT_PREREQDATA, t);
    curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, on_socket);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 30L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 10L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)c->tuning.connect_ms);
    if (call->timeout_ms)
        curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
    if (!call->is_stream) {
        curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 100L);
        curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, 30L);
    }
    set_trust(c, t);
    add_header(t, "Accept", call->accept ? call->accept : "application/json");
    add_header(t, "Content-Type", call->body ? call->content_type : NULL);
    add_header(t, "Expect", ""); /* "Expect:" alone switches 100-continue off */
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
    if (call->body) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, call->body);
    }
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, call->method);
    CURLMcode rc = curl_multi_add_handle(c->multi, e);
    SL_ASSERT(rc == CURLM_OK);
}

void kube_transfer_stop(struct kube_transfer *t) {
    if (!t->easy)
        return;
    struct kube_client *c = t->client;
    curl_multi_remove_handle(c->multi, t->easy);
    curl_easy_reset(t->easy);
    if (c->idle_count < SL_COUNT(c->idle))
        c->idle[c->idle_count++] = t->easy;
    else
        curl_easy_cleanup(t->easy);
    t->easy = NULL;
    t->paused = false;
    drop_headers(t);
    kube_creds_unref(SL_TAKE(t->creds));
}

void kube_transfer_resume(struct kube_transfer *t) {
    if (!t->easy || !t->paused)
        return;
    t->paused = false;
    curl_easy_pause(t->easy, CURLPAUSE_CONT); /* may call on_write at once */
}

int64_t kube_transfer_retry_after_ms(const struct kube_transfer *t) {
    curl_off_t seconds = 0;
    if (!t->easy || curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &seconds) || seconds < 0)
        return 0;
    return seconds > 3600 ? 3600000 : (int64_t)seconds * 1000;
}

int kube_transfer_status(const struct kube_transfer *t) {
    long status = 0;
    if (t->easy)
        curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

const char *kube_transfer_error(const struct kube_transfer *t, CURLcode result) {
    return t->error[0] ? t->error : curl_easy_strerror(result);
}

static void read_messages(struct kube_client *c) {
    int left;
    CURLMsg *msg;
    while ((msg = curl_multi_info_read(c->multi, &left))) {
        if (msg->msg != CURLMSG_DONE)
            continue;
        char *payload = NULL;
        CURLcode result = msg->data.result;
        long status = 0;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &payload);
        curl_easy_getinfo(msg->easy_handle, CURLINFO_RESPONSE_CODE, &status);
        struct kube_transfer *t = (struct kube_transfer *)(void *)payload;
        t->status = (int)status;
        if (result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE || status == 401)
            kube_auth_doubt(c->auth);
        c->progress = true;
        t->on_done(t, result); /* it stops or restarts the transfer */
    }
}

/* ---- running ---- */

static void pump(struct kube_client *c) {
    int running;
    curl_multi_perform(c->multi, &running);
    read_messages(c);
    int64_t now = sl_now_mono_ms(), until = now + c->tuning.slice_ms;
    kube_requests_run(c, now);
    size_t n = c->watch_count; /* callbacks may start further watches */
    for (size_t i = 0; i < n; i++) {
        struct kube_watch *w = c->watches[(c->turn + i) % n];
        if (kube_watch_run(w, now, until))
            c->progress = true;
    }
    c->turn = n ? (c->turn + 1) % n : 0;
    kube_requests_run(c, sl_now_mono_ms()); /* what the callbacks queued */
    curl_multi_perform(c->multi, &running);
}

static int64_t wait_ms(const struct kube_client *c, int64_t timeout_ms) {
    int64_t now = sl_now_mono_ms(), next = kube_requests_next(c, now);
    for (size_t i = 0; i < c->watch_count; i++) {
        if (kube_watch_has_backlog(c->watches[i]))
            return 0;
        int64_t t = kube_watch_next(c->watches[i]);
        next = t < next ? t : next;
    }
    if (next <= now)
        return 0;
    return next - now < timeout_ms ? next - now : timeout_ms;
}

static void step(struct sl_cluster *cluster, int64_t timeout_ms) {
    struct kube_client *c = kube_client_of(cluster);
    c->progress = false;
    pump(c);
    if (c->progress)
        return;
    int64_t ms = wait_ms(c, timeout_ms > 0 ? timeout_ms : 0);
    int events;
    curl_multi_poll(c->multi, NULL, 0, ms > 3600000 ? 3600000 : (int)ms, &events);
    pump(c);
}

static void wakeup(struct sl_cluster *cluster) {
    curl_multi_wakeup(kube_client_of(cluster)->multi);
}
static unsigned pending(const struct sl_cluster *c, enum sl_lane lane) {
    return of_const(c)->lanes[lane].pending;
}
static int64_t wall_ms(const struct sl_cluster *c) {
    (void)c;
    return sl_now_wall_ms();
}
static int64_t mono_ms(const struct sl_cluster *c) {
    (void)c;
    return sl_now_mono_ms();
}

static void close_client(struct sl_cluster *cluster) {
    struct kube_client *c = kube_client_of(cluster);
    c->closing = true;
    kube_requests_cancel(c);
    for (size_t i = 0; i < c->watch_count; i++)
        kube_watch_free(c->watches[i]);
    free(c->watches);
    sl_map_done(&c->chains, NULL);
    while (c->idle_count)
        curl_easy_cleanup(c->idle[--c->idle_count]);
    if (c->multi)
        curl_multi_cleanup(c->multi);
    kube_auth_free(c->auth);
    free(c->user_agent);
    free(c->url);
    free(c->connect_to);
    free(c->host_header);
    free(c);
}

static void init_library(void) {
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        abort(); /* out of memory at start */
}

/* https://HOST[:PORT][/PREFIX] with another name in the certificate: the URL gets that name, libcurl connects to HOST.
 */
static void set_server(struct kube_client *c, const struct kube_config *config) {
    if (!config->tls_server_name) {
        c->url = sl_xstrdup(config->server);
        return;
    }
    const char *host = strstr(config->server, "://") + 3;
    size_t scheme = (size_t)(host - config->server), len = strcspn(host, "/");
    const char *colon = NULL;
    for (size_t i = len; i > 0 && host[i - 1] != ']'; i--) {
        if (host[i - 1] == ':') {
            colon = host + i - 1;
            break;
        }
    }
    int name_len = (int)(colon ? (size_t)(colon - host) : len);
    SL_AUTO_FREE char *port = colon ? sl_xstrndup(colon + 1, len - (size_t)name_len - 1) : sl_xstrdup("443");
    c->url = sl_xprintf("%.*s%s:%s%s", (int)scheme, config->server, config->tls_server_name, port, host + len);
    c->connect_to = sl_xprintf("%s:%s:%.*s:%s", config->tls_server_name, port, name_len, host, port);
    c->host_header = sl_xstrndup(host, len);
}

int sl_client_new(const struct sl_client_options *options, struct sl_cluster **ret, struct sl_err *err) {
    static const struct sl_cluster_ops ops = {
        kube_watch_start, kube_watch_synced, kube_watch_age_ms, kube_request_send, pending, step,
        wakeup,           wall_ms,           mono_ms,           close_client};
    static const struct kube_tuning normal = {.watch_backoff_ms = 800,
                                              .watch_backoff_max_ms = 30000,
                                              .watch_header_ms = 60000,
                                              .absent_retry_ms = 60000,
                                              .calm_ms = 120000,
                                              .patience_ms = 30000,
                                              .watch_seconds = 300,
                                              .request_ms = 30000,
                                              .lease_ms = 5000,
                                              .request_backoff_ms = 100,
                                              .connect_ms = 10000,
                                              .slice_ms = 5,
                                              .page = 500,
                                              .backlog = (size_t)256 << 10};
    static const unsigned limits[] = {
        [SL_LANE_LEASE] = 1, [SL_LANE_DECISION] = 16, [SL_LANE_STATUS] = 4, [SL_LANE_EVENT] = 2, [SL_LANE_ACCESS] = 2};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_library);
    struct kube_client *c = sl_xalloc(sizeof *c);
    c->base.ops = &ops;
    int rc = kube_auth_new(options, &c->auth, err);
    if (rc) {
        close_client(&c->base);
        return rc;
    }
    c->tuning = normal;
    c->user_agent = sl_xstrdup(options->user_agent ? options->user_agent : "sluice/" SL_VERSION);
    set_server(c, kube_auth_config(c->auth));
    c->multi = curl_multi_init();
    SL_ASSERT(c->multi != NULL);
    curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 64L);
    curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    for (int i = 0; i < SL_LANE__COUNT; i++)
        c->lanes[i].limit = limits[i];
    c->qps = options->qps > 0 ? options->qps : 300;
    c->burst = options->burst > 0 ? options->burst : 500;
    c->tokens_milli = (int64_t)c->burst * 1000;
    c->tokens_ms = sl_now_mono_ms();
    if (getrandom(&c->random, sizeof c->random, 0) != (ssize_t)sizeof c->random || !c->random)
        c->random = 0x9e3779b97f4a7c15ull;
    *ret = &c->base;
    return 0;
}

const char *sl_client_namespace(const struct sl_cluster *cluster) {
    const char *ns = kube_auth_config(((const struct kube_client *)cluster)->auth)->ns;
    return ns && *ns ? ns : "default";
}
