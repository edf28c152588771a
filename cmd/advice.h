/* What an API server takes and what yet does nothing: advice of `sluice lint` about manifests that belong together. */
#ifndef SLUICE_CMD_ADVICE_H
#define SLUICE_CMD_ADVICE_H

#include "sluice/base/map.h"
#include "sluice/cmd/manifests.h"

struct advice {
    struct sl_map given; /* "KIND", "KIND\nNAME" or "KIND\nNAMESPACE\nNAME" of what was given */
};
/* Looks at all manifests once: whether something refers to nothing is told only of kinds that are among them. */
void advice_init(struct advice *a, const struct sl_manifests *manifests);
void advice_done(struct advice *a);
/* Of a manifest without errors. */
void advice_on(const struct advice *a, const struct sl_json *object, struct sl_fielderrs *warnings);

#endif
