/*
 * Validation against tests/golden/validate/<kind>.yaml (a document a case: object, old, flags, errors) and against the
 * recorded refusals of tests/journeys. An expected error is a prefix of "<422|403> <path>: <text>"; every error must be
 * expected and the other way round.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/names.h"
#include "sluice/api/registry.h"
#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

#define GOLDEN SL_SOURCE_DIR "/tests/golden/validate"

static struct sl_json *read_yaml(const char *path, const char *home) {
    SL_AUTO_BUF text = SL_BUF_INIT(4 << 20);
    SL_AUTO_BUF changed = SL_BUF_INIT(4 << 20);
    struct sl_err err = SL_ERR_INIT;
    if (sl_file_read(path, &text, &err) < 0)
        fail_msg("%s: %s", path, err.text);
    for (const char *p = sl_buf_text(&text); *p; p++) /* "~x" stands for a name of the story's own */
        if (home && *p == '~')
            sl_buf_puts(&changed, home);
        else
            sl_buf_putc(&changed, *p);
    struct sl_json *docs;
    if (sl_yaml_parse(sl_buf_text(&changed), changed.len, true, &docs, NULL, &err) < 0)
        fail_msg("%s: %s", path, err.text);
    return docs;
}

/* Fills in what every object has, so that cases can be short. Owned. */
static struct sl_json *whole(const struct sl_json *object) {
    struct sl_json *o = sl_json_copy(object);
    if (!sl_json_get(o, "apiVersion"))
        sl_json_set_str(o, "apiVersion", SL_V1BETA2);
    struct sl_json *meta = sl_json_make_object(o, "metadata");
    if (!sl_json_get(meta, "name") && !sl_json_get(meta, "generateName"))
        sl_json_set_str(meta, "name", "x");
    return o;
}

static bool starts(const char *text, const char *prefix) {
    return !strncmp(text, prefix, strlen(prefix));
}

static int run_case(const char *file, const struct sl_json *c, unsigned shared_flags) {
    const char *title = sl_json_get_str(c, "case", "?");
    SL_AUTO_JSON *object = whole(sl_json_get(c, "object")), *old = NULL;
    unsigned flags = shared_flags;
    if (sl_json_get(c, "old"))
        old = whole(sl_json_get(c, "old"));
    SL_JSON_ITEMS (sl_json_get(c, "flags"), f) {
        const char *flag = sl_json_str(f.value, "");
        flags |= !strcmp(flag, "structure") ? SL_VALIDATE_STRUCTURE
                 : !strcmp(flag, "unknown") ? SL_VALIDATE_UNKNOWN | SL_VALIDATE_STRUCTURE
                                            : SL_VALIDATE_PRIORITY_BOOST;
    }
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    sl_api_validate(object, old, flags, &errors);
    const struct sl_json *expected = sl_json_get(c, "errors");
    int wrong = 0;
    bool *used = sl_xalloc(errors.n + 1);
    SL_JSON_ITEMS (expected, e) {
        size_t i = 0;
        for (; i < errors.n; i++) {
            SL_AUTO_FREE char *line =
                sl_xprintf("%d %s: %s", errors.items[i].schema ? 422 : 403, errors.items[i].path, errors.items[i].text);
            if (!used[i] && starts(line, sl_json_str(e.value, "?")))
                break;
        }
        if (i == errors.n) {
            print_error("%s: %s: missing: %s\n", file, title, sl_json_str(e.value, "?"));
            wrong++;
        } else {
            used[i] = true;
        }
    }
    for (size_t i = 0; i < errors.n; i++)
        if (!used[i]) {
            print_error("%s: %s: not expected: %d %s: %s\n", file, title, errors.items[i].schema ? 422 : 403,
                        errors.items[i].path, errors.items[i].text);
            wrong++;
        }
    free(used);
    return wrong;
}

