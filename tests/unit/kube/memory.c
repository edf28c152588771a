/* The in-memory cluster behaves as kube-apiserver does where callers can tell. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/kube/memory.h"

static const struct sl_resource jobs = {"batch", "v1", "jobs", "Job", true};
static const struct sl_resource workloads = {"kueue.x-k8s.io", "v1beta2", "workloads", "Workload", true};
static const struct sl_resource queues = {"kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", false};
static const struct sl_resource configmaps = {"", "v1", "configmaps", "ConfigMap", true};
static const struct sl_resource namespaces = {"", "v1", "namespaces", "Namespace", false};

static struct sl_cluster *cluster;
static char log_text[1 << 16]; /* what the watch said, one word an event */

static int setup(void **state) {
    (void)state;
    struct sl_memory_options o = {.seed = 7, .default_run_ms = 10000};
    cluster = sl_memory_new(&o);
    log_text[0] = 0;
    return 0;
}
static int teardown(void **state) {
    (void)state;
    sl_cluster_free(SL_TAKE(cluster));
    return 0;
}

static void note(const char *text) {
    size_t n = strlen(log_text);
    snprintf(log_text + n, sizeof log_text - n, "%s", text);
}

static void on_event(void *payload, const struct sl_watch_event *e) {
    const char *name = sl_json_path_str(e->object, "metadata.name", "");
    SL_AUTO_FREE char *text = sl_xprintf("%s%s%s%s ", (const char *)payload,
                                         e->what == SL_WATCH_PUT    ? "+"
                                         : e->what == SL_WATCH_GONE ? "-"
                                                                    : "=",
                                         name, sl_json_path_str(e->object, "data.v", ""));
    note(text);
}

static void settle(void) {
    for (int i = 0; i < 100000 && !sl_memory_idle(cluster, NULL); i++)
        sl_cluster_step(cluster, 1000);
    assert_true(sl_memory_idle(cluster, NULL));
}
static void pass_ms(int64_t ms) {
    int64_t until = sl_cluster_mono_ms(cluster) + ms;
    while (sl_cluster_mono_ms(cluster) < until)
        sl_cluster_step(cluster, until - sl_cluster_mono_ms(cluster));
    settle();
}

static int make(const struct sl_resource *r, const char *text) {
    SL_AUTO_JSON *j = sl_json_from(text);
    return sl_memory_create(cluster, r, j, NULL, NULL);
}
static int merge(const struct sl_resource *r, const char *ns, const char *name, const char *sub, const char *text) {
    SL_AUTO_JSON *j = sl_json_from(text);
    return sl_memory_merge(cluster, r, ns, name, sub, j, NULL, NULL);
}
/* Text of one field; free() */
static char *field(const struct sl_resource *r, const char *ns, const char *name, const char *path) {
    SL_AUTO_JSON *j = sl_memory_get(cluster, r, ns, name);
    const struct sl_json *v = sl_json_path(j, path);
    return sl_json_type(v) == SL_JSON_STRING ? sl_xstrdup(sl_json_str(v, "")) : v ? sl_json_text(v) : sl_xstrdup("-");
}
#define assert_field(r, ns, name, path, want)                                                                          \
    do {                                                                                                               \
        SL_AUTO_FREE char *have = field(r, ns, name, path);                                                            \
        assert_string_equal(have, want);                                                                               \
    } while (0)

struct got {
    int count, code, status;
    bool unknown;
    char text[300];
    struct sl_json *object;
};
static void on_reply(void *payload, const struct sl_reply *reply) {
    struct got *g = payload;
    g->count++;
    g->code = reply->code;
    g->status = reply->status;
    g->unknown = reply->unknown;
    snprintf(g->text, sizeof g->text, "%s", reply->text);
    sl_json_unref(g->object);
    g->object = sl_json_ref(reply->object);
}
static void send_verb(struct got *g, enum sl_verb verb, const struct sl_resource *r, const char *name, const char *sub,
                      const char *manager, const char *body) {
    struct sl_request q = {.verb = verb,
                           .resource = r,
                           .ns = "a",
                           .name = name,
                           .subresource = sub,
                           .field_manager = manager,
                           .lane = SL_LANE_DECISION,
                           .done = on_reply,
                           .payload = g};
    q.body = body ? sl_json_from(body) : NULL;
    sl_cluster_send(cluster, &q);
}

static void creates_as_the_server_does(void **state) {
    (void)state;
    assert_int_equal(
        make(&workloads, "{'metadata':{'name':'w','namespace':'a','uid':'mine'},'spec':{'x':1},'status':{'y':1}}"), 0);
    assert_field(&workloads, "a", "w", "metadata.resourceVersion", "1");
    assert_field(&workloads, "a", "w", "metadata.generation", "1");
    assert_field(&workloads, "a", "w", "metadata.creationTimestamp", "2026-01-01T00:00:00Z");
    assert_field(&workloads, "a", "w", "apiVersion", "kueue.x-k8s.io/v1beta2");
    assert_field(&workloads, "a", "w", "kind", "Workload");
    assert_field(&workloads, "a", "w", "status", "-");
    SL_AUTO_FREE char *uid = field(&workloads, "a", "w", "metadata.uid");
    assert_int_equal(strlen(uid), 36);
    assert_int_equal(make(&workloads, "{'metadata':{'name':'w','namespace':'a'}}"), SL_EXISTS);
    assert_int_equal(make(&workloads, "{'metadata':{'name':'v'}}"), SL_INVALID);
    assert_int_equal(make(&workloads, "{'metadata':{'namespace':'a'}}"), SL_INVALID);
    assert_int_equal(make(&workloads, "{'metadata':{'name':'v','namespace':'a','resourceVersion':'4'}}"), SL_INVALID);
    assert_int_equal(make(&queues, "{'metadata':{'generateName':'q-'}}"), 0);
    SL_AUTO_JSON *all = sl_memory_list(cluster, &queues, NULL);
    assert_int_equal(sl_json_len(all), 1);
    assert_int_equal(strlen(sl_json_path_str(all, "0.metadata.name", "")), 7);
}

