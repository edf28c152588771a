/*
 * The only door to the JSON library. A tree is made of struct sl_json nodes, reference counted; "owned" results are
 * released with sl_json_unref, "borrowed" ones live as long as the tree they came from. Getters accept NULL and wrong
 * types and answer with NULL or the default, so that reading deep paths needs no ladder of checks. Trees are never
 * shared between threads.
 */
#ifndef SLUICE_BASE_JSON_H
#define SLUICE_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/base/buf.h"
#include "sluice/base/err.h"

struct sl_json;

enum sl_json_type {
    SL_JSON_NONE,
    SL_JSON_NULL,
    SL_JSON_BOOL,
    SL_JSON_INT,
    SL_JSON_REAL,
    SL_JSON_STRING,
    SL_JSON_ARRAY,
    SL_JSON_OBJECT
};

#define SL_JSON_MAX_DEPTH    64
#define SL_JSON_MAX_ELEMENTS 2000000

/* Parses exactly len bytes. Refused with SL_INVALID: malformed text, duplicate keys when reject_duplicates, integers
 * past int64, invalid UTF-8; with SL_TOO_BIG: more than max_bytes, deeper than SL_JSON_MAX_DEPTH, more than 2 million
 * elements. *ret is owned. */
SL_MUST int sl_json_parse(const char *text, size_t len, size_t max_bytes, struct sl_json **ret, struct sl_err *err);
SL_MUST int sl_json_parse_strict(const char *text, size_t len, size_t max_bytes, struct sl_json **ret,
                                 struct sl_err *err); /* duplicates refused */
/* For objects of an API server and text of strangers. A tree costs up to 100 times its text, so the number of elements
 * has a limit of its own (SL_LIMIT past it). Integers past int64, which an API server keeps where no schema forbids
 * them, are no reason to refuse the whole: they become the nearest real number, as they are for the API server. */
SL_MUST int sl_json_parse_limited(const char *text, size_t len, size_t max_bytes, size_t max_elements,
                                  struct sl_json **ret, struct sl_err *err);
/* For constants and tests: aborts on malformed text. Single quotes stand for double quotes. */
struct sl_json *sl_json_from(const char *text);
struct sl_json *sl_json_from_text(const char *text); /* text that sl_json_text made: aborts when it is not JSON */
struct sl_json *sl_json_fromf(const char *format, ...) SL_PRINTF(1, 2);

struct sl_json *sl_json_ref(const struct sl_json *j); /* NULL gives NULL */
void sl_json_unref(struct sl_json *j);
#define SL_AUTO_JSON __attribute__((cleanup(sl_json_cleanup))) struct sl_json
void sl_json_cleanup(struct sl_json **pp);

enum sl_json_type sl_json_type(const struct sl_json *j); /* SL_JSON_NONE for NULL */
static inline bool sl_json_is_object(const struct sl_json *j) {
    return sl_json_type(j) == SL_JSON_OBJECT;
}
static inline bool sl_json_is_array(const struct sl_json *j) {
    return sl_json_type(j) == SL_JSON_ARRAY;
}
static inline bool sl_json_is_null(const struct sl_json *j) {
    return sl_json_type(j) <= SL_JSON_NULL;
} /* absent or null */

/* Borrowed members. */
const struct sl_json *sl_json_get(const struct sl_json *object, const char *key);
/* Dotted path of member names and array indexes: "spec.template.spec.containers.0.image". Names with dots cannot be
 * reached this way. */
const struct sl_json *sl_json_path(const struct sl_json *object, const char *path);
int64_t sl_json_index(
    const char *token); /* an array index as JSON Pointer writes it (no sign, no leading zeros); -1: it is none */
const struct sl_json *sl_json_at(const struct sl_json *array, size_t i);
/* Adds the number of values in j, itself counted, to *values; returns how deep containers are nested in it (0: none).
 */
size_t sl_json_measure(const struct sl_json *j, size_t *values);
size_t sl_json_len(const struct sl_json *array_or_object); /* 0 for everything else */

const char *sl_json_str(const struct sl_json *j, const char *dflt); /* borrowed; dflt unless a string */
size_t sl_json_str_len(const struct sl_json *j);
int64_t sl_json_int(const struct sl_json *j, int64_t dflt);
bool sl_json_bool(const struct sl_json *j, bool dflt);
double sl_json_real(const struct sl_json *j, double dflt); /* integers too; only for weights and tests */
static inline const char *sl_json_get_str(const struct sl_json *o, const char *key, const char *dflt) {
    return sl_json_str(sl_json_get(o, key), dflt);
}
static inline int64_t sl_json_get_int(const struct sl_json *o, const char *key, int64_t dflt) {
    return sl_json_int(sl_json_get(o, key), dflt);
}
static inline bool sl_json_get_bool(const struct sl_json *o, const char *key, bool dflt) {
    return sl_json_bool(sl_json_get(o, key), dflt);
}
static inline const char *sl_json_path_str(const struct sl_json *o, const char *path, const char *dflt) {
    return sl_json_str(sl_json_path(o, path), dflt);
}

