/*
 * Workload: what decisions need of it. The pod template is read only for placement; requests are filled in by whoever
 * knows LimitRanges and the configuration. Stored objects are not trusted (namespaces without webhooks exist): an
 * amount that cannot be read fails the decoding.
 */
#include <stdlib.h>
#include <string.h>

#include "meta.h"
#include "sluice/api/decode.h"
#include "sluice/api/names.h"
#include "sluice/api/quantity.h"
#include "sluice/base/mem.h"

/* More pod sets than this cannot be stored by the schema; it bounds the work for objects that came another way. */
#define MAX_PODSETS 64

static void conditions_decode(const struct sl_json *list, struct sl_workload *w) {
    const struct {
        const char *type;
        struct sl_condition_view *view;
    } all[] = {{"QuotaReserved", &w->quota_reserved},
               {"Admitted", &w->admitted},
               {"Evicted", &w->evicted},
               {"Preempted", &w->preempted},
               {"Requeued", &w->requeued},
               {"PodsReady", &w->pods_ready},
               {"Finished", &w->finished},
               {"DeactivationTarget", &w->deactivation_target},
               {"WaitingForReplacementPods", &w->waiting_for_replacement}};
    SL_JSON_ITEMS (list, e) {
        const char *type = sl_json_get_str(e.value, "type", "");
        for (size_t i = 0; i < SL_COUNT(all); i++) {
            if (strcmp(type, all[i].type) != 0)
                continue;
            struct sl_condition_view *v = all[i].view;
            free(v->reason);
            v->status = !strcmp(sl_json_get_str(e.value, "status", ""), "True") ? SL_TRI_TRUE : SL_TRI_FALSE;
            v->since_ms = sl_meta_time(sl_json_get(e.value, "lastTransitionTime"), 0);
            v->reason = sl_meta_str(e.value, "reason");
        }
    }
}

static int podsets_decode(const struct sl_json *list, struct sl_workload *w, struct sl_err *err) {
    size_t n = sl_json_is_array(list) ? sl_json_len(list) : 0;
    if (n > MAX_PODSETS)
        return sl_err_set(err, SL_INVALID, "spec.podSets: Too many: %zu: must have at most %d items", n, MAX_PODSETS);
    w->podsets = sl_xalloc((n + 1) * sizeof *w->podsets);
    w->reclaimable = sl_xalloc((n + 1) * sizeof *w->reclaimable);
    for (size_t i = 0; i < n; i++) {
        const struct sl_json *j = sl_json_at(list, i);
        struct sl_podset *ps = &w->podsets[w->n_podsets++];
        ps->name = sl_xstrdup(sl_json_get_str(j, "name", "main"));
        ps->count = sl_meta_i32(sl_json_get(j, "count"), 1);
        if (ps->count < 0)
            ps->count = 0;
        ps->min_count = sl_meta_i32(sl_json_get(j, "minCount"), -1);
        sl_podset_decode_placement(sl_json_path(j, "template.spec"), ps);
    }
    return 0;
}

static int by_resource(const void *a, const void *b) {
    return strcmp(((const struct sl_assigned_flavor *)a)->resource, ((const struct sl_assigned_flavor *)b)->resource);
}

