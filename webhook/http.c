/*
 * One struct conn for each connection, made when the library accepts it and hung into a list. It says what the
 * connection is doing and since when; every state has a time limit, whatever trickles in meanwhile:
 *
 *   NEW (handshake, headers of the first request) -> REQUEST (its first line was read) -> REPLY (body complete) -> IDLE
 * -> REQUEST ...
 *
 * The sweeper shuts the socket of a late connection down; the library sees the end of the stream and closes it in its
 * own thread. It removes the conn from the list (under the lock) before it closes the descriptor, so the sweeper never
 * touches a foreign one.
 *
 * libmicrohttpd 0.9.75: MHD_quiesce_daemon aborts the process with an epoll pool under load, so it is not called;
 * suspend is not used.
 */
#include "http.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tls_internal.h"
#include "sluice/base/buf.h"
#include "sluice/base/clock.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"

/* 16 KiB hold the headers of request and reply; a connection then costs about 30 KiB with TLS. */
#define CONNECTION_MEMORY ((size_t)16 << 10)
#define BACKLOG           1024
/* Authenticated ciphers with forward secrecy only; what every client of TLS 1.2 or later that is still maintained can
 * do. */
#define PRIORITIES                                                                                                     \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:"          \
    "-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:%SERVER_PRECEDENCE"

enum state { NEW, REQUEST, REPLY, IDLE };

struct conn {
    struct sl_http *http;
    struct conn *prev, *next; /* under the lock of http */
    int fd;
    bool cut;  /* under the lock: the sweeper was here */
    bool told; /* that the request was late; of the library's thread */
    _Atomic enum state state;
    _Atomic int64_t since_ms;
    struct sl_tls_generation *generation;
    max_align_t request[]; /* request_size bytes */
};

struct sl_http {
    struct sl_http_options o;
    struct MHD_Daemon *daemon;
    uint16_t port;
    atomic_uint in_flight, connections;
    atomic_bool closing;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct conn *first;
    bool stopping; /* under the lock */
    bool sweeping;
    pthread_t sweeper;
};

static void enter(struct conn *c, enum state state) {
    atomic_store_explicit(&c->since_ms, sl_now_mono_ms(), memory_order_relaxed);
    atomic_store_explicit(&c->state, state, memory_order_release);
}

/* ---- the sweeper ---- */

/* Who is late with a request is told so first: see tell_late. */
#define TELL_MS 3000

static int64_t limit_of(const struct sl_http *h, enum state state) {
    switch (state) {
    case REQUEST: return h->o.request_timeout_ms + TELL_MS;
    case NEW:
    case REPLY: return h->o.request_timeout_ms;
    case IDLE: break;
    }
    /* When nearly all places are taken, those who keep one without using it give it up earlier. */
    bool full = atomic_load(&h->connections) >= h->o.max_connections - h->o.max_connections / 8;
    return full && h->o.idle_timeout_ms > h->o.request_timeout_ms ? h->o.request_timeout_ms : h->o.idle_timeout_ms;
}

static void sweep(struct sl_http *h) {
    int64_t now = sl_now_mono_ms();
    for (struct conn *c = h->first; c; c = c->next) {
        /* Both are read without a lock: at worst a connection that just changed its state is judged by its old one and
         * a new time. */
        enum state state = atomic_load_explicit(&c->state, memory_order_acquire);
        if (c->cut || now - atomic_load_explicit(&c->since_ms, memory_order_relaxed) <= limit_of(h, state))
            continue;
        c->cut = true;
        shutdown(c->fd, SHUT_RDWR);
        if (state != IDLE)
            SL_LOG(DEBUG, "request took too long", SL_STR("server", h->o.name));
    }
}

static void *sweeper_main(void *arg) {
    struct sl_http *h = arg;
    int64_t tick_ms = h->o.request_timeout_ms / 20;
    tick_ms = tick_ms < 10 ? 10 : tick_ms > 500 ? 500 : tick_ms;
    pthread_mutex_lock(&h->lock);
    while (!h->stopping) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (tick_ms % 1000) * 1000000;
        until.tv_sec += tick_ms / 1000 + until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&h->wake, &h->lock, &until);
        sweep(h);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* ---- what the library calls ---- */

