/*
 * Jobs. The mutation decides everything on the object and the snapshot, changes a copy, and sends the difference: the
 * default queue, suspend, the memory volume of GPU pods. An object that is nobody's business is answered before
 * anything is copied.
 */
#include "handlers_internal.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/builtin.h"
#include "sluice/api/jobmeta.h"
#include "sluice/api/names.h"
#include "sluice/base/mem.h"
#include "sluice/base/metrics.h"
#include "sluice/jobs/jobkind.h"
#include "sluice/webhook/patch.h"
#include "sluice/webhook/snapshot.h"

#define INJECTED_ANNOTATION "sluice.dev/injected"
#define MAX_CANDIDATES      64

/* What is decided about one job. */
struct job_review {
    const struct sl_snapshot *s;
    const struct sl_json *job, *template;
    const char *ns, *queue;
    bool default_queue; /* gets the queue named default */
    bool suspend;
    struct sl_gpu_use gpu;
    /* flavors of the ClusterQueue's groups that cover a GPU resource of the job */
    const struct sl_flavor *flavors[MAX_CANDIDATES];
    size_t n_flavors;
};

static bool covers(const struct sl_resource_group *g, const char *const *resources, size_t n) {
    for (size_t i = 0; i < g->n_covered; i++)
        for (size_t j = 0; j < n; j++)
            if (!strcmp(g->covered[i], resources[j]))
                return true;
    return false;
}

/* The template names another value for one of the flavor's labels: the job can never get this flavor. */
static bool ruled_out(const struct sl_flavor *f, const struct sl_json *node_selector) {
    SL_JSON_EACH (node_selector, e) {
        const char *have = sl_labels_get(&f->node_labels, e.key);
        if (have && strcmp(have, sl_json_str(e.value, "")))
            return true;
    }
    return false;
}

static void find_candidates(struct job_review *r, const struct sl_clusterqueue *cq) {
    const char *resources[16];
    size_t n = sl_gpu_resources(sl_snapshot_gpu_rules(r->s), r->template, resources, SL_COUNT(resources));
    for (size_t i = 0; i < cq->n_groups; i++) {
        if (!covers(&cq->groups[i], resources, n))
            continue;
        for (size_t j = 0; j < cq->groups[i].n_flavors && r->n_flavors < MAX_CANDIDATES; j++) {
            const struct sl_flavor *f = sl_snapshot_flavor(r->s, cq->groups[i].flavors[j].flavor);
            if (f && !ruled_out(f, sl_json_path(r->template, "spec.nodeSelector")))
                r->flavors[r->n_flavors++] = f;
        }
    }
}

static void copy_warnings(struct sl_review_reply *reply, const struct sl_json *texts) {
    SL_JSON_ITEMS (texts, e)
        sl_review_warn(reply, "%s", sl_json_str(e.value, ""));
}

/* W20, and two schedulers that both hold pods. */
static void warn_in_queue(const struct job_review *r, struct sl_review_reply *reply) {
    bool sliced = r->n_flavors > 0;
    for (size_t i = 0; i < r->n_flavors; i++)
        sliced &=
            sl_gpu_flavor_sharing(&r->flavors[i]->node_labels, &r->flavors[i]->annotations) == SL_SHARING_TIME_SLICING;
    if (sliced && r->gpu.devices > 1)
        sl_review_warn(reply, "W20: a container asks for more than one GPU, but this queue's are time-sliced: it may "
                              "get the same one twice");
    bool kai = !strcmp(sl_json_path_str(r->template, "spec.schedulerName", ""), "kai-scheduler") ||
               sl_json_get(sl_json_path(r->template, "metadata.labels"), "kai.scheduler/queue");
    if (kai && *r->queue)
        sl_review_warn(reply, "the job waits for two queues, that of its label and that of the KAI scheduler; use one");
}

static void plan_shm(const struct job_review *r, const struct sl_localqueue *lq, const struct sl_clusterqueue *cq,
                     struct sl_shm_plan *plan) {
    const struct sl_labels *labels[MAX_CANDIDATES], *annotations[MAX_CANDIDATES];
    for (size_t i = 0; i < r->n_flavors; i++) {
        labels[i] = &r->flavors[i]->node_labels;
        annotations[i] = &r->flavors[i]->annotations;
    }
    struct sl_shm_input in = {
        .pod_template = r->template,
        .job_annotations = sl_json_path(r->job, "metadata.annotations"),
        .kind = "Job",
        .rules = sl_snapshot_gpu_rules(r->s),
        .config = sl_snapshot_shm(r->s),
        .flavor_labels = labels,
        .flavor_annotations = annotations,
        .n_flavors = r->n_flavors,
        .localqueue = lq ? &lq->annotations : NULL,
        .ns = sl_snapshot_ns_annotations(r->s, r->ns),
        .clusterqueue = cq ? &cq->annotations : NULL,
    };
    sl_shm_plan(&in, plan);
}

/* Member of a shallow copy as an object to change; made when absent or null. */
static struct sl_json *own_object(struct sl_json *object, const char *key) {
    struct sl_json *o = sl_json_own(object, key);
    return o ? o : sl_json_make_object(object, key);
}

static void set_injected(struct sl_json *metadata) {
    struct sl_json *annotations = own_object(metadata, "annotations");
    const char *have = sl_json_get_str(annotations, INJECTED_ANNOTATION, "");
    SL_AUTO_FREE char *list = sl_xprintf(",%s,", have);
    if (strstr(list, ",shm,"))
        return;
    SL_AUTO_FREE char *text = sl_xprintf("%s%sshm", have, *have ? "," : "");
    sl_json_set_str(annotations, INJECTED_ANNOTATION, text);
}

