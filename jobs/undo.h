/*
 * What a start has put into a job, noted on the job itself by the very patch that starts it, so that it can be taken
 * back when the Workload is gone: annotation sluice.dev/undo-start, compact JSON
 *
 *   {"labels":[key...],"annotations":[key...],"nodeSelector":[key...],"tolerations":how many there were,
 *    "parallelism":what it was}
 *
 * with only the members that were changed. A start never overwrites, so keys and a number say everything; and whoever
 * edits the note can have things of his own job removed, but nothing put into it in our name.
 */
#ifndef SLUICE_JOBS_UNDO_H
#define SLUICE_JOBS_UNDO_H

#include "sluice/base/json.h"

/* The note of a job; NULL when there is none or it is not one that we could have written. Owned. */
struct sl_json *sl_undo_read(const struct sl_json *job);
/* Adds what a merge patch of a template changes. What is noted already is older, and stays. */
void sl_undo_add(struct sl_json *undo, const struct sl_json *template, const struct sl_json *template_patch);
/* Puts the note into the patch of a job, takes an older one off when there is nothing to note, or no room for it. */
void sl_undo_write(const struct sl_json *job, const struct sl_json *undo, struct sl_json *patch);
void sl_undo_erase(const struct sl_json *job, struct sl_json *patch); /* takes it off, where there is one */
/* Merge patch of the template that takes back what is noted; labels in `keep` stay. Owned. */
struct sl_json *sl_undo_template(const struct sl_json *undo, const struct sl_json *template,
                                 const char *const *keep_labels);

#endif
