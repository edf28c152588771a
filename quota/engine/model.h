/*
 * Inside the engine: the quota tree, the queues and the books. Everything is owned by struct sl_engine and linked by
 * pointers; outcomes never depend on addresses. Names follow the scheduling reference (docs/termination.md explains
 * when it comes to rest).
 */
#ifndef SLUICE_ENGINE_MODEL_H
#define SLUICE_ENGINE_MODEL_H

#include "sluice/quota/engine/engine.h"

#include <string.h>

#include "sluice/base/map.h"

/* ---- interned names, reference counted: users choose them, so they must be able to go ---- */
struct res {
    char *name;
    uint64_t rank; /* FNV-1a of the name: order in which resources are decided */
    uint32_t id, refs;
};
struct flv {
    char *name;
    uint32_t id, refs;
    struct sl_flavor *obj; /* NULL: no such object */
};

/* ---- quota tree ---- */
struct cell { /* one flavor and resource at one node */
    struct flv *flavor;
    struct res *res;
    uint64_t key; /* flavor id << 32 | resource id */
    struct node *node;
    struct cell *up; /* same flavor and resource at the parent */
    int64_t nom, bl, ll;
    bool has_bl, has_ll;
    bool own;      /* in the node's own quotas */
    bool declared; /* own, or declared at a child: S has an entry */
    int64_t S, L, U, ceil;
    int64_t admitted; /* CQ: the part of U that belongs to admitted workloads */
    uint32_t refs;    /* CQ: workloads and LocalQueue counters that point here */
    uint32_t mark;
    uint32_t over;     /* children that use more than their quota */
    struct tops *tops; /* the largest holders of what is below, found in this run */
    uint64_t tops_run;
};

struct tops {
    struct {
        const struct wl *wl;
        int64_t amount;
    } top[3];
    size_t n_top, n;
};

struct node {
    char *name;
    bool is_cq, in_cycle;
    struct node *parent;
    struct node **kids; /* by name; Cohorts and CQs mixed */
    size_t n_kids, cap_kids;
    struct cell **cells; /* by key */
    size_t n_cells, cap_cells;
    double weight;
    int height;             /* 0 for a CQ */
    int depth;              /* 0 for a root */
    uint32_t n_sub;         /* Cohorts among the kids */
    uint32_t mark, on_path; /* scratch of searches: equal to the engine's mark when set */
    struct entry *best;     /* scratch of the fair order */
    uint32_t slot;
    struct tree *tree; /* NULL: below a cycle */
    struct lend {      /* what the node's children may borrow at most, by resource; computed when asked for */
        const struct res *res;
        int64_t amount;
    } * lends;
    uint32_t n_lends, cap_lends;
    struct node *stale_next;
    bool stale, want_flush;
};

struct tree { /* a root with everything below it: what one cycle looks at */
    struct node *root;
    struct cq **cqs; /* by name */
    size_t n_cqs;
    uint64_t cycle;
    uint64_t epoch;     /* moves with every event from outside */
    uint64_t usage_ver; /* moves with every change of usage or quotas */
    uint32_t n_nodes;   /* the tree goes with its last node */
    bool dirty, flush;
    bool has_ll; /* somebody lends less than everything */
    struct tree *next_dirty;
    bool stale_reasons; /* numbers have changed since reasons were told; in the engine's list until reasons_due */
    uint64_t told_ver;
    int64_t reasons_due;
    struct tree *next_stale;
    struct cq *ready; /* CQs with something in the heap */
    struct fight {    /* evictions of this epoch; pointers are only compared */
        const struct wl *by, *victim;
        unsigned times;
    } * fights;
    size_t n_fights, cap_fights;
};

struct cohort {
    struct node node;      /* first */
    struct sl_cohort *obj; /* NULL: only referenced */
};

struct cqflavor {
    struct flv *flavor;
    struct cell **cells; /* parallel to the group's resources */
};
struct cqgroup {
    struct res **res;
    size_t n_res;
    struct cqflavor *flavors;
    size_t n_flavors;
};