static int assignment_decode(const struct sl_json *j, const struct sl_workload *w, struct sl_podset_assignment *ret,
                             struct sl_err *err) {
    ret->name = sl_xstrdup(sl_json_get_str(j, "name", "main"));
    int32_t spec_count = 0;
    for (size_t i = 0; i < w->n_podsets; i++)
        if (!strcmp(w->podsets[i].name, ret->name))
            spec_count = w->podsets[i].count;
    ret->count = sl_meta_i32(sl_json_get(j, "count"), spec_count);
    const struct sl_json *flavors = sl_json_get(j, "flavors"), *usage = sl_json_get(j, "resourceUsage");
    size_t n = sl_json_is_object(flavors) ? sl_json_len(flavors) : 0;
    ret->flavors = sl_xalloc((n + 1) * sizeof *ret->flavors);
    SL_JSON_EACH (flavors, e) {
        struct sl_assigned_flavor *f = &ret->flavors[ret->n_flavors++];
        f->resource = sl_xstrdup(e.key);
        f->flavor = sl_xstrdup(sl_json_str(e.value, ""));
        const struct sl_json *amount = sl_json_get(usage, e.key);
        if (sl_json_is_null(amount))
            continue;
        struct sl_quantity q;
        if (sl_quantity_from_json(amount, &q, err) < 0)
            return sl_err_wrap(err, "resourceUsage[%.80s]", e.key);
        f->amount = sl_quantity_amount(&q, e.key);
        if (f->amount < 0)
            f->amount = 0;
    }
    if (ret->n_flavors > 1)
        qsort(ret->flavors, ret->n_flavors, sizeof *ret->flavors, by_resource);
    return 0;
}

static int admission_decode(const struct sl_json *j, struct sl_workload *w, struct sl_err *err) {
    if (!sl_json_is_object(j))
        return 0;
    const struct sl_json *list = sl_json_get(j, "podSetAssignments");
    size_t n = sl_json_is_array(list) ? sl_json_len(list) : 0;
    if (n > MAX_PODSETS)
        return sl_err_set(err, SL_INVALID, "status.admission.podSetAssignments: Too many: %zu", n);
    w->admission = sl_xalloc(sizeof *w->admission);
    w->admission->cq = sl_meta_str(j, "clusterQueue");
    w->admission->podsets = sl_xalloc((n + 1) * sizeof *w->admission->podsets);
    for (size_t i = 0; i < n; i++)
        if (assignment_decode(sl_json_at(list, i), w, &w->admission->podsets[w->admission->n_podsets++], err) < 0)
            return sl_err_wrap(err, "status.admission.podSetAssignments[%zu]", i);
    return 0;
}

static void status_decode(const struct sl_json *status, struct sl_workload *w) {
    conditions_decode(sl_json_get(status, "conditions"), w);
    const struct sl_json *requeue = sl_json_get(status, "requeueState");
    w->requeue_count = sl_meta_i32(sl_json_get(requeue, "count"), 0);
    w->requeue_at_ms = sl_meta_time(sl_json_get(requeue, "requeueAt"), INT64_MIN);
    w->has_requeue_at = w->requeue_at_ms != INT64_MIN;
    if (!w->has_requeue_at)
        w->requeue_at_ms = 0;
    w->past_exec_s = sl_json_get_int(status, "accumulatedPastExecutionTimeSeconds", 0);
    SL_JSON_ITEMS (sl_json_get(status, "reclaimablePods"), e)
        for (size_t i = 0; i < w->n_podsets; i++)
            if (!strcmp(w->podsets[i].name, sl_json_get_str(e.value, "name", ""))) {
                int32_t count = sl_meta_i32(sl_json_get(e.value, "count"), 0);
                w->reclaimable[i] = count < 0 ? 0 : count > w->podsets[i].count ? w->podsets[i].count : count;
            }
    static const char *const states[] = {"Pending", "Ready", "Retry", "Rejected", NULL};
    const struct sl_json *checks = sl_json_get(status, "admissionChecks");
    size_t n = sl_json_is_array(checks) ? sl_json_len(checks) : 0;
    w->checks = sl_xalloc((n + 1) * sizeof *w->checks);
    for (size_t i = 0; i < n; i++) {
        const struct sl_json *c = sl_json_at(checks, i);
        int state = sl_meta_choice(sl_json_get_str(c, "state", ""), states);
        w->checks[w->n_checks++] =
            (struct sl_check_view){.name = sl_meta_str(c, "name"),
                                   .state = state < 0 ? SL_CHECK_PENDING : (enum sl_check_state)state,
                                   .since_ms = sl_meta_time(sl_json_get(c, "lastTransitionTime"), 0),
                                   .requeue_after_s = sl_json_get_int(c, "requeueAfterSeconds", -1)};
    }
}

