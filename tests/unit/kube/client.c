/* The HTTPS client against a scripted server: what it asks, what it repeats, what it tells. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_internal.h"
#include "http_script.h"
#include "sluice/base/file.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"

static const struct sl_resource things = {"example.com", "v1", "things", "Thing", true};
static const struct sl_resource nodes = {"", "v1", "nodes", "Node", false};

static struct script server;
static struct sl_cluster *cluster;
static struct kube_client *client;
static char folder[64], told[1 << 16];

static void put_file(const char *name, const char *text) {
    SL_AUTO_FREE char *path = sl_xprintf("%s/%s", folder, name);
    assert_int_equal(sl_file_write(path, text, strlen(text), 0600, NULL), 0);
}

static void connect_client(int port) {
    snprintf(folder, sizeof folder, "/tmp/sluice-client-XXXXXX");
    assert_non_null(mkdtemp(folder));
    SL_AUTO_FREE char *text = sl_xprintf("current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
                                         "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:%d/base'}}]\n"
                                         "users: [{name: u, user: {tokenFile: token}}]\n",
                                         port);
    put_file("token", "t1");
    put_file("config", text);
    SL_AUTO_FREE char *path = sl_xprintf("%s/config", folder);
    struct sl_client_options o = {.kubeconfig = path};
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_client_new(&o, &cluster, &err), 0);
    client = kube_client_of(cluster);
    client->tuning.watch_backoff_ms = 2;
    client->tuning.watch_backoff_max_ms = 20;
    client->tuning.request_backoff_ms = 2;
    client->tuning.page = 2;
    told[0] = 0;
}
static void begin(struct script_step *steps, size_t count) {
    assert_true(script_start(&server, steps, count, 0));
    connect_client(server.port);
}
#define BEGIN(steps) begin(steps, SL_COUNT(steps))
static void disconnect(void) {
    sl_cluster_free(SL_TAKE(cluster));
    SL_AUTO_FREE char *token = sl_xprintf("%s/token", folder), *config = sl_xprintf("%s/config", folder);
    unlink(token);
    unlink(config);
    rmdir(folder);
}
static void finish(void) {
    disconnect();
    script_stop(&server);
    if (script_unused(&server) || strstr(server.log, "UNEXPECTED"))
        fail_msg("requests were:\n%s", server.log);
}

static void tell(const char *text) {
    size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s", text);
}
static void on_event(void *payload, const struct sl_watch_event *e) {
    static const char marks[] = "+-=";
    (void)payload;
    SL_AUTO_FREE char *text =
        sl_xprintf("%c%s%s%s ", marks[e->what], sl_json_path_str(e->object, "metadata.name", ""),
                   e->what == SL_WATCH_GONE ? sl_json_path_str(e->object, "metadata.uid", "") : "",
                   sl_json_path_str(e->object, "spec", ""));
    tell(text);
    if (e->object) {
        assert_string_equal(sl_json_get_str(e->object, "kind", ""), "Thing");
        assert_string_equal(sl_json_get_str(e->object, "apiVersion", ""), "example.com/v1");
        assert_null(sl_json_path(e->object, "metadata.managedFields"));
    }
}
/* Runs until the watch has told `want`, or for so long that it never will. */
static void expect_told(const char *want) {
    for (int i = 0; i < 3000 && strcmp(told, want); i++)
        sl_cluster_step(cluster, 10);
    assert_string_equal(told, want);
}

struct got {
    int count, code, status;
    bool unknown;
    char text[200], value[64];
};
static void on_reply(void *payload, const struct sl_reply *r) {
    struct got *g = payload;
    g->count++;
    g->code = r->code;
    g->status = r->status;
    g->unknown = r->unknown;
    snprintf(g->text, sizeof g->text, "%s", r->text);
    snprintf(g->value, sizeof g->value, "%s", sl_json_path_str(r->object, "spec", ""));
}
static void ask_lane(struct got *g, enum sl_lane lane, enum sl_verb verb, const char *name, const char *body) {
    struct sl_request q = {.verb = verb,
                           .resource = &things,
                           .ns = "a",
                           .name = name,
                           .lane = lane,
                           .done = on_reply,
                           .payload = g,
                           .field_manager = verb == SL_APPLY ? "m&m" : NULL,
                           .force = true,
                           .body = body ? sl_json_from(body) : NULL};
    sl_cluster_send(cluster, &q);
}
static void ask(struct got *g, enum sl_verb verb, const char *name, const char *body) {
    ask_lane(g, SL_LANE_DECISION, verb, name, body);
}
static void expect_replies(struct got *g, int count) {
    for (int i = 0; i < 3000 && g->count < count; i++)
        sl_cluster_step(cluster, 10);
    assert_int_equal(g->count, count);
}

#define OBJ(name, uid, rv, spec)                                                                                       \
    "{\"metadata\":{\"namespace\":\"a\",\"managedFields\":[{\"f\":{}}],\"name\":\"" name "\",\"uid\":\"" uid           \
    "\",\"resourceVersion\":\"" rv "\"},\"spec\":\"" spec "\"}"
#define LIST(rv, cont, items)                                                                                          \
    "{\"metadata\":{\"resourceVersion\":\"" rv "\",\"continue\":\"" cont "\"},\"items\":[" items "]}\n"
#define EVENT(type, obj) "{\"type\":\"" type "\",\"object\":" obj "}\n"
#define BOOKMARK(rv)     EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"" rv "\"}}")
#define EXPIRED          EVENT("ERROR", "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}")
#define FAILURE(code, reason)                                                                                          \
    "{\"kind\":\"Status\",\"code\":" #code ",\"reason\":\"" reason "\",\"message\":\"because " reason "\"}"
