/* The HTTPS client and a scripted server that it talks to, for the tests of requests and of watches. */
#ifndef TESTS_KUBE_CLIENT_H
#define TESTS_KUBE_CLIENT_H

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
__attribute__((unused)) static const struct sl_resource nodes = {"", "v1", "nodes", "Node", false};

static struct script server;
static struct sl_cluster *cluster;
static struct kube_client *client;
static char folder[64], told[1 << 16];

static inline void put_file(const char *name, const char *text) {
    SL_AUTO_FREE char *path = sl_xprintf("%s/%s", folder, name);
    assert_int_equal(sl_file_write(path, text, strlen(text), 0600, NULL), 0);
}

static inline void connect_client(int port) {
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
static inline void begin(struct script_step *steps, size_t count) {
    assert_true(script_start(&server, steps, count, 0));
    connect_client(server.port);
}
#define BEGIN(steps) begin(steps, SL_COUNT(steps))
static inline void disconnect(void) {
    sl_cluster_free(SL_TAKE(cluster));
    SL_AUTO_FREE char *token = sl_xprintf("%s/token", folder), *config = sl_xprintf("%s/config", folder);
    unlink(token);
    unlink(config);
    rmdir(folder);
}
static inline void finish(void) {
    disconnect();
    script_stop(&server);
    if (script_unused(&server) || strstr(server.log, "UNEXPECTED"))
        fail_msg("requests were:\n%s", server.log);
}

static inline void tell(const char *text) {
    size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s", text);
}
static inline void on_event(void *payload, const struct sl_watch_event *e) {
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
static inline void expect_told(const char *want) {
    for (int i = 0; i < 3000 && strcmp(told, want); i++)
        sl_cluster_step(cluster, 10);
    assert_string_equal(told, want);
}

struct got {
    int count, code, status;
    bool unknown;
    char text[200], value[64];
};
static inline void on_reply(void *payload, const struct sl_reply *r) {
    struct got *g = payload;
    g->count++;
    g->code = r->code;
    g->status = r->status;
    g->unknown = r->unknown;
    snprintf(g->text, sizeof g->text, "%s", r->text);
    snprintf(g->value, sizeof g->value, "%s", sl_json_path_str(r->object, "spec", ""));
}
static inline void ask_lane(struct got *g, enum sl_lane lane, enum sl_verb verb, const char *name, const char *body) {
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
static inline void ask(struct got *g, enum sl_verb verb, const char *name, const char *body) {
    ask_lane(g, SL_LANE_DECISION, verb, name, body);
}
static inline void expect_replies(struct got *g, int count) {
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

static inline struct sl_watch *watch(void) {
    struct sl_watch *w = sl_cluster_watch(cluster, &things, NULL, on_event, NULL);
    assert_false(sl_watch_synced(w));
    return w;
}

#define T(f) cmocka_unit_test(f)

#endif
