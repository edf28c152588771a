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
/* Of a Job, with or without errors: fields that the API does not have, and which was meant. */
void advice_on_fields(const struct sl_json *object, struct sl_fielderrs *warnings);
/* How many characters have to be put in, taken out or replaced to make b of a; both of at most so many bytes. */
#define ADVICE_NAME_MAX 63
size_t advice_distance(const char *a, const char *b);
/* Of a manifest without errors. */
void advice_on(const struct advice *a, const struct sl_json *object, struct sl_fielderrs *warnings);

#endif