static void status_and_spec_are_apart(void **state) {
    (void)state;
    make(&workloads, "{'metadata':{'name':'w','namespace':'a'},'spec':{'x':1}}");
    assert_int_equal(merge(&workloads, "a", "w", "status", "{'spec':{'x':2},'status':{'y':1}}"), 0);
    assert_field(&workloads, "a", "w", "spec.x", "1");
    assert_field(&workloads, "a", "w", "status.y", "1");
    assert_field(&workloads, "a", "w", "metadata.generation", "1");
    assert_field(&workloads, "a", "w", "metadata.resourceVersion", "2");
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'spec':{'x':2},'status':{'y':2}}"), 0);
    assert_field(&workloads, "a", "w", "spec.x", "2");
    assert_field(&workloads, "a", "w", "status.y", "1");
    assert_field(&workloads, "a", "w", "metadata.generation", "2");
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'labels':{'l':'1'}}}"), 0);
    assert_field(&workloads, "a", "w", "metadata.generation", "2");
    assert_field(&workloads, "a", "w", "metadata.resourceVersion", "4");
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'labels':{'l':'1'}},'spec':{'x':2}}"), 0);
    assert_field(&workloads, "a", "w", "metadata.resourceVersion", "4"); /* nothing changed */
    assert_int_equal(merge(&configmaps, "a", "w", "status", "{}"), SL_NOT_FOUND);
    assert_int_equal(merge(&workloads, "a", "none", NULL, "{}"), SL_NOT_FOUND);
}

static void preconditions_are_checked(void **state) {
    (void)state;
    make(&workloads, "{'metadata':{'name':'w','namespace':'a'},'spec':{'x':1}}");
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'resourceVersion':'1'},'spec':{'x':2}}"), 0);
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'resourceVersion':'1'},'spec':{'x':3}}"),
                     SL_CONFLICT);
    assert_int_equal(merge(&workloads, "a", "w", "status", "{'metadata':{'resourceVersion':'1'},'status':{'x':3}}"),
                     SL_CONFLICT);
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'uid':'other'},'spec':{'x':3}}"), SL_CONFLICT);
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'name':'v'}}"), SL_INVALID);
    assert_field(&workloads, "a", "w", "spec.x", "2");
    struct got g = {0};
    send_verb(&g, SL_DELETE, &workloads, "w", NULL, NULL, "{'preconditions':{'uid':'other'}}");
    settle();
    assert_int_equal(g.code, SL_CONFLICT);
    assert_int_equal(g.status, 409);
    send_verb(&g, SL_DELETE, &workloads, "w", NULL, NULL, NULL);
    settle();
    assert_int_equal(g.code, 0);
    send_verb(&g, SL_DELETE, &workloads, "w", NULL, NULL, NULL);
    settle();
    assert_int_equal(g.code, SL_NOT_FOUND);
    sl_json_unref(g.object);
}

static void finalizers_hold_deletion(void **state) {
    (void)state;
    make(&workloads, "{'metadata':{'name':'w','namespace':'a','finalizers':['f','g']},'spec':{'x':1}}");
    sl_cluster_watch(cluster, &workloads, NULL, on_event, (void *)(uintptr_t) "");
    settle();
    assert_int_equal(sl_memory_delete(cluster, &workloads, "a", "w", NULL), 0);
    assert_field(&workloads, "a", "w", "metadata.deletionTimestamp", "2026-01-01T00:00:00Z");
    assert_field(&workloads, "a", "w", "metadata.generation", "2");
    assert_int_equal(sl_memory_delete(cluster, &workloads, "a", "w", NULL), 0);
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'finalizers':['f','g','h']}}"), SL_INVALID);
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'finalizers':['g']}}"), 0);
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'finalizers':null}}"), 0);
    assert_null(sl_memory_get(cluster, &workloads, "a", "w"));
    settle();
    assert_string_equal(log_text, "+w = +w +w -w ");
}