struct shape { /* everything that equal workloads share: requests, placement, priority */
    char *key;
    uint32_t id, refs;
    bool known;
    int64_t priority;
    size_t n_ps;
    struct shape_ps {
        int32_t count, spec_count, min_count;
        struct shape_req {
            struct res *res;
            int64_t per_pod, total; /* total = per_pod * count, saturating */
        } * reqs;                   /* by rank, then name */
        size_t n_reqs;
        bool simple; /* no tolerations, selectors or affinity */
    } * ps;
    bool partial;             /* some pod set may shrink */
    struct sl_json *requests; /* as a status shows them; made when first needed */
};

enum wl_where { WL_NOWHERE, WL_QUEUED, WL_SOLO, WL_MISPLACED, WL_BACKOFF, WL_HOLDING };
/* Why the last attempt did not admit; decides what the workload is told. */
enum wl_why {
    WHY_NEW,
    WHY_NOFIT,
    WHY_NO_CANDIDATES,
    WHY_WAITS_VICTIMS,
    WHY_OVERLAP,
    WHY_LOST,
    WHY_REJECTED,
    WHY_CHECK,
    WHY_NAMESPACE,
    WHY_PODS_READY,
    WHY_RETURN, /* its victim would take the quota back */
    WHY_HELD,   /* its preemptor goes first */
};

struct use {
    struct cell *cell;
    int64_t amount;
};

struct bookmark {
    uint64_t cycle, gen;
    uint32_t shape;
    size_t n;
    int16_t last[]; /* pod sets in order, resources in the shape's order */
};

struct wl {
    struct sl_workload *obj;
    struct shape *shape;
    struct lq *lq;
    struct wl *lq_prev, *lq_next; /* all workloads of the LocalQueue */
    struct cq *cq;                /* where it is queued or holds quota */
    struct klass *klass;
    struct bookmark *bookmark;
    struct use *use; /* while holding */
    int64_t ts;      /* queue timestamp */
    int64_t reserved_ms;
    uint64_t seq;  /* order of reservations */
    uint64_t told; /* hash of what it was told */
    int64_t told_ms;
    uint64_t told_ver;
    struct wl *tell_prev, *tell_next;
    struct wl *rival; /* WHY_OVERLAP, WHY_LOST: not used beyond the run */
    struct wl *foe;   /* the preemptor that waits for what this one gave up */
    struct wl *foe_prev, *foe_next, *victims;
    struct entry *entry; /* in the cycle that runs */
    uint64_t fought;     /* epoch in which it last evicted or was evicted */
    uint32_t pos;        /* in the class heap, the holders, the solo list or the backoff heap */
    uint16_t n_use;
    uint8_t where, why, tell; /* tell: 0 no, 1 at the end of the run, 2 when the interval is over */
    uint8_t told_why;         /* what the last words were about; WHY_NEW: not an attempt of its own */
    bool observed;            /* the API's object held quota when last seen; if not, what it holds was decided here */
    bool evict_sent;
    bool admitted; /* counts as admitted in the books */
    bool counted_admitted;
    bool not_ready;
    bool removed; /* in a simulation */
};

struct klass { /* equal workloads of one CQ */
    struct cq *cq;
    struct shape *shape;
    struct wl **heap; /* earliest first */
    uint32_t n, cap;
    uint32_t pos; /* in the CQ's heap */
    bool parked;  /* all of it is inadmissible until something changes */
    uint8_t why;
    struct wl *rep; /* whose verdict parked it */
    char *text;     /* what its members that were not tried are told; valid in one run */
    uint64_t text_run, text_hash;
};

struct holder {
    struct wl *wl;
    int64_t priority;
};

struct cq {
    struct node node; /* first */
    struct sl_clusterqueue *obj;
    struct cqgroup *groups;
    size_t n_groups;
    uint64_t gen;
    bool active;
    uint32_t refs; /* LocalQueues and workloads that name it */
    bool covers_pods;
    struct klass **heap; /* by best member; parked classes are not here */
    uint32_t n_heap, cap_heap;
    struct klass **table; /* open addressing by shape id */
    uint32_t n_table, cap_table;
    uint32_t n_parked;
    struct wl **solo; /* inadmissible one by one; moved back by a flush */
    uint32_t n_solo, cap_solo;
    struct wl **misplaced; /* namespace does not match */
    uint32_t n_misplaced, cap_misplaced;
    struct wl *sticky;
    struct wl *tried; /* the head of the heap that was told why it waits */
    int64_t sticky_generation;
    struct holder *holders;
    uint32_t n_holders, cap_holders;
    uint32_t n_admitted, n_pending, n_inadmissible;
    struct cq *ready_prev, *ready_next;
    bool is_ready;
    bool skipped;  /* what it tried last has workloads to preempt, but others went first */
    struct fq *fq; /* scratch of the fair search */
};

