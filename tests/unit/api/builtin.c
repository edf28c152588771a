/* Manifests of kinds that are not ours: what is wrong with a field that is read is told at its path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/api/builtin.h"
#include "sluice/api/validate.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

struct row {
    const char *object; /* YAML in one line */
    const char *errors; /* one a line, each the beginning of an error; "" none */
};

static char *told(const struct sl_fielderrs *l) {
    SL_AUTO_BUF out = SL_BUF_INIT(65536);
    for (size_t i = 0; i < l->n; i++)
        sl_buf_printf(&out, "%s: %s\n", l->items[i].path, l->items[i].text);
    return sl_xstrdup(sl_buf_text(&out));
}

static struct sl_json *read_one(const char *text) {
    SL_AUTO_JSON *docs = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (sl_yaml_parse(text, strlen(text), false, &docs, NULL, &err))
        fail_msg("%s: %s", text, err.text);
    return sl_json_ref(sl_json_at(docs, 0));
}

static void check(const char *head, const struct row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        SL_AUTO_FREE char *text = sl_xprintf("%s%s", head, rows[i].object);
        SL_AUTO_JSON *o = read_one(text);
        assert_true(sl_builtin_is(o));
        SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT, warnings = SL_FIELDERRS_INIT;
        sl_builtin_validate(o, &errors, &warnings);
        SL_AUTO_FREE char *got = told(&errors);
        size_t at = 0;
        for (const char *want = rows[i].errors; *want; at++) {
            size_t len = strcspn(want, "\n");
            const char *line = got;
            for (size_t k = 0; k < at && line; k++)
                line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
            if (!line || strncmp(line, want, len) != 0)
                fail_msg("%s\nwants:\n%s\ngot:\n%s", text, rows[i].errors, got);
            want += len + (want[len] == '\n');
        }
        if (errors.n != at)
            fail_msg("%s\nwants:\n%s\ngot:\n%s", text, rows[i].errors, got);
    }
}

#define GOOD_SPEC "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}"