static void owners_take_their_dependents_along(void **state) {
    (void)state;
    make(&jobs, "{'metadata':{'name':'j','namespace':'a'},'spec':{'suspend':true}}");
    make(&jobs, "{'metadata':{'name':'k','namespace':'a'},'spec':{'suspend':true}}");
    SL_AUTO_FREE char *j = field(&jobs, "a", "j", "metadata.uid"), *k = field(&jobs, "a", "k", "metadata.uid");
    SL_AUTO_JSON *one =
        sl_json_fromf("{'metadata':{'name':'one','namespace':'a','ownerReferences':[{'uid':'%s'}]}}", j);
    SL_AUTO_JSON *two = sl_json_fromf(
        "{'metadata':{'name':'two','namespace':'a','ownerReferences':[{'uid':'%s'},{'uid':'%s'}]}}", j, k);
    SL_AUTO_JSON *late =
        sl_json_fromf("{'metadata':{'name':'late','namespace':'a','ownerReferences':[{'uid':'%s'}]}}", j);
    assert_int_equal(sl_memory_create(cluster, &workloads, one, NULL, NULL), 0);
    assert_int_equal(sl_memory_create(cluster, &workloads, two, NULL, NULL), 0);
    settle();
    assert_int_equal(sl_memory_delete(cluster, &jobs, "a", "j", NULL), 0);
    settle();
    assert_null(sl_memory_get(cluster, &workloads, "a", "one"));
    assert_field(&workloads, "a", "two", "metadata.ownerReferences.0.uid", k);
    assert_field(&workloads, "a", "two", "metadata.ownerReferences.1.uid", "-");
    assert_int_equal(sl_memory_create(cluster, &workloads, late, NULL, NULL), 0);
    settle();
    assert_null(sl_memory_get(cluster, &workloads, "a", "late")); /* its owner was dead already */
}

static void foreground_and_orphan_deletion(void **state) {
    (void)state;
    make(&jobs, "{'metadata':{'name':'j','namespace':'a'},'spec':{'suspend':true}}");
    make(&jobs, "{'metadata':{'name':'k','namespace':'a'},'spec':{'suspend':true}}");
    SL_AUTO_FREE char *j = field(&jobs, "a", "j", "metadata.uid"), *k = field(&jobs, "a", "k", "metadata.uid");
    SL_AUTO_JSON *one = sl_json_fromf(
        "{'metadata':{'name':'one','namespace':'a','finalizers':['f'],'ownerReferences':[{'uid':'%s'}]}}", j);
    SL_AUTO_JSON *two =
        sl_json_fromf("{'metadata':{'name':'two','namespace':'a','ownerReferences':[{'uid':'%s'}]}}", k);
    assert_int_equal(sl_memory_create(cluster, &workloads, one, NULL, NULL), 0);
    assert_int_equal(sl_memory_create(cluster, &workloads, two, NULL, NULL), 0);
    settle();
    struct got g = {0};
    send_verb(&g, SL_DELETE, &jobs, "j", NULL, NULL, "{'propagationPolicy':'Foreground'}");
    send_verb(&g, SL_DELETE, &jobs, "k", NULL, NULL, "{'propagationPolicy':'Orphan'}");
    settle();
    assert_int_equal(g.count, 2);
    assert_field(&jobs, "a", "j", "metadata.finalizers", "[\"foregroundDeletion\"]");
    assert_int_equal(merge(&workloads, "a", "one", NULL, "{'metadata':{'finalizers':null}}"), 0);
    settle();
    assert_null(sl_memory_get(cluster, &jobs, "a", "j"));
    assert_null(sl_memory_get(cluster, &jobs, "a", "k"));
    assert_field(&workloads, "a", "two", "metadata.ownerReferences", "-");
    sl_json_unref(g.object);
}

static void a_namespace_takes_all_along(void **state) {
    (void)state;
    make(&namespaces, "{'metadata':{'name':'a'}}");
    make(&configmaps, "{'metadata':{'name':'c','namespace':'a'}}");
    make(&configmaps, "{'metadata':{'name':'c','namespace':'b'}}");
    assert_int_equal(sl_memory_delete(cluster, &namespaces, NULL, "a", NULL), 0);
    settle();
    assert_null(sl_memory_get(cluster, &configmaps, "a", "c"));
    assert_field(&configmaps, "b", "c", "metadata.name", "c");
}

static void watches_list_then_follow(void **state) {
    (void)state;
    make(&configmaps, "{'metadata':{'name':'b','namespace':'a','labels':{'x':'1'}},'data':{'v':'1'}}");
    make(&configmaps, "{'metadata':{'name':'a','namespace':'b','labels':{'x':'2'}},'data':{'v':'1'}}");
    struct sl_watch *w = sl_cluster_watch(cluster, &configmaps, NULL, on_event, (void *)(uintptr_t) "");
    assert_false(sl_watch_synced(w));
    assert_string_equal(log_text, ""); /* nothing is delivered but inside a step */
    make(&configmaps, "{'metadata':{'name':'c','namespace':'c'},'data':{'v':'1'}}");
    settle();
    assert_true(sl_watch_synced(w));
    assert_string_equal(log_text, "+b1 +a1 +c1 = ");
    merge(&configmaps, "a", "b", NULL, "{'data':{'v':'2'}}");
    merge(&configmaps, "a", "b", NULL, "{'data':{'v':'3'}}");
    assert_int_equal(sl_memory_delete(cluster, &configmaps, "b", "a", NULL), 0);
    settle();
    assert_string_equal(log_text, "+b1 +a1 +c1 = +b2 +b3 -a1 ");
    log_text[0] = 0;
    struct sl_watch_options some = {.label_selector = "x in (1,3),!y"},
                            named = {.ns = "c", .field_selector = "metadata.name=c"};
    sl_cluster_watch(cluster, &configmaps, &some, on_event, (void *)(uintptr_t) "s");
    sl_cluster_watch(cluster, &configmaps, &named, on_event, (void *)(uintptr_t) "n");
    settle();
    merge(&configmaps, "a", "b", NULL, "{'metadata':{'labels':{'y':'1'}}}");
    settle();
    assert_string_equal(log_text, "s+b3 s= n+c1 n= +b3 s-b3 ");
}

