/* Manifests from files and folders, and what is wrong with them. */
#include "sluice/cmd/manifests.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sluice/api/builtin.h"
#include "sluice/api/fields.h"
#include "sluice/api/names.h"
#include "sluice/api/registry.h"
#include "sluice/api/validate.h"
#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

#define MAX_DOCUMENTS 20000
#define MAX_FILE      (4u << 20)
#define MAX_DEPTH     16

/* place: file, line and number of the document. */
static int add(struct sl_manifests *m, const struct sl_manifest *place, const struct sl_json *object,
               struct sl_err *err) {
    if (!sl_json_is_object(object))
        return sl_err_set(err, SL_INVALID, "%s:%d: document %d: must be an object", place->file, place->line,
                          place->document);
    const char *kind = sl_json_get_str(object, "kind", "");
    const struct sl_json *items = sl_json_get(object, "items");
    bool list = !strcmp(kind, "List");
    if (list || (strlen(kind) > 4 && !strcmp(kind + strlen(kind) - 4, "List") && sl_json_is_array(items))) {
        if (!sl_json_is_null(items) && !sl_json_is_array(items))
            return sl_err_set(err, SL_INVALID, "%s:%d: document %d: items: Invalid value: must be an array",
                              place->file, place->line, place->document);
        SL_JSON_ITEMS (items, e) {
            if (!sl_json_is_object(e.value))
                return sl_err_set(err, SL_INVALID, "%s:%d: document %d: items[%zu]: Invalid value: must be an object",
                                  place->file, place->line, place->document, e.i);
            int rc = add(m, place, e.value, err);
            if (rc)
                return rc;
        }
        return 0;
    }
    if (m->n >= MAX_DOCUMENTS)
        return sl_err_set(err, SL_TOO_BIG, "%s: more than %d documents", place->file, MAX_DOCUMENTS);
    SL_GROW(m->items, m->cap, m->n);
    m->items[m->n++] = (struct sl_manifest){sl_xstrdup(place->file), place->line, place->document, place->documents,
                                            sl_json_ref(object)};
    return 0;
}

static int load_file(struct sl_manifests *m, const char *path, struct sl_err *err) {
    SL_AUTO_BUF text = SL_BUF_INIT(MAX_FILE);
    int rc = sl_file_read(path, &text, err);
    if (rc)
        return rc;
    SL_AUTO_JSON *docs = NULL;
    int *lines = NULL;
    rc = sl_yaml_parse(sl_buf_text(&text), text.len, true, &docs, &lines, err);
    if (rc) {
        sl_err_wrap(err, "%s", path);
        return rc;
    }
    SL_AUTO_FREE char *file = sl_xstrdup(path);
    struct sl_manifest place = {.file = file, .documents = (int)sl_json_len(docs)};
    SL_JSON_ITEMS (docs, e) {
        place.line = lines[e.i];
        place.document = (int)e.i + 1;
        if (!rc)
            rc = add(m, &place, e.value, err);
    }
    free(lines);
    return rc;
}

static bool is_manifest(const char *name) {
    static const char *const endings[] = {".yaml", ".yml", ".json"};
    size_t n = strlen(name);
    for (size_t i = 0; i < SL_COUNT(endings); i++)
        if (n > strlen(endings[i]) && !strcmp(name + n - strlen(endings[i]), endings[i]))
            return true;
    return false;
}

static int visible(const struct dirent *e) {
    return e->d_name[0] != '.';
}

