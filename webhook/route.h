/* The route table, checked once and looked up by path. */
#ifndef SLUICE_WEBHOOK_ROUTE_H
#define SLUICE_WEBHOOK_ROUTE_H

#include "sluice/base/map.h"
#include "sluice/webhook/server.h"

struct sl_routes {
    struct sl_map by_path; /* path -> index of the row + 1 */
    const struct sl_route *rows;
};
/* SL_INVALID names the row that is wrong: no path, no function, or a path twice. */
SL_MUST int sl_routes_init(struct sl_routes *r, const struct sl_route *rows, size_t count, struct sl_err *err);
void sl_routes_done(struct sl_routes *r);
const struct sl_route *sl_routes_find(const struct sl_routes *r, const char *path); /* NULL: none */

#endif
