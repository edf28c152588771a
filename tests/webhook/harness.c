/*
 * A webhook server of its own for the tests: it makes a CA, serves three routes and the probes, prints one JSON line
 * with ports and CA, then obeys lines on standard input and answers each with one line:
 *
 *   swap          new serving certificate of the same CA      stats         connections, requests in flight, bytes of
 * bodies, descriptors unready       no snapshot from now on                     drain MIN MAX drain and tell whether
 * nothing was left ready         a snapshot again                            quit          stop and exit (so does the
 * end of the input)
 *
 * Arguments, all optional: name=value for threads, connections, request_ms, idle_ms, in_flight, convert_max, plain.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>
#include <unistd.h>

#include "sluice/base/clock.h"
#include "sluice/base/json.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/webhook/pki.h"
#include "sluice/webhook/probes.h"
#include "sluice/webhook/server.h"
#include "sluice/webhook/tls.h"

static atomic_bool known = true;
static atomic_int held;

static const void *acquire(void *payload) {
    if (!atomic_load(&known))
        return NULL;
    atomic_fetch_add(&held, 1);
    return payload;
}

static void release(void *payload, const void *snapshot) {
    SL_ASSERT(payload == snapshot);
    atomic_fetch_sub(&held, 1);
}

/* Suspends, as the real one does: an `add` where there is no such member. */
static void mutate(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    SL_ASSERT(snapshot);
    const struct sl_json *spec = sl_json_path(request, "object.spec");
    if (!spec || sl_json_get_bool(spec, "suspend", false))
        return;
    reply->patch = sl_json_from("[{'op':'add','path':'/spec/suspend','value':true}]");
    sl_review_warn(reply, "held");
}

static void validate(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)snapshot;
    const char *name = sl_json_path_str(request, "object.metadata.name", "");
    if (strncmp(name, "bad", 3) == 0)
        sl_review_deny(reply, "metadata.name: Invalid value: \"%s\": must not be bad", name);
}

static int convert(struct sl_json *object, const char *desired, struct sl_err *err) {
    if (strcmp(sl_json_path_str(object, "metadata.name", ""), "stuck") == 0)
        return sl_err_set(err, SL_INVALID, "spec.x: cannot be told");
    sl_json_set_str(object, "apiVersion", desired);
    return 0;
}

static const struct sl_route routes[] = {
    {"/mutate", SL_ROUTE_REVIEW, mutate, NULL},
    {"/validate", SL_ROUTE_REVIEW, validate, NULL},
    {"/convert", SL_ROUTE_CONVERT, NULL, convert},
};

static bool ready(void *payload, char *why, size_t size) {
    (void)payload;
    if (atomic_load(&known))
        return true;
    snprintf(why, size, "caches are not filled");
    return false;
}

static void must(int rc, const struct sl_err *err) {
    if (rc) {
        fprintf(stderr, "%s\n", err->text);
        exit(1);
    }
}

static long argument(int argc, char **argv, const char *name, long dflt) {
    size_t n = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
            return strtol(argv[i] + n + 1, NULL, 10);
    return dflt;
}

static int count_descriptors(void) {
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n - 3; /* ".", "..", and the folder itself */
}

