/*
 * {spec, limitRanges, resources, job, infos, workload}: requests of any pod spec are sorted and never negative, and
 * neither they nor the patches of a job depend on anything but the input. A start that did not conflict, taken back by
 * a stop, leaves the template as the Workload keeps it.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/jobs/jobkind.h"
#include "sluice/jobs/podspec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_requests(const struct sl_json *in) {
    struct sl_limits *limits = sl_limits_new();
    SL_JSON_ITEMS (sl_json_get(in, "limitRanges"), e)
        sl_limits_add(limits, e.value);
    SL_AUTO_JSON *document = sl_json_from("{'apiVersion':'config.kueue.x-k8s.io/v1beta2','kind':'Configuration'}");
    if (sl_json_get(in, "resources"))
        sl_json_set(document, "resources", sl_json_copy(sl_json_get(in, "resources")));
    struct sl_config config;
    struct sl_err err = SL_ERR_INIT;
    if (sl_config_parse(document, &config, NULL, &err) < 0)
        SL_ASSERT(err.text[0]);
    struct sl_podspec_context ctx = {limits, &config, NULL, NULL};
    const struct sl_json *spec = sl_json_get(in, "spec");
    struct sl_requests first;
    for (int i = 0; i < 2; i++) {
        struct sl_requests r;
        char *rejected;
        sl_podspec_requests(spec, "spec", &ctx, &r, &rejected);
        SL_ASSERT(!rejected || rejected[0]);
        free(rejected);
        for (size_t j = 0; j < r.n; j++) {
            SL_ASSERT(r.items[j].amount >= 0);
            SL_ASSERT(j == 0 || strcmp(r.items[j - 1].resource, r.items[j].resource) < 0);
            SL_ASSERT(i == 0 || r.items[j].amount == first.items[j].amount);
        }
        if (i == 0) {
            first = r;
            continue;
        }
        SL_ASSERT(r.n == first.n);
        sl_requests_done(&r);
        sl_requests_done(&first);
    }
    SL_ASSERT(sl_podspec_shape(spec, NULL) == sl_podspec_shape(spec, NULL));
    sl_config_done(&config);
    sl_limits_free(limits);
}

static void stop(const struct sl_jobkind *k, struct sl_json **job, const struct sl_json *workload) {
    for (int i = 0;; i++) {
        SL_ASSERT(i < 8);
        struct sl_json *patch = NULL;
        enum sl_stop_step step = sl_job_stop_next(k, *job, workload, &patch);
        if (step == SL_STOP_DONE)
            return;
        if (step == SL_STOP_WAIT) {
            sl_json_set_int(sl_json_mut(*job, "status"), "active", 0);
            continue;
        }
        *job = sl_json_merge_patch(*job, patch);
        sl_json_unref(patch);
    }
}

static void check_job(const struct sl_json *in) {
    const struct sl_jobkind *k = sl_jobkind_find("batch", "Job");
    const struct sl_json *job = sl_json_get(in, "job");
    bool success;
    const char *message = NULL;
    if (k->finished(job, &success, &message))
        SL_ASSERT(message);
    k->pods_ready(job);
    SL_ASSERT(k->active_pods(job) >= 0);
    SL_AUTO_JSON *reclaimable = k->reclaimable(job), *patch = NULL, *workload = NULL;
    SL_ASSERT(sl_json_int(sl_json_path(reclaimable, "0.count"), 1) > 0);
    struct sl_job_workload_input input = {.kind = k, .job = job};
    if (sl_job_workload(&input, &workload, NULL) < 0)
        return;
    sl_job_equivalent(k, job, sl_json_get(in, "workload"), sl_json_get(in, "infos"));
    if (k->start_patch(job, sl_json_get(in, "infos"), &patch, NULL) < 0)
        return;
    struct sl_json *alone = sl_json_merge_patch(sl_json_copy(job), patch);
    stop(k, &alone, NULL); /* by the note of the start */
    SL_ASSERT(k->suspended(alone) && !sl_job_start_noted(alone));
    sl_json_unref(alone);
    struct sl_json *running = sl_json_merge_patch(sl_json_copy(job), patch);
    stop(k, &running, workload);
    SL_ASSERT(k->suspended(running));
    stop(k, &running, sl_json_get(in, "workload"));
    sl_json_unref(running);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_json *in;
    if (sl_json_parse((const char *)data, size, 1 << 18, &in, NULL) < 0)
        return 0;
    check_requests(in);
    check_job(in);
    sl_json_unref(in);
    return 0;
}
