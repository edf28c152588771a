/* Labels where nobody looks, keys that nobody knows, names that lead to nothing. */
#include "advice.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/api/builtin.h"
#include "sluice/api/names.h"
#include "sluice/base/mem.h"
#include "sluice/flavors/shm.h"

/* ---- keys ---- */

#define OWN_PREFIX "sluice.dev/"

/* Every key that is read or written on a job or its pods. */
static const char *const known_keys[] = {
    SL_LABEL_QUEUE_NAME,
    SL_LABEL_PRIORITY_CLASS,
    SL_LABEL_MAX_EXEC_TIME,
    SL_LABEL_PREBUILT,
    SL_LABEL_POD_GROUP_NAME,
    SL_LABEL_JOB_UID,
    SL_LABEL_PODSET,
    SL_LABEL_LOCAL_QUEUE_NAME,
    SL_LABEL_CLUSTER_QUEUE_NAME,
    SL_LABEL_MANAGED,
    SL_ANNOTATION_MIN_PARALLELISM,
    SL_ANNOTATION_COMPLETIONS_EQUAL_PARALLELISM,
    SL_ANNOTATION_STOPPING,
    SL_ANNOTATION_WORKLOAD,
    SL_ANNOTATION_ADMISSION_GATED_BY,
    SL_ANNOTATION_PRIORITY_BOOST,
    SL_ANNOTATION_ELASTIC_JOB,
    SL_ANNOTATION_WORKLOAD_SLICE_NAME,
    SL_ANNOTATION_IS_GROUP_WORKLOAD,
    SL_ANNOTATION_POD_GROUP_TOTAL_COUNT,
    SL_ANNOTATION_POD_GROUP_FAST_ADMISSION,
    SL_ANNOTATION_POD_GROUP_SERVING,
    SL_ANNOTATION_RETRIABLE_IN_GROUP,
    SL_ANNOTATION_ROLE_HASH,
    SL_ANNOTATION_POD_SUSPENDING_PARENT,
    SL_ANNOTATION_JOB_OWNER_GVK,
    SL_ANNOTATION_JOB_OWNER_NAME,
    SL_ANNOTATION_PODSET_REQUIRED_TOPOLOGY,
    SL_ANNOTATION_PODSET_PREFERRED_TOPOLOGY,
    SL_ANNOTATION_PODSET_UNCONSTRAINED_TOPOLOGY,
    SL_ANNOTATION_PODSET_SLICE_REQUIRED_TOPOLOGY,
    SL_ANNOTATION_PODSET_SLICE_SIZE,
    SL_ANNOTATION_PODSET_SLICE_CONSTRAINTS,
    SL_ANNOTATION_PODSET_GROUP_NAME,
    SL_ANNOTATION_UNDO_START,
    SL_SHM_SIZE_ANNOTATION,
    SL_SHM_MAX_ANNOTATION,
    SL_SHM_SCOPE_ANNOTATION,
    OWN_PREFIX "injected",
    OWN_PREFIX "simulate-run",
};

size_t advice_distance(const char *a, const char *b) {
    size_t row[ADVICE_NAME_MAX + 1], n = strlen(b);
    for (size_t k = 0; k <= n; k++)
        row[k] = k;
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < n; k++) {
            size_t replaced = corner + (a[i] != b[k]), changed = 1 + (row[k] < row[k + 1] ? row[k] : row[k + 1]);
            corner = row[k + 1];
            row[k + 1] = replaced < changed ? replaced : changed;
        }
    }
    return row[n];
}

static bool is_beginning(const char *text, const char *whole) {
    size_t n = strlen(text);
    return n > 0 && !strncmp(text, whole, n) && whole[n] == '-';
}

/* The known key that was meant: one of the same prefix with a slip or two, or with words left out at the end. */
static const char *nearest(const char *key, size_t prefix) {
    const char *name = key + prefix, *best = NULL;
    size_t least = SIZE_MAX, len = strlen(name);
    if (len > ADVICE_NAME_MAX)
        return NULL;
    for (size_t i = 0; i < SL_COUNT(known_keys); i++) {
        const char *known = known_keys[i];
        if (strncmp(known, key, prefix) || strlen(known + prefix) > ADVICE_NAME_MAX)
            continue;
        size_t d = advice_distance(name, known + prefix);
        if (d < least && (d <= 1 + len / 6 || is_beginning(name, known + prefix))) {
            least = d;
            best = known;
        }
    }
    return best;
}

static bool is_known(const char *key) {
    for (size_t i = 0; i < SL_COUNT(known_keys); i++)
        if (!strcmp(known_keys[i], key))
            return true;
    return false;
}

static void check_keys(const struct sl_json *metadata, const struct sl_path *path, struct sl_fielderrs *warnings) {
    static const char *const maps[] = {"labels", "annotations"}, *const prefixes[] = {SL_GROUP "/", OWN_PREFIX};
    for (size_t m = 0; m < SL_COUNT(maps); m++)
        SL_JSON_EACH (sl_json_get(metadata, maps[m]), e)
            for (size_t p = 0; p < SL_COUNT(prefixes); p++) {
                size_t n = strlen(prefixes[p]);
                if (strncmp(e.key, prefixes[p], n) || is_known(e.key))
                    continue;
                const char *meant = nearest(e.key, n);
                sl_fielderr_add(warnings, SL_FE_INVALID, SL_PATH_KEY(SL_PATH(path, maps[m]), e.key), NULL,
                                meant ? "nobody knows this key: is %s meant?" : "nobody knows this key", meant);
            }
}