struct lq {
    char *key; /* ns/name */
    char *ns, *name;
    struct sl_localqueue *obj;
    struct cq *cq; /* the queue it names; referenced */
    struct wl *wls;
    uint32_t n_wls, n_pending, n_inadmissible;
    struct lq_use {
        struct cell *cell;
        int64_t reserved, used;
        uint32_t n;
    } * uses;
    size_t n_uses, cap_uses;
};

struct ns {
    char *name;
    struct sl_labels labels;
    bool exists;
};

struct undo {
    struct cell *cell;
    int64_t u;
};

struct sl_engine {
    struct sl_engine *self; /* readings may refresh what is derived */
    uint64_t run;
    struct sl_engine_config config;
    struct sl_map resources, flavors, cohorts, cqs, lqs, checks, namespaces, workloads, shapes;
    uint32_t next_res, next_flv, next_shape;
    uint32_t mark, path; /* generations of scratch marks */
    uint64_t seq;
    struct node *stale;
    struct tree *dirty_first, *dirty_last;
    struct tree *stale_first, *stale_last; /* by reasons_due */
    struct tree **trees;
    size_t n_trees, cap_trees;
    struct undo *undo;
    size_t n_undo, cap_undo;
    bool log_on;         /* usage changes are for undo_to */
    struct wl **backoff; /* heap by requeue time */
    uint32_t n_backoff, cap_backoff;
    struct wl *tell_first, *tell_last;     /* at the end of this run */
    struct wl *retell_first, *retell_last; /* in the order of told_ms */
    uint32_t n_not_ready;
    bool all_ready; /* since the last run the last holder got its pods ready or went */
    int64_t now_ms;
    struct arena *arena;
    char *key; /* scratch of shape_of */
    size_t n_key, cap_key;
    struct sl_decisions *out;
    size_t cap_out;
};

/* ---- arena: memory of one run ---- */
struct arena *arena_new(void);
void arena_free(struct arena *a);
void *arena_alloc(struct arena *a, size_t size); /* zeroed */
void arena_reset(struct arena *a);
void arena_trim(struct arena *a); /* reset, and nearly all memory given back */

/* ---- names.c ---- */
struct res *res_ref(struct sl_engine *e, const char *name);
void res_unref(struct sl_engine *e, struct res *r);
struct flv *flv_ref(struct sl_engine *e, const char *name);
void flv_unref(struct sl_engine *e, struct flv *f);
int res_order(const struct res *a, const struct res *b);
struct ns *ns_get(struct sl_engine *e, const char *name);

/* ---- texts of objects: NULL is empty ---- */
static inline const char *text_of(const char *s) {
    return s ? s : "";
}
static inline bool same_text(const char *a, const char *b) {
    return !strcmp(text_of(a), text_of(b));
}

/* ---- amounts ---- */
static inline int64_t max0(int64_t v) {
    return v > 0 ? v : 0;
}
static inline int64_t amt_add(int64_t a, int64_t b) {
    if (a == SL_UNLIMITED || b == SL_UNLIMITED)
        return SL_UNLIMITED;
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return r;
}
static inline int64_t amt_sub(int64_t a, int64_t b) {
    if (a == SL_UNLIMITED)
        return b == SL_UNLIMITED ? 0 : SL_UNLIMITED;
    if (b == SL_UNLIMITED)
        return INT64_MIN;
    int64_t r;
    if (__builtin_sub_overflow(a, b, &r))
        return b < 0 ? INT64_MAX : INT64_MIN;
    return r;
}