#define ALL "GET /base/apis/example.com/v1/things?"

static struct sl_watch *watch(void) {
    struct sl_watch *w = sl_cluster_watch(cluster, &things, NULL, on_event, NULL);
    assert_false(sl_watch_synced(w));
    return w;
}

static void pages_then_events(void **state) {
    (void)state;
    for (size_t piece = 0; piece < 4; piece++) { /* whole, then in chunks of 1, 2, 3 bytes */
        struct script_step steps[] = {
            {.match = ALL "limit=2 auth=t1",
             .status = 200,
             .body = LIST("7", "next/1", OBJ("x", "u1", "3", "1") "," OBJ("y", "u2", "4", "1")),
             .piece = piece},
            {.match = ALL "limit=2&continue=next%2F1",
             .status = 200,
             .body = LIST("7", "", OBJ("z", "u3", "5", "1")),
             .piece = piece},
            {.match = "&resourceVersion=7",
             .status = 200,
             .piece = piece ? piece : 100000,
             .end = SCRIPT_HOLD,
             .body = EVENT("ADDED", OBJ("v", "u4", "8", "1")) EVENT("MODIFIED", OBJ("x", "u1", "9", "2"))
                 EVENT("DELETED", OBJ("y", "u2", "10", "1")) BOOKMARK("12")},
            {.match = "&resourceVersion=12",
             .status = 200,
             .piece = 100000,
             .end = SCRIPT_HOLD,
             .body = EVENT("MODIFIED", OBJ("x", "u1", "13", "3"))},
        };
        BEGIN(steps);
        struct sl_watch *w = watch();
        expect_told("+x1 +y1 +z1 = +v1 +x2 -yu21 ");
        assert_true(sl_watch_synced(w));
        script_release(&server); /* the server's time for this watch is over: it resumes behind the bookmark */
        expect_told("+x1 +y1 +z1 = +v1 +x2 -yu21 +x3 ");
        assert_true(sl_watch_age_ms(w) < 60000);
        finish();
    }
}

static void watches_say_what_they_want(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "GET "
                  "/base/apis/example.com/v1/namespaces/n%20s/"
                  "things?labelSelector=a%20in%20%28b%29&fieldSelector=c%3Dd&limit=2",
         .status = 200,
         .body = LIST("1", "", "")},
        {.match = "GET "
                  "/base/apis/example.com/v1/namespaces/n%20s/"
                  "things?labelSelector=a%20in%20%28b%29&fieldSelector=c%3Dd&watch=1&allowWatchBookmarks=true&"
                  "timeoutSeconds=",
         .status = 200,
         .piece = 1,
         .end = SCRIPT_HOLD,
         .body = ""},
    };
    BEGIN(steps);
    struct sl_watch_options o = {.ns = "n s", .label_selector = "a in (b)", .field_selector = "c=d"};
    sl_cluster_watch(cluster, &things, &o, on_event, NULL);
    expect_told("= ");
    for (int i = 0; i < 3000 && script_seen(&server, "watch=1") < 1; i++)
        sl_cluster_step(cluster, 10);
    finish();
}

static void expired_versions_lead_to_a_new_list(void **state) {
    (void)state;
    static const char *const causes[] = {"in the stream", "as a status"};
    for (size_t turn = 0; turn < SL_COUNT(causes); turn++) {
        struct script_step steps[] = {
            {.match = "limit=2",
             .status = 200,
             .body = LIST("7", "", OBJ("x", "u1", "3", "1") "," OBJ("y", "u2", "4", "1") "," OBJ("z", "u3", "4", "1"))},
            {.match = "&resourceVersion=7",
             .status = turn ? 410 : 200,
             .piece = 7,
             .body = turn ? FAILURE(410, "Expired") : EXPIRED},
            /* y has gone, z is another object of that name */
            {.match = "limit=2",
             .status = 200,
             .body = LIST("20", "", OBJ("x", "u1", "3", "1") "," OBJ("z", "u9", "15", "2"))},
            {.match = "&resourceVersion=20", .status = 200, .piece = 1000, .end = SCRIPT_HOLD, .body = BOOKMARK("21")},
        };
        BEGIN(steps);
        watch();
        expect_told("+x1 +y1 +z1 = +x1 -zu3 +z2 -yu2 = ");
        for (int i = 0; i < 3000 && script_seen(&server, "resourceVersion=20") < 1; i++)
            sl_cluster_step(cluster, 10);
        finish();
    }
}

static void an_expired_page_starts_the_list_again(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "limit=2",
         .status = 200,
         .body = LIST("7", "c1", OBJ("x", "u1", "3", "1") "," OBJ("y", "u2", "4", "1"))},
        {.match = "continue=c1", .status = 410, .body = FAILURE(410, "Expired")},
        {.match = "limit=2 ", .status = 200, .body = LIST("9", "", OBJ("x", "u1", "3", "1"))},
        {.match = "&resourceVersion=9", .status = 200, .piece = 9, .end = SCRIPT_HOLD, .body = BOOKMARK("9")},
    };
    BEGIN(steps);
    watch();
    expect_told("+x1 +y1 +x1 -yu2 = ");
    for (int i = 0; i < 3000 && script_seen(&server, "resourceVersion=9") < 1; i++)
        sl_cluster_step(cluster, 10);
    finish();
}

