/* Labels and annotations of jobs against tests/golden/jobmeta/cases.yaml; an expected error is a prefix, and all must
 * be expected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/jobmeta.h"
#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

static int run_case(const struct sl_json *c) {
    const struct sl_json *now = sl_json_get(c, "new"), *old = sl_json_get(c, "old");
    struct sl_jobmeta_template template = {"spec.template", sl_json_path(now, "spec.template")};
    bool suspended = sl_json_get_bool(c, "suspended", true);
    struct sl_jobmeta_facts facts = {.kind = "Job",
                                     .suspended = suspended,
                                     .old_suspended = sl_json_get_bool(c, "was", suspended),
                                     .default_queue = sl_json_get_bool(c, "default_queue", false),
                                     .prebuilt_supported = sl_json_get_bool(c, "prebuilt", true),
                                     .elastic_supported = sl_json_get_bool(c, "elastic", true),
                                     .batch_job = true,
                                     .pods_count = (int32_t)sl_json_get_int(c, "pods", 4),
                                     .templates = &template,
                                     .n_templates = 1};
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    sl_jobmeta_validate(now, old, &facts, &errors);
    const struct sl_json *expected = sl_json_get(c, "errors");
    int wrong = 0;
    for (size_t i = 0; i < errors.n; i++) {
        SL_AUTO_FREE char *line = sl_xprintf("%s: %s", errors.items[i].path, errors.items[i].text);
        bool found = false;
        SL_JSON_ITEMS (expected, e)
            found = found || !strncmp(line, sl_json_str(e.value, "?"), strlen(sl_json_str(e.value, "?")));
        if (!found || errors.items[i].schema) {
            print_error("%s: not expected: %s\n", sl_json_get_str(c, "case", "?"), line);
            wrong++;
        }
    }
    if (errors.n != sl_json_len(expected)) {
        print_error("%s: %zu errors, expected %zu\n", sl_json_get_str(c, "case", "?"), errors.n, sl_json_len(expected));
        wrong++;
    }
    return wrong;
}

static void jobmeta__golden_cases(void **s) {
    (void)s;
    SL_AUTO_BUF text = SL_BUF_INIT(1 << 20);
    SL_AUTO_JSON *docs = NULL;
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_file_read(SL_SOURCE_DIR "/tests/golden/jobmeta/cases.yaml", &text, NULL), 0);
    if (sl_yaml_parse(sl_buf_text(&text), text.len, false, &docs, NULL, &err) < 0)
        fail_msg("%s", err.text);
    int wrong = 0;
    SL_JSON_ITEMS (docs, c)
        wrong += run_case(c.value);
    assert_int_equal(wrong, 0);
    assert_true(sl_json_len(docs) >= 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(jobmeta__golden_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