/* ---- tree.c ---- */
static inline struct cq *cq_of(struct node *n) {
    return (struct cq *)(void *)n;
}
static inline struct cohort *cohort_of(struct node *n) {
    return (struct cohort *)(void *)n;
}
static inline uint64_t cell_key(const struct flv *f, const struct res *r) {
    return (uint64_t)f->id << 32 | r->id;
}
static inline int64_t cell_local(const struct cell *c) {
    return max0(amt_sub(c->L, c->U));
}
struct cell *node_cell(const struct node *n, uint64_t key); /* NULL when there is none */
struct cell *node_cell_make(struct sl_engine *e, struct node *n, struct flv *f, struct res *r);
int64_t cell_available_raw(const struct cell *c);
static inline int64_t cell_available(const struct cell *c) {
    return max0(cell_available_raw(c));
}
static inline bool cell_borrows_with(const struct cell *c, int64_t v) { /* of a CQ: S is its nominal quota */
    return c->S < amt_add(c->U, v);
}
int cell_fit_level(const struct cell *c, int64_t v, bool *ret_smaller);
void usage_push(struct sl_engine *e, struct cell *c, int64_t v); /* logged for undo_to */
void usage_pull(struct sl_engine *e, struct cell *c, int64_t v);
static inline size_t undo_mark(const struct sl_engine *e) {
    return e->n_undo;
}
void undo_to(struct sl_engine *e, size_t mark);
void node_init(struct node *n, const char *name, bool is_cq);
void node_done(struct sl_engine *e, struct node *n);
void node_set_parent(struct sl_engine *e, struct node *n, struct node *parent);
void node_set_quotas(struct sl_engine *e, struct node *n, const struct sl_resource_group *groups, size_t n_groups);
void node_stale(struct sl_engine *e, struct node *n); /* its tree must be recomputed */
void trees_refresh(struct sl_engine *e);
void tree_dirty(struct sl_engine *e, struct tree *t);
struct cohort *cohort_ref(struct sl_engine *e, const char *name);
void cohort_sweep(struct sl_engine *e, struct cohort *c); /* frees it when nothing refers to it */
struct share {
    double ratio, weight;
    bool borrowing;
};
struct share node_share(const struct node *n);
double share_value(const struct share *s);
int share_compare(const struct share *a, const struct share *b);

/* ---- queue.c ---- */
void queue_put(struct sl_engine *e, struct wl *w);    /* into the heap (or its parked class) */
void queue_remove(struct sl_engine *e, struct wl *w); /* from wherever it waits */
void queue_park_class(struct sl_engine *e, struct klass *k, struct wl *rep, enum wl_why why);
void queue_park_solo(struct sl_engine *e, struct wl *w, bool misplaced);
void queue_backoff(struct sl_engine *e, struct wl *w);
struct wl *queue_head(const struct cq *q); /* next to be tried */
bool queue_flush(struct sl_engine *e, struct tree *t);
void queue_tell_all(struct sl_engine *e, struct cq *q);
void queue_flush_misplaced(struct sl_engine *e, struct cq *q);
bool wl_backoff_over(const struct sl_engine *e, const struct wl *w);
bool wl_before(const struct wl *a, const struct wl *b); /* heap order without the sticky rule */
void cq_ready_sync(struct cq *q);
void queue_class_sweep(struct sl_engine *e, struct cq *q);

/* ---- workload.c ---- */
struct shape *shape_of(struct sl_engine *e, const struct sl_workload *w, struct shape *before);
void shape_unref(struct sl_engine *e, struct shape *s);
int64_t wl_queue_time(const struct sl_engine *e, const struct sl_workload *w);
void wl_hold(struct sl_engine *e, struct wl *w, struct cq *q, const struct sl_admission *a); /* counts its usage */
bool wl_counts_as(const struct wl *w, const struct sl_workload *o); /* o would count exactly what w counts now */
void wl_release(struct sl_engine *e, struct wl *w);
void wl_set_admitted(struct sl_engine *e, struct wl *w, bool admitted);
bool wl_checks_ready(const struct wl *w, const struct cq *q, const struct sl_admission *a);
void wl_tell(struct sl_engine *e, struct wl *w);
void wl_retell(struct sl_engine *e, struct wl *w);
void wl_tell_off(struct sl_engine *e, struct wl *w);