static void metadata_only_shows_metadata(void **state) {
    (void)state;
    make(&configmaps, "{'metadata':{'name':'b','namespace':'a'},'data':{'v':'1'}}");
    struct sl_watch_options o = {.metadata_only = true};
    sl_cluster_watch(cluster, &configmaps, &o, on_event, (void *)(uintptr_t) "");
    settle();
    assert_string_equal(log_text, "+b = "); /* data.v was not shown */
}

static void a_cut_watch_tells_everything(void **state) {
    (void)state;
    struct sl_memory_faults f = {.watch_gone = 300, .watch_cut = 200, .delay_ms = 50};
    sl_cluster_watch(cluster, &configmaps, NULL, on_event, (void *)(uintptr_t) "");
    settle();
    sl_memory_set_faults(cluster, &f);
    for (int i = 0; i < 200; i++) {
        SL_AUTO_JSON *j = sl_json_fromf("{'metadata':{'name':'c%d','namespace':'a'},'data':{'v':'x'}}", i % 20);
        if (i % 40 < 20)
            assert_int_equal(sl_memory_create(cluster, &configmaps, j, NULL, NULL), 0);
        else
            assert_int_equal(
                sl_memory_delete(cluster, &configmaps, "a", sl_json_path_str(j, "metadata.name", ""), NULL), 0);
        if (i % 2 == 0)
            sl_cluster_step(cluster, 300);
    }
    settle();
    /* the last word about each name must be the truth: 0..19 exist (200 = 5 * 40) or not */
    for (int i = 0; i < 20; i++) {
        char plus[16], minus[16];
        snprintf(plus, sizeof plus, "+c%dx ", i);
        snprintf(minus, sizeof minus, "-c%dx ", i);
        const char *last_plus = NULL, *last_minus = NULL;
        for (const char *p = log_text; (p = strstr(p, plus)); p++)
            last_plus = p;
        for (const char *p = log_text; (p = strstr(p, minus)); p++)
            last_minus = p;
        char name[8];
        snprintf(name, sizeof name, "c%d", i);
        SL_AUTO_JSON *exists = sl_memory_get(cluster, &configmaps, "a", name);
        assert_int_equal(exists != NULL, last_plus != NULL && (!last_minus || last_plus > last_minus));
    }
    int synced = 0;
    for (const char *p = log_text; (p = strstr(p, "= ")); p++)
        synced++;
    assert_true(synced > 2);
}

static void requests_answer_inside_a_step(void **state) {
    (void)state;
    struct got g = {0};
    send_verb(&g, SL_CREATE, &configmaps, NULL, NULL, NULL, "{'metadata':{'name':'c'},'data':{'v':'1'}}");
    assert_int_equal(g.count, 0);
    assert_int_equal(sl_cluster_pending(cluster, SL_LANE_DECISION), 1);
    settle();
    assert_int_equal(g.count, 1);
    assert_int_equal(g.status, 201);
    assert_int_equal(sl_cluster_pending(cluster, SL_LANE_DECISION), 0);
    assert_string_equal(sl_json_path_str(g.object, "metadata.namespace", ""), "a");
    send_verb(&g, SL_CREATE, &configmaps, NULL, NULL, NULL, "{'metadata':{'name':'c'}}");
    settle();
    assert_int_equal(g.code, SL_EXISTS);
    assert_string_equal(sl_json_path_str(g.object, "reason", ""), "AlreadyExists");
    send_verb(&g, SL_GET, &configmaps, "c", NULL, NULL, NULL);
    settle();
    assert_string_equal(sl_json_path_str(g.object, "data.v", ""), "1");
    send_verb(&g, SL_JSON_PATCH, &configmaps, "c", NULL, NULL, "[{'op':'test','path':'/data/v','value':'2'}]");
    settle();
    assert_int_equal(g.code, SL_INVALID);
    send_verb(&g, SL_JSON_PATCH, &configmaps, "c", NULL, NULL, "[{'op':'add','path':'/data/w','value':'2'}]");
    settle();
    assert_int_equal(g.code, 0);
    assert_field(&configmaps, "a", "c", "data.w", "2");
    send_verb(&g, SL_LIST, &configmaps, NULL, NULL, NULL, NULL);
    settle();
    assert_int_equal(sl_json_len(sl_json_get(g.object, "items")), 1);
    assert_string_equal(sl_json_get_str(g.object, "kind", ""), "ConfigMapList");
    struct sl_request dry = {.verb = SL_MERGE_PATCH,
                             .resource = &configmaps,
                             .ns = "a",
                             .name = "c",
                             .query = "dryRun=All",
                             .body = sl_json_from("{'data':{'v':'9'}}"),
                             .done = on_reply,
                             .payload = &g};
    sl_cluster_send(cluster, &dry);
    settle();
    assert_string_equal(sl_json_path_str(g.object, "data.v", ""), "9");
    assert_field(&configmaps, "a", "c", "data.v", "1");
    sl_json_unref(g.object);
}

