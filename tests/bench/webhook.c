/*
 * What a review costs. A server process with one worker thread on the first core, clients in this process on the
 * second, keep-alive TLS, a Job review of 4 KiB. Three routes in the same run:
 *
 *   floor   library and TLS only: the body is read, and a constant about as long as a review's answer is sent
 *   parse   the review is parsed and allowed without a look
 *   review  the review is parsed, read as a webhook of Jobs does, and answered with a patch and a warning
 *
 * Prints for each: CPU time of the server per request, hence requests per core; latency at a fixed rate, from the
 * moment a request was due, so that a stall counts for all who wait; and the ratios to the floor, which are what to
 * compare between machines.
 *
 * Usage: bench_webhook [seconds of each measurement, 5] [requests per second for the latencies, 1000]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/gnutls.h>

#include "../../webhook/http.h"
#include "sluice/base/clock.h"
#include "sluice/base/mem.h"
#include "sluice/webhook/pki.h"
#include "sluice/webhook/server.h"

#define CLIENTS      4
#define BODY_BYTES   4096
#define ANSWER_BYTES 430

/* ---- the server process ---- */

static void allow(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot, (void)request, (void)reply;
}

static void review(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    const struct sl_json *job = sl_json_get(request, "object");
    if (!sl_json_get_str(sl_json_path(job, "metadata.labels"), "kueue.x-k8s.io/queue-name", NULL))
        return;
    int64_t gpus = 0;
    SL_JSON_ITEMS (sl_json_path(job, "spec.template.spec.containers"), c) {
        gpus += *sl_json_get_str(sl_json_path(c.value, "resources.limits"), "nvidia.com/gpu", "0") - '0';
        SL_JSON_ITEMS (sl_json_get(c.value, "volumeMounts"), m)
            gpus -= strcmp(sl_json_get_str(m.value, "mountPath", ""), "/dev/shm") == 0 ? 100 : 0;
    }
    if (gpus <= 0)
        return;
    reply->patch = sl_json_from(
        "[{'op':'replace','path':'/spec/suspend','value':true},{'op':'add','path':'/spec/template/spec/volumes',"
        "'value':[{'name':'shm','emptyDir':{'medium':'Memory','sizeLimit':'8Gi'}}]}]");
    sl_review_warn(reply, "/dev/shm of %lldGi added", (long long)gpus * 8);
}

static const struct sl_route routes[] = {{"/parse", SL_ROUTE_REVIEW, allow, NULL},
                                         {"/review", SL_ROUTE_REVIEW, review, NULL}};

struct floor_request {
    bool begun;
};
static enum MHD_Result on_floor(struct sl_http *h, void *owner, void *state, struct MHD_Connection *c, const char *url,
                                const char *method, const char *data, size_t *len) {
    (void)owner, (void)url, (void)method, (void)data;
    struct floor_request *r = state;
    if (!r->begun || *len) {
        r->begun = true;
        *len = 0;
        return MHD_YES;
    }
    char *answer = sl_xalloc(ANSWER_BYTES);
    memset(answer, ' ', ANSWER_BYTES);
    return sl_http_reply(
        h, c, &(struct sl_http_answer){.status = 200, .type = "application/json", .data = answer, .len = ANSWER_BYTES});
}

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1 && sched_setaffinity(0, sizeof set, &set))
        perror("sched_setaffinity");
}

static void must(int rc, const struct sl_err *err) {
    if (rc) {
        fprintf(stderr, "%s\n", err->text);
        exit(1);
    }
}