/* ---- events.c ---- */
void raise_flush(struct sl_engine *e, struct node *n);
void cq_refresh_active(struct sl_engine *e, struct cq *q);
const char *cq_inactive(const struct sl_engine *e, const struct cq *q,
                        struct sl_buf *message); /* reason or NULL; message may be NULL */
void cq_unref(struct sl_engine *e, struct cq *q);
void cq_sweep(struct sl_engine *e, struct cq *q);
struct cq *cq_get(struct sl_engine *e, const char *name);
void new_epoch(struct node *n);
void queues_free(struct sl_engine *e);

/* ---- workloads.c ---- */
void replace_all(struct sl_engine *e, struct lq *l);
void workloads_free(struct sl_engine *e);

/* ---- assign.c ---- */
enum mode { MODE_NOFIT, MODE_NO_CANDIDATES, MODE_PREEMPT, MODE_RECLAIM, MODE_FIT };
struct pick {
    struct res *res;
    struct cqflavor *flavor; /* NULL: resource not covered or amount 0 undeclared */
    struct cell *cell;
    int64_t amount;
    int16_t tried;
    uint8_t mode;
    bool injected; /* the request for `pods`, which is not the workload's own */
    int level;
};
struct ps_assign {
    int32_t count;
    struct pick *picks;
    size_t n;
    uint8_t mode; /* MODE_NOFIT, MODE_PREEMPT (any of the middle ones) or MODE_FIT */
};
struct assignment {
    uint8_t mode; /* worst of the pod sets, folded to NOFIT, PREEMPT, FIT */
    int level;
    struct ps_assign *ps; /* n_ps of the shape; evaluated ones first */
    size_t n_ps, n_done;
    struct use *usage;
    size_t n_usage;
};
enum row_verdict {
    ROW_FITS,
    ROW_MISSING_FLAVOR,
    ROW_TAINT,
    ROW_AFFINITY,
    ROW_OVER_CEILING,
    ROW_SHORT,
    ROW_UNDECLARED,
    ROW_BAD_AFFINITY,
    ROW_CONFLICT
};
struct row { /* what an evaluation met, for messages */
    uint8_t verdict, mode;
    uint16_t ps;
    const char *flavor;
    struct res *res;
    struct cell *cell;
    int64_t asked, before; /* this pod set's request; what earlier pod sets of the workload took */
    const struct sl_taint *taint;
    const struct sl_label
        *label;          /* of the flavor; AFFINITY: that the node selector contradicts, NULL: it is not that */
    const char *against; /* the other value of its key */
    const char *other;   /* CONFLICT: the flavor that it does not go with, or a resource none of whose would do */
    bool chosen;         /* CONFLICT: it is a flavor */
};
struct trace {
    struct row *rows;
    size_t n, cap;
};
/* counts: per pod set, NULL for the full ones. */
struct assignment *assign(struct sl_engine *e, struct wl *w, const int32_t *counts, bool use_bookmark,
                          struct trace *trace);
void assignment_bookmark(struct sl_engine *e, struct wl *w, const struct assignment *a, uint64_t cycle);
bool bookmark_pending(const struct wl *w);
void bookmark_drop(struct wl *w);
void bookmark_drop_stale(struct sl_engine *e, struct wl *w, uint64_t cycle);
bool assignment_borrows(const struct assignment *a);

/* ---- preempt.c, fair.c ---- */
enum target_reason { TARGET_OWN, TARGET_RECLAIM, TARGET_RECLAIM_BORROWING, TARGET_FAIR };
struct target {
    struct wl *wl;
    uint8_t reason, kind;
};
struct targets {
    struct target *items;
    size_t n;
};
struct psearch {
    struct sl_engine *e;
    struct wl *wl;
    struct cq *cq;
    const struct use *R;
    size_t n_R;
    struct cell *const *contested;
    size_t n_contested;
    struct target *T;
    size_t n_T, cap_T;
    bool pushed; /* fair sharing: R is in the books */
};
struct targets find_targets(struct sl_engine *e, struct wl *w, const struct use *R, size_t n_R,
                            struct cell *const *contested, size_t n_contested);