static void broken_streams_resume(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "limit=2", .status = 500, .body = FAILURE(500, "InternalError")},
        {.match = "limit=2",
         .status = 200,
         .body = LIST("7", "c1", OBJ("x", "u1", "3", "1")),
         .cut = 150,
         .end = SCRIPT_CLOSE},
        {.match = "limit=2",
         .status = 200,
         .body = LIST("7", "c1", OBJ("x", "u1", "3", "1")),
         .cut = 150,
         .end = SCRIPT_RESET},
        {.match = "limit=2", .status = 200, .body = LIST("7", "c1", OBJ("x", "u1", "3", "1"))},
        {.match = "continue=c1",
         .status = 429,
         .headers = "Retry-After: 0\r\n",
         .body = FAILURE(429, "TooManyRequests")},
        {.match = "continue=c1", .end = SCRIPT_RESET}, /* not even a status line */
        {.match = "continue=c1", .status = 200, .body = LIST("7", "", OBJ("y", "u2", "3", "1"))},
        {.match = "&resourceVersion=7", .end = SCRIPT_RESET},
        {.match = "&resourceVersion=7", .status = 503, .body = "<html>"},
        {.match = "&resourceVersion=7", .status = 200, .piece = 10, .body = ""}, /* ends at once */
        {.match = "&resourceVersion=7",
         .status = 200,
         .piece = 50,
         .cut = 260,
         .end = SCRIPT_RESET,
         .body = EVENT("MODIFIED", OBJ("x", "u1", "9", "2")) EVENT("MODIFIED", OBJ("x", "u1", "11", "3"))},
        {.match = "&resourceVersion=9",
         .status = 200,
         .piece = 50,
         .end = SCRIPT_HOLD,
         .body = EVENT("MODIFIED", OBJ("x", "u1", "11", "3"))},
    };
    BEGIN(steps);
    sl_metrics_reset();
    watch();
    expect_told("+x1 +y1 = +x2 +x3 ");
    assert_int_equal(sl_metric_get(SL_M_SLUICE_WATCH_RESTARTS_TOTAL, SL_LABELS("things", "short")), 1);
    assert_int_equal(sl_metric_get(SL_M_SLUICE_WATCH_RESTARTS_TOTAL, SL_LABELS("things", "http")), 2);
    assert_int_equal(sl_metric_get(SL_M_SLUICE_WATCH_RESTARTS_TOTAL, SL_LABELS("things", "busy")), 1);
    assert_int_equal(sl_metric_get(SL_M_SLUICE_WATCH_RESTARTS_TOTAL, SL_LABELS("things", "network")), 3);
    /* the two resets without a byte hit kept connections: libcurl repeated those reads itself */
    finish();
}

static int lines_with(const char *log, const char *text) {
    int n = 0;
    for (const char *at = log; (at = strstr(at, text)); at++)
        n++;
    return n;
}

/* An API server that has to set up a kind again says 429 to everybody: one line, no warning, unless it goes on. */
static void asked_to_come_again__is_said_once(void **state) {
    (void)state;
    static const int64_t patience[] = {60000, 0};
    for (size_t i = 0; i < SL_COUNT(patience); i++) {
        struct script_step steps[] = {
            {.match = "limit=2", .status = 429, .body = FAILURE(429, "TooManyRequests")},
            {.match = "limit=2", .status = 429, .body = FAILURE(429, "TooManyRequests")},
            {.match = "limit=2", .status = 200, .body = LIST("7", "", OBJ("x", "u1", "3", "1"))},
            {.match = "&resourceVersion=7", .status = 429, .body = FAILURE(429, "TooManyRequests")},
            {.match = "&resourceVersion=7", .status = 429, .body = FAILURE(429, "TooManyRequests")},
            {.match = "&resourceVersion=7",
             .status = 200,
             .piece = 50,
             .end = SCRIPT_HOLD,
             .body = EVENT("MODIFIED", OBJ("x", "u1", "11", "2"))},
        };
        BEGIN(steps);
        client->tuning.patience_ms = patience[i];
        char path[] = "/tmp/sluice-log-XXXXXX";
        int fd = mkstemp(path);
        sl_log_set_fd(fd);
        sl_metrics_reset();
        watch();
        expect_told("+x1 = +x2 ");
        sl_log_set_fd(2);
        SL_AUTO_BUF log = SL_BUF_INIT(1u << 16);
        assert_int_equal(sl_file_read(path, &log, NULL), 0);
        assert_int_equal(lines_with(sl_buf_text(&log), "asks watches to come again"), 1);
        assert_int_equal(lines_with(sl_buf_text(&log), "\"warn\""), i == 0 ? 0 : 2); /* for the list and the watch */
        assert_int_equal(lines_with(sl_buf_text(&log), "works again"), i == 0 ? 0 : 2);
        if (i == 0)
            assert_int_equal(sl_metric_get(SL_M_SLUICE_WATCH_RESTARTS_TOTAL, SL_LABELS("things", "busy")), 4);
        close(fd);
        unlink(path);
        finish();
    }
}

static void nonsense_leads_to_a_new_list(void **state) {
    (void)state;
    static const char *const frames[] = {"nonsense\n", EVENT("STRANGE", OBJ("x", "u1", "9", "2")),
                                         EVENT("ADDED", "{\"metadata\":{}}"), "[1]\n"};
    for (size_t i = 0; i < SL_COUNT(frames); i++) {
        struct script_step steps[] = {
            {.match = "limit=2", .status = 200, .body = LIST("7", "", OBJ("x", "u1", "3", "1"))},
            {.match = "&resourceVersion=7", .status = 200, .piece = 5, .end = SCRIPT_HOLD, .body = frames[i]},
            {.match = "limit=2", .status = 200, .body = "{\"metadata\":{\"resourceVersion\":\"8\"},\"items\":[3]}"},
            {.match = "limit=2", .status = 200, .body = "{\"metadata\":{},\"items\":[]}"},
            {.match = "limit=2", .status = 200, .body = LIST("8", "", "")},
            {.match = "&resourceVersion=8", .status = 200, .piece = 5, .end = SCRIPT_HOLD, .body = BOOKMARK("8")},
        };
        BEGIN(steps);
        watch();
        expect_told("+x1 = -xu1 = ");
        for (int k = 0; k < 3000 && script_seen(&server, "resourceVersion=8") < 1; k++)
            sl_cluster_step(cluster, 10);
        finish();
    }
}