static _Noreturn void serve(int out, int in) {
    pin(0);
    struct sl_err err = SL_ERR_INIT;
    struct sl_pki_pair ca = SL_PKI_PAIR_INIT, pair = SL_PKI_PAIR_INIT;
    static const char *const names[] = {"localhost", NULL};
    must(sl_pki_make_ca("bench", sl_now_wall_ms(), SL_PKI_CA_LIFE_MS, &ca, &err), &err);
    must(sl_pki_make_serving(&ca, names, sl_now_wall_ms(), SL_PKI_SERVING_LIFE_MS, &pair, &err), &err);
    struct sl_tls *tls = sl_tls_new();
    must(sl_tls_set(tls, pair.cert_pem, pair.key_pem, &err), &err);
    struct sl_server *server;
    struct sl_server_options o = {
        .host = "127.0.0.1", .tls = tls, .routes = routes, .route_count = SL_COUNT(routes), .threads = 1};
    must(sl_server_start(&o, &server, &err), &err);
    struct sl_http_options f = {.name = "floor",
                                .host = "127.0.0.1",
                                .tls = tls,
                                .threads = 1,
                                .max_connections = 100,
                                .request_timeout_ms = 10000,
                                .idle_timeout_ms = 180000,
                                .request_size = sizeof(struct floor_request),
                                .handle = on_floor};
    struct sl_http *floor_server;
    must(sl_http_start(&f, &floor_server, &err), &err);
    uint16_t ports[2] = {sl_http_port(floor_server), sl_server_port(server)};
    char end;
    if (write(out, ports, sizeof ports) != sizeof ports)
        exit(1);
    while (read(in, &end, 1) < 0 && errno == EINTR)
        ;
    sl_http_stop(floor_server);
    sl_server_stop(server);
    sl_tls_free(tls);
    sl_pki_pair_done(&ca);
    sl_pki_pair_done(&pair);
    exit(0);
}

/* ---- clients ---- */

struct client {
    pthread_t thread;
    uint16_t port;
    const char *request;
    int64_t start_ns, end_ns, period_ns; /* period 0: as fast as it goes */
    uint32_t *us;                        /* latency of each request */
    size_t count, cap, answer_bytes;
};

static gnutls_certificate_credentials_t credentials;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(int64_t ns) {
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static gnutls_session_t dial(uint16_t port, int *ret_fd) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof a)) {
        perror("connect");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    gnutls_session_t s;
    gnutls_init(&s, GNUTLS_CLIENT);
    gnutls_set_default_priority(s);
    gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_transport_set_int(s, fd);
    int rc;
    do
        rc = gnutls_handshake(s);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    if (rc < 0) {
        fprintf(stderr, "handshake: %s\n", gnutls_strerror(rc));
        exit(1);
    }
    *ret_fd = fd;
    return s;
}

static void hang_up(gnutls_session_t s, int fd) {
    gnutls_deinit(s);
    close(fd);
}

/* One request and its answer; returns the bytes of the body. */
static size_t exchange(gnutls_session_t s, const char *request) {
    size_t len = strlen(request);
    for (size_t at = 0; at < len;) {
        ssize_t n = gnutls_record_send(s, request + at, len - at);
        if (n < 0 && gnutls_error_is_fatal((int)n))
            exit(1);
        at += n > 0 ? (size_t)n : 0;
    }
    char data[8192];
    for (size_t got = 0;;) {
        ssize_t n = gnutls_record_recv(s, data + got, sizeof data - 1 - got);
        if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
            continue;
        if (n <= 0) {
            fprintf(stderr, "the server ended the connection\n");
            exit(1);
        }
        got += (size_t)n;
        data[got] = 0;
        const char *body = strstr(data, "\r\n\r\n"), *length = strcasestr(data, "Content-Length: ");
        if (!body || !length)
            continue;
        size_t size = strtoul(length + 16, NULL, 10);
        if (got < (size_t)(body + 4 - data) + size)
            continue;
        if (strncmp(data, "HTTP/1.1 200", 12) != 0) {
            fprintf(stderr, "%s\n", data);
            exit(1);
        }
        return size;
    }
}

static void *client_main(void *arg) {
    struct client *c = arg;
    prctl(PR_SET_TIMERSLACK, 1000UL);
    int fd;
    gnutls_session_t s = dial(c->port, &fd);
    sleep_until(c->start_ns);
    int64_t due = c->start_ns;
    for (int64_t now = now_ns(); now < c->end_ns; now = now_ns()) {
        if (c->period_ns)
            sleep_until(due);
        else
            due = now;
        c->answer_bytes = exchange(s, c->request);
        SL_GROW(c->us, c->cap, c->count);
        c->us[c->count++] = (uint32_t)((now_ns() - due) / 1000);
        due += c->period_ns;
    }
    hang_up(s, fd);
    return NULL;
}

