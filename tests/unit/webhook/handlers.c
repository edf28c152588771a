/*
 * tests/golden/{job-create,reviews}/<case>/: in.yaml, a Job to create or {path, request}; snapshot.yaml {config,
 * objects}, else the one beside the cases; patch.json, deny.txt ("code message"), warnings.txt (one a line), each
 * absent when there is nothing of it. Every patch is applied, and the result reviewed again: the second patch must be
 * empty.
 */
#include "golden.h"

#include <pthread.h>

#include "sluice/api/decode.h"
#include "sluice/webhook/handlers.h"
#include "sluice/webhook/patch.h"
#include "sluice/webhook/snapshot.h"

static void add_object(struct sl_snapshot *s, const struct sl_json *o) {
    const char *kind = sl_json_get_str(o, "kind", "");
    struct sl_err err = SL_ERR_INIT;
    int code = 0;
    if (!strcmp(kind, "Namespace")) {
        struct sl_labels labels, annotations;
        sl_labels_decode(sl_json_path(o, "metadata.labels"), NULL, &labels);
        sl_labels_decode(sl_json_path(o, "metadata.annotations"), "sluice.dev/", &annotations);
        sl_snapshot_add_namespace(s, sl_json_path_str(o, "metadata.name", ""), &labels, &annotations);
        sl_labels_done(&labels);
        sl_labels_done(&annotations);
    } else if (!strcmp(kind, "LocalQueue")) {
        struct sl_localqueue *q = NULL;
        if ((code = sl_localqueue_decode(o, &q, &err)) == 0)
            sl_snapshot_add_localqueue(s, q);
        sl_localqueue_free(q);
    } else if (!strcmp(kind, "ClusterQueue")) {
        struct sl_clusterqueue *q = NULL;
        if ((code = sl_clusterqueue_decode(o, &q, &err)) == 0)
            sl_snapshot_add_clusterqueue(s, q);
        sl_clusterqueue_free(q);
    } else if (!strcmp(kind, "ResourceFlavor")) {
        struct sl_flavor *f = NULL;
        if ((code = sl_flavor_decode(o, &f, &err)) == 0)
            sl_snapshot_add_flavor(s, f);
        sl_flavor_free(f);
    } else {
        fail_msg("unknown kind %s", kind);
    }
    if (code < 0)
        fail_msg("%s: %s", kind, err.text);
}

static struct sl_snapshot *make_snapshot(const struct sl_json *in) {
    struct sl_config config;
    struct sl_err err = SL_ERR_INIT;
    struct sl_json *document =
        sl_json_get(in, "config") ? sl_json_copy(sl_json_get(in, "config")) : sl_json_new_object();
    sl_json_set_str(document, "apiVersion", "config.kueue.x-k8s.io/v1beta2");
    sl_json_set_str(document, "kind", "Configuration");
    if (sl_config_parse(document, &config, NULL, &err) < 0)
        fail_msg("config: %s", err.text);
    sl_json_unref(document);
    struct sl_snapshot *s = NULL;
    if (sl_snapshot_new(&config, "kueue-system", &s, &err) < 0)
        fail_msg("config: %s", err.text);
    sl_config_done(&config);
    SL_JSON_ITEMS (sl_json_get(in, "objects"), e)
        add_object(s, e.value);
    sl_snapshot_freeze(s);
    return s;
}

static struct sl_snapshot *snapshot_of(const char *dir) {
    SL_AUTO_JSON *in = golden_yaml(dir, "snapshot.yaml");
    if (!in)
        in = golden_yaml(dir, "../snapshot.yaml");
    return make_snapshot(in);
}

static sl_review_fn handler_of(const char *path) {
    size_t n;
    const struct sl_route *routes = sl_handler_routes(&n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(routes[i].path, path))
            return routes[i].review;
    fail_msg("no route %s", path);
    return NULL;
}