#define LARGE(name, uid, rv)                                                                                           \
    "{\"metadata\":{\"namespace\":\"a\",\"name\":\"" name "\",\"uid\":\"" uid "\",\"resourceVersion\":\"" rv           \
    "\"},\"status\":{\"x\":10000000000000000000}}"

/* An API server stores such numbers in parts without a schema: one object must not end the watch of all. */
static void an_integer_past_int64_is_no_nonsense(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "limit=2", .status = 200, .body = LIST("7", "", LARGE("x", "u1", "3") "," OBJ("y", "u2", "4", "1"))},
        {.match = "&resourceVersion=7",
         .status = 200,
         .piece = 5,
         .end = SCRIPT_HOLD,
         .body = EVENT("ADDED", LARGE("z", "u3", "8")) EVENT("MODIFIED", OBJ("y", "u2", "9", "2"))},
    };
    BEGIN(steps);
    watch();
    expect_told("+x +y1 = +z +y2 ");
    finish();
}

static void a_version_from_the_future_leads_to_a_new_list(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{\"kind\":\"Status\",\"code\":504,\"reason\":\"Timeout\",\"details\":{\"causes\":[{\"reason\":"
        "\"ResourceVersionTooLarge\"}]}}",
        "{\"kind\":\"Status\",\"code\":504,\"message\":\"Timeout: Too large resource version: 7, current: 3\"}",
    };
    for (size_t i = 0; i < SL_COUNT(bodies); i++) {
        struct script_step steps[] = {
            {.match = "limit=2", .status = 200, .body = LIST("7", "", OBJ("x", "u1", "3", "1"))},
            {.match = "&resourceVersion=7", .status = 504, .body = bodies[i]},
            {.match = "limit=2", .status = 200, .body = LIST("3", "", "")},
            {.match = "&resourceVersion=3", .status = 200, .piece = 5, .end = SCRIPT_HOLD, .body = BOOKMARK("3")},
        };
        BEGIN(steps);
        watch();
        expect_told("+x1 = -xu1 = ");
        for (int k = 0; k < 3000 && script_seen(&server, "resourceVersion=3") < 1; k++)
            sl_cluster_step(cluster, 10);
        finish();
    }
}

static void a_watch_that_is_always_refused_is_listed_anew(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "limit=2", .status = 200, .body = LIST("7", "", "")},
        {.match = "&resourceVersion=7", .status = 500, .body = "strange", .always = true},
        {.match = "limit=2", .status = 200, .body = LIST("8", "", "")},
        {.match = "&resourceVersion=8", .status = 200, .piece = 5, .end = SCRIPT_HOLD, .body = BOOKMARK("8")},
    };
    BEGIN(steps);
    watch();
    expect_told("= = ");
    assert_int_equal(script_seen(&server, "resourceVersion=7"), 5);
    for (int k = 0; k < 3000 && script_seen(&server, "resourceVersion=8") < 1; k++)
        sl_cluster_step(cluster, 10);
    finish();
}

static void an_optional_resource_may_be_absent(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "limit=2", .status = 404, .body = "404 page not found"},
        {.match = "limit=2", .status = 200, .body = LIST("7", "", OBJ("x", "u1", "3", "1"))},
        {.match = "&resourceVersion=7", .status = 404, .body = "404 page not found"},
        {.match = "limit=2", .status = 404, .body = "404 page not found", .always = true},
    };
    BEGIN(steps);
    client->tuning.absent_retry_ms = 5;
    struct sl_watch_options o = {.optional = true};
    struct sl_watch *w = sl_cluster_watch(cluster, &things, &o, on_event, NULL);
    for (int i = 0; i < 3000 && !strstr(told, "-xu1 = "); i++)
        sl_cluster_step(cluster, 10);
    assert_non_null(strstr(told, "= +x1 = -xu1 = "));
    assert_true(sl_watch_synced(w));
    for (int i = 0; i < 3000 && script_seen(&server, "limit=2") < 3; i++)
        sl_cluster_step(cluster, 10);
    finish();
}

static void a_watch_that_never_answers_is_given_up(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "limit=2", .status = 200, .body = LIST("7", "", "")},
        {.match = "&resourceVersion=7", .end = SCRIPT_HOLD}, /* accepted, then silence */
        {.match = "&resourceVersion=7",
         .status = 200,
         .piece = 5,
         .end = SCRIPT_HOLD,
         .body = EVENT("ADDED", OBJ("x", "u1", "9", "1"))},
    };
    BEGIN(steps);
    sl_metrics_reset();
    client->tuning.watch_header_ms = 30;
    watch();
    expect_told("= +x1 ");
    assert_int_equal(sl_metric_get(SL_M_SLUICE_WATCH_RESTARTS_TOTAL, SL_LABELS("things", "timeout")), 1);
    finish();
}

static void a_quiet_watch_is_left_alone(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "limit=2", .status = 200, .body = LIST("7", "", "")},
        {.match = "&resourceVersion=7", .status = 200, .piece = 5, .end = SCRIPT_HOLD, .body = ""},
    };
    BEGIN(steps);
    client->tuning.watch_header_ms = 30;
    watch();
    expect_told("= ");
    for (int i = 0; i < 30; i++)
        sl_cluster_step(cluster, 5); /* well past the time for headers: a second watch would be UNEXPECTED */
    assert_int_equal(script_seen(&server, "watch=1"), 1);
    finish();
}