static void pending_requests_are_cancelled(void **state) {
    (void)state;
    struct got g = {0};
    send_verb(&g, SL_GET, &configmaps, "c", NULL, NULL, NULL);
    send_verb(&g, SL_GET, &configmaps, "c", NULL, NULL, NULL);
    send_verb(&g, SL_CREATE, &configmaps, NULL, NULL, NULL, "{}");
    sl_cluster_free(SL_TAKE(cluster));
    assert_int_equal(g.count, 3);
    assert_int_equal(g.code, SL_CANCELLED);
}

static void order_notes(void *payload, const struct sl_reply *reply) {
    (void)reply;
    note(payload);
}
static void one_object_keeps_its_order(void **state) {
    (void)state;
    struct sl_memory_faults f = {.delay_ms = 500};
    sl_memory_set_faults(cluster, &f);
    make(&configmaps, "{'metadata':{'name':'c','namespace':'a'},'data':{'v':''}}");
    static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        struct sl_request q = {.verb = SL_MERGE_PATCH,
                               .resource = &configmaps,
                               .ns = "a",
                               .name = "c",
                               .lane = SL_LANE_STATUS,
                               .body = sl_json_fromf("{'data':{'v':'%s'}}", names[i]),
                               .done = order_notes,
                               .payload = (void *)(uintptr_t)names[i]};
        sl_cluster_send(cluster, &q);
    }
    settle();
    assert_string_equal(log_text, "0123456789");
    assert_field(&configmaps, "a", "c", "data.v", "9");
}

static void apply_keeps_books_by_manager(void **state) {
    (void)state;
    struct got g = {0};
    send_verb(&g, SL_APPLY, &workloads, "w", NULL, NULL, "{'spec':{}}");
    settle();
    assert_int_equal(g.code, SL_INVALID); /* no manager */
    send_verb(&g, SL_APPLY, &workloads, "w", NULL, "one", "{'metadata':{'uid':'gone'}}");
    settle();
    assert_int_equal(g.code, SL_CONFLICT);
    send_verb(&g, SL_APPLY, &workloads, "w", "status", "one", "{'status':{}}");
    settle();
    assert_int_equal(g.code, SL_NOT_FOUND);
    send_verb(&g, SL_APPLY, &workloads, "w", NULL, "one",
              "{'metadata':{'labels':{'a':'1','b':'1'}},'spec':{'x':1,'list':[1,2]}}");
    settle();
    assert_int_equal(g.status, 201);
    send_verb(&g, SL_APPLY, &workloads, "w", "status", "one",
              "{'status':{'admission':{'clusterQueue':'q','podSetAssignments':[{'name':'m','count':1},{'name':'n','"
              "count':2}]},"
              "'conditions':[{'type':'A','status':'True'},{'type':'B','status':'True'}]}}");
    send_verb(&g, SL_APPLY, &workloads, "w", "status", "two",
              "{'status':{'conditions':[{'type':'C','status':'True'}]}}");
    settle();
    assert_field(&workloads, "a", "w", "status.conditions.2.type", "C");
    /* what one no longer says goes, what two says stays */
    send_verb(&g, SL_APPLY, &workloads, "w", "status", "one",
              "{'status':{'admission':{'clusterQueue':'q','podSetAssignments':[{'name':'n','count':3}]},'conditions':[{"
              "'type':'B','status':'False'}]}}");
    settle();
    assert_field(&workloads, "a", "w", "status.admission.podSetAssignments", "[{\"count\":3,\"name\":\"n\"}]");
    assert_field(&workloads, "a", "w", "status.conditions",
                 "[{\"status\":\"False\",\"type\":\"B\"},{\"status\":\"True\",\"type\":\"C\"}]");
    send_verb(&g, SL_APPLY, &workloads, "w", "status", "one",
              "{'status':{'conditions':[{'type':'B','status':'False'}]}}");
    settle();
    assert_field(&workloads, "a", "w", "status.admission", "-");
    /* metadata and spec are another book, with the status subresource left alone */
    send_verb(&g, SL_APPLY, &workloads, "w", NULL, "one", "{'metadata':{'labels':{'a':'1'}},'spec':{'list':[3]}}");
    settle();
    assert_field(&workloads, "a", "w", "metadata.labels", "{\"a\":\"1\"}");
    assert_field(&workloads, "a", "w", "spec", "{\"list\":[3]}");
    /* conflicts */
    send_verb(&g, SL_APPLY, &workloads, "w", "status", "three",
              "{'status':{'conditions':[{'type':'B','status':'True'}]}}");
    settle();
    assert_int_equal(g.code, SL_CONFLICT);
    assert_non_null(strstr(g.text, "\"one\" in .status.conditions"));
    struct sl_request q = {.verb = SL_APPLY,
                           .resource = &workloads,
                           .ns = "a",
                           .name = "w",
                           .subresource = "status",
                           .field_manager = "three",
                           .force = true,
                           .body = sl_json_from("{'status':{'conditions':[{'type':'B','status':'True'}]}}"),
                           .done = on_reply,
                           .payload = &g};
    sl_cluster_send(cluster, &q);
    settle();
    assert_int_equal(g.code, 0);
    assert_field(&workloads, "a", "w", "status.conditions.0.status", "True");
    /* a plain update takes a field over: the applier that stops saying it does not remove it */
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'labels':{'a':'2'}}}"), 0);
    send_verb(&g, SL_APPLY, &workloads, "w", NULL, "one", "{'spec':{'list':[3]}}");
    settle();
    assert_field(&workloads, "a", "w", "metadata.labels", "{\"a\":\"2\"}");
    /* no change, no new version; a wrong version is refused */
    SL_AUTO_FREE char *rv = field(&workloads, "a", "w", "metadata.resourceVersion");
    send_verb(&g, SL_APPLY, &workloads, "w", NULL, "one", "{'spec':{'list':[3]}}");
    settle();
    assert_field(&workloads, "a", "w", "metadata.resourceVersion", rv);
    send_verb(&g, SL_APPLY, &workloads, "w", NULL, "one", "{'metadata':{'resourceVersion':'1'},'spec':{'list':[4]}}");
    settle();
    assert_int_equal(g.code, SL_CONFLICT);
    sl_json_unref(g.object);
}