static void validate__golden_cases(void **s) {
    (void)s;
    DIR *dir = opendir(GOLDEN);
    assert_non_null(dir);
    int wrong = 0, cases = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        if (!strstr(d->d_name, ".yaml"))
            continue;
        SL_AUTO_FREE char *path = sl_xprintf("%s/%s", GOLDEN, d->d_name);
        SL_AUTO_JSON *docs = read_yaml(path, NULL);
        SL_JSON_ITEMS (docs, c) {
            wrong += run_case(d->d_name, c.value, 0);
            cases++;
        }
    }
    closedir(dir);
    assert_int_equal(wrong, 0);
    assert_true(cases >= 60);
}

/* ---- the recorded refusals ---- */

static int compare_fields(const char *story, size_t step, const struct sl_fielderrs *errors,
                          const struct sl_json *result) {
    int64_t code = sl_json_get_int(result, "code", 0);
    const struct sl_json *fields = sl_json_get(result, "fields");
    int64_t ours = errors->n == 0 ? 0 : sl_fielderrs_any_schema(errors) ? 422 : 403;
    bool equal = code == ours;
    for (size_t i = 0; i < errors->n; i++) {
        bool found = false;
        SL_JSON_ITEMS (fields, f)
            found = found || !strcmp(sl_json_str(f.value, ""), errors->items[i].path);
        equal = equal && found;
    }
    SL_JSON_ITEMS (fields, f) {
        bool found = false;
        for (size_t i = 0; i < errors->n; i++)
            found = found || !strcmp(sl_json_str(f.value, ""), errors->items[i].path);
        equal = equal && found;
    }
    if (equal)
        return 0;
    SL_AUTO_FREE char *ours_text = sl_fielderrs_message(errors);
    print_error("%s, step %zu: recorded %lld %s, ours %lld %s\n", story, step, (long long)code,
                sl_json_get_str(result, "message", "accepted"), (long long)ours, ours_text);
    return 1;
}

/* Where we mean to answer otherwise than the record. */
static const struct {
    const char *story;
    size_t step;
    const char *why;
} differences[] = {
    {"wrong ClusterQueues", 23,
     "the record's mutating webhook cannot decode the amount (400); the schema names the field"},
    {"wrong ClusterQueues", 24, "the record's mutating webhook fills in 0 before the schema looks"},
    {"wrong cohorts", 5, "a cohort that is its own parent stops all its queues: refused"},
};

static void validate__recorded_refusals(void **s) {
    (void)s;
    SL_AUTO_JSON *stories = read_yaml(SL_SOURCE_DIR "/tests/journeys/invalid.yaml", "zz-");
    SL_AUTO_JSON *record = read_yaml(SL_SOURCE_DIR "/tests/journeys/record/default.json", NULL);
    int wrong = 0, steps = 0;
    SL_JSON_ITEMS (stories, story) {
        const char *name = sl_json_get_str(story.value, "name", "");
        const struct sl_json *recorded = sl_json_get(sl_json_at(record, 0), name);
        SL_JSON_ITEMS (sl_json_get(story.value, "steps"), step) {
            const struct sl_json *create = sl_json_get(step.value, "create");
            if (!create || !sl_api_kind_find(sl_json_get_str(create, "kind", "")))
                continue;
            SL_AUTO_JSON *object = whole(create);
            SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
            sl_api_prune(sl_json_get_str(object, "kind", ""), object);
            sl_api_set_defaults(sl_json_get_str(object, "kind", ""), object);
            sl_api_check_structure(object, false,
                                   &errors); /* what the API server finds, it tells before any webhook is asked */
            if (errors.n == 0)
                sl_api_validate(object, NULL, SL_VALIDATE_STRUCTURE, &errors);
            const struct sl_json *result = sl_json_path(sl_json_at(recorded, step.i + 1), "results.0");
            bool differs = false;
            for (size_t i = 0; i < SL_COUNT(differences); i++)
                differs = differs || (!strcmp(differences[i].story, name) && differences[i].step == step.i + 1);
            if (!differs)
                wrong += compare_fields(name, step.i + 1, &errors, result);
            steps++;
        }
    }
    assert_int_equal(wrong, 0);
    assert_true(steps >= 60);
}