/* The job as it should be; what does not change is shared with the job of the request. */
static struct sl_json *mutated(const struct job_review *r, const struct sl_shm_plan *plan) {
    struct sl_json *job = sl_json_copy_shallow(r->job);
    if (r->default_queue || plan->inject) {
        struct sl_json *metadata = own_object(job, "metadata");
        if (r->default_queue)
            sl_json_set_str(own_object(metadata, "labels"), SL_LABEL_QUEUE_NAME, SL_DEFAULT_LOCAL_QUEUE);
        if (plan->inject)
            set_injected(metadata);
    }
    struct sl_json *spec = own_object(job, "spec");
    if (r->suspend)
        sl_json_set_bool(spec, "suspend", true);
    if (plan->inject)
        sl_shm_apply(plan, own_object(spec, "template"));
    return job;
}

void sl_mutate_job(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    struct job_review r = {.s = snapshot, .job = sl_json_get(request, "object")};
    if (!sl_request_is(request, "CREATE") || !sl_json_is_null(sl_json_path(r.job, "metadata.deletionTimestamp")))
        return;
    if (!sl_json_is_object(r.job)) {
        sl_review_deny_code(reply, 400, "object: Required value");
        return;
    }
    const struct sl_jobkind *kind = sl_jobkind_find("batch", "Job");
    if (!sl_snapshot_framework(r.s, kind->integration))
        return;
    r.template = sl_json_path(r.job, "spec.template");
    r.ns = sl_request_namespace(request);
    r.queue = sl_job_queue(r.job);
    bool selected = sl_snapshot_ns_selected(r.s, r.ns);
    if (!*r.queue && selected && sl_snapshot_ns_has_default(r.s, r.ns)) {
        r.default_queue = true;
        r.queue = SL_DEFAULT_LOCAL_QUEUE;
    }
    bool managed = *r.queue || sl_snapshot_manages(r.s, r.ns, ""); /* a job that owns it does not pay for it */
    r.gpu = sl_gpu_scan(sl_snapshot_gpu_rules(r.s), r.template);
    if (!managed && !(r.gpu.gpu && selected))
        return; /* nobody's business */
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    sl_builtin_check_numbers(r.job, &errors);
    sl_reply_errors(&errors, reply);
    if (errors.n)
        return;
    r.suspend = managed && !sl_json_bool(sl_json_path(r.job, "spec.suspend"), false);
    if (managed && !selected)
        sl_review_warn(
            reply, "namespace %s is not managed: the job names a queue, so it is suspended, but nobody will start it",
            r.ns);

    struct sl_shm_plan plan;
    const struct sl_localqueue *lq = *r.queue ? sl_snapshot_localqueue(r.s, r.ns, r.queue) : NULL;
    const struct sl_clusterqueue *cq = lq ? sl_snapshot_clusterqueue(r.s, lq->cq) : NULL;
    if (cq)
        find_candidates(&r, cq);
    SL_AUTO_JSON *texts = sl_json_new_array();
    int64_t parallelism = sl_json_int(sl_json_path(r.job, "spec.parallelism"), 1);
    sl_gpu_warnings(sl_snapshot_gpu_rules(r.s), r.template, parallelism, true, texts);
    copy_warnings(reply, texts);
    warn_in_queue(&r, reply);
    plan_shm(&r, lq, cq, &plan);
    copy_warnings(reply, plan.warnings);
    if (r.default_queue || r.suspend || plan.inject) {
        struct sl_json *after = mutated(&r, &plan);
        reply->patch = sl_patch_diff(r.job, after);
        sl_json_unref(after);
    }
    if (plan.inject)
        sl_metric_add(SL_M_SLUICE_SHM_INJECTED_TOTAL, 1, SL_LABELS());
    sl_shm_plan_done(&plan);
}

void sl_validate_job(const void *snapshot, const struct sl_json *request, struct sl_review_reply *reply) {
    const struct sl_snapshot *s = snapshot;
    const struct sl_json *job = sl_json_get(request, "object"), *old = NULL;
    if (sl_request_is(request, "UPDATE"))
        old = sl_json_get(request, "oldObject");
    else if (!sl_request_is(request, "CREATE"))
        return;
    if (!sl_json_is_object(job)) {
        sl_review_deny_code(reply, 400, "object: Required value");
        return;
    }
    const struct sl_jobkind *kind = sl_jobkind_find("batch", "Job");
    if (!sl_snapshot_framework(s, kind->integration) ||
        !sl_json_is_null(sl_json_path(job, "metadata.deletionTimestamp")))
        return;
    SL_AUTO_JSON *podsets = NULL;
    int64_t count = kind->podsets(job, &podsets, NULL) < 0 ? 0 : sl_json_int(sl_json_path(podsets, "0.count"), 0);
    struct sl_jobmeta_template template = {"spec.template", sl_json_path(job, "spec.template")};
    struct sl_jobmeta_facts facts = {
        .kind = kind->kind,
        .suspended = kind->suspended(job),
        .old_suspended = old && kind->suspended(old),
        .default_queue = sl_snapshot_ns_has_default(s, sl_request_namespace(request)),
        .prebuilt_supported = kind->prebuilt,
        .elastic_supported = true,
        .batch_job = true,
        .pods_count = (int32_t)count,
        .templates = &template,
        .n_templates = 1,
    };
    SL_AUTO_FIELDERRS errors = SL_FIELDERRS_INIT;
    if (sl_snapshot_manages(s, sl_request_namespace(request), sl_job_queue(job)))
        sl_builtin_check_numbers(job, &errors);
    sl_jobmeta_validate(job, old, &facts, &errors);
    sl_reply_errors(&errors, reply);
}