static struct conn *conn_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode what) {
    struct sl_http *h = arg;
    struct conn *c;
    const union MHD_ConnectionInfo *info;
    switch (what) {
    case MHD_CONNECTION_NOTIFY_STARTED:
        c = sl_xalloc(sizeof *c + h->o.request_size);
        c->http = h;
        info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        c->fd = info->connect_fd;
        enter(c, NEW);
        *socket_context = c;
        atomic_fetch_add(&h->connections, 1);
        pthread_mutex_lock(&h->lock);
        c->next = h->first;
        if (h->first)
            h->first->prev = c;
        h->first = c;
        pthread_mutex_unlock(&h->lock);
        break;
    case MHD_CONNECTION_NOTIFY_CLOSED:
        c = *socket_context;
        pthread_mutex_lock(&h->lock);
        if (c->prev)
            c->prev->next = c->next;
        else
            h->first = c->next;
        if (c->next)
            c->next->prev = c->prev;
        pthread_mutex_unlock(&h->lock);
        atomic_fetch_sub(&h->connections, 1);
        if (h->o.tls)
            sl_tls_generation_unref(h->o.tls, c->generation);
        free(c);
        *socket_context = NULL;
        break;
    }
}

/* ---- requests that are late ---- */

/* Of a connection that waits for no piece of a request: behind all our limits, and the same for all, since the library
 * looks at each connection that has another one in every turn. */
static unsigned common_timer_s(const struct sl_http *h) {
    int longer = h->o.idle_timeout_ms > h->o.request_timeout_ms ? h->o.idle_timeout_ms : h->o.request_timeout_ms;
    return (unsigned)((longer + TELL_MS) / 1000) + 2;
}

static int64_t left_ms(const struct conn *c) {
    return atomic_load_explicit(&c->since_ms, memory_order_relaxed) + c->http->o.request_timeout_ms - sl_now_mono_ms();
}

static void set_timer(struct MHD_Connection *connection, unsigned seconds) {
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

static unsigned seconds_up(int64_t ms) {
    return ms <= 1000 ? 1 : (unsigned)((ms + 999) / 1000);
}

/*
 * A request has until its deadline, whatever trickles in. Between two pieces of a body the library lets nobody answer,
 * but it calls us with each piece, and its own timer, which we set to what is left, ends the silence; in both cases its
 * thread is ours for a moment and the connection still open, and one write that does not wait says 408. The sweeper
 * stands behind that.
 */
static bool tell_late(const struct conn *c, struct MHD_Connection *connection) {
    static const char answer[] = "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                 "Content-Length: 26\r\nConnection: close\r\n\r\nthe request took too long\n";
    const ssize_t len = sizeof answer - 1;
    SL_LOG(DEBUG, "request took too long", SL_STR("server", c->http->o.name));
    if (!c->http->o.tls)
        return send(c->fd, answer, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) == len;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info && gnutls_record_send(info->tls_session, answer, (size_t)len) == len;
}

/* ---- requests ---- */

/* Called when the first line of a request has been read; what it returns is the request's context from then on. */
static void *on_request_line(void *arg, const char *uri, struct MHD_Connection *connection) {
    struct sl_http *h = arg;
    struct conn *c = conn_of(connection);
    (void)uri;
    memset(c->request, 0, h->o.request_size);
    c->told = false;
    enter(c, REQUEST);
    set_timer(connection, seconds_up(h->o.request_timeout_ms));
    atomic_fetch_add(&h->in_flight, 1);
    return c;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *len, void **context) {
    struct sl_http *h = arg;
    struct conn *c = *context;
    (void)version;
    if (atomic_load_explicit(&c->state, memory_order_relaxed) == REQUEST) {
        int64_t left = left_ms(c);
        if (left <= 0 && *len) {
            c->told = tell_late(c, connection);
            return MHD_NO;
        }
        set_timer(connection, seconds_up(left));
    }
    return h->o.handle(h, h->o.owner, c->request, connection, url, method, data, len);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode how) {
    struct sl_http *h = arg;
    struct conn *c = *context;
    if (!c)
        return;
    *context = NULL;
    if (how == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED &&
        atomic_load_explicit(&c->state, memory_order_relaxed) == REQUEST)
        c->told = tell_late(c, connection);
    enter(c, IDLE);
    if (h->o.finished)
        h->o.finished(h->o.owner, c->request, c->told ? 408 : 0);
    atomic_fetch_sub(&h->in_flight, 1);
}

static int on_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **certs,
                          unsigned *count, gnutls_ocsp_data_st **ocsp, unsigned *ocsp_count, gnutls_privkey_t *key,
                          unsigned *flags) {
    (void)info;
    struct conn *c = conn_of(gnutls_session_get_ptr(session)); /* the library keeps its connection there */
    if (!c)
        return -1;
    if (!c->generation)
        c->generation = sl_tls_generation_ref(c->http->o.tls);
    if (!c->generation)
        return -1;
    sl_tls_generation_give(c->generation, certs, count, key);
    *ocsp = NULL;
    *ocsp_count = 0;
    *flags = 0; /* everything stays ours */
    return 0;
}