static void fielderr__message_and_causes(void **s) {
    (void)s;
    SL_AUTO_FIELDERRS l = SL_FIELDERRS_INIT;
    const struct sl_path *spec = SL_PATH(NULL, "spec");
    sl_fielderr_str(&l, SL_FE_INVALID, SL_PATH_AT(SL_PATH(spec, "a"), 3), "v\"w", "is %s", "wrong");
    SL_AUTO_FREE char *one = sl_fielderrs_message(&l);
    assert_string_equal(one, "spec.a[3]: Invalid value: \"v\\\"w\": is wrong");
    sl_fielderr_str(&l, SL_FE_INVALID, SL_PATH_AT(SL_PATH(spec, "a"), 3), "v\"w", "is wrong"); /* said already */
    sl_fielderr_add(&l, SL_FE_REQUIRED, SL_PATH_KEY(SL_PATH(NULL, "metadata"), "x/y"), NULL, NULL);
    assert_int_equal(l.n, 2);
    assert_false(sl_fielderrs_any_schema(&l));
    SL_AUTO_FREE char *two = sl_fielderrs_message(&l);
    assert_string_equal(two, "[spec.a[3]: Invalid value: \"v\\\"w\": is wrong, metadata[x/y]: Required value]");
    SL_AUTO_JSON *causes = sl_fielderrs_causes(&l);
    assert_string_equal(sl_json_path_str(causes, "1.reason", ""), "FieldValueRequired");
    assert_string_equal(sl_json_path_str(causes, "1.field", ""), "metadata[x/y]");
    for (int i = 0; i < 200; i++)
        sl_fielderr_int(&l, SL_FE_INVALID, spec, i, "no");
    assert_int_equal(l.n, SL_FIELDERR_MAX);
    SL_AUTO_FREE char *many = sl_fielderrs_message(&l);
    assert_non_null(strstr(many, ", and 138 more]"));
    char *huge = sl_xalloc(1 << 20);
    memset(huge, 'a', (1 << 20) - 1);
    SL_AUTO_FIELDERRS big = SL_FIELDERRS_INIT;
    sl_fielderr_str(&big, SL_FE_INVALID, SL_PATH(NULL, huge), huge, "%s", huge);
    assert_true(strlen(big.items[0].text) < 20000);
    free(huge);
}

static void formats__names(void **s) {
    (void)s;
    static const char *const labels[] = {"a", "a-b", "0",
                                         "a0123456789012345678901234567890123456789012345678901234567890b"};
    static const char *const not_labels[] = {"", "-a", "a-", "A", "a.b", "a_b", "a b"};
    for (size_t i = 0; i < SL_COUNT(labels); i++)
        assert_true(sl_is_dns_label(labels[i]) && sl_is_dns_subdomain(labels[i]));
    for (size_t i = 0; i < SL_COUNT(not_labels); i++)
        assert_false(sl_is_dns_label(not_labels[i]));
    assert_true(sl_is_dns_subdomain("a.b-c.d") && !sl_is_dns_subdomain("a..b") && !sl_is_dns_subdomain(".a") &&
                !sl_is_dns_subdomain("a."));
    assert_true(sl_is_qualified_name("a.io/B_c.d") && sl_is_qualified_name("x") && !sl_is_qualified_name("/x") &&
                !sl_is_qualified_name("a/"));
    assert_true(!sl_is_qualified_name("A.io/x") && !sl_is_qualified_name("a/b/c") && !sl_is_qualified_name("bad key"));
    assert_true(sl_is_label_value("") && sl_is_label_value("A.b_c") && !sl_is_label_value("a, b") &&
                !sl_is_label_value("a-"));
    assert_true(sl_is_condition_reason("A_b:,c") && !sl_is_condition_reason("1a") && !sl_is_condition_reason("a:") &&
                !sl_is_condition_reason(""));
    assert_true(sl_is_quantity_text("1.5e3") && sl_is_quantity_text("-.5Ki") && !sl_is_quantity_text("1K") &&
                !sl_is_quantity_text("."));
    assert_true(sl_is_kind_name("Job") && !sl_is_kind_name("1Job") && !sl_is_kind_name("a."));
}