struct targets assignment_targets(struct sl_engine *e, struct wl *w, const struct assignment *a);
bool wl_evicted(const struct wl *w);
bool policy_allows(enum sl_preempt_policy policy, const struct wl *preemptor, const struct wl *candidate);
bool wl_contests(const struct wl *c, struct cell *const *contested, size_t n);
int candidate_order(const struct sl_engine *e, const struct cq *own, const struct wl *a, const struct wl *b);
void search_remove(struct sl_engine *e, struct wl *w);
bool search_room(struct psearch *s, bool allow_borrow);
void search_take(struct psearch *s, struct wl *w, uint8_t reason);
struct targets search_fill_back(struct psearch *s, bool allow_borrow);
bool any_over(const struct psearch *s, const struct node *n);
bool within_quota(const struct node *n, struct cell *const *contested, size_t n_contested);
struct targets fair_targets(struct psearch *s);

/* ---- fight.c: nobody is evicted for nothing (docs/termination.md) ---- */
void fight_begin(struct sl_engine *e, struct tree *t, struct wl *by, struct wl *victim); /* by evicts victim */
void fight_over(struct wl *by); /* it was admitted, or does not wait for its victims any more */
void fight_cancel(struct tree *t, struct wl *victim);
void fight_forget(struct wl *w); /* it goes, or got its quota back */
unsigned fight_rounds(const struct tree *t, const struct wl *by, const struct wl *victim, unsigned *ret_same_way);
bool fight_returns(struct sl_engine *e, struct wl *w, const struct assignment *a, const struct targets *t);

/* ---- cycle.c ---- */
struct fair_key {
    struct share share;
    bool borrows; /* on something that the workload asks for */
};
struct entry {
    struct wl *wl;
    struct assignment *a;
    struct targets t;
    uint8_t result; /* 0: not processed yet */
    uint8_t why;
    struct fair_key *keys; /* fair sharing: at each ancestor, bottom-up */
    struct sl_admission *admission;
};
void nominate_one(struct sl_engine *e, struct wl *w, struct entry *x, bool use_bookmark);
/* Cycles until this tree is at rest. left: admissions that may still be made; false when it ran out. */
bool tree_run(struct sl_engine *e, struct tree *t, size_t *left);
struct fair_top { /* a child of the root with all that is below it */
    struct node *node;
    size_t met, met_end, entries, entries_end;
};
struct fair_order { /* of one cycle, in the arena */
    struct entry **list;
    size_t n;
    struct node **met; /* nodes on the way from entries to the root, by top, deepest first */
    size_t n_met;
    struct fair_top *tops;
    size_t n_tops;
    size_t *heap; /* of tops, the one with the next entry first */
    size_t n_heap;
    bool picked;
};
void fair_begin(struct sl_engine *e, struct fair_order *o, struct entry **list, size_t n);
/* The next entry; the one before must have been processed (its result set). NULL when none is left. */
struct entry *fair_next(struct sl_engine *e, struct fair_order *o);

/* ---- change.c: what is in the way, and what would admit a workload ---- */
/* The borrowingLimit on the way up that decides how much is available here; NULL: what there is decides. also_ties: a
 * limit that leaves just as much as there is counts too. */
struct cell *binding_limit(struct cell *c, bool also_ties);
/* The lendingLimit elsewhere that keeps most from here, idle or at all; NULL: none keeps anything. */
struct cell *keeping_limit(struct cell *c, bool idle, int64_t *ret_kept);
void changes(struct sl_engine *e, struct wl *w, const struct trace *t, struct sl_json *ret); /* members of explain's */

/* ---- explain.c ---- */
void tell_all(struct sl_engine *e);
void decide_evict(struct sl_engine *e, struct wl *by, struct wl *victim, uint8_t reason);

#define RETELL_MS 30000 /* numbers in a reason that was told are brought up to date no more often than this */
struct sl_decision *decide(struct sl_engine *e, enum sl_decision_kind kind, struct wl *w);

/* workloads.c */
bool wl_queueable(const struct sl_workload *o); /* may wait in a queue at all */

#endif