static void jobs_run(void **state) {
    (void)state;
    make(&jobs, "{'metadata':{'name':'j','namespace':'a'},'spec':{'suspend':true,'parallelism':2,'completions':3}}");
    settle();
    assert_field(&jobs, "a", "j", "status.conditions.0.type", "Suspended");
    assert_field(&jobs, "a", "j", "status.active", "0");
    merge(&jobs, "a", "j", NULL, "{'spec':{'suspend':false}}");
    settle();
    assert_field(&jobs, "a", "j", "status.active", "2");
    assert_field(&jobs, "a", "j", "status.ready", "2");
    assert_field(&jobs, "a", "j", "status.conditions.0.status", "False");
    assert_field(&jobs, "a", "j", "status.startTime", "2026-01-01T00:00:00Z");
    pass_ms(10000);
    assert_field(&jobs, "a", "j", "status.succeeded", "2");
    assert_field(&jobs, "a", "j", "status.active", "1");
    /* suspended halfway: the pod is gone, what succeeded stays */
    merge(&jobs, "a", "j", NULL, "{'spec':{'suspend':true}}");
    settle();
    assert_field(&jobs, "a", "j", "status.active", "0");
    assert_field(&jobs, "a", "j", "status.startTime", "-");
    pass_ms(60000);
    assert_field(&jobs, "a", "j", "status.succeeded", "2");
    merge(&jobs, "a", "j", NULL, "{'spec':{'suspend':false}}");
    pass_ms(9999);
    assert_field(&jobs, "a", "j", "status.succeeded", "2");
    pass_ms(1);
    assert_field(&jobs, "a", "j", "status.succeeded", "3");
    assert_field(&jobs, "a", "j", "status.conditions.1.type", "SuccessCriteriaMet");
    assert_field(&jobs, "a", "j", "status.conditions.2.type", "Complete");
    assert_field(&jobs, "a", "j", "status.conditions.2.status", "True");
    assert_field(&jobs, "a", "j", "status.completionTime", "2026-01-01T00:01:20Z");
}

static void jobs_fail_and_vanish(void **state) {
    (void)state;
    make(&jobs, "{'metadata':{'name':'f','namespace':'a','annotations':{'sluice.dev/simulate-run':'2s','sluice.dev/"
                "simulate-fail':'true'}},"
                "'spec':{'ttlSecondsAfterFinished':5}}");
    make(&jobs, "{'metadata':{'name':'d','namespace':'a'},'spec':{'activeDeadlineSeconds':3}}");
    make(&jobs, "{'metadata':{'name':'m','namespace':'a'},'spec':{'managedBy':'other'}}");
    pass_ms(2000);
    assert_field(&jobs, "a", "f", "status.failed", "1");
    assert_field(&jobs, "a", "f", "status.conditions.0.type", "FailureTarget");
    assert_field(&jobs, "a", "f", "status.conditions.1.type", "Failed");
    pass_ms(1000);
    assert_field(&jobs, "a", "d", "status.conditions.1.reason", "DeadlineExceeded");
    pass_ms(4000);
    assert_null(sl_memory_get(cluster, &jobs, "a", "f"));
    assert_field(&jobs, "a", "m", "status", "-");
}

static void faults_are_drawn(void **state) {
    (void)state;
    struct sl_memory_faults f = {.conflict = 150, .unavailable = 150, .unknown_applied = 150, .unknown_lost = 150};
    make(&configmaps, "{'metadata':{'name':'c','namespace':'a'},'data':{'v':''}}");
    sl_memory_set_faults(cluster, &f);
    int conflicts = 0, unavailable = 0, applied = 0, lost = 0, fine = 0;
    for (int i = 0; i < 400; i++) {
        char text[64], want[16];
        snprintf(want, sizeof want, "%d", i);
        snprintf(text, sizeof text, "{'data':{'v':'%d'}}", i);
        struct got g = {0};
        send_verb(&g, SL_MERGE_PATCH, &configmaps, "c", NULL, NULL, text);
        settle();
        assert_int_equal(g.count, 1);
        SL_AUTO_FREE char *have = field(&configmaps, "a", "c", "data.v");
        bool done = !strcmp(have, want);
        if (g.unknown) {
            assert_int_equal(g.code, SL_UNAVAILABLE);
            assert_int_equal(g.status, 0);
            applied += done;
            lost += !done;
        } else {
            conflicts += g.code == SL_CONFLICT;
            unavailable += g.code == SL_UNAVAILABLE && g.status == 503;
            fine += !g.code;
            assert_int_equal(done, !g.code);
        }
        sl_json_unref(g.object);
    }
    assert_true(conflicts && unavailable && applied && lost && fine);
    assert_int_equal(conflicts + unavailable + applied + lost + fine, 400);
}

