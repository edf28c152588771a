/* Watches of the HTTPS client against a scripted server: what is asked, what is told, what begins anew. */
#include "kube_client.h"

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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
