#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/decode.h"
#include "sluice/base/mem.h"
#include "sluice/flavors/inject.h"

static struct sl_flavor *flavors[4];
static size_t n_flavors;

static void add_flavor(const char *text) {
    SL_AUTO_JSON *o = sl_json_from(text);
    assert_true(n_flavors < SL_COUNT(flavors));
    assert_int_equal(sl_flavor_decode(o, &flavors[n_flavors++], NULL), 0);
}

static const struct sl_flavor *find(void *arg, const char *name) {
    (void)arg;
    for (size_t i = 0; i < n_flavors; i++)
        if (!strcmp(flavors[i]->name, name))
            return flavors[i];
    return NULL;
}

static int setup(void **state) {
    (void)state;
    add_flavor("{'metadata': {'name': 'h100'}, 'spec': {'nodeLabels': {'pool': 'x', 'product': 'H100'}, 'tolerations': "
               "[{'key': 'gpu',"
               " 'operator': 'Exists', 'effect': 'NoSchedule'}, {'key': 't', 'effect': 'NoExecute', "
               "'tolerationSeconds': 5}]}}");
    add_flavor("{'metadata': {'name': 'same'}, 'spec': {'nodeLabels': {'pool': 'x', 'zone': 'a'}, 'tolerations': "
               "[{'key': 'gpu', 'operator': 'Exists', 'effect': 'NoSchedule'}]}}");
    add_flavor("{'metadata': {'name': 'other'}, 'spec': {'nodeLabels': {'pool': 'y'}}}");
    add_flavor("{'metadata': {'name': 'any'}}");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    while (n_flavors)
        sl_flavor_free(flavors[--n_flavors]);
    return 0;
}

static int inject(const char *cq, const char *a, const char *b, const char *checks, struct sl_json **ret,
                  struct sl_err *err) {
    char *name = sl_xstrdup("main"), *queue = sl_xstrdup(cq), *r1 = sl_xstrdup("cpu"), *r2 = sl_xstrdup("gpu"),
         *f1 = sl_xstrdup(a), *f2 = sl_xstrdup(b);
    struct sl_assigned_flavor assigned[] = {{r1, f1, 1}, {r2, f2, 1}};
    struct sl_podset_assignment podset = {name, 3, assigned, 2};
    struct sl_admission admission = {queue, &podset, 1};
    SL_AUTO_JSON *c = checks ? sl_json_from(checks) : NULL;
    struct sl_inject_input in = {&admission, "job-j-12345", "lq", find, NULL, c};
    int code = sl_inject_podsets(&in, ret, err);
    free(name);
    free(queue);
    free(r1);
    free(r2);
    free(f1);
    free(f2);
    return code;
}

static void check(const char *cq, const char *a, const char *b, const char *checks, const char *want) {
    SL_AUTO_JSON *got = NULL, *expected = sl_json_from(want);
    struct sl_err err = SL_ERR_INIT;
    if (inject(cq, a, b, checks, &got, &err) < 0)
        fail_msg("%s", err.text);
    SL_AUTO_FREE char *x = sl_json_text(got), *y = sl_json_text(expected);
    assert_string_equal(x, y);
}

static void check_conflict(const char *a, const char *b, const char *checks, int code, const char *want) {
    SL_AUTO_JSON *got = NULL;
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(inject("cq", a, b, checks, &got, &err), code);
    assert_null(got);
    assert_string_equal(err.text, want);
}

#define LABELS(cq)                                                                                                     \
    "'labels': {" cq "'kueue.x-k8s.io/local-queue-name': 'lq', 'kueue.x-k8s.io/podset': 'main'}, 'annotations': "      \
    "{'kueue.x-k8s.io/workload': 'job-j-12345'}"
#define CQ "'kueue.x-k8s.io/cluster-queue-name': 'cq', "

static void what_an_admission_brings(void **state) {
    (void)state;
    check("cq", "any", "any", NULL, "[{'name': 'main', 'count': 3, " LABELS(CQ) "}]");
    check("cq", "h100", "h100", NULL,
          "[{'name': 'main', 'count': 3, " LABELS(
              CQ) ", 'nodeSelector': {'pool': 'x', 'product': 'H100'},"
                  " 'tolerations': [{'key': 'gpu', 'operator': 'Exists', 'effect': 'NoSchedule'}, {'key': 't', "
                  "'effect': 'NoExecute', 'tolerationSeconds': 5}]}]");
    check("cq", "h100", "same", NULL,
          "[{'name': 'main', 'count': 3, " LABELS(
              CQ) ", 'nodeSelector': {'pool': 'x', 'product': 'H100', 'zone': 'a'},"
                  " 'tolerations': [{'key': 'gpu', 'operator': 'Exists', 'effect': 'NoSchedule'}, {'key': 't', "
                  "'effect': 'NoExecute', 'tolerationSeconds': 5}]}]");
    check("dotted.name", "any", "any", NULL, "[{'name': 'main', 'count': 3, " LABELS("") "}]");
    check("cq", "any", "any",
          "[{'name': 'c', 'state': 'Ready', 'podSetUpdates': [{'name': 'other', 'labels': {'x': 'y'}}, {'name': "
          "'main', 'nodeSelector': {'n': 'v'},"
          " 'tolerations': [{'key': 'k'}]}]}]",
          "[{'name': 'main', 'count': 3, " LABELS(CQ) ", 'nodeSelector': {'n': 'v'}, 'tolerations': [{'key': 'k'}]}]");
}

static void two_values_for_one_key(void **state) {
    (void)state;
    check_conflict("h100", "other", NULL, SL_CONFLICT,
                   "pod set main: nodeSelector \"pool\" is \"x\" by flavor h100, but \"y\" by flavor other");
    check_conflict(
        "h100", "h100", "[{'name': 'prov', 'podSetUpdates': [{'name': 'main', 'nodeSelector': {'product': 'A100'}}]}]",
        SL_CONFLICT,
        "pod set main: nodeSelector \"product\" is \"H100\" by flavor h100, but \"A100\" by admission check prov");
    check_conflict(
        "any", "any", "[{'name': 'c', 'podSetUpdates': [{'name': 'main', 'labels': {'kueue.x-k8s.io/podset': 'x'}}]}]",
        SL_CONFLICT,
        "pod set main: labels \"kueue.x-k8s.io/podset\" is \"main\" by Sluice, but \"x\" by admission check c");
    check_conflict("gone", "any", NULL, SL_NOT_FOUND, "pod set main: flavor gone does not exist");
}

static void flavors_that_may_go_together(void **state) {
    (void)state;
    struct sl_err err = SL_ERR_INIT;
    const struct sl_flavor *good[] = {flavors[0], flavors[1], flavors[3]},
                           *bad[] = {flavors[3], flavors[0], flavors[2]};
    assert_int_equal(sl_inject_compatible(good, 3, &err), 0);
    assert_int_equal(sl_inject_compatible(bad, 3, &err), SL_CONFLICT);
    assert_string_equal(err.text, "flavors h100 and other cannot serve one pod: node label pool is \"x\" and \"y\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_admission_brings),
        cmocka_unit_test(two_values_for_one_key),
        cmocka_unit_test(flavors_that_may_go_together),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
