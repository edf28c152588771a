/* The note of what a start has put into a job; see undo.h. It comes back from the user's hands: everything in it is
 * checked, and a note with any fault is no note. */
#include "undo.h"

#include <stdint.h>
#include <string.h>

#include "sluice/api/names.h"
#include "sluice/base/buf.h"
#include "sluice/base/mem.h"
#include "sluice/jobs/jobkind.h"

#define MAX_BYTES           16384
#define MAX_KEYS            512
#define MAX_KEY             317 /* prefix of 253, a slash, name of 63 */
#define MAX_ALL_ANNOTATIONS (256 * 1024)
#define SPARE               64 /* the mark of a stop must find room too */

/* Lists of keys, and where in a template their map is. */
static const struct {
    const char *member, *part;
} maps[] = {{"labels", "metadata"}, {"annotations", "metadata"}, {"nodeSelector", "spec"}};

static const char *note_of(const struct sl_json *job) {
    return sl_json_str(sl_json_get(sl_json_path(job, "metadata.annotations"), SL_ANNOTATION_UNDO_START), NULL);
}

static bool is_keys(const struct sl_json *list) {
    if (!sl_json_is_array(list) || sl_json_len(list) > MAX_KEYS)
        return false;
    SL_JSON_ITEMS (list, e) {
        const char *key = sl_json_str(e.value, "");
        if (!*key || strlen(key) > MAX_KEY)
            return false;
    }
    return true;
}

static bool is_count(const struct sl_json *v) {
    return sl_json_type(v) == SL_JSON_INT && sl_json_int(v, -1) >= 0 && sl_json_int(v, -1) <= INT32_MAX;
}

static bool is_note(const struct sl_json *undo) {
    if (!sl_json_is_object(undo))
        return false;
    SL_JSON_EACH (undo, e) {
        bool good = (!strcmp(e.key, "tolerations") || !strcmp(e.key, "parallelism")) && is_count(e.value);
        for (size_t i = 0; i < SL_COUNT(maps) && !good; i++)
            good = !strcmp(e.key, maps[i].member) && is_keys(e.value);
        if (!good)
            return false;
    }
    return true;
}

struct sl_json *sl_undo_read(const struct sl_json *job) {
    const char *text = note_of(job);
    struct sl_json *undo = NULL;
    if (!text || sl_json_parse(text, strlen(text), MAX_BYTES, &undo, NULL) < 0)
        return NULL;
    if (is_note(undo))
        return undo;
    sl_json_unref(undo);
    return NULL;
}

bool sl_job_start_noted(const struct sl_json *job) {
    SL_AUTO_JSON *undo = sl_undo_read(job);
    return undo != NULL;
}

static bool has_key(const struct sl_json *list, const char *key) {
    SL_JSON_ITEMS (list, e)
        if (!strcmp(sl_json_str(e.value, ""), key))
            return true;
    return false;
}

void sl_undo_add(struct sl_json *undo, const struct sl_json *template, const struct sl_json *template_patch) {
    for (size_t i = 0; i < SL_COUNT(maps); i++)
        SL_JSON_EACH (sl_json_get(sl_json_get(template_patch, maps[i].part), maps[i].member), e) {
            struct sl_json *keys = sl_json_make_array(undo, maps[i].member);
            if (!has_key(keys, e.key))
                sl_json_append(keys, sl_json_new_str(e.key));
        }
    if (sl_json_path(template_patch, "spec.tolerations") && !sl_json_get(undo, "tolerations"))
        sl_json_set_int(undo, "tolerations", (int64_t)sl_json_len(sl_json_path(template, "spec.tolerations")));
}

static size_t annotations_size(const struct sl_json *job) {
    size_t n = 0;
    SL_JSON_EACH (sl_json_path(job, "metadata.annotations"), e)
        if (strcmp(e.key, SL_ANNOTATION_UNDO_START))
            n += strlen(e.key) + strlen(sl_json_str(e.value, ""));
    return n;
}

static struct sl_json *annotations_of(struct sl_json *patch) {
    return sl_json_make_object(sl_json_make_object(patch, "metadata"), "annotations");
}

void sl_undo_erase(const struct sl_json *job, struct sl_json *patch) {
    if (note_of(job))
        sl_json_set(annotations_of(patch), SL_ANNOTATION_UNDO_START, sl_json_new_null());
}

void sl_undo_write(const struct sl_json *job, const struct sl_json *undo, struct sl_json *patch) {
    SL_AUTO_FREE char *text = sl_json_text(undo);
    size_t n = strlen(text);
    if (!sl_json_len(undo) || !is_note(undo) || n > MAX_BYTES ||
        annotations_size(job) + strlen(SL_ANNOTATION_UNDO_START) + n + SPARE > MAX_ALL_ANNOTATIONS) {
        sl_undo_erase(job, patch); /* a start without a note is better than none */
        return;
    }
    const char *have = note_of(job);
    if (!have || strcmp(have, text))
        sl_json_set_str(annotations_of(patch), SL_ANNOTATION_UNDO_START, text);
}

static bool listed(const char *const *names, const char *name) {
    for (; names && *names; names++)
        if (!strcmp(*names, name))
            return true;
    return false;
}

struct sl_json *sl_undo_template(const struct sl_json *undo, const struct sl_json *template,
                                 const char *const *keep_labels) {
    struct sl_json *patch = sl_json_new_object();
    for (size_t i = 0; i < SL_COUNT(maps); i++) {
        const struct sl_json *have = sl_json_get(sl_json_get(template, maps[i].part), maps[i].member);
        SL_JSON_ITEMS (sl_json_get(undo, maps[i].member), e) {
            const char *key = sl_json_str(e.value, "");
            if (!sl_json_is_null(sl_json_get(have, key)) &&
                !(!strcmp(maps[i].member, "labels") && listed(keep_labels, key)))
                sl_json_set(sl_json_make_object(sl_json_make_object(patch, maps[i].part), maps[i].member), key,
                            sl_json_new_null());
        }
    }
    const struct sl_json *tolerations = sl_json_path(template, "spec.tolerations");
    int64_t n = sl_json_get_int(undo, "tolerations", INT32_MAX);
    if ((int64_t)sl_json_len(tolerations) > n) {
        struct sl_json *kept = n ? sl_json_new_array() : sl_json_new_null();
        for (size_t i = 0; i < (size_t)n; i++)
            sl_json_append(kept, sl_json_copy(sl_json_at(tolerations, i)));
        sl_json_set(sl_json_make_object(patch, "spec"), "tolerations", kept);
    }
    return patch;
}