static void count_event(void *payload, const struct sl_watch_event *e) {
    (void)e;
    ++*(size_t *)payload;
}
static void much_data_waits_in_the_kernel(void **state) {
    (void)state;
    size_t n = 4000, each = 1000;
    struct sl_buf body = SL_BUF_INIT(32 << 20);
    sl_buf_puts(&body, "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[");
    SL_AUTO_FREE char *filler = sl_xalloc(each + 1);
    memset(filler, 'f', each);
    for (size_t i = 0; i < n; i++)
        sl_buf_printf(&body, "%s{\"metadata\":{\"name\":\"o%zu\",\"uid\":\"u%zu\"},\"spec\":\"%s\"}", i ? "," : "", i,
                      i, filler);
    sl_buf_puts(&body, "]}");
    struct script_step steps[] = {
        {.match = "limit=2", .status = 200, .body = sl_buf_text(&body)},
        {.match = "&resourceVersion=7", .status = 200, .piece = 5, .end = SCRIPT_HOLD, .body = BOOKMARK("8")},
    };
    BEGIN(steps);
    client->tuning.slice_ms = 0; /* one object a turn: the reader is slow */
    client->tuning.backlog = 100000;
    size_t seen = 0, most = 0;
    struct sl_watch *w = sl_cluster_watch(cluster, &nodes, NULL, count_event, &seen);
    for (int i = 0; i < 100000 && !sl_watch_synced(w); i++) {
        sl_cluster_step(cluster, 10);
        size_t waits = kube_watch_waiting(client->watches[0]);
        most = waits > most ? waits : most;
    }
    assert_int_equal(seen, n + 1);
    assert_true(most > 10000 &&
                most < 2500000); /* the limit and what libcurl hands over in one go; the page has 4 MB */
    for (int i = 0; i < 3000 && script_seen(&server, "resourceVersion=7") < 1; i++)
        sl_cluster_step(cluster, 10);
    finish();
    sl_buf_done(&body);
}

static void requests_go_where_they_should(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "GET /base/apis/example.com/v1/namespaces/a/things/x%2Fy auth=t1 body=",
         .status = 200,
         .body = OBJ("x", "u", "1", "got")},
        {.match = "POST /base/apis/example.com/v1/namespaces/a/things auth=t1 "
                  "body={\"metadata\":{\"name\":\"x\"},\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\"}",
         .status = 201,
         .body = OBJ("x", "u", "1", "made")},
        {.match = "PATCH /base/apis/example.com/v1/namespaces/a/things/x?fieldManager=m%26m&force=true auth=t1 "
                  "body={\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"x\"}}",
         .status = 200,
         .body = OBJ("x", "u", "1", "applied")},
        {.match = "PATCH /base/apis/example.com/v1/namespaces/a/things/x auth=t1 body={\"spec\":\"p\"}",
         .status = 200,
         .body = OBJ("x", "u", "1", "patched"),
         .piece = 1},
        {.match = "DELETE /base/apis/example.com/v1/namespaces/a/things/x auth=t1 "
                  "body={\"propagationPolicy\":\"Background\"}",
         .status = 200,
         .body = "{}"},
        {.match = "PUT /base/api/v1/nodes/n/status?dryRun=All auth=t1 body=", .status = 200, .body = "{}"},
    };
    BEGIN(steps);
    sl_metrics_reset();
    struct got g = {0};
    ask(&g, SL_GET, "x/y", NULL);
    expect_replies(&g, 1);
    assert_string_equal(g.value, "got");
    ask(&g, SL_CREATE, NULL, "{'metadata':{'name':'x'}}");
    expect_replies(&g, 2);
    assert_int_equal(g.status, 201);
    ask(&g, SL_APPLY, "x", "{}");
    expect_replies(&g, 3);
    ask(&g, SL_MERGE_PATCH, "x", "{'spec':'p'}");
    expect_replies(&g, 4);
    assert_string_equal(g.value, "patched");
    ask(&g, SL_DELETE, "x", "{'propagationPolicy':'Background'}");
    expect_replies(&g, 5);
    struct sl_request q = {.verb = SL_UPDATE,
                           .resource = &nodes,
                           .name = "n",
                           .subresource = "status",
                           .query = "dryRun=All",
                           .body = sl_json_from("{}"),
                           .done = on_reply,
                           .payload = &g};
    sl_cluster_send(cluster, &q);
    expect_replies(&g, 6);
    assert_int_equal(g.code, 0);
    assert_int_equal(sl_metric_get(SL_M_SLUICE_WRITES_TOTAL, SL_LABELS("apply", "things")), 1);
    assert_int_equal(sl_metric_get(SL_M_SLUICE_WRITES_TOTAL, SL_LABELS("get", "things")), 0);
    finish();
}