static char reviews[4096];
static struct sl_json *admit(void *payload, bool mutating, const struct sl_json *review) {
    (void)payload;
    const struct sl_json *q = sl_json_get(review, "request");
    size_t n = strlen(reviews);
    snprintf(reviews + n, sizeof reviews - n, "%s%s%s%s%s%s ",
             mutating ? "m:" : "v:", sl_json_get_str(q, "operation", ""),
             sl_json_get_str(q, "subResource", NULL) ? "/" : "", sl_json_get_str(q, "subResource", ""),
             sl_json_is_null(sl_json_get(q, "object")) ? "" : "+o",
             sl_json_is_null(sl_json_get(q, "oldObject")) ? "" : "+old");
    if (strcmp(sl_json_path_str(q, "resource.resource", ""), "configmaps"))
        return NULL;
    struct sl_json *answer = sl_json_fromf("{'response':{'uid':'%s','allowed':true}}", sl_json_get_str(q, "uid", ""));
    struct sl_json *r = sl_json_mut(answer, "response");
    if (mutating && !strcmp(sl_json_get_str(q, "operation", ""), "CREATE")) {
        SL_AUTO_BUF b = SL_BUF_INIT(4096);
        static const char patch[] = "[{\"op\":\"add\",\"path\":\"/data/m\",\"value\":\"x\"}]";
        sl_buf_add_base64(&b, patch, sizeof patch - 1);
        sl_json_set_str(r, "patch", sl_buf_text(&b));
        sl_json_set_str(r, "patchType", "JSONPatch");
    }
    if (!mutating && !strcmp(sl_json_path_str(q, "object.data.v", ""), "bad")) {
        sl_json_set_bool(r, "allowed", false);
        sl_json_set(r, "status", sl_json_from("{'code':422,'message':'v is bad'}"));
    }
    return answer;
}
static void defaults(void *payload, const struct sl_resource *r, struct sl_json *object) {
    (void)payload;
    if (r == &configmaps && !sl_json_path(object, "data.d"))
        sl_json_set_str(sl_json_make_object(object, "data"), "d", "dflt");
}

static void admission_is_called(void **state) {
    (void)state;
    sl_cluster_free(cluster);
    struct sl_memory_options o = {.admit = admit, .set_defaults = defaults};
    cluster = sl_memory_new(&o);
    reviews[0] = 0;
    assert_int_equal(make(&configmaps, "{'metadata':{'name':'c','namespace':'a'},'data':{'v':'1'}}"), 0);
    assert_field(&configmaps, "a", "c", "data", "{\"d\":\"dflt\",\"m\":\"x\",\"v\":\"1\"}");
    assert_int_equal(merge(&configmaps, "a", "c", NULL, "{'data':{'v':'bad'}}"), SL_INVALID);
    assert_field(&configmaps, "a", "c", "data.v", "1");
    assert_int_equal(sl_memory_delete(cluster, &configmaps, "a", "c", NULL), 0);
    assert_int_equal(make(&workloads, "{'metadata':{'name':'w','namespace':'a'},'spec':{'x':1}}"), 0);
    assert_int_equal(merge(&workloads, "a", "w", "status", "{'status':{'y':1}}"), 0);
    assert_string_equal(reviews, "m:CREATE+o v:CREATE+o m:UPDATE+o+old v:UPDATE+o+old m:DELETE+old v:DELETE+old "
                                 "m:CREATE+o v:CREATE+o m:UPDATE/status+o+old v:UPDATE/status+o+old ");
}

static void the_same_seed_gives_the_same_history(void **state) {
    (void)state;
    char *texts[2];
    for (int turn = 0; turn < 2; turn++) {
        struct sl_memory_options o = {.seed = 42, .default_run_ms = 777};
        sl_cluster_free(cluster);
        cluster = sl_memory_new(&o);
        log_text[0] = 0;
        struct sl_memory_faults f = {.watch_gone = 100, .watch_cut = 100, .delay_ms = 100};
        sl_memory_set_faults(cluster, &f);
        sl_cluster_watch(cluster, &jobs, NULL, on_event, (void *)(uintptr_t) "");
        for (int i = 0; i < 30; i++) {
            SL_AUTO_JSON *j =
                sl_json_fromf("{'metadata':{'name':'j%d','namespace':'a'},'spec':{'parallelism':%d}}", i, i % 4);
            assert_int_equal(sl_memory_create(cluster, &jobs, j, NULL, NULL), 0);
            sl_cluster_step(cluster, 20);
        }
        pass_ms(5000);
        SL_AUTO_JSON *all = sl_memory_list(cluster, &jobs, NULL);
        SL_AUTO_FREE char *text = sl_json_text(all);
        texts[turn] = sl_xprintf("%s%s", log_text, text);
    }
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
}

