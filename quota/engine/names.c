/* Interned names and the memory of a run. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/base/mem.h"

struct chunk {
    struct chunk *next;
    size_t used, cap;
    _Alignas(16) unsigned char data[];
};
#define CHUNK 30000 /* frees below the size at which the allocator tidies up everything */

struct arena {
    struct chunk *first; /* the one in use, then older ones */
    struct chunk *spare;
};

struct arena *arena_new(void) {
    return sl_xalloc(sizeof(struct arena));
}

static void chunks_free(struct chunk *c) {
    for (struct chunk *next; c; c = next) {
        next = c->next;
        free(c);
    }
}

void arena_free(struct arena *a) {
    if (!a)
        return;
    chunks_free(a->first);
    chunks_free(a->spare);
    free(a);
}

void *arena_alloc(struct arena *a, size_t size) {
    size = (size + 15) & ~(size_t)15;
    struct chunk *c = a->first;
    if (!c || c->cap - c->used < size) {
        if (size <= CHUNK && a->spare) {
            c = a->spare;
            a->spare = c->next;
        } else {
            size_t cap = size > CHUNK ? size : CHUNK;
            c = malloc(sizeof *c + cap);
            SL_ASSERT(c);
            c->cap = cap;
        }
        c->used = 0;
        c->next = a->first;
        a->first = c;
    }
    void *p = c->data + c->used;
    c->used += size;
    memset(p, 0, size);
    return p;
}

/* Keeps what is of the usual size, so that a busy engine does not allocate; sl_engine_run gives it back. */
void arena_reset(struct arena *a) {
    for (struct chunk *c = a->first, *next; c; c = next) {
        next = c->next;
        if (c->cap != CHUNK) {
            free(c);
            continue;
        }
        c->next = a->spare;
        a->spare = c;
    }
    a->first = NULL;
}

void arena_trim(struct arena *a) {
    arena_reset(a);
    if (!a->spare)
        return;
    chunks_free(a->spare->next);
    a->spare->next = NULL;
}

static uint64_t fnv1a(const char *s) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++) {
        h ^= (unsigned char)*s;
        h *= 0x100000001b3u;
    }
    return h;
}

struct res *res_ref(struct sl_engine *e, const char *name) {
    struct res *r = sl_map_get(&e->resources, name);
    if (!r) {
        r = sl_xalloc(sizeof *r);
        r->name = sl_xstrdup(name);
        r->rank = fnv1a(name);
        r->id = ++e->next_res;
        sl_map_set(&e->resources, name, r);
    }
    r->refs++;
    return r;
}

void res_unref(struct sl_engine *e, struct res *r) {
    if (--r->refs)
        return;
    sl_map_del(&e->resources, r->name);
    free(r->name);
    free(r);
}

struct flv *flv_ref(struct sl_engine *e, const char *name) {
    struct flv *f = sl_map_get(&e->flavors, name);
    if (!f) {
        f = sl_xalloc(sizeof *f);
        f->name = sl_xstrdup(name);
        f->id = ++e->next_flv;
        sl_map_set(&e->flavors, name, f);
    }
    f->refs++;
    return f;
}

void flv_unref(struct sl_engine *e, struct flv *f) {
    if (--f->refs)
        return;
    sl_map_del(&e->flavors, f->name);
    sl_flavor_free(f->obj);
    free(f->name);
    free(f);
}

int res_order(const struct res *a, const struct res *b) {
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return strcmp(a->name, b->name);
}

struct ns *ns_get(struct sl_engine *e, const char *name) {
    return sl_map_get(&e->namespaces, name);
}