static void answers_become_codes(void **state) {
    (void)state;
    static const struct {
        int status;
        const char *body;
        int code;
        const char *text;
    } cases[] = {
        {404, FAILURE(404, "NotFound"), SL_NOT_FOUND, "because NotFound"},
        {409, FAILURE(409, "Conflict"), SL_CONFLICT, "because Conflict"},
        {409, FAILURE(409, "AlreadyExists"), SL_EXISTS, "because AlreadyExists"},
        {422, FAILURE(422, "Invalid"), SL_INVALID, "because Invalid"},
        {400, "bad\n", SL_INVALID, "HTTP 400"},
        {403, FAILURE(403, "Forbidden"), SL_DENIED, "because Forbidden"},
        {413, "", SL_TOO_BIG, "HTTP 413"},
        {410, FAILURE(410, "Gone"), SL_GONE, "because Gone"},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct script_step steps[] = {{.match = "PATCH ", .status = cases[i].status, .body = cases[i].body}};
        BEGIN(steps);
        sl_metrics_reset();
        struct got g = {0};
        ask(&g, SL_MERGE_PATCH, "x", "{'metadata':{'resourceVersion':'1'}}");
        expect_replies(&g, 1);
        assert_int_equal(g.code, cases[i].code);
        assert_int_equal(g.status, cases[i].status);
        assert_false(g.unknown);
        assert_string_equal(g.text, cases[i].text);
        char status[8];
        snprintf(status, sizeof status, "%d", cases[i].status);
        assert_int_equal(sl_metric_get(SL_M_SLUICE_WRITE_ERRORS_TOTAL, SL_LABELS("patch", "things", status)), 1);
        finish();
    }
}

static void busy_servers_are_asked_again(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "PATCH ", .status = 429, .headers = "Retry-After: 1\r\n", .body = FAILURE(429, "TooManyRequests")},
        {.match = "PATCH ", .status = 503, .body = "busy"},
        {.match = "PATCH ", .status = 200, .body = OBJ("x", "u", "1", "done")},
    };
    BEGIN(steps);
    struct got g = {0};
    ask(&g, SL_MERGE_PATCH, "x", "{'spec':'p'}");
    expect_replies(&g, 1);
    assert_int_equal(g.code, 0);
    assert_string_equal(g.value, "done");
    finish();
}

static void only_harmless_requests_are_repeated(void **state) {
    (void)state;
    static const struct {
        enum sl_verb verb;
        const char *name, *body;
        bool repeated;
    } cases[] = {
        {SL_GET, "x", NULL, true},
        {SL_LIST, NULL, NULL, true},
        {SL_CREATE, NULL, "{'metadata':{'name':'x'}}", true},
        {SL_CREATE, NULL, "{'metadata':{'generateName':'x'}}", false},
        {SL_UPDATE, "x", "{'metadata':{'resourceVersion':'1'}}", true},
        {SL_UPDATE, "x", "{'metadata':{}}", false},
        {SL_MERGE_PATCH, "x", "{'metadata':{'resourceVersion':'1'}}", true},
        {SL_MERGE_PATCH, "x", "{'spec':'y'}", false},
        {SL_JSON_PATCH, "x", "[{'op':'test','path':'/metadata/resourceVersion','value':'1'}]", true},
        {SL_JSON_PATCH, "x", "[{'op':'add','path':'/x','value':'1'}]", false},
        {SL_APPLY, "x", "{}", true},
        {SL_DELETE, "x", NULL, false},
        {SL_DELETE, "x", "{'preconditions':{'uid':'u'}}", true},
    };
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        for (int way = 0; way < 2; way++) { /* the connection dies; the server errs */
            bool repeated = cases[i].repeated, write = cases[i].verb > SL_LIST;
            struct script_step steps[] = {
                {.match = "things", .status = way ? 504 : 0, .body = "", .end = way ? SCRIPT_KEEP : SCRIPT_RESET},
                {.match = repeated ? "things" : "-", .status = 200, .body = "{}", .used = !repeated},
            };
            BEGIN(steps);
            struct got g = {0};
            ask(&g, cases[i].verb, cases[i].name, cases[i].body);
            expect_replies(&g, 1);
            assert_int_equal(g.code, repeated ? 0 : SL_UNAVAILABLE);
            assert_int_equal(g.unknown, !repeated && write);
            finish();
        }
    }
}

static void an_echo_of_our_own_success_is_marked(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "POST ", .end = SCRIPT_RESET},
        {.match = "POST ", .status = 409, .body = FAILURE(409, "AlreadyExists")},
        {.match = "PATCH ", .end = SCRIPT_RESET},
        {.match = "PATCH ", .status = 409, .body = FAILURE(409, "Conflict")},
        {.match = "PUT ", .status = 500, .body = FAILURE(500, "InternalError"), .always = true},
    };
    BEGIN(steps);
    struct got g = {0};
    ask(&g, SL_CREATE, NULL, "{'metadata':{'name':'x'}}");
    expect_replies(&g, 1);
    assert_int_equal(g.code, SL_EXISTS);
    assert_true(g.unknown);
    ask(&g, SL_MERGE_PATCH, "x", "{'metadata':{'resourceVersion':'1'}}");
    expect_replies(&g, 2);
    assert_int_equal(g.code, SL_CONFLICT);
    assert_true(g.unknown);
    ask(&g, SL_UPDATE, "x", "{'metadata':{'resourceVersion':'1'}}");
    expect_replies(&g, 3);
    assert_int_equal(g.code, SL_UNAVAILABLE);
    assert_int_equal(g.status, 500);
    assert_true(g.unknown);
    assert_string_equal(g.text, "because InternalError");
    assert_int_equal(script_seen(&server, "PUT "), 5);
    finish();
}

/* libcurl itself repeats a request when a kept-alive connection turns out to be dead; for writes that would go unseen.
 */
