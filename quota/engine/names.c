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
struct arena {
    struct chunk *first;
};

struct arena *arena_new(void) { return sl_xalloc(sizeof(struct arena)); }

void arena_free(struct arena *a) {
    if (!a)
        return;
    for (struct chunk *c = a->first, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(a);
}

void *arena_alloc(struct arena *a, size_t size) {
    size = (size + 15) & ~(size_t)15;
    struct chunk *c = a->first;
    if (!c || c->cap - c->used < size) {
        size_t cap = size > 65536 ? size : 65536;
        c = malloc(sizeof *c + cap);
        SL_ASSERT(c);
        c->used = 0;
        c->cap = cap;
        c->next = a->first;
        a->first = c;
    }
    void *p = c->data + c->used;
    c->used += size;
    memset(p, 0, size);
    return p;
}

/* Keeps one chunk so that a quiet engine allocates nothing. */
void arena_reset(struct arena *a) {
    struct chunk *keep = NULL;
    for (struct chunk *c = a->first, *next; c; c = next) {
        next = c->next;
        if (!keep && c->cap == 65536)
            keep = c;
        else
            free(c);
    }
    a->first = keep;
    if (keep) {
        keep->next = NULL;
        keep->used = 0;
    }
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
    if (!r || --r->refs)
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
    if (!f || --f->refs)
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

struct ns *ns_get(struct sl_engine *e, const char *name) { return sl_map_get(&e->namespaces, name); }
