/* Inside of the manager, shared by its files: manager.c (watches, loop), sync.c (jobs and workloads), pass.c
 * (decisions), queues.c (statuses). */
#ifndef SLUICE_CMD_MANAGER_INTERNAL_H
#define SLUICE_CMD_MANAGER_INTERNAL_H

#include "lifecycle.h"
#include "sluice/api/decode.h"
#include "sluice/base/map.h"
#include "sluice/cmd/manager.h"
#include "sluice/cmd/resources.h"
#include "sluice/jobs/jobkind.h"
#include "sluice/jobs/podspec.h"
#include "sluice/kube/event.h"
#include "sluice/kube/lease.h"
#include "sluice/quota/ledger/ledger.h"
#include "store.h"

struct namespace_info {
    char *name;
    struct sl_labels labels, annotations;
    bool known;                 /* the Namespace object was seen (LimitRanges may come first) */
    bool managed;               /* matches managedJobsNamespaceSelector */
    struct sl_map limit_ranges; /* name -> owned struct sl_json */
    struct sl_limits *limits;   /* summary; NULL when there are none or it has to be made again */
    bool limits_stale;
};

/* A queue, flavor, cohort or check as an object with a status to keep. */
struct object {
    const struct sl_resource *resource;
    char *key; /* "ns/name" or "name" */
    char *ns, *name, *uid, *rv;
    int64_t generation;
    bool deleting, has_finalizer;
    struct sl_json *finalizers; /* all of them, as last seen; NULL: none */
    char *status_text;          /* compact, as last seen */
    bool dirty, busy;
    int64_t stalled_since_ms; /* ClusterQueue: waiting workloads and none admitted since */
    union {
        struct sl_clusterqueue *cq;
        struct sl_localqueue *lq;
        struct sl_cohort *cohort;
        struct sl_flavor *flavor;
        struct sl_admissioncheck *check;
    };
};

struct priority_class {
    int32_t value;
    bool global_default;
};

struct look {
    char *uid;
    bool job;
};

struct timer {
    int64_t at_ms;
    char *uid;
};

struct manager {
    struct sl_cluster *c;
    const struct sl_config *cfg;
    char *identity, *own_namespace;
    bool elect;
    int64_t status_quiet_ms, status_max_ms;
    struct sl_engine *engine;
    struct sl_ledger *ledger;
    struct sl_events *events;
    struct sl_lease *lease;
    int64_t lease_due_ms;         /* mono */
    struct sl_snapshot *snapshot; /* the last one frozen: its configuration is reused */
    struct sl_snapshot_box *box;
    struct lc_pods_ready pods_ready;
    const char **label_keys; /* integrations.labelKeysToCopy, NULL-terminated; the texts belong to the configuration */

    struct sl_watch *watches[SL_WATCHED__COUNT];
    struct store jobs, workloads;
    struct sl_map by_owner;  /* job uid -> struct owned: its Workloads */
    struct sl_map by_parent; /* job uid -> the same: jobs that it owns */
    struct sl_map by_wanted; /* "ns/name" of a Workload -> the same: jobs that name it as made beforehand */
    struct sl_map namespaces;
    struct sl_map flavors, cohorts, cqs, lqs, checks; /* struct object */
    struct sl_map workload_classes, pod_classes;      /* struct priority_class */
    struct sl_map runtime_classes;                    /* owned struct sl_json (overhead.podFixed) */

    struct look *looks; /* ring: jobs and workloads that want a look, by uid, since records come and go meanwhile */
    size_t look_head, n_looks, cap_looks;
    struct timer *timers; /* binary heap by at_ms; stale entries are skipped when they come up */
    size_t n_timers, cap_timers;

    bool synced, leading, retired, engine_dirty, snapshot_dirty, status_dirty;
    bool led;                                /* some time before */
    int64_t snapshot_at_ms;                  /* mono, last publication */
    int64_t snapshot_gap_ms;                 /* the next one not before that much later */
    int64_t status_first_ms, status_last_ms; /* mono, changes not yet published */
    int64_t housekeeping_ms, recount_ms;     /* mono, last time */
    unsigned writes;                         /* our writes under way */
    struct words *words;                     /* in line from word_head on */
    size_t word_head, n_words, cap_words;
    int64_t word_told_ms, moved_ms; /* mono: last turn; quota last taken or returned */
    struct ledger_note *notes;      /* releases and outcomes for the next commit */
    size_t n_notes, cap_notes;
    bool ledger_reconciled;
};