static void a_dead_kept_connection_does_not_repeat_a_write(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "GET ", .status = 200, .body = "{}"}, /* makes the kept connection */
        {.match = "PATCH ", .end = SCRIPT_CLOSE},       /* dies on it without a byte */
        {.match = "GET ", .status = 200, .body = "{}"},
        {.match = "PUT ", .end = SCRIPT_CLOSE},
        {.match = "PUT ", .status = 409, .body = FAILURE(409, "Conflict")},
    };
    BEGIN(steps);
    struct got g = {0};
    ask(&g, SL_GET, "x", NULL);
    expect_replies(&g, 1);
    ask(&g, SL_MERGE_PATCH, "x", "{'spec':'y'}");
    expect_replies(&g, 2);
    assert_int_equal(g.code, SL_UNAVAILABLE);
    assert_true(g.unknown);
    ask(&g, SL_GET, "x", NULL);
    expect_replies(&g, 3);
    ask(&g, SL_UPDATE, "x", "{'metadata':{'resourceVersion':'1'}}");
    expect_replies(&g, 4);
    assert_int_equal(g.code, SL_CONFLICT);
    assert_true(g.unknown);
    finish();
}

static void slow_and_cut_answers(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "GET ", .status = 200, .body = OBJ("x", "u", "1", "drip"), .piece = 1, .delay_ms = 20},
        {.match = "GET ", .status = 200, .body = OBJ("x", "u", "1", "again"), .cut = 20, .end = SCRIPT_CLOSE},
        {.match = "GET ",
         .status = 200,
         .body = OBJ("x", "u", "1", "again"),
         .piece = 5,
         .cut = 20,
         .end = SCRIPT_RESET},
        {.match = "GET ", .status = 200, .body = OBJ("x", "u", "1", "again")},
        {.match = "GET ", .status = 200, .body = "no JSON"},
        {.match = "PATCH ", .status = 200, .body = "no JSON"},
        {.match = "PATCH ", .end = SCRIPT_HOLD}, /* no answer at all */
        {.match = "GET ", .end = SCRIPT_HOLD},
    };
    BEGIN(steps);
    struct got g = {0};
    ask(&g, SL_GET, "x", NULL);
    expect_replies(&g, 1);
    assert_string_equal(g.value, "drip");
    ask(&g, SL_GET, "x", NULL);
    expect_replies(&g, 2);
    assert_string_equal(g.value, "again");
    ask(&g, SL_GET, "x", NULL);
    expect_replies(&g, 3);
    assert_int_equal(g.code, SL_PROTOCOL);
    ask(&g, SL_MERGE_PATCH, "x", "{'spec':'y'}");
    expect_replies(&g, 4);
    assert_int_equal(g.code, 0); /* done all the same */
    client->tuning.request_ms = 200;
    ask(&g, SL_MERGE_PATCH, "x", "{'spec':'y'}");
    expect_replies(&g, 5);
    assert_int_equal(g.code, SL_TIMEOUT);
    assert_true(g.unknown);
    ask(&g, SL_GET, "x", NULL);
    expect_replies(&g, 6);
    assert_int_equal(g.code, SL_TIMEOUT);
    assert_false(g.unknown);
    finish();
}

static void a_new_token_is_found_after_a_401(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "auth=t1", .status = 401, .body = FAILURE(401, "Unauthorized")},
        {.match = "auth=t2", .status = 200, .body = OBJ("x", "u", "1", "in")},
        {.match = "auth=t2", .status = 401, .body = FAILURE(401, "Unauthorized")},
        {.match = "auth=t2", .status = 401, .body = FAILURE(401, "Unauthorized")},
    };
    BEGIN(steps);
    struct got g = {0};
    put_file("token", "t2\n");
    ask(&g, SL_MERGE_PATCH, "x", "{'spec':'y'}");
    expect_replies(&g, 1);
    assert_int_equal(g.code, 0);
    assert_string_equal(g.value, "in");
    ask(&g, SL_MERGE_PATCH, "x", "{'spec':'y'}");
    expect_replies(&g, 2);
    assert_int_equal(g.code, SL_DENIED); /* no third try */
    finish();
}

static void lanes_do_not_wait_for_each_other(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "/things/s", .end = SCRIPT_HOLD, .always = true},
        {.match = "/things/d", .status = 200, .body = "{}", .always = true},
        {.match = "/things/l", .status = 200, .body = "{}", .always = true},
    };
    BEGIN(steps);
    struct got stuck = {0}, decision = {0}, lease = {0};
    for (int i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof name, "s%d", i);
        ask_lane(&stuck, SL_LANE_STATUS, SL_MERGE_PATCH, name, "{}");
        ask_lane(&stuck, SL_LANE_EVENT, SL_MERGE_PATCH, name, "{}");
    }
    for (int i = 0; i < 3000 && script_seen(&server, "/things/s") < 6; i++)
        sl_cluster_step(cluster, 10);
    for (int i = 0; i < 50; i++) {
        char name[8];
        snprintf(name, sizeof name, "d%d", i);
        ask_lane(&decision, SL_LANE_DECISION, SL_MERGE_PATCH, name, "{}");
    }
    ask_lane(&lease, SL_LANE_LEASE, SL_MERGE_PATCH, "l", "{}");
    expect_replies(&lease, 1);
    expect_replies(&decision, 50);
    assert_int_equal(stuck.count, 0);
    assert_int_equal(script_seen(&server, "/things/s"), 6); /* 4 + 2 under way, no more */
    assert_int_equal(sl_cluster_pending(cluster, SL_LANE_STATUS), 10);
    assert_true(server.most_inside <= 6 + 16 + 1);
    disconnect();
    assert_int_equal(stuck.count, 20);
    assert_int_equal(stuck.code, SL_CANCELLED);
    script_stop(&server);
}