static bool is_gated(const struct sl_json *meta) {
    const char *gates =
        sl_json_str(sl_json_get(sl_json_get(meta, "annotations"), SL_ANNOTATION_ADMISSION_GATED_BY), "");
    return *gates != 0;
}

int sl_workload_decode(const struct sl_json *o, struct sl_workload **ret, struct sl_err *err) {
    struct sl_workload *w = sl_xalloc(sizeof *w);
    const struct sl_json *meta = sl_json_get(o, "metadata"), *spec = sl_json_get(o, "spec"),
                         *status = sl_json_get(o, "status");
    int r = sl_meta_name(o, &w->name, err);
    if (r == 0)
        r = podsets_decode(sl_json_get(spec, "podSets"), w, err);
    if (r == 0)
        r = admission_decode(sl_json_get(status, "admission"), w, err);
    if (r < 0) {
        sl_workload_free(w);
        return r;
    }
    w->uid = sl_meta_str(meta, "uid");
    w->ns = sl_meta_str(meta, "namespace");
    w->queue = sl_meta_str(spec, "queueName");
    w->job_uid = sl_meta_str_or_null(sl_json_get(meta, "labels"), SL_LABEL_JOB_UID);
    const struct sl_json *ref = sl_json_get(spec, "priorityClassRef");
    w->priority_class = sl_meta_str_or_null(ref, "name");
    w->pod_priority_class = !strcmp(sl_json_get_str(ref, "group", ""), "scheduling.k8s.io");
    w->priority = sl_json_get_int(spec, "priority", 0);
    w->created_ms = sl_meta_time(sl_json_get(meta, "creationTimestamp"), 0);
    w->generation = sl_json_get_int(meta, "generation", 0);
    w->active = sl_json_get_bool(spec, "active", true);
    w->deleting = sl_meta_deleting(o);
    w->gated = is_gated(meta);
    w->max_exec_s = sl_json_get_int(spec, "maximumExecutionTimeSeconds", 0);
    status_decode(status, w);
    *ret = w;
    return 0;
}

struct sl_json *sl_admission_encode(const struct sl_admission *a) {
    char text[SL_QUANTITY_TEXT];
    struct sl_json *o = sl_json_new_object();
    sl_json_set_str(o, "clusterQueue", a->cq);
    struct sl_json *list = sl_json_make_array(o, "podSetAssignments");
    for (size_t i = 0; i < a->n_podsets; i++) {
        const struct sl_podset_assignment *ps = &a->podsets[i];
        struct sl_json *j = sl_json_new_object();
        sl_json_set_str(j, "name", ps->name);
        if (ps->n_flavors) {
            struct sl_json *flavors = sl_json_make_object(j, "flavors"),
                           *usage = sl_json_make_object(j, "resourceUsage");
            for (size_t k = 0; k < ps->n_flavors; k++) {
                sl_json_set_str(flavors, ps->flavors[k].resource, ps->flavors[k].flavor);
                sl_json_set_str(usage, ps->flavors[k].resource,
                                sl_amount_format(ps->flavors[k].resource, ps->flavors[k].amount, text));
            }
        }
        sl_json_set_int(j, "count", ps->count);
        sl_json_append(list, j);
    }
    return o;
}

bool sl_toleration_same(const struct sl_json *a, const struct sl_json *b) {
    const char *op_a = sl_json_get_str(a, "operator", ""), *op_b = sl_json_get_str(b, "operator", "");
    return !strcmp(sl_json_get_str(a, "key", ""), sl_json_get_str(b, "key", "")) &&
           !strcmp(sl_json_get_str(a, "effect", ""), sl_json_get_str(b, "effect", "")) &&
           !strcmp(sl_json_get_str(a, "value", ""), sl_json_get_str(b, "value", "")) &&
           !strcmp(*op_a ? op_a : "Equal", *op_b ? op_b : "Equal");
}