/* Every fault of a name with its own words. */
static void formats__what_is_said(void **s) {
    (void)s;
    char longer[400];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    char prefixed[330];
    snprintf(prefixed, sizeof prefixed, "%.300s/x", longer);
    const struct {
        const char *name, *text;
    } rows[] = {
        {"a/b/c", "a qualified name must consist of"},
        {"/x", "prefix part must be non-empty"},
        {prefixed, "prefix part must be no more than 253 bytes"},
        {"A_/x", "prefix part a lowercase RFC 1123 subdomain"},
        {"a/", "name part must be non-empty"},
        {longer, "name part must be no more than 63 bytes"},
    };
    const struct sl_path *path = SL_PATH(NULL, "p");
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        SL_AUTO_FIELDERRS l = SL_FIELDERRS_INIT;
        sl_check_qualified_name(&l, path, rows[i].name);
        assert_true(l.n > 0);
        assert_non_null(strstr(l.items[0].text, rows[i].text));
    }
    SL_AUTO_FIELDERRS l = SL_FIELDERRS_INIT;
    sl_check_subdomain(&l, path, longer);
    assert_non_null(strstr(l.items[0].text, "must be no more than 253 bytes"));
    SL_AUTO_JSON *map = sl_json_from("{'Upper.Case/Name':'fine','x':1}");
    SL_AUTO_FIELDERRS annotations = SL_FIELDERRS_INIT;
    sl_check_annotations(&annotations, path, map);
    assert_int_equal(annotations.n, 1);
    assert_string_equal(annotations.items[0].path, "p[x]");
    char *huge = sl_xalloc((256 << 10) + 1);
    memset(huge, 'v', 256 << 10);
    sl_json_set_str(map, "x", huge);
    free(huge);
    SL_AUTO_FIELDERRS large = SL_FIELDERRS_INIT;
    sl_check_annotations(&large, path, map);
    assert_string_equal(large.items[0].text, "Too long: may not be more than 262144 bytes");
    SL_AUTO_FIELDERRS labels = SL_FIELDERRS_INIT;
    SL_AUTO_JSON *bad = sl_json_from("{'x':1}");
    sl_check_labels(&labels, path, bad);
    assert_string_equal(labels.items[0].text, "Invalid value: 1: must be a string");
}

static void fielderr__values_are_cut_between_characters(void **s) {
    (void)s;
    SL_AUTO_BUF text = SL_BUF_INIT(4096);
    for (int i = 0; i < 300; i++)
        sl_buf_puts(&text, "\xc3\xa9");
    SL_AUTO_FIELDERRS l = SL_FIELDERRS_INIT;
    sl_fielderr_str(&l, SL_FE_NOT_FOUND, NULL, sl_buf_text(&text), NULL);
    assert_string_equal(l.items[0].path, "<nil>");
    size_t len = strlen(l.items[0].text);
    assert_true(len < 540 && !strcmp(l.items[0].text + len - 3, "..."));
    SL_AUTO_JSON *round = sl_json_new_str(l.items[0].text);
    assert_null(strstr(sl_json_str(round, ""), "\xef\xbf\xbd")); /* no half characters */
    static const enum sl_fielderr_type types[] = {SL_FE_INVALID,   SL_FE_REQUIRED,    SL_FE_FORBIDDEN,
                                                  SL_FE_DUPLICATE, SL_FE_UNSUPPORTED, SL_FE_NOT_FOUND,
                                                  SL_FE_TOO_LONG,  SL_FE_TOO_MANY,    SL_FE_UNKNOWN};
    static const char *const reasons[] = {"FieldValueInvalid",   "FieldValueRequired",     "FieldValueForbidden",
                                          "FieldValueDuplicate", "FieldValueNotSupported", "FieldValueNotFound",
                                          "FieldValueTooLong",   "FieldValueTooMany",      "FieldValueInvalid"};
    SL_AUTO_FIELDERRS all = SL_FIELDERRS_INIT;
    for (size_t i = 0; i < SL_COUNT(types); i++)
        sl_fielderr_add(&all, types[i], SL_PATH(NULL, "p"), NULL, NULL);
    SL_AUTO_JSON *causes = sl_fielderrs_causes(&all);
    for (size_t i = 0; i < SL_COUNT(types); i++)
        assert_string_equal(sl_json_get_str(sl_json_at(causes, i), "reason", ""), reasons[i]);
}