static void one_object_keeps_its_order(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "body={\"spec\":\"0\"}", .status = 503, .body = ""}, /* even when the first has to try again */
        {.match = "body={\"spec\":\"0\"}", .status = 200, .body = "{}", .delay_ms = 30},
        {.match = "body={\"spec\":\"1\"}", .status = 200, .body = "{}", .delay_ms = 10},
        {.match = "body={\"spec\":\"2\"}", .status = 200, .body = "{}"},
    };
    BEGIN(steps);
    struct got g[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        char body[32];
        snprintf(body, sizeof body, "{'spec':'%d'}", i);
        ask(&g[i], SL_MERGE_PATCH, "x", body);
    }
    for (int i = 0; i < 3000 && !g[2].count; i++) {
        sl_cluster_step(cluster, 10);
        assert_true(g[0].count >= g[1].count && g[1].count >= g[2].count);
    }
    assert_int_equal(g[0].count + g[1].count + g[2].count, 3);
    assert_int_equal(server.most_inside, 1);
    finish();
}

static void tokens_are_a_ceiling(void **state) {
    (void)state;
    struct script_step steps[] = {{.match = "things", .end = SCRIPT_HOLD, .always = true}};
    BEGIN(steps);
    struct got g = {0};
    client->qps = 2;
    client->burst = 3;
    client->tokens_milli = 2000;
    client->tokens_ms = 1000;
    for (int i = 0; i < 6; i++)
        ask(&g, SL_CREATE, NULL, "{'metadata':{'name':'x'}}");
    ask_lane(&g, SL_LANE_LEASE, SL_GET, "l", NULL);
    kube_requests_run(client, 1000);
    assert_int_equal(client->lanes[SL_LANE_DECISION].active, 2);
    assert_int_equal(client->lanes[SL_LANE_LEASE].active, 1); /* needs no token */
    assert_int_equal(kube_requests_next(client, 1000), 1500);
    kube_requests_run(client, 1499);
    assert_int_equal(client->lanes[SL_LANE_DECISION].active, 2);
    kube_requests_run(client, 1500);
    assert_int_equal(client->lanes[SL_LANE_DECISION].active, 3);
    kube_requests_run(client, 100000); /* no more than burst was saved up */
    assert_int_equal(client->lanes[SL_LANE_DECISION].active, 6);
    assert_int_equal(client->tokens_milli, 0);
    disconnect();
    assert_int_equal(g.count, 7);
    script_stop(&server);
}

static void a_refused_connection_is_tried_until_somebody_listens(void **state) {
    (void)state;
    struct script_step steps[] = {
        {.match = "limit=2", .status = 200, .body = LIST("7", "", OBJ("x", "u1", "3", "1"))},
        {.match = "&resourceVersion=7", .status = 200, .piece = 5, .end = SCRIPT_HOLD, .body = BOOKMARK("8")},
        {.match = "PATCH ", .status = 200, .body = "{}"},
    };
    assert_true(script_start(&server, steps, SL_COUNT(steps), 0));
    int port = server.port;
    script_stop(&server); /* the port is free, and nobody listens */
    connect_client(port);
    watch();
    struct got g = {0};
    ask(&g, SL_MERGE_PATCH, "x", "{'spec':'y'}"); /* not repeatable, but it was never sent */
    for (int i = 0; i < 10; i++)
        sl_cluster_step(cluster, 5);
    assert_int_equal(g.count, 0);
    assert_true(script_start(&server, steps, SL_COUNT(steps), port));
    expect_told("+x1 = ");
    expect_replies(&g, 1);
    assert_int_equal(g.code, 0);
    for (int i = 0; i < 3000 && script_seen(&server, "resourceVersion=7") < 1; i++)
        sl_cluster_step(cluster, 10);
    finish();
}

static void an_unreachable_server_is_said_so(void **state) {
    (void)state;
    assert_true(script_start(&server, NULL, 0, 0));
    int port = server.port;
    script_stop(&server);
    connect_client(port);
    client->tuning.request_ms = 50;
    struct got g = {0};
    for (int i = 0; i < 100; i++)
        ask(&g, SL_CREATE, NULL, "{'metadata':{'generateName':'x'}}");
    expect_replies(&g, 100);
    assert_int_equal(g.code, SL_UNAVAILABLE);
    assert_false(g.unknown);
    disconnect();
}

static void wakeup_ends_a_step(void **state) {
    (void)state;
    assert_true(script_start(&server, NULL, 0, 0));
    connect_client(server.port);
    sl_cluster_wakeup(cluster);
    sl_cluster_step(cluster, 3600000); /* returns, or the test runs into its time limit */
    finish();
}

#define T(f) cmocka_unit_test(f)
int main(void) {
    sl_log_set_fd(-1);
    const struct CMUnitTest tests[] = {
        T(pages_then_events),
        T(watches_say_what_they_want),
        T(expired_versions_lead_to_a_new_list),
        T(an_expired_page_starts_the_list_again),
        T(broken_streams_resume),
        T(asked_to_come_again__is_said_once),
        T(nonsense_leads_to_a_new_list),
        T(an_integer_past_int64_is_no_nonsense),
        T(a_version_from_the_future_leads_to_a_new_list),
        T(a_watch_that_is_always_refused_is_listed_anew),
        T(an_optional_resource_may_be_absent),
        T(a_watch_that_never_answers_is_given_up),
        T(a_quiet_watch_is_left_alone),
        T(much_data_waits_in_the_kernel),
        T(requests_go_where_they_should),
        T(answers_become_codes),
        T(busy_servers_are_asked_again),
        T(only_harmless_requests_are_repeated),
        T(an_echo_of_our_own_success_is_marked),
        T(a_dead_kept_connection_does_not_repeat_a_write),
        T(slow_and_cut_answers),
        T(a_new_token_is_found_after_a_401),
        T(lanes_do_not_wait_for_each_other),
        T(one_object_keeps_its_order),
        T(tokens_are_a_ceiling),
        T(a_refused_connection_is_tried_until_somebody_listens),
        T(an_unreachable_server_is_said_so),
        T(wakeup_ends_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