/* The whole way: bytes in, bytes out, for a request and for its dry run. */
static void check_envelope(sl_review_fn fn, const struct sl_snapshot *s, const struct sl_json *request,
                           const struct sl_review_reply *want) {
    for (int dry = 0; dry < 2; dry++) {
        struct sl_json *r = sl_json_copy(request), *review = sl_json_new_object();
        sl_json_set_str(r, "uid", "u-1");
        sl_json_set_bool(r, "dryRun", dry);
        sl_json_set_str(review, "apiVersion", "admission.k8s.io/v1");
        sl_json_set_str(review, "kind", "AdmissionReview");
        sl_json_set(review, "request", r);
        struct sl_buf body = SL_BUF_INIT(GOLDEN_MAX);
        sl_json_dump(review, false, &body); /* messages print values in the order they came in */
        struct sl_buf out = SL_BUF_INIT(SL_REVIEW_MAX_BYTES);
        bool denied;
        assert_int_equal(sl_review_handle(fn, s, sl_buf_text(&body), body.len, &out, &denied), 200);
        SL_AUTO_JSON *answer = NULL;
        assert_int_equal(sl_json_parse(sl_buf_text(&out), out.len, out.max, &answer, NULL), 0);
        assert_int_equal(denied, !want->allowed);
        assert_int_equal(sl_json_bool(sl_json_path(answer, "response.allowed"), false), want->allowed);
        assert_int_equal(sl_json_path(answer, "response.patch") != NULL, want->allowed && sl_json_len(want->patch) > 0);
        assert_true(
            sl_json_equal(sl_json_path(answer, "response.status.details.causes"), want->allowed ? NULL : want->causes));
        sl_buf_done(&out);
        sl_buf_done(&body);
        sl_json_unref(review);
    }
}

static void run_case(const char *dir) {
    SL_AUTO_JSON *in = golden_yaml(dir, "in.yaml");
    assert_non_null(in);
    struct sl_snapshot *s = snapshot_of(dir);
    const char *path = sl_json_get_str(in, "path", "/mutate-batch-v1-job");
    struct sl_json *request;
    if (sl_json_get(in, "request")) {
        request = sl_json_copy(sl_json_get(in, "request"));
    } else {
        request = sl_json_new_object();
        sl_json_set_str(request, "operation", "CREATE");
        sl_json_set_str(request, "namespace", sl_json_path_str(in, "metadata.namespace", "team-a"));
        sl_json_set(request, "object", sl_json_copy(in));
    }
    sl_review_fn fn = handler_of(path);
    char *before = sl_json_text(request);
    struct sl_review_reply reply = SL_REVIEW_REPLY_INIT;
    fn(s, request, &reply);
    char *after = sl_json_text(request);
    assert_string_equal(before, after); /* only read */
    check_envelope(fn, s, request, &reply);

    golden_check_json(dir, "patch.json", sl_json_len(reply.patch) ? reply.patch : NULL);
    SL_AUTO_FREE char *denial =
        reply.allowed ? NULL : sl_xprintf("%d %s", reply.code ? reply.code : 403, reply.message);
    golden_check_text(dir, "deny.txt", denial);
    struct sl_buf text = SL_BUF_INIT(65536);
    SL_JSON_ITEMS (reply.warnings, e)
        sl_buf_printf(&text, "%s%s", e.i ? "\n" : "", sl_json_str(e.value, ""));
    golden_check_text(dir, "warnings.txt", text.len ? sl_buf_text(&text) : NULL);

    if (sl_json_len(reply.patch)) {
        struct sl_json *object = sl_json_copy(sl_json_get(request, "object"));
        struct sl_err err = SL_ERR_INIT;
        if (sl_json_patch_apply(&object, reply.patch, &err) < 0)
            fail_msg("%s: %s", dir, err.text);
        sl_json_set(request, "object", object);
        struct sl_review_reply again = SL_REVIEW_REPLY_INIT;
        fn(s, request, &again);
        assert_true(again.allowed);
        assert_int_equal(sl_json_len(again.patch), 0);
        sl_review_reply_done(&again);
    }
    sl_review_reply_done(&reply);
    sl_buf_done(&text);
    free(before);
    free(after);
    sl_json_unref(request);
    sl_snapshot_unref(s);
}

