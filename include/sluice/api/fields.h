/*
 * Typed tables of fields: what is read of objects whose schema is not ours (Jobs, pod templates, the few core kinds),
 * and of files of our own. A row a field; one walk checks an object against a table. Every fault is collected, with
 * the words of an API server where it has some.
 */
#ifndef SLUICE_API_FIELDS_H
#define SLUICE_API_FIELDS_H

#include "sluice/api/fielderr.h"

enum sl_field_type {
    SL_F_ANY,
    SL_F_OBJECT,  /* inner NULL: whatever is in it */
    SL_F_OBJECTS, /* a list of them */
    SL_F_MAP,     /* of anything to objects */
    SL_F_STRING,
    SL_F_STRINGS,    /* a list */
    SL_F_STRING_MAP, /* of anything to strings */
    SL_F_LABELS,
    SL_F_ANNOTATIONS,
    SL_F_INT32,
    SL_F_INT64,
    SL_F_BOOL,
    SL_F_TIME,
    SL_F_QUANTITY,
    SL_F_QUANTITIES /* a map of anything to quantities, none negative */
};
enum {                       /* rules */
       SL_F_REQUIRED = 1,    /* present, and not empty */
       SL_F_COUNT = 2,       /* an integer or quantity that is not negative */
       SL_F_LABEL = 4,       /* a DNS label */
       SL_F_SUBDOMAIN = 8,   /* a DNS subdomain */
       SL_F_NO_PODS = 16,    /* a map without the reserved key "pods" */
       SL_F_WHERE_GIVEN = 32 /* not empty where it is given */
};
struct sl_field {
    const char *name; /* NULL ends a table */
    enum sl_field_type type;
    unsigned rules;
    const struct sl_field *inner; /* of objects */
    const char *choices;          /* of strings: "A|B", or NULL */
};

enum {                        /* flags */
       SL_FIELDS_UNKNOWN = 1, /* members that are not in the table are faults too */
       SL_FIELDS_ONLY_NUMBERS =
           2 /* only integers past int64, which the reader of strangers' text keeps as real numbers */
};
/* The members of an object (a value of another type has none: nothing is said). All errors are ones of the schema. */
void sl_fields_check(const struct sl_field *table, const struct sl_json *object, const struct sl_path *path,
                     unsigned flags, struct sl_fielderrs *errors);
/* A real number where an integer is due that no int64 holds. */
bool sl_is_past_int64(const struct sl_json *j);

/* metadata of any object, as a row of a table of whole objects. */
extern const struct sl_field sl_metadata_fields[];

#endif
