/*
 * Who may read /metrics, as the API server says: a bearer token is shown to it (TokenReview), and its owner must be
 * allowed to `get` the path (SubjectAccessReview), which is what Prometheus is granted for every component of a
 * cluster. Verdicts are kept for a minute; whoever was let in is let in for ten while it is asked again, so that
 * metrics are there when the API server is not. Tokens stay in memory and are written nowhere.
 *
 * The metrics thread asks and waits; the loop thread talks to the API server.
 */
#ifndef SLUICE_CMD_SCRAPERS_H
#define SLUICE_CMD_SCRAPERS_H

#include "sluice/kube/cluster.h"

struct scrapers;

struct scrapers *scrapers_new(struct sl_cluster *cluster);
/* Any thread but the loop's. payload: the struct scrapers; token: what the client showed, NULL when nothing. The HTTP
 * status: 200, 401 (no token, or not a valid one), 403 (valid, but not allowed), 503 (the API server did not say so in
 * 4 s, or too many tokens at once). */
int scrapers_check(void *payload, const char *token);
void scrapers_tick(struct scrapers *s);  /* loop thread: asks what is to be asked */
void scrapers_close(struct scrapers *s); /* any thread: whoever waits, or comes later, gets 503 */
/* After the cluster's end (its answers come here) and the metrics server's. NULL is fine. */
void scrapers_free(struct scrapers *s);

#endif
