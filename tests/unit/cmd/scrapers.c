/* Who may read /metrics: a thread that asks, a loop that is played here, an API server that answers as told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "scrapers.h"
#include "sluice/base/clock.h"
#include "sluice/base/json.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"

/* What the manager has asked the API server, one request at a time. */
static struct {
    struct sl_cluster base;
    struct sl_request request;
    bool asked;
    size_t sent;
} server;

static void on_send(struct sl_cluster *c, const struct sl_request *request) {
    (void)c;
    assert_false(server.asked);
    assert_int_equal(request->verb, SL_CREATE);
    assert_int_equal(request->lane, SL_LANE_ACCESS);
    server.request = *request;
    server.asked = true;
    server.sent++;
}
static void on_wakeup(struct sl_cluster *c) {
    (void)c;
}
static const struct sl_cluster_ops ops = {.send = on_send, .wakeup = on_wakeup};

struct reader {
    struct scrapers *s;
    const char *token;
    int status;
    atomic_bool done;
};
static void *read_page(void *payload) {
    struct reader *r = payload;
    r->status = scrapers_check(r->s, r->token);
    atomic_store(&r->done, true);
    return NULL;
}

static bool loop_until_asked(struct scrapers *s, const struct reader *r) {
    while (!server.asked && !atomic_load(&r->done)) {
        scrapers_tick(s);
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    return server.asked;
}

static void reply(int code, const char *object) {
    SL_AUTO_JSON *o = object ? sl_json_from(object) : NULL;
    struct sl_request request = server.request;
    server.asked = false;
    sl_json_unref(request.body);
    request.done(request.payload, &(struct sl_reply){.code = code, .object = o, .text = "as told"});
}

#define KNOWN_USER                                                                                                     \
    "{'status':{'authenticated':true,'user':{'username':'scraper','uid':'7','groups':['g'],'extra':{'k':['v']}}}}"

struct row {
    const char *what, *token;
    int token_code;
    const char *token_answer; /* NULL: nothing is asked */
    int access_code;
    const char *access_answer; /* NULL: nothing is asked */
    int status;
};
static const struct row rows[] = {
    {"no token", NULL, 0, NULL, 0, NULL, 401},
    {"an empty token", "", 0, NULL, 0, NULL, 401},
    {"a token nobody gave out", "t", 0, "{'status':{'authenticated':false}}", 0, NULL, 401},
    {"an answer without a status", "t", 0, "{}", 0, NULL, 401},
    {"the manager may not ask", "t", SL_DENIED, "{}", 0, NULL, 503},
    {"no API server", "t", SL_UNAVAILABLE, "{}", 0, NULL, 503},
    {"no right", "t", 0, KNOWN_USER, 0, "{'status':{'allowed':false}}", 403},
    {"denied outright", "t", 0, KNOWN_USER, 0, "{'status':{'allowed':false,'denied':true}}", 403},
    {"no answer on the right", "t", 0, KNOWN_USER, SL_TIMEOUT, "{}", 503},
    {"allowed", "t", 0, KNOWN_USER, 0, "{'status':{'allowed':true}}", 200},
};

static int read_as(struct scrapers *s, const struct row *row) {
    struct reader r = {.s = s, .token = row->token};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_page, &r), 0);
    if (loop_until_asked(s, &r)) {
        assert_non_null(row->token_answer);
        assert_string_equal(server.request.resource->plural, "tokenreviews");
        assert_string_equal(sl_json_get_str(sl_json_get(server.request.body, "spec"), "token", ""), row->token);
        reply(row->token_code, row->token_answer);
    }
    if (row->access_answer) {
        assert_true(server.asked);
        SL_AUTO_FREE char *text = sl_json_text(server.request.body);
        assert_string_equal(
            text,
            "{\"apiVersion\":\"authorization.k8s.io/"
            "v1\",\"kind\":\"SubjectAccessReview\",\"spec\":{\"extra\":{\"k\":[\"v\"]},\"groups\":[\"g\"],"
            "\"nonResourceAttributes\":{\"path\":\"/metrics\",\"verb\":\"get\"},\"uid\":\"7\",\"user\":\"scraper\"}}");
        reply(row->access_code, row->access_answer);
    }
    assert_false(server.asked);
    pthread_join(thread, NULL);
    return r.status;
}

static void scrapers__get_what_the_api_server_says(void **state) {
    (void)state;
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct scrapers *s = scrapers_new(&server.base);
        int got = read_as(s, &rows[i]);
        if (got != rows[i].status)
            fail_msg("%s: %d instead of %d", rows[i].what, got, rows[i].status);
        scrapers_free(s);
    }
}

static void scrapers__are_known_for_a_while(void **state) {
    (void)state;
    struct scrapers *s = scrapers_new(&server.base);
    const struct row *allowed = &rows[SL_COUNT(rows) - 1];
    assert_int_equal(read_as(s, allowed), 200);
    size_t sent = server.sent;
    for (int i = 0; i < 5; i++)
        assert_int_equal(scrapers_check(s, "t"), 200); /* nobody is asked: nobody would answer */
    assert_int_equal(server.sent, sent);
    assert_int_equal(read_as(s, &(struct row){NULL, "other", 0, "{}", 0, NULL, 401}), 401); /* each its own */
    assert_int_equal(scrapers_check(s, "t"), 200);
    scrapers_free(s);
}

static void scrapers__strangers_do_not_fill_the_memory(void **state) {
    (void)state;
    struct scrapers *s = scrapers_new(&server.base);
    assert_int_equal(read_as(s, &rows[SL_COUNT(rows) - 1]), 200);
    for (int i = 0; i < 200; i++) {
        SL_AUTO_FREE char *token = sl_xprintf("stranger-%d", i);
        assert_int_equal(read_as(s, &(struct row){NULL, token, 0, "{}", 0, NULL, 401}), 401);
    }
    assert_int_equal(scrapers_check(s, "t"), 200); /* whoever is let in is known longer than whoever is not */
    SL_AUTO_FREE char *huge = sl_xalloc(20001);
    memset(huge, 'x', 20000);
    assert_int_equal(scrapers_check(s, huge), 401);
    scrapers_free(s);
}

static void scrapers__nobody_waits_for_a_manager_that_ends(void **state) {
    (void)state;
    struct scrapers *s = scrapers_new(&server.base);
    struct reader r = {.s = s, .token = "t"};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_page, &r), 0);
    assert_true(loop_until_asked(s, &r));
    scrapers_close(s);
    pthread_join(thread, NULL);
    assert_int_equal(r.status, 503);
    assert_int_equal(scrapers_check(s, "t"), 503);
    reply(SL_CANCELLED, NULL); /* by the cluster's end */
    scrapers_free(s);
    scrapers_free(NULL);
}

int main(void) {
    server.base.ops = &ops;
    sl_log_set_level(SL_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scrapers__get_what_the_api_server_says),
        cmocka_unit_test(scrapers__are_known_for_a_while),
        cmocka_unit_test(scrapers__strangers_do_not_fill_the_memory),
        cmocka_unit_test(scrapers__nobody_waits_for_a_manager_that_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