/* Trees that were handed out are shared with the store; no later write may reach into them. */
static struct {
    const struct sl_json *tree;
    char *text;
} held[256];
static size_t held_count;
static void hold(void *payload, const struct sl_watch_event *e) {
    (void)payload;
    if (!e->object)
        return;
    assert_true(held_count < SL_COUNT(held));
    held[held_count].tree = sl_json_ref(e->object);
    held[held_count++].text = sl_json_text(e->object);
}
static void what_was_handed_out_does_not_change(void **state) {
    (void)state;
    held_count = 0;
    sl_cluster_watch(cluster, &workloads, NULL, hold, NULL);
    sl_cluster_watch(cluster, &jobs, NULL, hold, NULL);
    make(&jobs, "{'metadata':{'name':'j','namespace':'a'},'spec':{'suspend':true}}");
    SL_AUTO_FREE char *owner = field(&jobs, "a", "j", "metadata.uid");
    SL_AUTO_JSON *w = sl_json_fromf("{'metadata':{'name':'w','namespace':'a','labels':{'a':'1'},'finalizers':['f'],'"
                                    "ownerReferences':[{'uid':'%s'}]},"
                                    "'spec':{'x':{'y':1},'list':[{'z':1}]}}",
                                    owner);
    assert_int_equal(sl_memory_create(cluster, &workloads, w, NULL, NULL), 0);
    settle();
    struct got g = {0};
    assert_int_equal(merge(&workloads, "a", "w", "status",
                           "{'metadata':{'labels':{'a':'2'}},'status':{'c':{'d':1}},'spec':{'x':{'y':2}}}"),
                     0);
    settle();
    assert_int_equal(merge(&workloads, "a", "w", "status", "{'status':{'c':{'d':2}}}"), 0);
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'labels':{'a':'2'}},'spec':{'x':{'y':2}}}"), 0);
    settle();
    send_verb(&g, SL_APPLY, &workloads, "w", NULL, "m", "{'metadata':{'labels':{'b':'1'}},'spec':{'x':{'v':1}}}");
    send_verb(&g, SL_APPLY, &workloads, "w", NULL, "m", "{'metadata':{'annotations':{'b':'1'}},'spec':{'x':{'v':2}}}");
    send_verb(&g, SL_APPLY, &workloads, "w", "status", "m",
              "{'status':{'c':{'e':1},'conditions':[{'type':'A','status':'True'}]}}");
    send_verb(&g, SL_APPLY, &workloads, "w", "status", "m",
              "{'status':{'conditions':[{'type':'A','status':'False'}]}}");
    send_verb(&g, SL_JSON_PATCH, &workloads, "w", NULL, NULL,
              "[{'op':'add','path':'/spec/list/0/z','value':9},{'op':'remove','path':'/spec/x'}]");
    settle();
    SL_AUTO_JSON *full = sl_memory_get(cluster, &workloads, "a", "w");
    sl_json_set(full, "spec", sl_json_from("{'q':1}"));
    struct sl_request put = {.verb = SL_UPDATE,
                             .resource = &workloads,
                             .ns = "a",
                             .name = "w",
                             .body = sl_json_ref(full),
                             .done = on_reply,
                             .payload = &g};
    sl_cluster_send(cluster, &put);
    settle();
    assert_int_equal(g.code, 0);
    merge(&jobs, "a", "j", NULL, "{'spec':{'suspend':false}}");
    pass_ms(20000);
    assert_int_equal(sl_memory_delete(cluster, &jobs, "a", "j", NULL), 0);
    settle();
    assert_int_equal(merge(&workloads, "a", "w", NULL, "{'metadata':{'finalizers':null}}"), 0);
    settle();
    assert_null(sl_memory_get(cluster, &workloads, "a", "w"));
    assert_true(held_count > 12);
    for (size_t i = 0; i < held_count; i++) {
        SL_AUTO_FREE char *now = sl_json_text(held[i].tree);
        assert_string_equal(now, held[i].text);
        free(held[i].text);
        sl_json_unref((struct sl_json *)(uintptr_t)held[i].tree);
    }
    sl_json_unref(g.object);
}

static void time_moves_only_when_nothing_is_due(void **state) {
    (void)state;
    int64_t next;
    assert_true(sl_memory_idle(cluster, &next));
    assert_int_equal(next, -1);
    sl_cluster_step(cluster, 250);
    assert_int_equal(sl_cluster_mono_ms(cluster), 1250);
    assert_int_equal(sl_cluster_wall_ms(cluster), 1767225600250);
    make(&jobs, "{'metadata':{'name':'j','namespace':'a'},'spec':{}}");
    assert_false(sl_memory_idle(cluster, NULL));
    settle();
    assert_int_equal(sl_cluster_mono_ms(cluster), 1250);
    assert_true(sl_memory_idle(cluster, &next));
    assert_int_equal(next, 11250);
    sl_cluster_step(cluster, 60000);
    assert_int_equal(sl_cluster_mono_ms(cluster), 11250);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        T(creates_as_the_server_does),
        T(status_and_spec_are_apart),
        T(preconditions_are_checked),
        T(finalizers_hold_deletion),
        T(owners_take_their_dependents_along),
        T(foreground_and_orphan_deletion),
        T(a_namespace_takes_all_along),
        T(watches_list_then_follow),
        T(metadata_only_shows_metadata),
        T(a_cut_watch_tells_everything),
        T(requests_answer_inside_a_step),
        T(pending_requests_are_cancelled),
        T(one_object_keeps_its_order),
        T(apply_keeps_books_by_manager),
        T(jobs_run),
        T(jobs_fail_and_vanish),
        T(faults_are_drawn),
        T(admission_is_called),
        T(the_same_seed_gives_the_same_history),
        T(time_moves_only_when_nothing_is_due),
        T(what_was_handed_out_does_not_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