static void job_create(void **state) {
    (void)state;
    golden_each("job-create", run_case);
}
static void reviews(void **state) {
    (void)state;
    golden_each("reviews", run_case);
}

/* ---- patches ---- */

static void check_patch(const char *before, const char *after, const char *want) {
    SL_AUTO_JSON *b = sl_json_from(before), *a = sl_json_from(after), *w = sl_json_from(want);
    SL_AUTO_JSON *patch = sl_patch_diff(b, a);
    SL_AUTO_FREE char *x = sl_json_text(patch), *y = sl_json_text(w);
    assert_string_equal(x, y);
    struct sl_json *applied = sl_json_copy(b);
    assert_int_equal(sl_json_patch_apply(&applied, patch, NULL), 0);
    SL_AUTO_JSON *rest = sl_patch_diff(applied, a);
    assert_int_equal(sl_json_len(rest), 0);
    sl_json_unref(applied);
}

static void minimal_patches(void **state) {
    (void)state;
    check_patch("{'a': 1}", "{'a': 1}", "[]");
    check_patch("{}", "{'x': {'y': 1}}", "[{'op': 'add', 'path': '/x', 'value': {'y': 1}}]");
    check_patch("{'x': null}", "{'x': {'y': 1}}", "[{'op': 'add', 'path': '/x', 'value': {'y': 1}}]");
    check_patch("{'x': {}}", "{'x': {'b/c': 1, 'a~b/c': 2}}",
                "[{'op': 'add', 'path': '/x/a~0b~1c', 'value': 2}, {'op': 'add', 'path': '/x/b~1c', 'value': 1}]");
    check_patch("{'l': []}", "{'l': [1, 2]}",
                "[{'op': 'add', 'path': '/l/-', 'value': 1}, {'op': 'add', 'path': '/l/-', 'value': 2}]");
    check_patch("{'l': [{'a': 1}, {}]}", "{'l': [{'a': 1}, {'b': 2}]}",
                "[{'op': 'add', 'path': '/l/1/b', 'value': 2}]");
    check_patch("{'s': false}", "{'s': true}", "[{'op': 'replace', 'path': '/s', 'value': true}]");
    check_patch("{'a': 1, 'n': null}", "{'n': null}", "[{'op': 'remove', 'path': '/a'}]");
    check_patch("{'l': [1, 2, 3]}", "{'l': [5]}",
                "[{'op': 'replace', 'path': '/l/0', 'value': 5}, {'op': 'remove', 'path': '/l/2'}, {'op': 'remove', "
                "'path': '/l/1'}]");
    check_patch("{'x': {'a': 1}}", "{'x': [1]}", "[{'op': 'replace', 'path': '/x', 'value': [1]}]");
    check_patch(
        "{'containers': [{}], 'initContainers': [{}]}",
        "{'initContainers': [{'m': 1}], 'containers': [{'m': 1}], 'volumes': [1]}",
        "[{'op': 'add', 'path': '/volumes', 'value': [1]}, {'op': 'add', 'path': '/containers/0/m', 'value': 1},"
        " {'op': 'add', 'path': '/initContainers/0/m', 'value': 1}]");
}

/* ---- snapshots ---- */

