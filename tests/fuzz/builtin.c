/* An object of a kind that is not ours, or a pod template: whatever its fields hold, faults have paths and messages
 * stay bounded; a number that a webhook refuses is one that lint refuses. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/api/builtin.h"
#include "sluice/base/mem.h"
#include "sluice/jobs/jobkind.h"
#include "sluice/jobs/podspec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_path(const struct sl_fielderrs *l, const char *path) {
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->items[i].path, path))
            return true;
    return l->dropped > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    SL_AUTO_JSON *object = NULL;
    if (sl_json_parse_limited((const char *)data, size, 1 << 16, SL_JSON_MAX_ELEMENTS, &object, NULL))
        return 0;
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT, warnings = SL_FIELDERRS_INIT, numbers = SL_FIELDERRS_INIT;
    sl_builtin_validate(object, &errors, &warnings);
    sl_builtin_check_numbers(object, &numbers);
    SL_ASSERT(sl_builtin_is(object) || !(errors.n + warnings.n + numbers.n));
    for (size_t i = 0; i < errors.n; i++)
        SL_ASSERT(*errors.items[i].path && strcmp(errors.items[i].path, "<nil>"));
    for (size_t i = 0; i < numbers.n; i++)
        SL_ASSERT(has_path(&errors, numbers.items[i].path) || has_path(&errors, "apiVersion"));
    SL_AUTO_FREE char *message = sl_fielderrs_message(&errors);
    SL_ASSERT(strlen(message) < 64 << 10);
    const struct sl_jobkind *kind = sl_jobkind_of(object);
    if (errors.n || !kind)
        return 0;
    SL_AUTO_JSON *podsets = NULL; /* what passes can be read */
    struct sl_err err = SL_ERR_INIT;
    SL_ASSERT(kind->podsets(object, &podsets, &err) == 0);
    struct sl_requests requests = {0};
    char *rejected = NULL;
    sl_podspec_requests(sl_json_path(podsets, "0.template.spec"), "spec", NULL, &requests, &rejected);
    SL_ASSERT(!rejected || !strstr(rejected, "cannot be read") || strstr(rejected, "Too many"));
    sl_requests_done(&requests);
    free(rejected);
    return 0;
}
