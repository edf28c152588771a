/*
 * A cluster in memory with virtual time, for `sluice simulate` and the simulation tests: stores objects, gives
 * resourceVersions, uids and generations, knows the status subresource, finalizers, owner references and their garbage
 * collection, watches, merge, JSON and apply patches, optimistic concurrency, dry-run; calls admission the way
 * kube-apiserver does; plays batch/v1 Jobs as the Job controller and a kubelet would. Versions of one
 * resource share a table and are not converted. A status given at creation is dropped where there is a status
 * subresource (nodes keep it), and what names only dead owners is collected, as in the real one. Deterministic: the
 * same calls and seed give the same history.
 */
#ifndef SLUICE_KUBE_MEMORY_H
#define SLUICE_KUBE_MEMORY_H

#include "sluice/kube/cluster.h"

/* Admission: called for CREATE, UPDATE and DELETE of every resource (subresource "" or "status"), with a complete
 * AdmissionReview (admission.k8s.io/v1); once with mutating = true (its JSON patch is applied), then with false.
 * Returns an owned AdmissionReview with response, or NULL when no webhook wants this object. */
typedef struct sl_json *(*sl_memory_admit_fn)(void *payload, bool mutating, const struct sl_json *review);
/* Defaults of the schema, in place (what the API server would fill in from a CRD or a built-in type). */
typedef void (*sl_memory_default_fn)(void *payload, const struct sl_resource *resource, struct sl_json *object);

struct sl_memory_options {
    int64_t start_wall_ms; /* virtual time begins here; 0: 2026-01-01T00:00:00Z */
    uint64_t seed;
    sl_memory_admit_fn admit;
    sl_memory_default_fn set_defaults;
    void *payload;
    int64_t default_run_ms; /* how long a Job's pods run when its annotation sluice.dev/simulate-run does not say (Go
                               duration); 0: for ever */
};
struct sl_cluster *sl_memory_new(const struct sl_memory_options *options);

/* Like a client's request, at once; ret (may be NULL) is an owned copy of the stored object. Codes as in struct
 * sl_reply. */
SL_MUST int sl_memory_create(struct sl_cluster *c, const struct sl_resource *r, const struct sl_json *object,
                             struct sl_json **ret, struct sl_err *err);
SL_MUST int sl_memory_merge(struct sl_cluster *c, const struct sl_resource *r, const char *ns, const char *name,
                            const char *subresource, const struct sl_json *patch, struct sl_json **ret,
                            struct sl_err *err);
SL_MUST int sl_memory_delete(struct sl_cluster *c, const struct sl_resource *r, const char *ns, const char *name,
                             struct sl_err *err);
struct sl_json *sl_memory_get(struct sl_cluster *c, const struct sl_resource *r, const char *ns,
                              const char *name); /* owned; NULL when absent */
struct sl_json *sl_memory_list(struct sl_cluster *c, const struct sl_resource *r, const char *ns); /* owned array,
    sorted by namespace and name; its items are shared with the store: sl_json_copy before changing one */
/* True when nothing is queued, due or under way but the passing of time; *ret_next_ms is the virtual (mono) time of the
 * next timer, or -1. */
bool sl_memory_idle(struct sl_cluster *c, int64_t *ret_next_ms);

/* Faults, drawn from the seed; all off at first. Per mille of requests or events. */
struct sl_memory_faults {
    unsigned conflict, unavailable, unknown_applied, unknown_lost; /* answers to writes */
    unsigned watch_cut, watch_gone;                                /* watches end; with 410 a relist follows */
    unsigned delay_ms; /* replies and events come up to this much later, order within a watch kept */
    unsigned gc_ms;    /* the garbage collector comes this much later */
    bool gc_off;       /* it misses what happens meanwhile, for good */
};
void sl_memory_set_faults(struct sl_cluster *c, const struct sl_memory_faults *faults);

#endif