static void default_queues_and_namespaces(void **state) {
    (void)state;
    SL_AUTO_JSON *in = sl_json_from(
        "{'config': {'managedJobsNamespaceSelector': {'matchExpressions': [{'key': 'kubernetes.io/metadata.name', "
        "'operator': 'NotIn', 'values': ['x', 'kube-system', 'kueue-system']}]},"
        "  'manageJobsWithoutQueueName': true},"
        " 'objects': [{'kind': 'Namespace', 'metadata': {'name': 'a', 'labels': {'kubernetes.io/metadata.name': 'a'}}},"
        "  {'kind': 'Namespace', 'metadata': {'name': 'x', 'labels': {'kubernetes.io/metadata.name': 'x'}}}, {'kind': "
        "'Namespace', 'metadata': {'name': 'b'}},"
        "  {'kind': 'LocalQueue', 'metadata': {'name': 'default', 'namespace': 'a'}, 'spec': {'clusterQueue': 'q'}},"
        "  {'kind': 'LocalQueue', 'metadata': {'name': 'default', 'namespace': 'b'}, 'spec': {'clusterQueue': 'q', "
        "'stopPolicy': 'Hold'}},"
        "  {'kind': 'LocalQueue', 'metadata': {'name': 'default', 'namespace': 'nowhere'}, 'spec': {'clusterQueue': "
        "'q'}}]}");
    struct sl_snapshot *s = make_snapshot(in);
    assert_true(sl_snapshot_ns_has_default(s, "a"));
    assert_false(sl_snapshot_ns_has_default(s, "b"));
    assert_false(sl_snapshot_ns_has_default(s, "nowhere"));
    assert_true(sl_snapshot_ns_selected(s, "a"));
    assert_false(sl_snapshot_ns_selected(s, "x"));
    assert_true(sl_snapshot_ns_selected(s, "younger"));
    assert_true(sl_snapshot_manages(s, "a", ""));
    assert_false(sl_snapshot_manages(s, "x", ""));
    assert_true(sl_snapshot_manages(s, "x", "q"));
    assert_string_equal(sl_snapshot_localqueue(s, "a", "default")->cq, "q");
    struct sl_snapshot *next = sl_snapshot_renew(s);
    sl_snapshot_unref(s);
    sl_snapshot_freeze(next);
    assert_false(sl_snapshot_ns_has_default(next, "a"));
    assert_false(sl_snapshot_ns_selected(next, "x"));
    sl_snapshot_unref(next);
}

#define ROUNDS 2000
static void *reader(void *box) {
    for (int i = 0; i < ROUNDS; i++) {
        const void *s = sl_snapshot_acquire(box);
        if (s && !sl_snapshot_framework(s, "batch/job"))
            return box; /* wrong */
        if (s)
            sl_snapshot_release(box, s);
    }
    return NULL;
}

static void readers_and_a_publisher(void **state) {
    (void)state;
    struct sl_snapshot_box *box = sl_snapshot_box_new();
    assert_null(sl_snapshot_acquire(box));
    struct sl_snapshot *s = make_snapshot(NULL);
    struct sl_snapshot *keep = sl_snapshot_ref(s);
    sl_snapshot_publish(box, s);
    pthread_t threads[3];
    for (size_t i = 0; i < SL_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader, box), 0);
    for (int i = 0; i < ROUNDS / 10; i++) {
        struct sl_snapshot *next = sl_snapshot_renew(keep);
        sl_snapshot_freeze(next);
        sl_snapshot_publish(box, next);
    }
    for (size_t i = 0; i < SL_COUNT(threads); i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    sl_snapshot_unref(keep);
    sl_snapshot_box_free(box);
}

struct past_row {
    const char *path, *object;
    const char *denied; /* NULL: allowed */
};

