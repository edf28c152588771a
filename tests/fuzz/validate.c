/* {"new":..., "old":...} or an object alone: every check of every kind, with every flag, and the job checks; messages
 * stay bounded. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/jobmeta.h"
#include "sluice/api/validate.h"
#include "sluice/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const struct sl_fielderrs *errors) {
    char *message = sl_fielderrs_message(errors);
    SL_ASSERT(strlen(message) < 64 << 10);
    free(message);
    struct sl_json *causes = sl_fielderrs_causes(errors);
    SL_ASSERT(sl_json_len(causes) == errors->n);
    sl_json_unref(causes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_json *j;
    if (sl_json_parse_limited((const char *)data, size, 1 << 16, SL_JSON_MAX_ELEMENTS, &j, NULL) < 0)
        return 0;
    const struct sl_json *object = sl_json_get(j, "new") ? sl_json_get(j, "new") : j, *old = sl_json_get(j, "old");
    for (unsigned flags = 0; flags < 8; flags++) {
        SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
        sl_api_validate(object, flags & 1 ? old : NULL, flags, &errors);
        look(&errors);
    }
    struct sl_jobmeta_template template = {"spec.template", sl_json_path(object, "spec.template")};
    struct sl_jobmeta_facts facts = {.kind = "Job",
                                     .suspended = size & 1,
                                     .old_suspended = size & 2,
                                     .default_queue = size & 4,
                                     .batch_job = true,
                                     .prebuilt_supported = true,
                                     .elastic_supported = true,
                                     .pods_count = 3,
                                     .templates = &template,
                                     .n_templates = 1};
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    sl_jobmeta_validate(object, old, &facts, &errors);
    look(&errors);
    SL_AUTO_FIELDERRS numbers = SL_FIELDERRS_INIT;
    sl_api_check_numbers(object, &numbers);
    look(&numbers);
    struct sl_json *copy = sl_json_copy(object);
    const char *kind = sl_json_get_str(object, "kind", "");
    sl_api_set_defaults(kind, copy);
    sl_api_prune(kind, copy);
    struct sl_json *twice = sl_json_copy(copy);
    sl_api_set_defaults(kind, twice);
    sl_api_prune(kind, twice);
    sl_json_unref(copy);
    sl_json_unref(twice);
    sl_json_unref(j);
    return 0;
}