static void on_log(void *arg, const char *format, va_list args) SL_PRINTF(2, 0);
static void on_log(void *arg, const char *format, va_list args) {
    const struct sl_http *h = arg;
    if (!sl_log_enabled(SL_LOG_DEBUG))
        return;
    char text[240];
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = 0;
    SL_LOG(DEBUG, "http library", SL_STR("server", h->o.name), SL_STR("text", text));
}

static void on_panic(void *arg, const char *file, unsigned line, const char *reason) {
    (void)arg;
    SL_LOG(ERROR, "http library gave up", SL_STR("file", file), SL_I64("line", line), SL_STR("reason", reason));
    abort();
}

/* ---- start and stop ---- */

static int listen_on(const char *host, uint16_t port, int *ret_fd, uint16_t *ret_port, struct sl_err *err) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    bool use_six = !host;
    if (host && inet_pton(AF_INET6, host, &six.sin6_addr) == 1)
        use_six = true;
    else if (host && inet_pton(AF_INET, host, &four.sin_addr) != 1)
        return sl_err_set(err, SL_INVALID, "\"%.60s\" is not a numeric address", host);
    int fd = use_six ? socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    if (fd < 0 && use_six && !host)
        use_six = false; /* no IPv6 here */
    if (fd < 0 && !use_six)
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return sl_err_set(err, SL_IO, "socket: %s", strerror(errno));
    int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (use_six)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, host ? &on : &off, sizeof on);
    const struct sockaddr *address = use_six ? (const struct sockaddr *)&six : (const struct sockaddr *)&four;
    socklen_t size = use_six ? sizeof six : sizeof four;
    if (bind(fd, address, size) || listen(fd, BACKLOG)) {
        int e = errno;
        close(fd);
        if (err)
            err->sys = e;
        return sl_err_set(err, SL_IO, "listen on %s port %d: %s", host ? host : "*", port, strerror(e));
    }
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } got;
    size = sizeof got;
    if (getsockname(fd, &got.any, &size)) {
        close(fd);
        return sl_err_set(err, SL_IO, "getsockname: %s", strerror(errno));
    }
    *ret_fd = fd;
    *ret_port = ntohs(got.any.sa_family == AF_INET6 ? got.six.sin6_port : got.four.sin_port);
    return 0;
}

/* Connections must not use up the descriptors that the rest of the process needs. */
static unsigned fit_descriptors(unsigned want) {
    const rlim_t reserve = 256;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return want;
    if (limit.rlim_cur < want + reserve && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < want + reserve ? limit.rlim_max : want + reserve;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= want + reserve)
        return want;
    return limit.rlim_cur > 2 * reserve ? (unsigned)(limit.rlim_cur - reserve) : (unsigned)(limit.rlim_cur / 2);
}

static struct MHD_Daemon *start_daemon(struct sl_http *h, int fd) {
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem more[4];
    size_t n = 0;
    if (h->o.tls) {
        flags |= MHD_USE_TLS;
        /* the table has room for one pointer: a function goes through the union */
        union {
            int (*fn)(gnutls_session_t, const struct gnutls_cert_retr_st *, gnutls_pcert_st **, unsigned *,
                      gnutls_ocsp_data_st **, unsigned *, gnutls_privkey_t *, unsigned *);
            void *p;
        } callback = {.fn = on_certificate};
        static char priorities[] = PRIORITIES;
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, callback.p};
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, priorities};
    }
    if (h->o.threads > 1) /* a pool of one is not a pool */
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)h->o.threads, NULL};
    more[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, h,
                            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, h->o.max_connections,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT,
                            common_timer_s(h), MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
                            h, MHD_OPTION_URI_LOG_CALLBACK, on_request_line, h, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
}

int sl_http_start(const struct sl_http_options *options, struct sl_http **ret, struct sl_err *err) {
    int fd = -1;
    uint16_t port = 0;
    int rc = listen_on(options->host, options->port, &fd, &port, err);
    if (rc)
        return rc;
    signal(SIGPIPE, SIG_IGN); /* process-wide on purpose: a peer that went away must never end us */
    MHD_set_panic_func(on_panic, NULL);
    struct sl_http *h = sl_xalloc(sizeof *h);
    h->o = *options;
    h->o.max_connections = fit_descriptors(options->max_connections);
    if (h->o.max_connections < h->o.threads)
        h->o.max_connections = h->o.threads;
    h->port = port;
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&h->wake, &attr);
    pthread_condattr_destroy(&attr);
    h->daemon = start_daemon(h, fd);
    if (!h->daemon) {
        close(fd);
        sl_http_stop(h);
        return sl_err_set(err, SL_IO, "the %s server cannot start", options->name);
    }
    h->sweeping = pthread_create(&h->sweeper, NULL, sweeper_main, h) == 0;
    if (!h->sweeping) {
        sl_http_stop(h);
        return sl_err_set(err, SL_IO, "the %s server cannot start its second thread", options->name);
    }
    *ret = h;
    return 0;
}