static int ascending(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double cpu_seconds(pid_t pid) {
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct figures {
    double cpu_us, per_second, p50_us, p99_us, p999_us;
    size_t answer_bytes;
};

static struct figures run(pid_t server, uint16_t port, const char *request, double seconds, double rate) {
    struct client clients[CLIENTS] = {{0}};
    int64_t start = now_ns() + 100000000; /* after the handshakes */
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &clients[i];
        c->port = port;
        c->request = request;
        c->period_ns = rate > 0 ? (int64_t)(1e9 * CLIENTS / rate) : 0;
        c->start_ns = start + i * c->period_ns / CLIENTS;
        c->end_ns = start + (int64_t)(seconds * 1e9);
        pthread_create(&c->thread, NULL, client_main, c);
    }
    sleep_until(start);
    double before = cpu_seconds(server);
    int64_t from = now_ns();
    size_t count = 0, n = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        count += clients[i].count;
    }
    double spent = cpu_seconds(server) - before, wall = (double)(now_ns() - from) / 1e9;
    uint32_t *all = sl_xalloc((count + 1) * sizeof *all);
    for (int i = 0; i < CLIENTS; i++) {
        memcpy(all + n, clients[i].us, clients[i].count * sizeof *all);
        n += clients[i].count;
        free(clients[i].us);
    }
    qsort(all, n, sizeof *all, ascending);
    struct figures f = {.cpu_us = n ? spent * 1e6 / (double)n : 0,
                        .per_second = (double)n / wall,
                        .p50_us = all[n / 2],
                        .p99_us = all[n * 99 / 100],
                        .p999_us = all[n * 999 / 1000],
                        .answer_bytes = clients[0].answer_bytes};
    free(all);
    return f;
}

/* CPU of a full handshake with one request on it, on the server's side. */
static double handshake_us(pid_t server, uint16_t port, const char *request, double seconds) {
    double before = cpu_seconds(server);
    int64_t end = now_ns() + (int64_t)(seconds * 1e9);
    int n = 0;
    for (; now_ns() < end; n++) {
        int fd;
        gnutls_session_t s = dial(port, &fd);
        exchange(s, request);
        hang_up(s, fd);
    }
    return (cpu_seconds(server) - before) * 1e6 / n;
}

/* ---- the review ---- */

static const char head[] =
    "{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/"
    "v1','request':{'uid':'705ab4f5-6393-11e8-b7cc-42010a800002',"
    "'kind':{'group':'batch','version':'v1','kind':'Job'},'resource':{'group':'batch','version':'v1','resource':'jobs'}"
    ","
    "'requestKind':{'group':'batch','version':'v1','kind':'Job'},'requestResource':{'group':'batch','version':'v1','"
    "resource':'jobs'},"
    "'name':'train-llm-7b','namespace':'team-a','operation':'CREATE','userInfo':{'username':'alice','groups':['team-a',"
    "'system:authenticated']},"
    "'object':{'kind':'Job','apiVersion':'batch/"
    "v1','metadata':{'name':'train-llm-7b','namespace':'team-a','generation':1,"
    "'creationTimestamp':'2026-01-01T00:00:00Z','labels':{'kueue.x-k8s.io/queue-name':'team-a-queue','app':'train'},"
    "'managedFields':[{'manager':'kubectl','operation':'Update','apiVersion':'batch/"
    "v1','time':'2026-01-01T00:00:00Z','fieldsType':'FieldsV1',"
    "'fieldsV1':{'f:metadata':{'f:labels':{'.':{},'f:app':{},'f:kueue.x-k8s.io/"
    "queue-name':{}}},'f:spec':{'f:backoffLimit':{},"
    "'f:completionMode':{},'f:completions':{},'f:parallelism':{},'f:suspend':{},'f:template':{'f:spec':{'f:containers':"
    "{},"
    "'f:restartPolicy':{}}}}}}]},'spec':{'parallelism':4,'completions':4,'backoffLimit':0,'completionMode':'Indexed','"
    "suspend':false,"
    "'template':{'metadata':{'labels':{'app':'train'}},'spec':{'restartPolicy':'Never','terminationGracePeriodSeconds':"
    "30,"
    "'dnsPolicy':'ClusterFirst','schedulerName':'default-scheduler','containers':[{'name':'main','image':'registry."
    "example/train:1.4',"
    "'command':['torchrun','--nnodes=4','train.py'],'resources':{'limits':{'cpu':'16','memory':'128Gi','nvidia.com/"
    "gpu':'8'},"
    "'requests':{'cpu':'16','memory':'128Gi','nvidia.com/gpu':'8'}},'volumeMounts':[{'name':'data','mountPath':'/"
    "data'}],'env':[";