/* Iteration: `break` and `continue` work as usual. Do not change the container meanwhile.
 * SL_JSON_EACH(object, e) { e.key, e.value }  insertion order      SL_JSON_ITEMS(array, e) { e.i, e.value } */
struct sl_json_each {
    void *at;
    const char *key;
    const struct sl_json *value;
};
struct sl_json_item {
    size_t i;
    const struct sl_json *value;
};
struct sl_json_each sl_json_each_first(const struct sl_json *object);
void sl_json_each_next(const struct sl_json *object, struct sl_json_each *e);
#define SL_JSON_EACH(object, e)                                                                                        \
    for (struct sl_json_each e = sl_json_each_first(object); e.at; sl_json_each_next(object, &e))
#define SL_JSON_ITEMS(array, e)                                                                                        \
    for (struct sl_json_item e = {0, sl_json_at(array, 0)}; e.value; e.i++, e.value = sl_json_at(array, e.i))

/* Making trees. All results owned; never NULL. */
struct sl_json *sl_json_new_object(void);
struct sl_json *sl_json_new_array(void);
struct sl_json *sl_json_new_null(void);
struct sl_json *sl_json_new_str(const char *text); /* NULL gives null; bytes that are not UTF-8 become U+FFFD */
struct sl_json *sl_json_new_strn(const char *text, size_t len);
struct sl_json *sl_json_new_strf(const char *format, ...) SL_PRINTF(1, 2);
struct sl_json *sl_json_new_int(int64_t v);
struct sl_json *sl_json_new_bool(bool v);
/* Changing trees: the value is taken (also when the container is not of the right type; then it is dropped). */
void sl_json_set(struct sl_json *object, const char *key, struct sl_json *take);
void sl_json_set_str(struct sl_json *object, const char *key, const char *text); /* NULL text: nothing is set */
void sl_json_set_int(struct sl_json *object, const char *key, int64_t v);
void sl_json_set_bool(struct sl_json *object, const char *key, bool v);
void sl_json_del(struct sl_json *object, const char *key);
void sl_json_append(struct sl_json *array, struct sl_json *take);
void sl_json_insert(struct sl_json *array, size_t i, struct sl_json *take);
void sl_json_remove(struct sl_json *array, size_t i);
/* Member as something to change (borrowed, mutable). sl_json_make_object/array create it when absent or null. */
struct sl_json *sl_json_mut(struct sl_json *object, const char *key);
struct sl_json *sl_json_mut_at(struct sl_json *array, size_t i);
struct sl_json *sl_json_make_object(struct sl_json *object, const char *key);
struct sl_json *sl_json_make_array(struct sl_json *object, const char *key);

struct sl_json *sl_json_copy(const struct sl_json *j); /* deep; owned; NULL gives NULL */
/* Copy on write: a new container with the same members, which the two share from then on and neither may change. Owned;
 * NULL gives NULL. */
struct sl_json *sl_json_copy_shallow(const struct sl_json *j);
/* Gives `object` (or `array`) a shallow copy of its own of a container in it, and returns that (borrowed, mutable);
 * NULL when there is none. */
struct sl_json *sl_json_own(struct sl_json *object, const char *key);
struct sl_json *sl_json_own_at(struct sl_json *array, size_t i);
bool sl_json_equal(
    const struct sl_json *a,
    const struct sl_json *b); /* key order does not matter; both NULL are equal; absent and null differ */
/* Compact text; sort_keys for output that must be stable. */
void sl_json_dump(const struct sl_json *j, bool sort_keys, struct sl_buf *out);
char *sl_json_text(const struct sl_json *j); /* compact, sorted; free() */
void sl_json_dump_pretty(const struct sl_json *j, struct sl_buf *out);

/* RFC 7386: returns the new tree (owned); target is taken and may be NULL. */
struct sl_json *sl_json_merge_patch(struct sl_json *take_target, const struct sl_json *patch);
/* RFC 6902 with add, remove, replace, test, copy, move: changes *doc, which on failure is as before. SL_INVALID names
 * the operation; SL_TOO_BIG when the result would pass the limits of parsing (copies can double a document many times).
 */
SL_MUST int sl_json_patch_apply(struct sl_json **doc, const struct sl_json *patch, struct sl_err *err);

#endif
