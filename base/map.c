/*
 * Entries stand in one array in insertion order; an open-addressing index of 1-based entry numbers finds them. Removal
 * leaves a hole (key NULL) and a tombstone in the index; both vanish at the next rebuild. Invariant: index_cap is a
 * power of two and at least 4/3 of used, so that probing ends.
 */
#include "sluice/base/map.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "sluice/base/mem.h"

#define TOMBSTONE UINT32_MAX

static uint64_t sip_key[2];
static pthread_once_t sip_once = PTHREAD_ONCE_INIT;

static void sip_init(void) {
    if (getrandom(sip_key, sizeof sip_key, 0) != (ssize_t)sizeof sip_key)
        abort(); /* without entropy every user could choose collisions */
}

#define ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
#define SIPROUND                                                                                                       \
    do {                                                                                                               \
        v0 += v1;                                                                                                      \
        v1 = ROTL(v1, 13);                                                                                             \
        v1 ^= v0;                                                                                                      \
        v0 = ROTL(v0, 32);                                                                                             \
        v2 += v3;                                                                                                      \
        v3 = ROTL(v3, 16);                                                                                             \
        v3 ^= v2;                                                                                                      \
        v0 += v3;                                                                                                      \
        v3 = ROTL(v3, 21);                                                                                             \
        v3 ^= v0;                                                                                                      \
        v2 += v1;                                                                                                      \
        v1 = ROTL(v1, 17);                                                                                             \
        v1 ^= v2;                                                                                                      \
        v2 = ROTL(v2, 32);                                                                                             \
    } while (0)

/* SipHash-1-3: the rounds that tables in memory need; nobody sees a hash from outside. */
uint64_t sl_siphash(const void *data, size_t len) {
    pthread_once(&sip_once, sip_init);
    const unsigned char *p = data;
    uint64_t v0 = 0x736f6d6570736575ull ^ sip_key[0], v1 = 0x646f72616e646f6dull ^ sip_key[1];
    uint64_t v2 = 0x6c7967656e657261ull ^ sip_key[0], v3 = 0x7465646279746573ull ^ sip_key[1];
    size_t left = len;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t m;
        memcpy(&m, p, 8);
        v3 ^= m;
        SIPROUND;
        v0 ^= m;
    }
    uint64_t last = (uint64_t)len << 56;
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)p[i] << (8 * i);
    v3 ^= last;
    SIPROUND;
    v0 ^= last;
    v2 ^= 0xff;
    SIPROUND;
    SIPROUND;
    SIPROUND;
    return v0 ^ v1 ^ v2 ^ v3;
}

/* Slot of key, or where it would go. *found says which. */
static size_t find_slot(const struct sl_map *m, const char *key, uint64_t hash, bool *found) {
    size_t mask = m->index_cap - 1, slot = hash & mask, free_slot = SIZE_MAX;
    for (;; slot = (slot + 1) & mask) {
        uint32_t at = m->index[slot];
        if (at == 0) {
            *found = false;
            return free_slot != SIZE_MAX ? free_slot : slot;
        }
        if (at == TOMBSTONE) {
            if (free_slot == SIZE_MAX)
                free_slot = slot;
            continue;
        }
        const struct sl_map_entry *e = &m->entries[at - 1];
        if (e->hash == hash && !strcmp(e->key, key)) {
            *found = true;
            return slot;
        }
    }
}

static void rebuild(struct sl_map *m) {
    size_t want = m->count + m->count / 2 + 8, cap = 16;
    while (cap < want * 2)
        cap *= 2;
    size_t live = 0;
    for (size_t i = 0; i < m->used; i++)
        if (m->entries[i].key)
            m->entries[live++] = m->entries[i];
    m->used = live;
    m->cap = want;
    m->entries = sl_xrealloc(m->entries, m->cap, sizeof *m->entries);
    free(m->index);
    m->index = sl_xalloc(cap * sizeof *m->index);
    m->index_cap = cap;
    for (size_t i = 0; i < live; i++) {
        size_t slot = m->entries[i].hash & (cap - 1);
        while (m->index[slot])
            slot = (slot + 1) & (cap - 1);
        m->index[slot] = (uint32_t)(i + 1);
    }
}

void *sl_map_get(const struct sl_map *m, const char *key) {
    if (!m->count || !key)
        return NULL;
    bool found;
    size_t slot = find_slot(m, key, sl_siphash(key, strlen(key)), &found);
    return found ? m->entries[m->index[slot] - 1].value : NULL;
}

bool sl_map_has(const struct sl_map *m, const char *key) {
    bool found = false;
    if (m->count && key)
        find_slot(m, key, sl_siphash(key, strlen(key)), &found);
    return found;
}

void *sl_map_set(struct sl_map *m, const char *key, void *value) {
    if (m->used == m->cap)
        rebuild(m);
    bool found;
    uint64_t hash = sl_siphash(key, strlen(key));
    size_t slot = find_slot(m, key, hash, &found);
    if (found) {
        struct sl_map_entry *e = &m->entries[m->index[slot] - 1];
        void *old = e->value;
        e->value = value;
        return old;
    }
    m->entries[m->used] = (struct sl_map_entry){.key = sl_xstrdup(key), .value = value, .hash = hash};
    m->index[slot] = (uint32_t)++m->used;
    m->count++;
    return NULL;
}

void *sl_map_del(struct sl_map *m, const char *key) {
    if (!m->count || !key)
        return NULL;
    bool found;
    size_t slot = find_slot(m, key, sl_siphash(key, strlen(key)), &found);
    if (!found)
        return NULL;
    struct sl_map_entry *e = &m->entries[m->index[slot] - 1];
    void *old = e->value;
    free(e->key);
    *e = (struct sl_map_entry){NULL, NULL, 0};
    m->index[slot] = TOMBSTONE;
    m->count--;
    return old;
}

void sl_map_clear(struct sl_map *m, void (*free_value)(void *)) {
    SL_MAP_EACH (m, e) {
        free(e->key);
        if (free_value)
            free_value(e->value);
    }
    free(m->entries);
    free(m->index);
    *m = (struct sl_map)SL_MAP_INIT;
}

void sl_map_done(struct sl_map *m, void (*free_value)(void *)) {
    sl_map_clear(m, free_value);
}

static int compare_keys(const void *a, const void *b) {
    const char *x, *y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return strcmp(x, y);
}

const char **sl_map_sorted_keys(const struct sl_map *m) {
    const char **keys = sl_xalloc((m->count + 1) * sizeof *keys);
    size_t n = 0;
    SL_MAP_EACH (m, e)
        keys[n++] = e->key;
    qsort(keys, n, sizeof *keys, compare_keys);
    return keys;
}
