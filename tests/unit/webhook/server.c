#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "route.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "sluice/webhook/probes.h"
#include "sluice/webhook/server.h"

/* The misbehaving clients are in tests/webhook; here are the contract of the C side and plain sockets. */

static void allow(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    (void)request;
    if (snapshot)
        sl_review_deny(reply, "snapshot %d", *(const int *)snapshot);
}
static int convert(struct sl_json *object, const char *desired, struct sl_err *err) {
    (void)err;
    sl_json_set_str(object, "apiVersion", desired);
    return 0;
}
static const struct sl_route good[] = {{"/a", SL_ROUTE_REVIEW, allow, NULL}, {"/b", SL_ROUTE_CONVERT, NULL, convert}};

static void routes__are_checked(void **state) {
    (void)state;
    static const struct {
        struct sl_route rows[2];
        const char *why;
    } cases[] = {
        {{{"/a", SL_ROUTE_REVIEW, allow, NULL}, {"/a", SL_ROUTE_CONVERT, NULL, convert}}, "route /a: given twice"},
        {{{"/a", SL_ROUTE_REVIEW, allow, NULL}, {"/b", SL_ROUTE_REVIEW, NULL, convert}}, "route /b: no handler"},
        {{{"/a", SL_ROUTE_CONVERT, allow, NULL}, {"/b", SL_ROUTE_REVIEW, allow, NULL}}, "route /a: no handler"},
        {{{"a", SL_ROUTE_REVIEW, allow, NULL}, {"/b", SL_ROUTE_REVIEW, allow, NULL}}, "slash"},
        {{{"/a", SL_ROUTE_REVIEW, allow, NULL}, {NULL, SL_ROUTE_REVIEW, allow, NULL}}, "route 1"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct sl_routes r;
        struct sl_err err = SL_ERR_INIT;
        assert_int_equal(sl_routes_init(&r, cases[i].rows, 2, &err), SL_INVALID);
        assert_non_null(strstr(err.text, cases[i].why));
    }
    struct sl_routes r;
    assert_int_equal(sl_routes_init(&r, good, 2, NULL), 0);
    assert_ptr_equal(sl_routes_find(&r, "/a"), &good[0]);
    assert_ptr_equal(sl_routes_find(&r, "/b"), &good[1]);
    assert_null(sl_routes_find(&r, "/"));
    assert_null(sl_routes_find(&r, "/a/"));
    sl_routes_done(&r);
}

static void server__start_says_what_is_wrong(void **state) {
    (void)state;
    struct sl_server *s = NULL, *t = NULL;
    struct sl_err err = SL_ERR_INIT;
    struct sl_server_options o = {.host = "localhost", .routes = good, .route_count = 2};
    assert_int_equal(sl_server_start(&o, &s, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "localhost"));
    o.host = "127.0.0.1";
    o.threads = 17;
    assert_int_equal(sl_server_start(&o, &s, &err), SL_INVALID);
    o.threads = 0;
    assert_null(s);
    assert_int_equal(sl_server_start(&o, &s, &err), 0);
    o.port = sl_server_port(s);
    assert_int_equal(sl_server_start(&o, &t, &err), SL_IO);
    assert_non_null(strstr(err.text, "in use"));
    sl_server_stop(s);
    /* the port is free again at once */
    assert_int_equal(sl_server_start(&o, &s, &err), 0);
    assert_int_equal(sl_server_port(s), o.port);
    sl_server_stop(s);
    sl_server_stop(NULL);
}

static int connect_to(uint16_t port, bool six) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 b = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 &&
        connect(fd, six ? (const struct sockaddr *)&b : (const struct sockaddr *)&a, six ? sizeof b : sizeof a)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Sends one request that asks for the end of the connection; returns everything that came back (free()). */
static char *ask(uint16_t port, bool six, const char *method, const char *path, const char *body) {
    int fd = connect_to(port, six);
    assert_true(fd >= 0);
    char *request = sl_xprintf("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "
                               "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                               method, path, strlen(body), body);
    size_t n = strlen(request);
    assert_int_equal(write(fd, request, n), n);
    struct sl_buf got = SL_BUF_INIT(1 << 20);
    char piece[4096];
    for (ssize_t k; (k = read(fd, piece, sizeof piece)) > 0;)
        sl_buf_add(&got, piece, (size_t)k);
    close(fd);
    free(request);
    return sl_buf_take(&got);
}

static void expect(uint16_t port, const char *method, const char *path, const char *body, const char *first,
                   const char *part) {
    char *got = ask(port, false, method, path, body);
    assert_non_null(got);
    if (strncmp(got, first, strlen(first)) != 0 || !strstr(got, part))
        fail_msg("%s %s: %s", method, path, got);
    free(got);
}

#define REVIEW "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{\"uid\":\"u\"}}"

static int version, out_now, acquired;
static const void *acquire(void *payload) {
    acquired++;
    out_now++;
    return payload;
}
static void release(void *payload, const void *snapshot) {
    assert_ptr_equal(payload, snapshot);
    out_now--;
}

static void server__snapshot_is_held_for_the_handler_only(void **state) {
    (void)state;
    version = 42;
    acquired = out_now = 0;
    struct sl_server *s;
    struct sl_server_options o = {.host = "127.0.0.1",
                                  .routes = good,
                                  .route_count = 2,
                                  .threads = 1,
                                  .acquire = acquire,
                                  .release = release,
                                  .payload = &version};
    assert_int_equal(sl_server_start(&o, &s, NULL), 0);
    expect(sl_server_port(s), "POST", "/a?timeout=5s", REVIEW, "HTTP/1.1 200", "snapshot 42");
    expect(sl_server_port(s), "POST", "/a", "{}", "HTTP/1.1 400", "kind: must be AdmissionReview");
    expect(sl_server_port(s), "POST", "/b", "{}", "HTTP/1.1 400", "request.objects");
    expect(sl_server_port(s), "POST", "/c", REVIEW, "HTTP/1.1 404", "no such path");
    expect(sl_server_port(s), "GET", "/a", "", "HTTP/1.1 405", "Allow: POST");
    sl_server_stop(s); /* joins the threads: what they counted can be read now */
    assert_int_equal(acquired, 2);
    assert_int_equal(out_now, 0);
}

static void server__without_snapshots_handlers_get_none(void **state) {
    (void)state;
    sl_metrics_reset();
    struct sl_server *s;
    struct sl_server_options o = {.host = "127.0.0.1", .routes = good, .route_count = 2};
    assert_int_equal(sl_server_start(&o, &s, NULL), 0);
    expect(sl_server_port(s), "POST", "/a", REVIEW, "HTTP/1.1 200", "\"allowed\":true");
    assert_true(sl_server_drain(s, 0, 0));
    assert_int_equal(sl_server_in_flight(s), 0);
    assert_int_equal(sl_server_body_bytes(s), 0);
    sl_server_stop(s);
    assert_true(sl_metric_get(SL_M_SLUICE_WEBHOOK_REQUESTS_TOTAL, SL_LABELS("/a", "200")) == 1);
    assert_true(sl_metric_get(SL_M_SLUICE_WEBHOOK_SECONDS, SL_LABELS("/a")) == 1);
}

static void server__listens_on_both_families(void **state) {
    (void)state;
    struct sl_server *s;
    struct sl_server_options o = {.routes = good, .route_count = 2};
    assert_int_equal(sl_server_start(&o, &s, NULL), 0);
    expect(sl_server_port(s), "POST", "/a", REVIEW, "HTTP/1.1 200", "allowed");
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    bool six =
        probe >= 0 && bind(probe, (const struct sockaddr *)&any, sizeof any) == 0; /* not every machine has ::1 */
    if (probe >= 0)
        close(probe);
    if (six) {
        char *got = ask(sl_server_port(s), true, "POST", "/a", REVIEW);
        assert_non_null(strstr(got, "HTTP/1.1 200"));
        free(got);
    } else {
        print_message("no ::1 on this machine: only IPv4 was tried\n");
    }
    sl_server_stop(s);
}

static bool ill(void *payload, char *why, size_t size) {
    if (!payload)
        return true;
    snprintf(why, size, "%s", (const char *)payload);
    return false;
}
static int doorman(void *payload, const char *token) {
    assert_string_equal(payload, "door");
    return !token ? 401 : !strcmp(token, "good") ? 200 : !strcmp(token, "poor") ? 403 : 503;
}

/* One more header goes into the place of the path: what follows it becomes the value of another. */
static void expect_page(struct sl_probes *p, const char *header, const char *first, const char *part) {
    SL_AUTO_FREE char *path = sl_xprintf("/metrics HTTP/1.1\r\n%s\r\nX-Rest:", header);
    expect(sl_probes_port(p), "GET", path, "", first, part);
}

static void metrics__are_for_whom_the_doorman_lets_in(void **state) {
    (void)state;
    struct sl_probes *p;
    char door[] = "door";
    struct sl_metrics_options o = {.host = "127.0.0.1", .authorize = doorman, .payload = door};
    assert_int_equal(sl_metrics_start(&o, &p, NULL), 0);
    sl_metric_set(SL_M_SLUICE_LEADER, 7, SL_LABELS());
    expect_page(p, "Authorization: Bearer good", "HTTP/1.1 200", "\nsluice_leader 7\n");
    expect_page(p, "authorization: bearer   good", "HTTP/1.1 200", "\nsluice_leader 7\n");
    static const char *const strangers[] = {"X: y", "Authorization: good", "Authorization: Basic good",
                                            "Authorization: Bearer"};
    for (size_t i = 0; i < SL_COUNT(strangers); i++)
        expect_page(p, strangers[i], "HTTP/1.1 401", "a valid bearer token is needed");
    expect_page(p, "Authorization: Bearer poor", "HTTP/1.1 403", "may not get the non-resource URL /metrics");
    expect_page(p, "Authorization: Bearer odd", "HTTP/1.1 503", "did not say");
    expect(sl_probes_port(p), "GET", "/other", "", "HTTP/1.1 404", "no such path"); /* nothing there to guard */
    sl_probes_stop(p);
}

static void probes__answer(void **state) {
    (void)state;
    struct sl_probes *p;
    char why[] = "watch of jobs";
    assert_int_equal(
        sl_health_start(&(struct sl_health_options){.host = "127.0.0.1", .ready = ill, .payload = why}, &p, NULL), 0);
    expect(sl_probes_port(p), "GET", "/healthz", "", "HTTP/1.1 200", "ok\n");
    expect(sl_probes_port(p), "GET", "/readyz", "", "HTTP/1.1 503", "watch of jobs\n");
    expect(sl_probes_port(p), "GET", "/", "", "HTTP/1.1 404", "no such path");
    expect(sl_probes_port(p), "DELETE", "/healthz", "", "HTTP/1.1 405", "Allow: GET, HEAD");
    sl_probes_stop(p);
    assert_int_equal(sl_health_start(&(struct sl_health_options){.host = "127.0.0.1", .ready = ill}, &p, NULL), 0);
    expect(sl_probes_port(p), "GET", "/readyz", "", "HTTP/1.1 200", "ok\n");
    sl_probes_stop(p);
    assert_int_equal(sl_metrics_start(&(struct sl_metrics_options){.host = "127.0.0.1"}, &p, NULL), 0);
    sl_metric_set(SL_M_SLUICE_LEADER, 7, SL_LABELS());
    expect(sl_probes_port(p), "GET", "/metrics", "", "HTTP/1.1 200", "\nsluice_leader 7\n");
    expect(sl_probes_port(p), "GET", "/readyz", "", "HTTP/1.1 404", "no such path");
    sl_probes_stop(p);
    sl_probes_stop(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes__are_checked),
        cmocka_unit_test(server__start_says_what_is_wrong),
        cmocka_unit_test(server__snapshot_is_held_for_the_handler_only),
        cmocka_unit_test(server__without_snapshots_handlers_get_none),
        cmocka_unit_test(server__listens_on_both_families),
        cmocka_unit_test(probes__answer),
        cmocka_unit_test(metrics__are_for_whom_the_doorman_lets_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