static void jobs(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"metadata: {name: a}\n" GOOD_SPEC, ""},
        {"metadata: {generateName: a-}\n" GOOD_SPEC, ""},
        {"metadata: {name: a}\nspec: {parallelism: 0, completions: 2147483647, completionMode: Indexed, suspend: true, "
         "template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: c, resources: "
         "{requests: {cpu: 0.5, memory: 1Gi, example.com/x: 9223372036854775807}, limits: {cpu: '1', example.com/x: "
         "'9223372036854775807'}}}], "
         "initContainers: [{name: d, restartPolicy: Always}]}}}",
         ""},
        {"metadata: [1]\n" GOOD_SPEC, "metadata: Invalid value: must be an object"},
        {GOOD_SPEC, "metadata: Required value"},
        {"metadata: {}\n" GOOD_SPEC, "metadata.name: Required value: name or generateName is required"},
        {"metadata: {name: 5, namespace: [], labels: x, annotations: {a: 1}}\n" GOOD_SPEC,
         "metadata.name: Invalid value: 5: must be a string\nmetadata.namespace: Invalid value: must be a string\n"
         "metadata.labels: Invalid value: \"x\": must be an object\n"
         "metadata.annotations[a]: Invalid value: 1: must be a string"},
        {"metadata: {name: A_b, namespace: a.b}\n" GOOD_SPEC,
         "metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain\n"
         "metadata.namespace: Invalid value: \"a.b\": must be a DNS label"},
        {"metadata: {name: "
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}\n" GOOD_SPEC,
         "metadata.name: Too long: the name is a label of the pods: may not be more than 63 bytes"},
        {"metadata: {name: a, ownerReferences: [{name: x, controller: 'yes'}, 5]}\n" GOOD_SPEC,
         "metadata.ownerReferences[0].apiVersion: Required value\nmetadata.ownerReferences[0].kind: Required value\n"
         "metadata.ownerReferences[0].uid: Required value\n"
         "metadata.ownerReferences[0].controller: Invalid value: \"yes\": must be true or false\n"
         "metadata.ownerReferences[1]: Invalid value: 5: must be an object"},
        {"metadata: {name: a}", "spec: Required value"},
        {"metadata: {name: a}\nspec: x", "spec: Invalid value: \"x\": must be an object"},
        {"metadata: {name: a}\nspec: {template: []}", "spec.template: Invalid value: must be an object"},
        {"metadata: {name: a}\nspec: {parallelism: x, completions: 1.5, template: {spec: {restartPolicy: Never, "
         "containers: [{name: c}]}}}",
         "spec.parallelism: Invalid value: \"x\": must be an integer between 0 and 2147483647\n"
         "spec.completions: Invalid value: 1.5: must be an integer between 0 and 2147483647"},
        {"metadata: {name: a}\nspec: {parallelism: -1, completions: 2147483648, completionMode: Some, suspend: 1, "
         "template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}",
         "spec.parallelism: Invalid value: -1: must be greater than or equal to 0\n"
         "spec.completions: Invalid value: 2147483648: must be an integer between 0 and 2147483647\n"
         "spec.completionMode: Unsupported value: \"Some\": supported values: \"NonIndexed\", \"Indexed\"\n"
         "spec.suspend: Invalid value: 1: must be true or false"},
        {"metadata: {name: a}\nspec: {parallelism: 99999999999999999999, template: {spec: {restartPolicy: Never, "
         "containers: [{name: c}]}}}",
         "spec.parallelism: Invalid value: 1e20: must be an integer between 0 and 2147483647"},
        {"metadata: {name: a}\nspec: {template: {spec: {restartPolicy: Never, containers: 5}}}",
         "spec.template.spec.containers: Invalid value: 5: must be an array"},
        {"metadata: {name: a}\nspec: {template: {spec: {restartPolicy: Never, containers: []}}}",
         "spec.template.spec.containers: Required value"},
        {"metadata: {name: a}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, resources: "
         "{requests: {cpu: -1, memory: "
         "abc}, limits: {cpu: true, pods: 1}}}, {name: c}, 7]}}}",
         "spec.template.spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or "
         "equal to 0\n"
         "spec.template.spec.containers[0].resources.requests[memory]: Invalid value: \"abc\": must be a quantity\n"
         "spec.template.spec.containers[0].resources.limits[cpu]: Invalid value: true: must be a quantity\n"
         "spec.template.spec.containers[0].resources.limits[pods]: Invalid value: \"pods\": the key is reserved\n"
         "spec.template.spec.containers[2]: Invalid value: 7: must be an object\n"
         "spec.template.spec.containers[1].name: Duplicate value: \"c\""},
        {"metadata: {name: a}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, env: [{value: "
         "1}], volumeMounts: "
         "[{name: "
         "x}], securityContext: {privileged: 'true'}}], volumes: [{name: x, emptyDir: {sizeLimit: -1Gi}}]}}}",
         "spec.template.spec.containers[0].env[0].name: Required value\n"
         "spec.template.spec.containers[0].env[0].value: Invalid value: 1: must be a string\n"
         "spec.template.spec.containers[0].volumeMounts[0].mountPath: Required value\n"
         "spec.template.spec.containers[0].securityContext.privileged: Invalid value: \"true\": must be true or false\n"
         "spec.template.spec.volumes[0].emptyDir.sizeLimit: Invalid value: \"-1Gi\": must be greater than or equal to "
         "0"},
    };
    check("apiVersion: batch/v1\nkind: Job\n", rows, SL_COUNT(rows));
}

