/*
 * Hash map from byte strings to pointers; keyed SipHash-2-4 with a per-process random key, since users choose names.
 * Open addressing; iteration order is insertion order as long as nothing is removed, and never something to depend on.
 * The map copies keys; values stay the caller's.
 */
#ifndef SLUICE_BASE_MAP_H
#define SLUICE_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_map_entry {
    char *key; /* NULL: free or removed */
    void *value;
    uint64_t hash;
};
struct sl_map {
    struct sl_map_entry *entries;
    uint32_t *index;
    size_t count, used, cap; /* live entries; slots of entries used; capacity of entries */
    size_t index_cap;
};

#define SL_MAP_INIT                                                                                                    \
    { NULL, NULL, 0, 0, 0, 0 }

void sl_map_done(struct sl_map *m, void (*free_value)(void *)); /* free_value may be NULL */
void *sl_map_get(const struct sl_map *m, const char *key);      /* NULL when absent; NULL key gives NULL */
bool sl_map_has(const struct sl_map *m, const char *key);
void *sl_map_set(struct sl_map *m, const char *key, void *value); /* returns the value that was replaced, or NULL */
void *sl_map_del(struct sl_map *m, const char *key);              /* returns the removed value, or NULL */
void sl_map_clear(struct sl_map *m, void (*free_value)(void *));
/* Keys in ascending byte order; array of m->count borrowed keys, release the array with free(). */
const char **sl_map_sorted_keys(const struct sl_map *m);

/* The first live entry, or the one after e; NULL when there is none. */
static inline struct sl_map_entry *sl_map_next(const struct sl_map *m, const struct sl_map_entry *e) {
    for (size_t i = e ? (size_t)(e - m->entries) + 1 : 0; i < m->used; i++)
        if (m->entries[i].key)
            return &m->entries[i];
    return NULL;
}
/* For each live entry e (e->key, e->value). Removing the current entry is allowed, adding is not. */
#define SL_MAP_EACH(m, e) for (struct sl_map_entry *e = sl_map_next((m), NULL); e; e = sl_map_next((m), e))

uint64_t sl_siphash(const void *data, size_t len); /* per-process key */

#endif
