/* Paths are few and fixed, requests many: one lookup by hash, with the key that strangers cannot guess. */
#include "route.h"

int sl_routes_init(struct sl_routes *r, const struct sl_route *rows, size_t count, struct sl_err *err) {
    *r = (struct sl_routes){.by_path = SL_MAP_INIT, .rows = rows};
    for (size_t i = 0; i < count; i++) {
        const char *path = rows[i].path;
        int rc = 0;
        if (!path || *path != '/')
            rc = sl_err_set(err, SL_INVALID, "route %zu: the path must begin with a slash", i);
        else if (rows[i].kind == SL_ROUTE_REVIEW ? !rows[i].review : !rows[i].convert)
            rc = sl_err_set(err, SL_INVALID, "route %s: no handler", path);
        else if (sl_map_set(&r->by_path, path, (void *)(i + 1)))
            rc = sl_err_set(err, SL_INVALID, "route %s: given twice", path);
        if (rc) {
            sl_routes_done(r);
            return rc;
        }
    }
    return 0;
}

void sl_routes_done(struct sl_routes *r) {
    sl_map_done(&r->by_path, NULL);
}

const struct sl_route *sl_routes_find(const struct sl_routes *r, const char *path) {
    size_t i = (size_t)sl_map_get(&r->by_path, path);
    return i ? &r->rows[i - 1] : NULL;
}