void sl_http_stop(struct sl_http *h) {
    if (!h)
        return;
    if (h->sweeping) {
        pthread_mutex_lock(&h->lock);
        h->stopping = true;
        pthread_cond_signal(&h->wake);
        pthread_mutex_unlock(&h->lock);
        pthread_join(h->sweeper, NULL);
    }
    if (h->daemon)
        MHD_stop_daemon(h->daemon); /* closes the listening socket and all connections, each with its notification */
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

uint16_t sl_http_port(const struct sl_http *h) {
    return h->port;
}
unsigned sl_http_in_flight(const struct sl_http *h) {
    return atomic_load(&h->in_flight);
}
unsigned sl_http_connections(const struct sl_http *h) {
    return atomic_load(&h->connections);
}
void sl_http_close_after_reply(struct sl_http *h) {
    atomic_store(&h->closing, true);
}

/* ---- answers ---- */

enum MHD_Result sl_http_reply(struct sl_http *h, struct MHD_Connection *connection, const struct sl_http_answer *a) {
    struct MHD_Response *r = MHD_create_response_from_buffer_with_free_callback(a->len, a->data, free);
    if (!r) {
        free(a->data);
        return MHD_NO;
    }
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    if (a->allow)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, a->allow);
    if (a->retry)
        MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (a->close || atomic_load(&h->closing))
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    enter(conn_of(connection), REPLY);
    set_timer(connection, common_timer_s(h));
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)a->status, r);
    MHD_destroy_response(r);
    return result;
}

enum MHD_Result sl_http_reply_text(struct sl_http *h, struct MHD_Connection *connection, int status, const char *text,
                                   bool close_after) {
    char *line = sl_xprintf("%s\n", text);
    return sl_http_reply(h, connection,
                         &(struct sl_http_answer){.status = status,
                                                  .type = "text/plain; charset=utf-8",
                                                  .data = line,
                                                  .len = strlen(line),
                                                  .close = close_after});
}

/* ---- framing ---- */

struct framing {
    unsigned lengths, encodings, hosts, types;
    const char *length, *type;
    bool content_encoding;
};

static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind, const char *key, const char *value) {
    struct framing *f = arg;
    (void)kind;
    if (strcasecmp(key, "Content-Length") == 0) {
        f->lengths++;
        f->length = value ? value : "";
    } else if (strcasecmp(key, "Transfer-Encoding") == 0) {
        f->encodings++;
    } else if (strcasecmp(key, "Host") == 0) {
        f->hosts++;
    } else if (strcasecmp(key, "Content-Type") == 0) {
        f->types++;
        f->type = value ? value : "";
    } else if (strcasecmp(key, "Content-Encoding") == 0) {
        f->content_encoding |= value && strcasecmp(value, "identity") != 0;
    }
    return MHD_YES;
}

static bool all_digits(const char *s) {
    size_t n = strspn(s, "0123456789");
    return n && !s[n];
}

const char *sl_http_check_framing(struct MHD_Connection *connection, size_t *ret_length, bool *ret_json) {
    struct framing f = {0};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, on_header, &f);
    if (f.hosts != 1)
        return f.hosts ? "more than one Host header" : "no Host header";
    if (f.lengths && f.encodings)
        return "both Content-Length and Transfer-Encoding";
    if (f.lengths > 1)
        return "more than one Content-Length header";
    if (f.encodings > 1)
        return "more than one Transfer-Encoding header";
    int64_t length = 0;
    if (f.lengths && (!all_digits(f.length) || sl_parse_i64(f.length, strlen(f.length), &length, NULL)))
        return "Content-Length is not a number";
    *ret_length = f.encodings ? SIZE_MAX : (size_t)length;
    const char *json = "application/json";
    size_t n = strlen(json);
    *ret_json = f.types == 1 && !f.content_encoding && strncasecmp(f.type, json, n) == 0 &&
                (!f.type[n] || strchr("; \t", f.type[n]));
    return NULL;
}