static void registry__rows(void **s) {
    (void)s;
    size_t n;
    const struct sl_api_kind *kinds = sl_api_kinds(&n);
    assert_int_equal(n, 11);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(sl_api_kind_find(kinds[i].kind), &kinds[i]);
        assert_ptr_equal(sl_api_kind_by_plural(kinds[i].plural), &kinds[i]);
        assert_non_null(kinds[i].validate);
    }
    assert_string_equal(sl_api_kind_by_plural("lq")->kind, "LocalQueue");
    assert_string_equal(sl_api_kind_by_plural("kueueworkloads")->kind, "Workload");
    assert_null(sl_api_kind_by_plural("q"));
    assert_null(sl_api_kind_find("Job"));
}

static void defaults__bare_objects(void **s) {
    (void)s;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','spec':{}}",
         "{'apiVersion':'kueue.x-k8s.io/"
         "v1beta2','kind':'ClusterQueue','spec':{'flavorFungibility':{'whenCanBorrow':'MayStopSearch','whenCanPreempt':"
         "'TryNextFlavor'},'preemption':{'borrowWithinCohort':{'policy':'Never'},'reclaimWithinCohort':'Never','"
         "withinClusterQueue':'Never'},"
         "'queueingStrategy':'BestEffortFIFO','stopPolicy':'None'}}"},
        {"{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue'}",
         "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue'}"},
        {"{'apiVersion':'kueue.x-k8s.io/"
         "v1beta2','kind':'LocalQueue','spec':{'clusterQueue':'q','fairSharing':{},'stopPolicy':null}}",
         "{'apiVersion':'kueue.x-k8s.io/"
         "v1beta2','kind':'LocalQueue','spec':{'clusterQueue':'q','fairSharing':{'weight':1},'stopPolicy':'None'}}"},
        {"{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','spec':{'podSets':[{'template':{}}]}}",
         "{'apiVersion':'kueue.x-k8s.io/"
         "v1beta2','kind':'Workload','spec':{'active':true,'podSets':[{'template':{},'name':'main','count':1}]}}"},
        {"{'apiVersion':'kueue.x-k8s.io/v1beta1','kind':'AdmissionCheck','spec':{'controllerName':'c'}}",
         "{'apiVersion':'kueue.x-k8s.io/"
         "v1beta1','kind':'AdmissionCheck','spec':{'controllerName':'c','retryDelayMinutes':15}}"},
        {"{'apiVersion':'v1','kind':'Pod'}", "{'apiVersion':'v1','kind':'Pod'}"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        SL_AUTO_JSON *j = sl_json_from(rows[i].in), *want = sl_json_from(rows[i].out);
        sl_api_set_defaults(sl_json_get_str(j, "kind", ""), j);
        if (!sl_json_equal(j, want)) {
            SL_AUTO_FREE char *text = sl_json_text(j);
            fail_msg("%s gives %s", rows[i].in, text);
        }
    }
}

static void prune__unknown_fields_and_nulls(void **s) {
    (void)s;
    SL_AUTO_JSON *j = sl_json_from(
        "{'apiVersion':'kueue.x-k8s.io/"
        "v1beta2','kind':'Workload','metadata':{'name':'w','x':null},'other':1,'spec':{'foo':1,'priority':null,"
        "'podSets':[{'count':1,'bar':{},'template':{'spec':{'anything':null}}}]}}");
    SL_AUTO_JSON *want = sl_json_from(
        "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'Workload','metadata':{'name':'w','x':null},'spec':{"
        "'podSets':[{'count':1,'template':{'spec':{'anything':null}}}]}}");
    sl_api_prune("Workload", j);
    assert_true(sl_json_equal(j, want));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validate__golden_cases),
        cmocka_unit_test(validate__recorded_refusals),
        cmocka_unit_test(fielderr__message_and_causes),
        cmocka_unit_test(formats__names),
        cmocka_unit_test(formats__what_is_said),
        cmocka_unit_test(fielderr__values_are_cut_between_characters),
        cmocka_unit_test(registry__rows),
        cmocka_unit_test(defaults__bare_objects),
        cmocka_unit_test(prune__unknown_fields_and_nulls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
