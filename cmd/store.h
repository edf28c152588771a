/*
 * What the manager remembers of Jobs and Workloads: the object's compact text (trees are an order of magnitude larger)
 * and the few facts that indexes and timers need. Records live in maps by "namespace/name"; an older version of an
 * object never replaces a newer one, since the answer to our own write and the watch travel on different connections.
 */
#ifndef SLUICE_CMD_STORE_H
#define SLUICE_CMD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/base/json.h"
#include "sluice/base/map.h"

struct sl_jobkind;

struct record {
    char *key, *ns, *name, *uid, *rv; /* key: "ns/name" */
    char *text;
    size_t len;
    /* work */
    bool dirty;          /* in the work queue */
    bool busy;           /* one write is under way; more work waits for its answer */
    bool unread;         /* the write failed, and reading the object again too; once more at its deadline */
    bool deciding;       /* that write is a decision of the engine, which already counts it */
    bool evict_again;    /* the engine has decided to evict it meanwhile; decided anew with the answer */
    bool gone;           /* deleted at the API server; kept, with its quota, only until its job has stopped */
    int64_t deadline_ms; /* look again at this wall time; -1 */
    bool raced;          /* the last write lost against somebody else's */
    unsigned retries;    /* failed writes in a row */
    /* Jobs */
    const struct sl_jobkind *kind;
    int64_t first_seen_ms;
    int64_t created_ms; /* when its Workload was last asked for; 0: never */
    char *wants;        /* "ns/name" of the Workload made beforehand that it names, NULL */
    /* both */
    char *owner_uid, *owner_kind, *owner_name; /* controller reference, NULL */
    bool owner_known;                          /* it is to a kind of job that we run */
    /* Workloads */
    bool left_behind; /* made for a job, whose reference was taken from it; owner_uid is the one it had */
    bool owner_gone;  /* for certain */
    bool in_engine;
    int64_t orphan_since_ms;        /* its owner is gone since; 0: not yet */
    bool finished, holds, admitted; /* as its status says */
    char *queue;                    /* spec.queueName */
    char *reserved_in;              /* status.admission.clusterQueue, NULL */
    char *told;                     /* reason that it has for waiting, as its object says; NULL: none */
    struct sl_json *said;           /* why it waits, as decided and not yet told: {reason, message, requests}; NULL */
    bool lined_up, turn;            /* for being told; its turn has come (words.c) */
    char *failed_to_start;          /* the job could not be started; to be written */
};

struct store {
    struct sl_map by_key; /* struct record */
    struct sl_map by_uid; /* struct record */
    struct sl_map graves; /* uid -> time of death as intptr, so that a late answer does not raise the dead */
    size_t text_bytes;
};

void store_done(struct store *s);
/* New or newer version; *ret_new tells whether something changed. Returns the record, or NULL when the object is dead
 * or older than what is known (then *ret_new is false). A different uid under the same key replaces: call store_remove
 * first for the old one. */
struct record *store_put(struct store *s, const struct sl_json *object, bool *ret_new);
struct record *store_get(const struct store *s, const char *ns, const char *name);
struct record *store_by_uid(const struct store *s, const char *uid);
bool store_knew(const struct store *s, const char *uid);              /* it was removed, not long ago */
void store_remove(struct store *s, struct record *r, int64_t now_ms); /* frees r */
void store_bury_old(struct store *s, int64_t now_ms);                 /* forgets graves older than 10 minutes */
struct sl_json *record_tree(const struct record *r);                  /* owned */
/* Kubernetes' order of resourceVersions: longer is newer, then lexical. */
int compare_versions(const char *a, const char *b);

#endif