struct words { /* somebody to be told something */
    char *uid;
    int64_t since_ms; /* mono */
};

struct owned { /* by some key */
    struct record **items;
    size_t n, cap;
};

struct ledger_note {
    char *uid, *why; /* why NULL: an outcome */
    enum sl_ledger_outcome outcome;
};

/* manager.c */
int64_t manager_now(const struct manager *m); /* wall */
void mark_dirty(struct manager *m, struct record *r);
void set_deadline(struct manager *m, struct record *r, int64_t at_ms);
void mark_status(struct manager *m, struct object *o);
void mark_queues_of(struct manager *m, const struct record *wl);
struct namespace_info *namespace_get(struct manager *m, const char *name, bool create);
const struct sl_limits *namespace_limits(struct namespace_info *n);
const struct sl_flavor *manager_flavor(void *m, const char *name);
struct object *localqueue_of(const struct manager *m, const char *ns, const char *name);

/* sync.c */
void workload_seen(struct manager *m, const struct sl_json *object); /* by watch or as an answer */
void workload_gone(struct manager *m, const struct sl_json *object);
void job_seen(struct manager *m, const struct sl_jobkind *kind, const struct sl_json *object);
void job_gone(struct manager *m, const struct sl_json *object);
void mark_pair(struct manager *m, struct record *wl); /* the Workload's job, or itself without one */
void feed_engine(struct manager *m, struct record *wl);
void feed_all(struct manager *m);
void sync_record(struct manager *m, struct record *r);
/* Next write of a stop; true when one was sent or pods are still being waited for. The event is said with the first. */
bool stop_saying(struct manager *m, struct record *job, const struct sl_json *tree, const struct sl_json *wl_tree,
                 const char *reason, const char *why);
/* The Workload that the job is to have (owned), or why there can be none. */
SL_MUST int compose_workload(const struct manager *m, const struct record *job, const struct sl_json *tree,
                             struct sl_json **ret, struct sl_err *err);
struct record *job_of(const struct manager *m,
                      const struct record *wl); /* the one it is or was made for, while known */
/* The part of a look that concerns the Workload alone. True when a write was sent. */
bool step_workload(struct manager *m, struct record *wl, const struct sl_json *wl_tree, const struct sl_workload *w,
                   const struct lc_facts *f);
/* The class a Workload refers to was given another value; the same. */
bool sync_class_value(struct manager *m, struct record *wl, const struct sl_workload *w);
struct sl_workload *decode_workload(struct manager *m, const struct record *wl, const struct sl_json *tree);
void collect_facts(struct manager *m, const struct record *wl, const struct sl_json *tree, const struct sl_workload *w,
                   struct lc_facts *ret);
void note_release(struct manager *m, const char *uid, const char *why);
const char *replica_role(const struct manager *m); /* the label of Kueue's metrics */
void note_outcome(struct manager *m, const char *uid, enum sl_ledger_outcome outcome);

/* words.c */
void words_moved(struct manager *m); /* quota was taken or returned */
/* As a record keeps them (owned); requests may be NULL. */
struct sl_json *words_new(const char *reason, const char *message, const struct sl_json *requests);
/* A decision that somebody has to wait is kept for later (true), or may be told now. */
SL_MUST bool words_keep(struct manager *m, struct record *wl, const struct sl_decision *d);
bool words_may_be_told(const struct record *wl); /* it has words, and they are not for later */
struct sl_json *words_take(struct record *wl);   /* whatever it has, owned: they are told now, or out of date; NULL */
void words_tell(struct manager *m);              /* has a look at those whose turn it is */
int64_t words_due_ms(const struct manager *m);   /* the next turn (mono); INT64_MAX: none */
/* Another replica has led meanwhile and told them what it liked: they are decided about as by one that just started. */
void words_anew(struct manager *m);
void words_done(struct manager *m);