static void advise_job(const struct sl_json *object, struct sl_fielderrs *warnings) {
    const struct sl_path *path = SL_PATH(NULL, "metadata"),
                         *inner = SL_PATH(SL_PATH(SL_PATH(NULL, "spec"), "template"), "metadata");
    const struct sl_json *metadata = sl_json_get(object, "metadata"),
                         *template = sl_json_path(object, "spec.template.metadata");
    check_keys(metadata, path, warnings);
    check_keys(template, inner, warnings);
    if (!sl_json_is_null(sl_json_get(sl_json_get(metadata, "labels"), SL_LABEL_QUEUE_NAME)))
        return;
    if (!sl_json_is_null(sl_json_get(sl_json_get(template, "labels"), SL_LABEL_QUEUE_NAME)))
        sl_fielderr_add(warnings, SL_FE_INVALID, SL_PATH_KEY(SL_PATH(inner, "labels"), SL_LABEL_QUEUE_NAME), NULL,
                        "has no effect there: the queue is a label of the Job (metadata.labels)");
    if (!sl_json_is_null(sl_json_get(sl_json_get(metadata, "annotations"), SL_LABEL_QUEUE_NAME)))
        sl_fielderr_add(warnings, SL_FE_INVALID, SL_PATH_KEY(SL_PATH(path, "annotations"), SL_LABEL_QUEUE_NAME), NULL,
                        "has no effect there: the queue is a label of the Job (metadata.labels)");
}

/* ---- references ---- */

static const char *namespace_of(const struct sl_json *object) {
    return sl_json_path_str(object, "metadata.namespace", "default");
}

static bool is_of(const struct sl_json *object, const char *kind) {
    return !strncmp(sl_json_get_str(object, "apiVersion", ""), SL_GROUP "/", sizeof SL_GROUP) &&
           !strcmp(sl_json_get_str(object, "kind", ""), kind);
}

void advice_init(struct advice *a, const struct sl_manifests *manifests) {
    static const char *const kinds[] = {"ClusterQueue", "ResourceFlavor", "LocalQueue"};
    a->given = (struct sl_map)SL_MAP_INIT;
    if (manifests->n_faults)
        return; /* what is missing may be in a file that could not be read */
    for (size_t i = 0; i < manifests->n; i++)
        for (size_t k = 0; k < SL_COUNT(kinds); k++) {
            const struct sl_json *object = manifests->items[i].object;
            if (!is_of(object, kinds[k]))
                continue;
            bool namespaced = !strcmp(kinds[k], "LocalQueue");
            SL_AUTO_FREE char *key = sl_xprintf("%s\n%s%s%s", kinds[k], namespaced ? namespace_of(object) : "",
                                                namespaced ? "\n" : "", sl_json_path_str(object, "metadata.name", ""));
            sl_map_set(&a->given, kinds[k], a);
            sl_map_set(&a->given, key, a);
        }
}

void advice_done(struct advice *a) {
    sl_map_done(&a->given, NULL);
}

/* ns: NULL where names are of the whole cluster. */
static void check_reference(const struct advice *a, const char *kind, const char *ns, const struct sl_json *name,
                            const struct sl_path *path, struct sl_fielderrs *warnings) {
    const char *text = sl_json_str(name, "");
    SL_AUTO_FREE char *key = sl_xprintf("%s\n%s%s%s", kind, ns ? ns : "", ns ? "\n" : "", text);
    if (!*text || !sl_map_has(&a->given, kind) || sl_map_has(&a->given, key))
        return;
    if (ns)
        sl_fielderr_add(warnings, SL_FE_NOT_FOUND, path, name, "no %s of this name in namespace %s is among the files",
                        kind, ns);
    else
        sl_fielderr_add(warnings, SL_FE_NOT_FOUND, path, name, "no %s of this name is among the files", kind);
}

static void advise_clusterqueue(const struct advice *a, const struct sl_json *object, struct sl_fielderrs *warnings) {
    const struct sl_json *spec = sl_json_get(object, "spec");
    const struct sl_path *path = SL_PATH(NULL, "spec");
    if (sl_json_is_null(sl_json_get(spec, "namespaceSelector")))
        sl_fielderr_add(warnings, SL_FE_REQUIRED, SL_PATH(path, "namespaceSelector"), NULL,
                        "without one the queue admits from no namespace; {} is every namespace");
    SL_JSON_ITEMS (sl_json_get(spec, "resourceGroups"), g)
        SL_JSON_ITEMS (sl_json_get(g.value, "flavors"), f) {
            const struct sl_path *group = SL_PATH_AT(SL_PATH(path, "resourceGroups"), g.i);
            check_reference(a, "ResourceFlavor", NULL, sl_json_get(f.value, "name"),
                            SL_PATH(SL_PATH_AT(SL_PATH(group, "flavors"), f.i), "name"), warnings);
        }
}

void advice_on(const struct advice *a, const struct sl_json *object, struct sl_fielderrs *warnings) {
    if (is_of(object, "ClusterQueue"))
        advise_clusterqueue(a, object, warnings);
    else if (is_of(object, "LocalQueue"))
        check_reference(a, "ClusterQueue", NULL, sl_json_path(object, "spec.clusterQueue"),
                        SL_PATH(SL_PATH(NULL, "spec"), "clusterQueue"), warnings);
    if (strcmp(sl_json_get_str(object, "kind", ""), "Job") != 0 || !sl_builtin_is(object))
        return;
    advise_job(object, warnings);
    check_reference(a, "LocalQueue", namespace_of(object),
                    sl_json_get(sl_json_path(object, "metadata.labels"), SL_LABEL_QUEUE_NAME),
                    SL_PATH_KEY(SL_PATH(SL_PATH(NULL, "metadata"), "labels"), SL_LABEL_QUEUE_NAME), warnings);
}