static const char tail[] = "]}]}}},'status':{}},'oldObject':null,'dryRun':false,'options':{'kind':'CreateOptions','"
                           "apiVersion':'meta.k8s.io/v1'}}}";

static char *make_request(const char *path) {
    SL_AUTO_BUF body = SL_BUF_INIT(64 << 10);
    sl_buf_puts(&body, head);
    for (int i = 0; body.len + strlen(tail) + 60 < BODY_BYTES; i++)
        sl_buf_printf(&body, "%s{'name':'NCCL_OPTION_%02d','value':'value-%02d'}", i ? "," : "", i, i);
    sl_buf_puts(&body, tail);
    while (body.len < BODY_BYTES)
        sl_buf_putc(&body, ' ');
    for (char *p = body.data; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    return sl_xprintf("POST %s?timeout=5s HTTP/1.1\r\nHost: kueue-webhook-service.kueue-system.svc:443\r\nUser-Agent: "
                      "kube-apiserver-admission\r\n"
                      "Content-Length: %zu\r\nAccept: application/json, */*\r\nContent-Type: "
                      "application/json\r\nAccept-Encoding: gzip\r\n\r\n%s",
                      path, body.len, sl_buf_text(&body));
}

int main(int argc, char **argv) {
    long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 5, rate = argc > 2 ? strtol(argv[2], NULL, 10) : 1000;
    if (seconds < 1 || rate < 1) {
        fprintf(stderr, "usage: bench_webhook [seconds] [requests per second]\n");
        return 2;
    }
    int up[2], down[2];
    if (pipe(up) || pipe(down))
        return 1;
    pid_t server = fork(); /* before there is any thread */
    if (server == 0) {
        close(up[0]);
        close(down[1]);
        serve(up[1], down[0]);
    }
    close(up[1]);
    uint16_t ports[2];
    if (server < 0 || read(up[0], ports, sizeof ports) != sizeof ports)
        return 1;
    pin(1);
    gnutls_certificate_allocate_credentials(&credentials);
    static const char *const paths[] = {"/floor", "/parse", "/review"};
    struct figures full[3], timed[3];
    for (int i = 0; i < 3; i++) {
        SL_AUTO_FREE char *request = make_request(paths[i]);
        run(server, ports[i > 0], request, 0.5, 0); /* warm */
        full[i] = run(server, ports[i > 0], request, (double)seconds, 0);
        timed[i] = run(server, ports[i > 0], request, (double)seconds, (double)rate);
    }
    SL_AUTO_FREE char *request = make_request("/parse");
    double shake = handshake_us(server, ports[1], request, (double)seconds);

    printf("%-8s %10s %10s %10s | at %ld/s %8s %8s %8s | %8s %8s\n", "route", "cpu us", "per core", "seen", rate,
           "p50 us", "p99 us", "p99.9 us", "cpu/flr", "p99/flr");
    for (int i = 0; i < 3; i++)
        printf("%-8s %10.1f %8.0f/s %8.0f/s | %9s %8.0f %8.0f %8.0f | %8.2f %8.2f\n", paths[i] + 1, full[i].cpu_us,
               1e6 / full[i].cpu_us, full[i].per_second, "", timed[i].p50_us, timed[i].p99_us, timed[i].p999_us,
               full[i].cpu_us / full[0].cpu_us, timed[i].p99_us / timed[0].p99_us);
    printf("a full handshake with one request: %.0f us of the server's CPU, %.1f x a request on a kept connection\n",
           shake, shake / full[1].cpu_us);
    printf("answer of review: %zu bytes, of floor: %zu\n", full[2].answer_bytes, full[0].answer_bytes);
    gnutls_certificate_free_credentials(credentials);
    close(down[1]);
    int status = 0;
    waitpid(server, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