/* family.c */
const struct owned *related(const struct sl_map *map, const char *key); /* NULL: none; the key may be NULL */
void relate(struct sl_map *map, const char *key, struct record *r);
void unrelate(struct sl_map *map, const char *key, const struct record *r);
void relations_done(struct sl_map *map);
void mark_children(struct manager *m, const struct record *job); /* and theirs */
/* A job as it is now; old_owner: the controller's uid that it had, NULL. */
void family_seen(struct manager *m, struct record *job, const struct sl_json *object, const char *old_owner);
void family_gone(struct manager *m, struct record *job);
struct standing {
    enum {
        STANDING_NOWHERE, /* nobody's business */
        STANDING_QUEUED,  /* has a Workload, and runs when that is admitted */
        STANDING_HELD,    /* may not even wait yet */
    } place;
    bool too_deep;                 /* held because its owners have too many owners */
    const struct record *ancestor; /* the topmost owner that a queue decides about and that is not done; NULL */
    char *queue;                   /* owned: of its nearest owner that has one, when it has none itself */
};
struct standing standing_of(const struct manager *m, const struct record *job, const struct sl_json *tree);
void standing_done(struct standing *s);
/* Held, or without a queue under an owner that has one: it stops, what it holds itself goes back, and it comes into
 * that queue. */
void hold_child(struct manager *m, struct record *job, struct record *wl, const struct sl_json *tree,
                const struct standing *s);

/* orphan.c */
bool known_owner(const struct sl_json *workload);                       /* owned by a kind of job that we run */
bool orphaned(const struct manager *m, const struct record *wl);        /* made for a job that is not there */
void sync_orphan(struct manager *m, struct record *wl);                 /* one look at a Workload without its job */
void reclaim(struct manager *m, struct record *job, struct record *wl); /* one that was left behind becomes its own */
/* A job that names a Workload made beforehand takes it over, unless it belongs to somebody else: the Workload, once it
 * is its own. */
struct record *adopt_prebuilt(struct manager *m, struct record *job, const char *name);
bool drop_finalizer(struct manager *m, struct record *wl, const struct sl_json *wl_tree); /* true when one was sent */

/* write.c */
/* Sends the status that `now` has over what the record holds; why: for the log. Does nothing when they are equal. */
enum write_kind { WRITE_STATUS, WRITE_ADMIT, WRITE_EVICT, WRITE_PENDING };
bool write_status(struct manager *m, struct record *wl, const struct sl_json *tree, const struct sl_json *now,
                  enum write_kind kind, struct lc_result *result);
void emit_event(struct manager *m, const char *controller, const char *api_version, const char *kind,
                const struct record *about, bool warning, const char *reason, const char *note);
/* One write under way; the answer finds its record by uid, since records come and go. */
struct write {
    struct manager *m;
    char *uid; /* of the record */
    bool job;
    enum write_kind kind;
    const char *what;                /* for the log */
    struct sl_json *said;            /* WRITE_PENDING: what is being said */
    char *event_reason, *event_note; /* said when it worked; NULL: nothing */
    struct record *deleted;          /* what an event about a deletion needs of it; NULL: no such event */
    struct lc_result result;         /* events and metrics of a status step */
};
struct record *write_record(const struct write *w);
void write_free(struct write *w);
/* Sends a merge patch of a record that nobody else is writing now; takes body. What the caller wants said when it
 * worked goes into the result. */
struct write *send_patch(struct manager *m, struct record *r, bool job, const char *subresource, struct sl_json *take,
                         const char *what);
void send_delete(struct manager *m, struct record *r, bool job, const char *propagation, const char *reason,
                 const char *note);
void retry_read(struct manager *m,
                struct record *r); /* the read after a failed write failed too, and its time has come again */
void job_event(struct manager *m, const struct record *job, bool warning, const char *reason, const char *note);
int64_t retry_delay_ms(unsigned retries);
const struct sl_resource *resource_for(const struct record *r, bool job);

/* pass.c */
void run_pass(struct manager *m);
void commit_notes(struct manager *m);
void reconcile_ledger(struct manager *m);
void observe_result(struct manager *m, const struct record *wl, const struct sl_workload *w, const struct lc_result *r);

/* queues.c */
void object_put(struct manager *m, const struct sl_resource *resource, const struct sl_json *object);
void object_gone(struct manager *m, const struct sl_resource *resource, const struct sl_json *object);
#define SL_LOCALQUEUE_READY "Ready"
/* The reason of its condition Active; cq: of the ClusterQueue it is of. */
const char *localqueue_reason(const struct object *o, const struct sl_queue_view *cq);
void publish_statuses(struct manager *m, bool all);
void drop_queue_gauges(void); /* of a replica that leads no more */
void publish_snapshot(struct manager *m);
void objects_done(struct manager *m);

#endif