static void integers_past_int64(void **state) {
    (void)state;
#define CQ(quota)                                                                                                      \
    "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','metadata':{'name':'q'},'spec':{'resourceGroups':["  \
    "{'coveredResources':['cpu'],'flavors':[{'name':'f','resources':[{'name':'cpu','nominalQuota':" quota "}]}]}]}}"
#define JOB(labels, more)                                                                                              \
    "{'apiVersion':'batch/v1','kind':'Job','metadata':{'name':'j','labels':{" labels "}},'spec':{" more                \
    "'template':{'spec':{'containers':[{'name':'c'}]}}}}"
#define QUEUED "'kueue.x-k8s.io/queue-name':'q'"
    static const char mutate[] = "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue",
                      validate[] = "/validate-kueue-x-k8s-io-v1beta2-clusterqueue";
    static const struct past_row rows[] = {
        {mutate, CQ("10000000000000000000"), "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"},
        {validate, CQ("-10000000000000000000"), "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"},
        {mutate, CQ("9223372036854775807"), NULL},
        {mutate, CQ("'10E'"), NULL},
        {mutate, CQ("0.5"), NULL},
        {"/validate-kueue-x-k8s-io-v1beta2-workload",
         "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','metadata':{'name':'w'},'spec':{'podSets':[{'name':'"
         "main','count':99999999999999999999,'template':{'spec':{'containers':[{'name':'c'}]}}}]}}",
         "spec.podSets[0].count"},
        {"/validate-kueue-x-k8s-io-v1beta2-workload",
         "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','metadata':{'name':'w'},'spec':{'podSets':[{'name':'"
         "main','count':1,'template':{'spec':{'other':99999999999999999999,'containers':[{'name':'c'}]}}}]}}",
         NULL},
        {"/mutate-batch-v1-job", JOB(QUEUED, "'parallelism':10000000000000000000,"), "spec.parallelism"},
        {"/validate-batch-v1-job", JOB(QUEUED, "'completions':10000000000000000000,"), "spec.completions"},
        {"/mutate-batch-v1-job", JOB("", "'parallelism':10000000000000000000,"), NULL},
        {"/validate-batch-v1-job", JOB("", "'parallelism':10000000000000000000,"), NULL},
        {"/mutate-batch-v1-job", JOB(QUEUED, "'other':[10000000000000000000,{'x':-1e19}],"), NULL},
    };
    SL_AUTO_JSON *none = sl_json_from("{}");
    struct sl_snapshot *s = make_snapshot(none);
    for (size_t i = 0; i < SL_COUNT(rows); i++) { /* as bytes: no tree of ours could hold them */
        SL_AUTO_FREE char *body = sl_xprintf(
            "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{'uid':'u-1','operation':"
            "'CREATE','namespace':'n','options':{'big':99999999999999999999},'object':%s}}",
            rows[i].object);
        for (char *p = body; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        struct sl_buf out = SL_BUF_INIT(SL_REVIEW_MAX_BYTES);
        bool denied;
        assert_int_equal(sl_review_handle(handler_of(rows[i].path), s, body, strlen(body), &out, &denied), 200);
        SL_AUTO_JSON *answer = NULL;
        assert_int_equal(sl_json_parse(sl_buf_text(&out), out.len, out.max, &answer, NULL), 0);
        assert_string_equal(sl_json_path_str(answer, "response.uid", ""), "u-1");
        const char *message = sl_json_path_str(answer, "response.status.message", "");
        if (denied != (rows[i].denied != NULL))
            fail_msg("row %zu: %s", i, sl_buf_text(&out));
        if (denied) {
            assert_int_equal(sl_json_int(sl_json_path(answer, "response.status.code"), 0), 422);
            if (!strstr(message, rows[i].denied) ||
                (!strstr(message, "2147483647") && !strstr(message, "9223372036854775807")))
                fail_msg("row %zu: %s", i, message);
        }
        sl_buf_done(&out);
        struct sl_review_reply reply = SL_REVIEW_REPLY_INIT; /* what is changed, is not what was too large */
        SL_AUTO_JSON *review = NULL;
        assert_int_equal(sl_json_parse_limited(body, strlen(body), strlen(body), 1000, &review, NULL), 0);
        handler_of(rows[i].path)(s, sl_json_get(review, "request"), &reply);
        SL_AUTO_FREE char *patch = reply.patch ? sl_json_text(reply.patch) : sl_xstrdup("");
        assert_null(strstr(patch, "e19"));
        assert_null(strstr(patch, "10000000000000000000"));
        sl_review_reply_done(&reply);
    }
    sl_snapshot_unref(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_create),
        cmocka_unit_test(reviews),
        cmocka_unit_test(minimal_patches),
        cmocka_unit_test(default_queues_and_namespaces),
        cmocka_unit_test(readers_and_a_publisher),
        cmocka_unit_test(integers_past_int64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
