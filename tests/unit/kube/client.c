/* Requests of the HTTPS client against a scripted server: what it asks, what it repeats, what it tells. */
#include "kube_client.h"

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

int main(void) {
    sl_log_set_fd(-1);
    const struct CMUnitTest tests[] = {
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