static int load(struct sl_manifests *m, const char *path, int depth, struct sl_err *err) {
    struct stat st;
    if (!strcmp(path, "-"))
        return load_file(m, path, err);
    if (stat(path, &st))
        return sl_err_set(err, SL_NOT_FOUND, "%s: no such file or folder", path);
    if (!S_ISDIR(st.st_mode))
        return load_file(m, path, err);
    if (depth > MAX_DEPTH)
        return sl_err_set(err, SL_TOO_BIG, "%s: folders are nested too deeply", path);
    struct dirent **entries;
    int n = scandir(path, &entries, visible, alphasort), rc = 0;
    if (n < 0)
        return sl_err_set(err, SL_IO, "%s: cannot be read", path);
    for (int i = 0; i < n; i++) {
        SL_AUTO_FREE char *child =
            sl_xprintf("%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", entries[i]->d_name);
        if (!rc && !stat(child, &st) &&
            (S_ISDIR(st.st_mode) ||
             (S_ISREG(st.st_mode) && is_manifest(entries[i]->d_name)))) /* a pipe may never end */
            rc = load(m, child, depth + 1, err);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int sl_manifests_load(struct sl_manifests *m, const char *path, struct sl_err *err) {
    return load(m, path, 0, err);
}

void sl_manifests_done(struct sl_manifests *m) {
    for (size_t i = 0; i < m->n; i++) {
        free(m->items[i].file);
        sl_json_unref(m->items[i].object);
    }
    free(m->items);
    *m = (struct sl_manifests){NULL, 0, 0};
}

/* ---- what is wrong with them ---- */

/* Of our group, or of one of our kinds with the group left out. */
static bool is_ours(const struct sl_json *object) {
    const char *version = sl_json_get_str(object, "apiVersion", "");
    return !strncmp(version, SL_GROUP "/", sizeof SL_GROUP) ||
           (*version && !strchr(version, '/') && sl_api_kind_find(sl_json_get_str(object, "kind", "")));
}

static bool is_named(const struct sl_json *object) {
    return *sl_json_get_str(object, "apiVersion", "") && *sl_json_get_str(object, "kind", "");
}

bool sl_manifest_foreign(const struct sl_json *object) {
    return is_named(object) && !is_ours(object) && !sl_builtin_is(object);
}

void sl_manifest_check(const struct sl_json *object, struct sl_fielderrs *errors, struct sl_fielderrs *warnings) {
    static const struct sl_field named[] = {
        {"apiVersion", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
        {"kind", SL_F_STRING, SL_F_REQUIRED, NULL, NULL},
        {NULL, SL_F_ANY, 0, NULL, NULL},
    };
    sl_fields_check(named, object, NULL, 0, errors);
    if (!is_named(object))
        return;
    const char *version = sl_json_get_str(object, "apiVersion", ""), *slash = strchr(version, '/');
    if (is_ours(object)) {
        sl_api_validate(object, NULL, SL_VALIDATE_STRUCTURE | SL_VALIDATE_UNKNOWN, errors);
    } else if (sl_builtin_is(object)) {
        sl_builtin_validate(object, errors, warnings);
    } else if (slash && memmem(version, (size_t)(slash - version), "kueue", 5) &&
               sl_api_kind_find(sl_json_get_str(object, "kind", ""))) {
        static const char *const ours[] = {SL_V1BETA2, SL_V1BETA1, NULL};
        sl_fielderr_unsupported(warnings, true, SL_PATH(NULL, "apiVersion"), version, ours);
    }
}

char *sl_manifest_text(const struct sl_manifest *m, const char *path) {
    char *copy = sl_xstrdup(sl_json_path_str(m->object, path, "?"));
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    return copy;
}

void sl_manifest_report(enum sl_output as, const struct sl_manifest *m, const char *level, const char *path,
                        const char *text) {
    SL_AUTO_FREE char *kind = sl_manifest_text(m, "kind"), *name = sl_manifest_text(m, "metadata.name");
    if (!as) {
        printf("%s:%d: ", m->file, m->line);
        if (m->documents > 1)
            printf("document %d: ", m->document);
        printf("%s: %s/%s: %s%s%s\n", level, kind, name, path, *path ? ": " : "", text);
        return;
    }
    SL_AUTO_JSON *o = sl_json_new_object();
    sl_json_set_str(o, "file", m->file);
    sl_json_set_int(o, "line", m->line);
    sl_json_set_int(o, "document", m->document);
    sl_json_set_str(o, "level", level);
    sl_json_set_str(o, "kind", kind);
    sl_json_set_str(o, "name", name);
    sl_json_set_str(o, "path", path);
    sl_json_set_str(o, "text", text);
    sl_output_put(as, o);
}
