/*
 * Field errors with the texts of Kubernetes: "spec.a[0].b: Invalid value: \"x\": detail". A list collects every error
 * of an object. Paths are chains of small structs on the stack and are only rendered when there is something to say.
 */
#ifndef SLUICE_API_FIELDERR_H
#define SLUICE_API_FIELDERR_H

#include <stdbool.h>
#include <stddef.h>

#include "sluice/base/json.h"

struct sl_path {
    const struct sl_path *parent;
    const char *name; /* member; NULL: an index */
    size_t index;
    bool key; /* name is printed as [name] */
};
/* Valid until the end of the enclosing block. parent NULL: the root. */
#define SL_PATH(parent, name)     (&(const struct sl_path){(parent), (name), 0, false})
#define SL_PATH_KEY(parent, name) (&(const struct sl_path){(parent), (name), 0, true})
#define SL_PATH_AT(parent, i)     (&(const struct sl_path){(parent), NULL, (i), false})
void sl_path_text(const struct sl_path *path, struct sl_buf *out); /* "<nil>" for NULL */

enum sl_fielderr_type {
    SL_FE_INVALID,
    SL_FE_REQUIRED,
    SL_FE_FORBIDDEN,
    SL_FE_DUPLICATE,
    SL_FE_UNSUPPORTED,
    SL_FE_NOT_FOUND,
    SL_FE_TOO_LONG,
    SL_FE_TOO_MANY,
    SL_FE_UNKNOWN /* a field that does not exist */
};
struct sl_fielderr {
    enum sl_fielderr_type type;
    bool schema; /* a rule of the schema: a webhook answers 422 Invalid with causes instead of 403 */
    char *path;
    char *text; /* "Invalid value: ...", without the path */
};
struct sl_fielderrs {
    struct sl_fielderr *items;
    size_t n, cap;
    size_t dropped; /* beyond SL_FIELDERR_MAX; they are only counted */
};
#define SL_FIELDERR_MAX 64
#define SL_FIELDERRS_INIT                                                                                              \
    { NULL, 0, 0, 0 }
void sl_fielderrs_done(struct sl_fielderrs *l);
#define SL_AUTO_FIELDERRS __attribute__((cleanup(sl_fielderrs_done))) struct sl_fielderrs

/* value: what is printed after the type (strings quoted, numbers bare, the rest as JSON, long ones cut); NULL prints
 * none. detail may be NULL. An error equal to one that is in the list is dropped. */
void sl_fielderr_add(struct sl_fielderrs *l, enum sl_fielderr_type type, const struct sl_path *path,
                     const struct sl_json *value, const char *detail, ...) SL_PRINTF(5, 6);
/* The same for rules that belong to the schema. */
void sl_fielderr_schema(struct sl_fielderrs *l, enum sl_fielderr_type type, const struct sl_path *path,
                        const struct sl_json *value, const char *detail, ...) SL_PRINTF(5, 6);
/* With a text, an integer as the value. */
void sl_fielderr_str(struct sl_fielderrs *l, enum sl_fielderr_type type, const struct sl_path *path, const char *value,
                     const char *detail, ...) SL_PRINTF(5, 6);
void sl_fielderr_int(struct sl_fielderrs *l, enum sl_fielderr_type type, const struct sl_path *path, int64_t value,
                     const char *detail, ...) SL_PRINTF(5, 6);
/* Unsupported value with the choices, NULL-terminated. */
void sl_fielderr_unsupported(struct sl_fielderrs *l, bool schema, const struct sl_path *path, const char *value,
                             const char *const *choices);

bool sl_fielderrs_any_schema(const struct sl_fielderrs *l);
/* "path: text", or "[e1, e2]" for more than one. free(). */
char *sl_fielderrs_message(const struct sl_fielderrs *l);
/* Causes for details.causes of a Status: [{reason, field, message}]. Owned. */
struct sl_json *sl_fielderrs_causes(const struct sl_fielderrs *l);

/* ---- formats; the check functions add one error a fault ---- */
bool sl_is_dns_label(const char *text);      /* RFC 1123 label, at most 63 */
bool sl_is_dns_subdomain(const char *text);  /* at most 253 */
bool sl_is_qualified_name(const char *text); /* [prefix/]name, a label or annotation key */
bool sl_is_label_value(const char *text);
bool sl_is_condition_reason(const char *text);
bool sl_is_kind_name(const char *text);
bool sl_is_quantity_text(const char *text);
void sl_check_subdomain(struct sl_fielderrs *l, const struct sl_path *path, const char *text);
void sl_check_qualified_name(struct sl_fielderrs *l, const struct sl_path *path, const char *text);
void sl_check_label_value(struct sl_fielderrs *l, const struct sl_path *path, const char *text);
/* A map of labels: faults are told at the path of the map, as Kubernetes does. */
void sl_check_labels(struct sl_fielderrs *l, const struct sl_path *path, const struct sl_json *map);
void sl_check_annotations(struct sl_fielderrs *l, const struct sl_path *path, const struct sl_json *map);
/* metav1.LabelSelector. */
void sl_check_selector(struct sl_fielderrs *l, const struct sl_path *path, const struct sl_json *selector);

#endif