/* The sanitizers' allocator gives nothing back, so figures of memory mean nothing under it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

static int64_t resident_kib(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*s %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (int64_t)pages * sysconf(_SC_PAGESIZE) / 1024;
}

static void swap(struct sl_tls *tls, const struct sl_pki_pair *ca) {
    static const char *const names[] = {"localhost", "127.0.0.1", NULL};
    struct sl_pki_pair pair = SL_PKI_PAIR_INIT;
    struct sl_err err = SL_ERR_INIT;
    must(sl_pki_make_serving(ca, names, sl_now_wall_ms(), SL_PKI_SERVING_LIFE_MS, &pair, &err), &err);
    must(sl_tls_set(tls, pair.cert_pem, pair.key_pem, &err), &err);
    sl_pki_pair_done(&pair);
}

static void say(struct sl_json *j) {
    char *text = sl_json_text(j);
    puts(text);
    fflush(stdout);
    free(text);
    sl_json_unref(j);
}

int main(int argc, char **argv) {
    sl_log_set_level(SL_LOG_WARN);
    static int state;
    struct sl_err err = SL_ERR_INIT;
    struct sl_pki_pair ca = SL_PKI_PAIR_INIT;
    must(sl_pki_make_ca("test", sl_now_wall_ms(), SL_PKI_CA_LIFE_MS, &ca, &err), &err);
    struct sl_tls *tls = sl_tls_new();
    swap(tls, &ca);
    struct sl_server_options o = {
        .host = "127.0.0.1",
        .tls = argument(argc, argv, "plain", 0) ? NULL : tls,
        .routes = routes,
        .route_count = SL_COUNT(routes),
        .acquire = acquire,
        .release = release,
        .payload = &state,
        .threads = (unsigned)argument(argc, argv, "threads", 0),
        .max_connections = (unsigned)argument(argc, argv, "connections", 0),
        .request_timeout_ms = (int)argument(argc, argv, "request_ms", 0),
        .idle_timeout_ms = (int)argument(argc, argv, "idle_ms", 0),
        .max_review_bytes_in_flight = (size_t)argument(argc, argv, "in_flight", 0),
        .max_conversion_bytes = (size_t)argument(argc, argv, "convert_max", 0),
    };
    struct sl_server *server;
    must(sl_server_start(&o, &server, &err), &err);
    struct sl_probes *health, *metrics;
    must(sl_health_start(&(struct sl_health_options){.host = "127.0.0.1", .ready = ready}, &health, &err), &err);
    must(sl_metrics_start(&(struct sl_metrics_options){.host = "127.0.0.1", .tls = tls}, &metrics, &err), &err);

    struct sl_json *hello = sl_json_new_object();
    sl_json_set_int(hello, "port", sl_server_port(server));
    sl_json_set_int(hello, "health", sl_probes_port(health));
    sl_json_set_int(hello, "metrics", sl_probes_port(metrics));
    sl_json_set_str(hello, "ca", ca.cert_pem);
    say(hello);

    char line[128];
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        struct sl_json *reply = sl_json_new_object();
        long min_ms = 0, max_ms = 0;
        if (strncmp(line, "swap", 4) == 0) {
            swap(tls, &ca);
            sl_json_set_int(reply, "generation", sl_tls_generation(tls));
        } else if (strncmp(line, "unready", 7) == 0) {
            atomic_store(&known, false);
        } else if (strncmp(line, "ready", 5) == 0) {
            atomic_store(&known, true);
        } else if (sscanf(line, "drain %ld %ld", &min_ms, &max_ms) == 2) {
            sl_json_set_bool(reply, "empty", sl_server_drain(server, min_ms, max_ms));
        } else if (strncmp(line, "stats", 5) == 0) {
            sl_json_set_int(reply, "connections", sl_server_connections(server));
            sl_json_set_int(reply, "in_flight", sl_server_in_flight(server));
            sl_json_set_int(reply, "body_bytes", (int64_t)sl_server_body_bytes(server));
            sl_json_set_int(reply, "descriptors", count_descriptors());
            sl_json_set_int(reply, "held", atomic_load(&held));
            sl_json_set_int(reply, "resident_kib", resident_kib());
            sl_json_set_bool(reply, "sanitized", SANITIZED);
        }
        say(reply);
    }
    sl_probes_stop(health);
    sl_probes_stop(metrics);
    sl_server_stop(server);
    sl_tls_free(tls);
    sl_pki_pair_done(&ca);
    int left = atomic_load(&held);
    if (left)
        fprintf(stderr, "%d snapshots are still held\n", left);
    return left ? 1 : 0;
}
