/* Conversion against tests/golden/convert, and round trips. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "convert_kinds.h"
#include "sluice/api/convert.h"
#include "sluice/api/names.h"
#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

static struct sl_json *version_of(const struct sl_json *c, const char *version) {
    struct sl_json *o = sl_json_copy(sl_json_get(c, version));
    sl_json_set(o, "apiVersion", sl_json_new_strf("%s/%s", SL_GROUP, version));
    sl_json_set(o, "metadata", sl_json_from("{'name':'x','annotations':{'a':'b'}}"));
    return o;
}

static int check(const struct sl_json *c, const char *from, const char *to) {
    SL_AUTO_JSON *have = version_of(c, from), *want = version_of(c, to);
    struct sl_err err = SL_ERR_INIT;
    const char *error = sl_json_get_str(c, "error", NULL), *title = sl_json_get_str(c, "case", "?");
    int r = sl_api_convert(have, sl_json_get_str(want, "apiVersion", ""), &err);
    if (error) {
        if (r == SL_INVALID && strstr(err.text, error))
            return 0;
        print_error("%s: expected the error %s, got %s\n", title, error, err.text);
        return 1;
    }
    if (r == 0 && sl_json_equal(have, want))
        return 0;
    SL_AUTO_FREE char *text = sl_json_text(have);
    print_error("%s to %s: %s: %s\n", title, to, err.text, text);
    return 1;
}

static void convert__golden_cases(void **s) {
    (void)s;
    SL_AUTO_BUF text = SL_BUF_INIT(1 << 20);
    SL_AUTO_JSON *docs = NULL;
    assert_int_equal(sl_file_read(SL_SOURCE_DIR "/tests/golden/convert/cases.yaml", &text, NULL), 0);
    assert_int_equal(sl_yaml_parse(sl_buf_text(&text), text.len, true, &docs, NULL, NULL), 0);
    int wrong = 0;
    SL_JSON_ITEMS (docs, c) {
        const char *to = sl_json_get_str(c.value, "to", "both");
        if (strcmp(to, "v1beta1") != 0)
            wrong += check(c.value, "v1beta1", "v1beta2");
        if (strcmp(to, "v1beta2") != 0)
            wrong += check(c.value, "v1beta2", "v1beta1");
    }
    assert_int_equal(wrong, 0);
    assert_true(sl_json_len(docs) >= 20);
}

static void convert__same_version_changes_nothing(void **s) {
    (void)s;
    SL_AUTO_JSON *o = sl_json_from(
        "{'apiVersion':'kueue.x-k8s.io/v1beta2','kind':'ClusterQueue','spec':{'cohort':'x','cohortName':'y'}}");
    SL_AUTO_JSON *before = sl_json_copy(o);
    assert_int_equal(sl_api_convert(o, SL_V1BETA2, NULL), 0);
    assert_true(sl_json_equal(o, before));
}

static void convert__a_field_of_the_other_version_does_not_leak_through(void **s) {
    (void)s;
    SL_AUTO_JSON *o =
        sl_json_from("{'apiVersion':'kueue.x-k8s.io/v1beta1','kind':'ClusterQueue','spec':{'cohortName':'y'}}");
    assert_int_equal(sl_api_convert(o, SL_V1BETA2, NULL), 0);
    assert_null(sl_json_path(o, "spec.cohortName"));
}

static void convert__what_is_refused(void **s) {
    (void)s;
    static const struct {
        const char *object, *to, *text;
    } rows[] = {
        {"{'apiVersion':'kueue.x-k8s.io/v1beta1','kind':'ClusterQueue'}", "kueue.x-k8s.io/v1", "desiredAPIVersion"},
        {"{'apiVersion':'v1','kind':'Pod'}", SL_V1BETA2, "apiVersion"},
        {"{'apiVersion':'kueue.x-k8s.io/v1beta1','kind':'Pod'}", SL_V1BETA2, "kind"},
        {"{}", SL_V1BETA2, "apiVersion"},
        {"[]", SL_V1BETA2, "apiVersion"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        SL_AUTO_JSON *o = sl_json_from(rows[i].object);
        struct sl_err err = SL_ERR_INIT;
        assert_int_equal(sl_api_convert(o, rows[i].to, &err), SL_INVALID);
        assert_true(!strncmp(err.text, rows[i].text, strlen(rows[i].text)));
    }
}

/* Domains of any shape come back as they were. */
static void topology__round_trip(void **s) {
    (void)s;
    uint64_t x = 0x9e3779b97f4a7c15u;
    for (int round = 0; round < 2000; round++) {
        SL_AUTO_JSON *o = sl_json_new_object();
        struct sl_json *levels = sl_json_make_array(o, "levels"), *domains = sl_json_make_array(o, "domains");
        size_t n_levels = x % 3 + 1, n = x / 7 % 6;
        for (size_t i = 0; i < n_levels; i++)
            sl_json_append(levels, sl_json_new_strf("l%zu", i));
        for (size_t i = 0; i < n; i++) {
            struct sl_json *domain = sl_json_new_object(), *values = sl_json_make_array(domain, "values");
            for (size_t k = 0; k < n_levels; k++) {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                char value[130];
                size_t len = x % 5 == 0 ? 100 + x % 20 : x % 6, at = 0;
                while (at < len) {
                    value[at] = "aab-\xc3"[x >> (at % 50) & (round % 10 == 0 ? 4 : 3)];
                    if (value[at] == '\xc3')
                        value[++at] = (char)(0x80 + x % 64);
                    at++;
                }
                sl_json_append(values, sl_json_new_strn(value, at));
            }
            sl_json_set_int(domain, "count", (int64_t)(x % 2) + 1);
            sl_json_append(domains, domain);
        }
        SL_AUTO_JSON *before = sl_json_copy(o);
        assert_int_equal(sl_topology_to_slices(o, NULL), 0);
        assert_null(sl_json_get(o, "domains"));
        assert_int_equal(sl_topology_to_domains(o, NULL), 0);
        if (!sl_json_equal(o, before)) {
            SL_AUTO_FREE char *a = sl_json_text(before), *b = sl_json_text(o);
            fail_msg("%s became %s", a, b);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convert__golden_cases),
        cmocka_unit_test(convert__same_version_changes_nothing),
        cmocka_unit_test(convert__a_field_of_the_other_version_does_not_leak_through),
        cmocka_unit_test(convert__what_is_refused),
        cmocka_unit_test(topology__round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
