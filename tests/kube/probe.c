/*
 * The HTTPS client in a program of its own, for tests that play or start a server around it. Commands are lines on
 * standard input, facts are lines on standard output: watch PLURAL[.GROUP/VERSION]                   -> PUT|GONE|SYNCED
 * plural ns/name resourceVersion value(data.v) VERB TAG RESOURCE NS NAME SUB MANAGER BODY     -> REPLY tag code status
 * unknown name resourceVersion text   ("-": none; BODY is JSON) lease NAME IDENTITY / release / event NS NAME  -> HELD
 * 0|1 quit
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/kube/client.h"
#include "sluice/kube/event.h"
#include "sluice/kube/lease.h"

static struct sl_cluster *cluster;
static struct sl_lease *lease;
static struct sl_events *events;
static int held = -1;
static int64_t lease_due;

static const struct sl_resource *resource(const char *text) {
    static const struct sl_resource known[] = {
        {"", "v1", "configmaps", "ConfigMap", true},
        {"", "v1", "namespaces", "Namespace", false},
        {"", "v1", "pods", "Pod", true},
        {"batch", "v1", "jobs", "Job", true},
        {"events.k8s.io", "v1", "events", "Event", true},
        {"none.example.com", "v1", "things", "Thing", true},
    };
    for (size_t i = 0; i < SL_COUNT(known); i++) {
        if (!strcmp(known[i].plural, text))
            return &known[i];
    }
    fprintf(stderr, "unknown resource %s\n", text);
    exit(2);
}

static void on_event(void *payload, const struct sl_watch_event *e) {
    static const char *const names[] = {"PUT", "GONE", "SYNCED"};
    (void)payload;
    printf("%s %s %s/%s %s %s\n", names[e->what], e->resource->plural,
           sl_json_path_str(e->object, "metadata.namespace", "-"), sl_json_path_str(e->object, "metadata.name", "-"),
           sl_json_path_str(e->object, "metadata.resourceVersion", "-"), sl_json_path_str(e->object, "data.v", "-"));
    if (sl_json_path(e->object, "metadata.managedFields"))
        printf("BAD managedFields\n");
    if (e->object && !sl_json_get(e->object, "kind"))
        printf("BAD no kind\n");
}

static void on_reply(void *payload, const struct sl_reply *r) {
    SL_AUTO_FREE char *tag = payload;
    printf("REPLY %s %d %d %d %s %s %s\n", tag, r->code, r->status, r->unknown,
           sl_json_path_str(r->object, "metadata.name", "-"),
           sl_json_path_str(r->object, "metadata.resourceVersion", "-"), *r->text ? r->text : sl_code_text(r->code));
}

static const char *word(char **at) {
    char *w = strsep(at, " ");
    return w && strcmp(w, "-") ? w : NULL;
}

static void request(enum sl_verb verb, char *at) {
    struct sl_request q = {.verb = verb, .lane = SL_LANE_DECISION, .force = true, .done = on_reply};
    q.payload = sl_xstrdup(word(&at));
    q.resource = resource(word(&at));
    q.ns = word(&at);
    q.name = word(&at);
    q.subresource = word(&at);
    q.field_manager = word(&at);
    struct sl_err err = SL_ERR_INIT;
    if (at && *at && strcmp(at, "-") && sl_json_parse(at, strlen(at), 1 << 20, &q.body, &err)) {
        fprintf(stderr, "body: %s\n", err.text);
        exit(2);
    }
    sl_cluster_send(cluster, &q);
}

/* False to quit. */
static bool command(char *line) {
    static const char *const verbs[] = {"get", "list", "create", "update", "merge", "json", "apply", "delete"};
    char *at = line;
    const char *what = strsep(&at, " ");
    for (size_t i = 0; i < SL_COUNT(verbs); i++) {
        if (!strcmp(what, verbs[i])) {
            request((enum sl_verb)i, at);
            return true;
        }
    }
    if (!strcmp(what, "watch") || !strcmp(what, "watchmeta") || !strcmp(what, "watchopt")) {
        struct sl_watch_options o = {.metadata_only = !strcmp(what, "watchmeta"),
                                     .optional = !strcmp(what, "watchopt")};
        sl_cluster_watch(cluster, resource(word(&at)), &o, on_event, NULL);
    } else if (!strcmp(what, "lease")) {
        struct sl_lease_options o = {
            .ns = "default", .name = word(&at), .duration_ms = 3000, .renew_deadline_ms = 2000, .retry_ms = 400};
        o.identity = word(&at);
        lease = sl_lease_new(cluster, &o);
    } else if (!strcmp(what, "release") && lease) {
        sl_lease_release(lease);
    } else if (!strcmp(what, "event")) {
        const char *ns = word(&at), *name = word(&at);
        SL_AUTO_JSON *about = sl_json_fromf(
            "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'namespace':'%s','name':'%s','uid':'u'}}", ns, name);
        sl_events_emit(events, "probe", about, false, "Tested", "Testing", "a note");
    }
    return strcmp(what, "quit") != 0;
}

static void tick(void) {
    int64_t now = sl_cluster_mono_ms(cluster);
    if (!lease)
        return;
    if (now >= lease_due)
        lease_due = now + sl_lease_tick(lease);
    int h = sl_lease_held(lease);
    if (h != held)
        printf("HELD %d\n", h);
    held = h;
}

int main(int argc, char **argv) {
    struct sl_client_options options = {.kubeconfig = argc > 1 ? argv[1] : NULL};
    struct sl_err err = SL_ERR_INIT;
    setvbuf(stdout, NULL, _IOLBF, 0);
    sl_log_set_level(SL_LOG_DEBUG);
    if (sl_client_new(&options, &cluster, &err)) {
        printf("ERROR %s\n", err.text);
        return 1;
    }
    events = sl_events_new(cluster, "probe-1");
    printf("READY\n");
    fcntl(0, F_SETFL, O_NONBLOCK);
    char line[65536];
    size_t have = 0;
    bool running = true;
    while (running) {
        sl_cluster_step(cluster, 20);
        tick();
        ssize_t n = read(0, line + have, sizeof line - have - 1);
        if (n == 0)
            break;
        have += n > 0 ? (size_t)n : 0;
        line[have] = 0;
        for (char *nl; running && (nl = strchr(line, '\n'));) {
            *nl = 0;
            running = command(line);
            have -= (size_t)(nl + 1 - line);
            memmove(line, nl + 1, have + 1);
        }
    }
    sl_lease_free(lease);
    sl_events_free(events);
    sl_cluster_free(cluster);
    printf("BYE\n");
    return 0;
}
