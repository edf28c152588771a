/*
 * Parts of the in-memory cluster that its files share. Stored trees are never changed in place: a write builds a new
 * tree and swaps the pointer, so that watches, replies and reviews may hold references to what was current when they
 * were made.
 */
#ifndef SLUICE_KUBE_MEMORY_INTERNAL_H
#define SLUICE_KUBE_MEMORY_INTERNAL_H

#include "sluice/base/map.h"
#include "sluice/kube/memory.h"

struct mem;
struct mem_watch;

struct mem_table {
    char *id; /* group/plural: versions of one resource share a table, without conversion */
    const struct sl_resource *resource;
    struct sl_map
        objects; /* namespace \x01 name -> struct mem_object, so that sorted keys are sorted by namespace, then name */
    struct mem_object **sorted; /* the same by key; NULL: to be made again */
    struct mem_watch **watches;
    size_t watch_count, watch_cap;
    bool has_status, has_generation;
};

struct mem_object {
    struct mem_table *table;
    struct sl_json *json;
    struct sl_map applied; /* field manager \x01 subresource -> tree of what it applied last */
    char *key, *uid;
    bool job_queued; /* a look at this Job is due */
    bool running;    /* Job player: pods "run" */
    uint64_t run;    /* number of the present run; timers of earlier ones are void */
};

struct mem_uids { /* objects that name one owner */
    struct mem_object **items;
    size_t count, cap;
};

enum mem_kind {
    MEM_REQUEST,    /* execute a client's request */
    MEM_REPLY,      /* answer it */
    MEM_EVENT,      /* deliver one event to one watch */
    MEM_LIST,       /* (re)list for one watch */
    MEM_GC_OWNER,   /* the object with uid `text` is gone: look at its dependents */
    MEM_GC_OBJECT,  /* check the owners of the object with uid `text` */
    MEM_JOB,        /* Job player: look at the Job with uid `text` */
    MEM_JOB_FINISH, /* Job player: second write, Complete or Failed after its forerunner */
    MEM_JOB_TIMER,  /* Job player: pods of run `number` are done */
    MEM_JOB_TTL,    /* Job player: delete a finished Job */
};

struct mem_call { /* a client's request with its texts copied, and later its reply */
    struct sl_request r;
    char *chain; /* key of the requests on the same object in the same lane; NULL: not ordered */
    struct mem_call *next;
    int code, status;
    bool unknown;
    struct sl_json *object;
    char *text;
};

struct mem_item {
    int64_t due;
    uint64_t seq; /* ties are broken by age */
    enum mem_kind kind;
    struct mem_call *call;
    struct mem_watch *watch;
    enum sl_watch_what what;
    struct sl_json *json;
    char *key, *text;
    uint64_t number; /* epoch of the watch, run of the Job */
};

struct mem_watch {
    struct sl_watch base;
    struct mem_table *table;
    const struct sl_resource *resource;
    char *ns, *label_selector, *field_selector;
    bool metadata_only, synced, listing;
    sl_watch_fn fn;
    void *payload;
    struct sl_map known; /* key -> tree that was delivered last */
    uint64_t epoch;      /* events queued under an earlier epoch are void: the stream they came in was cut */
    int64_t last_due, heard_ms, cut_until;
};

struct mem {
    struct sl_cluster base;
    struct sl_memory_options options;
    struct sl_memory_faults faults;
    int64_t start_wall_ms, now; /* now: virtual monotonic time */
    uint64_t random, seq, rv;
    struct mem_table **tables;
    size_t table_count, table_cap;
    struct sl_map by_uid;     /* uid -> struct mem_object */
    struct sl_map dependents; /* owner's uid -> struct mem_uids */
    struct mem_item **heap;
    size_t heap_count, heap_cap, busy; /* busy: items that are not timers */
    struct mem_watch **watches;
    size_t watch_count, watch_cap;
    struct sl_map chains; /* chain key -> struct mem_call that is under way, with the waiting ones linked behind it */
    unsigned pending[SL_LANE__COUNT];
    bool closing;
};

/* memory.c */
uint64_t mem_random(struct mem *m);
bool mem_draw(struct mem *m, unsigned per_mille);
int64_t mem_delay(struct mem *m);
int64_t mem_wall_ms(const struct mem *m);
struct mem_item *mem_push(struct mem *m, enum mem_kind kind,
                          int64_t due); /* seq and due set; fill in the rest at once */
/* Tells the watches of the table that key went from old to now; either may be NULL. */
void mem_notify(struct mem *m, struct mem_table *t, const char *key, const struct sl_json *old,
                const struct sl_json *now);

/* memory_store.c */
struct mem_write {
    enum sl_verb verb;
    const struct sl_resource *resource;
    const char *ns, *name, *subresource, *query;
    const struct sl_json *body;
    const char *field_manager;
    bool force;
    const char *user; /* for the review */
};
#define MEM_USER_CLIENT "system:serviceaccount:sluice-system:sluice-manager"
#define MEM_USER_ADMIN  "kubernetes-admin"
#define MEM_USER_JOBS   "system:serviceaccount:kube-system:job-controller"
#define MEM_USER_GC     "system:serviceaccount:kube-system:generic-garbage-collector"
/* Does a request. *ret: owned reference to the stored (or deleted, or listed) tree, which must not be changed. Returns
 * as struct sl_reply.code; *ret_status gets the HTTP status in either case. */
int mem_do(struct mem *m, const struct mem_write *w, struct sl_json **ret, int *ret_status, struct sl_err *err);
struct mem_table *mem_table(struct mem *m, const struct sl_resource *r);
struct mem_object *mem_find(struct mem *m, const struct sl_resource *r, const char *ns, const char *name);
/* All objects by key; borrowed until an object comes or goes. */
struct mem_object *const *mem_sorted(struct mem_table *t);
char *mem_key(const char *ns, const char *name); /* free() */
bool mem_has_finalizer(const struct sl_json *object, const char *name);
void mem_store_free(struct mem *m);

/* memory_gc.c */
void mem_gc_later(struct mem *m, enum mem_kind kind, const char *uid); /* one of the MEM_GC kinds */
void mem_gc_owner(struct mem *m, const char *uid);    /* it is gone or being deleted: look at its dependents */
void mem_gc_object(struct mem *m, const char *uid);   /* are its owners alive? */
void mem_gc_namespace(struct mem *m, const char *ns); /* it is gone: delete what was in it */

/* memory_apply.c: server-side apply, simplified: conditions, podSets and the like are lists with a key, other lists are
 * atomic. */
/* What of a body counts for apply on this subresource: without identity, and without (or only) status. Owned. */
struct sl_json *mem_applied(const struct sl_json *body, const char *subresource, bool has_status);
/* Takes live and changes it: removes what `before` had, `applied` has not and `kept` does not hold, then merges
 * `applied`. */
struct sl_json *mem_apply(struct sl_json *live, const struct sl_json *before, const struct sl_json *applied,
                          const struct sl_json *kept);
/* Merges `from` into `*into`. */
void mem_apply_merge(struct sl_json *into, const struct sl_json *from);
/* First field on which both trees have a say and differ; false when there is none. path gets its name. */
bool mem_apply_conflict(const struct sl_json *mine, const struct sl_json *theirs, struct sl_buf *path);
/* Removes from record what `now` says differently, and with absent_too also what it does not hold at all. */
void mem_apply_disown(struct sl_json *record, const struct sl_json *now, bool absent_too);

/* memory_job.c */
void mem_job_changed(struct mem *m, struct mem_object *o);
void mem_job_run(struct mem *m, const struct mem_item *item);

#endif
