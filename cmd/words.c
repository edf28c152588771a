/*
 * When a waiting Workload is told what it waits for. Each admission changes the numbers in the reasons of all that wait
 * beside it, and what an API server can write is the scarcest thing of all: told at once, they would take most of it
 * from the admissions themselves. So a reason is told at once, and other numbers for the same reason when quota has
 * been at rest for a moment; where it never is, each gets its turn, a few a second.
 */
#include <stdlib.h>
#include <string.h>

#include "manager.h"
#include "sluice/base/mem.h"

#define QUIET_MS 1500  /* without admission, eviction and return of quota: everybody is told */
#define STALE_MS 10000 /* otherwise numbers may be that old before it is their turn */
#define GAP_MS   50    /* between two turns */

void words_moved(struct manager *m) {
    m->moved_ms = sl_cluster_mono_ms(m->c);
}

static bool quiet(const struct manager *m) {
    return sl_cluster_mono_ms(m->c) - m->moved_ms >= QUIET_MS;
}

static bool only_numbers(const struct record *wl, const char *reason) {
    return wl->told && !strcmp(wl->told, reason);
}

static void line_up(struct manager *m, struct record *wl) {
    if (wl->lined_up)
        return; /* newer words keep the place of older ones */
    wl->lined_up = true;
    if (m->word_head && m->word_head * 2 >= m->n_words) { /* as much gone as is left */
        m->n_words -= m->word_head;
        memmove(m->words, m->words + m->word_head, m->n_words * sizeof *m->words);
        m->word_head = 0;
    }
    SL_GROW(m->words, m->cap_words, m->n_words);
    m->words[m->n_words++] = (struct words){sl_xstrdup(wl->uid), sl_cluster_mono_ms(m->c)};
}

struct sl_json *words_new(const char *reason, const char *message, const struct sl_json *requests) {
    struct sl_json *said = sl_json_new_object();
    sl_json_set_str(said, "reason", reason);
    sl_json_set_str(said, "message", message);
    if (requests)
        sl_json_set(said, "requests", sl_json_copy(requests));
    return said;
}

bool words_keep(struct manager *m, struct record *wl, const struct sl_decision *d) {
    bool later = only_numbers(wl, d->reason) && !quiet(m);
    if (!wl->busy && !later)
        return false;
    sl_json_unref(wl->said);
    wl->said = words_new(d->reason, d->message, d->requests);
    if (later && !wl->turn)
        line_up(m, wl);
    else if (later)
        mark_pair(m, wl); /* its turn has come already: put back in line, it could wait for ever */
    return true;
}

struct sl_json *words_take(struct record *wl) {
    wl->turn = false;
    return SL_TAKE(wl->said);
}

bool words_may_be_told(const struct record *wl) {
    return wl->said && (!wl->lined_up || !only_numbers(wl, sl_json_get_str(wl->said, "reason", "")));
}

/* When the first in line has its turn (mono); INT64_MAX: nobody waits for one. */
int64_t words_due_ms(const struct manager *m) {
    if (m->word_head == m->n_words)
        return INT64_MAX;
    int64_t rest = m->moved_ms + QUIET_MS, turn = m->words[m->word_head].since_ms + STALE_MS;
    if (turn < m->word_told_ms + GAP_MS)
        turn = m->word_told_ms + GAP_MS;
    return rest < turn ? rest : turn;
}

void words_tell(struct manager *m) {
    int64_t now = sl_cluster_mono_ms(m->c);
    while (words_due_ms(m) <= now) {
        SL_AUTO_FREE char *uid = m->words[m->word_head++].uid;
        struct record *wl = store_by_uid(&m->workloads, uid);
        if (!wl)
            continue;
        wl->lined_up = false;
        if (!wl->said)
            continue; /* it was told something else meanwhile, or waits no more */
        wl->turn = true;
        mark_pair(m, wl);
        m->word_told_ms = now;
    }
}

void words_anew(struct manager *m) {
    SL_MAP_EACH (&m->workloads.by_key, e) {
        struct record *wl = e->value;
        if (!wl->in_engine || wl->holds || wl->gone || wl->deciding)
            continue;
        sl_json_unref(words_take(wl));
        sl_engine_del_workload(m->engine, wl->uid); /* or the engine keeps silent about what it has said already */
        feed_engine(m, wl);
    }
}

void words_done(struct manager *m) {
    for (size_t i = m->word_head; i < m->n_words; i++)
        free(m->words[i].uid);
    free(m->words);
}