/* What a table of fields cannot say: amounts beside each other, and the end of a Job's pods. */
static void pods_of_jobs(void **state) {
    (void)state;
#define AT "spec.template.spec.containers[0].resources."
#define POD_OF(text)                                                                                                   \
    "spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: c, resources: {" text "}}]}}}"
    static const struct row rows[] = {
        {POD_OF("limits: {nvidia.com/gpu: 2}"), ""},
        {POD_OF("requests: {nvidia.com/gpu: 2000m}, limits: {nvidia.com/gpu: '2'}"), ""},
        {POD_OF("requests: {nvidia.com/gpu: 2, cpu: 1}, limits: {nvidia.com/gpu: 2, cpu: 1000m}"), ""},
        {POD_OF("requests: {cpu: 1.5, memory: 1Gi}, limits: {cpu: 2}"), ""},
        {POD_OF("requests: {kubernetes.io/batch: 0.5}, limits: {kubernetes.io/batch: 1}"),
         ""},                                                            /* not an extended one */
        {POD_OF("requests: {cpu: 0.0001}, limits: {cpu: 0.00005}"), ""}, /* both are kept as 1m */
        {POD_OF("limits: {nvidia.com/gpu: 1.5}"),
         AT "limits[nvidia.com/gpu]: Invalid value: \"1500m\": must be an integer"},
        {POD_OF("limits: {nvidia.com/gpu: 99999999999999999999}"), AT "limits[nvidia.com/gpu]: Invalid value: "},
        {POD_OF("requests: {nvidia.com/gpu: 500m}, limits: {nvidia.com/gpu: 500m}"),
         AT "limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer\n" AT
            "requests[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer"},
        {POD_OF("requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}"),
         AT "requests[nvidia.com/gpu]: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of 2"},
        {POD_OF("requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 1}"),
         AT "requests[nvidia.com/gpu]: Invalid value: \"2\": must be equal to nvidia.com/gpu limit of 1"},
        {POD_OF("requests: {nvidia.com/gpu: 1}"),
         AT "limits[nvidia.com/gpu]: Required value: Limit must be set for non overcommitable resources"},
        {POD_OF("requests: {hugepages-2Mi: 2Mi, memory: 1Mi}, limits: {hugepages-2Mi: 4Mi}"),
         AT "requests[hugepages-2Mi]: Invalid value: \"2Mi\": must be equal to hugepages-2Mi limit of 4Mi"},
        {POD_OF("requests: {cpu: 2}, limits: {cpu: 1500m}"),
         AT "requests[cpu]: Invalid value: \"2\": must be less than or equal to cpu limit of 1500m"},
        {"spec: {template: {spec: {restartPolicy: Never, containers: [{name: c}], initContainers: [{name: i, "
         "resources: "
         "{limits: {nvidia.com/gpu: 0.5}}}]}}}",
         "spec.template.spec.initContainers[0].resources.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an"},
        {"spec: {template: {spec: {containers: [{name: c}]}}}",
         "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""},
        {"spec: {template: {spec: {restartPolicy: Always, containers: [{name: c}]}}}",
         "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""},
        {"spec: {template: {spec: {restartPolicy: 5, containers: [{name: c}]}}}",
         "spec.template.spec.restartPolicy: Invalid value: 5: must be a string"},
    };
    check("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n", rows, SL_COUNT(rows));
}

static void other_kinds(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}", ""},
        {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a.b}",
         "metadata.name: Invalid value: \"a.b\": must be a DNS"},
        {"apiVersion: v1\nkind: LimitRange\nmetadata: {name: a}\nspec: {limits: [{type: Container, max: {cpu: 1}}]}",
         ""},
        {"apiVersion: v1\nkind: LimitRange\nmetadata: {name: a}\nspec: {limits: [{max: {cpu: x}, min: 5}]}",
         "spec.limits[0].type: Required value\nspec.limits[0].min: Invalid value: 5: must be an object\n"
         "spec.limits[0].max[cpu]: Invalid value: \"x\": must be a quantity"},
        {"apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: a}\noverhead: {podFixed: {cpu: -1}}",
         "handler: Required value\noverhead.podFixed[cpu]: Invalid value: \"-1\""},
        {"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: a}\nvalue: 3000000000",
         "value: Invalid value: 3000000000: must be an integer between -2147483648 and 2147483647"},
        {"apiVersion: batch/v1beta1\nkind: Job", "apiVersion: Unsupported value: \"batch/v1beta1\": supported values: "
                                                 "\"batch/v1\""},
        {"apiVersion: v1\nkind: Job", "apiVersion: Unsupported value: \"v1\": supported values: \"batch/v1\""},
    };
    check("", rows, SL_COUNT(rows));
    static const char *const foreign[] = {"{apiVersion: batch.volcano.sh/v1alpha1, kind: Job}",
                                          "{apiVersion: apps/v1, kind: Deployment}", "{kind: Job}", "{apiVersion: v1}",
                                          "[]"};
    for (size_t i = 0; i < SL_COUNT(foreign); i++) {
        SL_AUTO_JSON *o = read_one(foreign[i]);
        assert_false(sl_builtin_is(o));
    }
}

static void a_name_with_dots_is_a_warning(void **state) {
    (void)state;
    SL_AUTO_JSON *o = read_one("{apiVersion: batch/v1, kind: Job, metadata: {name: a.b}, " GOOD_SPEC "}");
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT, warnings = SL_FIELDERRS_INIT;
    sl_builtin_validate(o, &errors, &warnings);
    assert_int_equal(errors.n, 0);
    assert_int_equal(warnings.n, 1);
    assert_string_equal(warnings.items[0].path, "metadata.name");
    assert_non_null(strstr(warnings.items[0].text, "a DNS label is recommended"));
}

static void metadata_of_our_own_kinds(void **state) {
    (void)state;
    SL_AUTO_JSON *o = read_one("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: [1]}");
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    sl_api_validate(o, NULL, SL_VALIDATE_STRUCTURE, &errors);
    SL_AUTO_FREE char *text = told(&errors);
    assert_string_equal(text, "metadata: Invalid value: must be an object\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs),
        cmocka_unit_test(pods_of_jobs),
        cmocka_unit_test(other_kinds),
        cmocka_unit_test(a_name_with_dots_is_a_warning),
        cmocka_unit_test(metadata_of_our_own_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
