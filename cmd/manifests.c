/* Manifests from files and folders, and what is wrong with them. */
#include "sluice/cmd/manifests.h"

#include <dirent.h>
#include <errno.h>
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

static void keep_fault(struct sl_manifests *m, const char *file, int line, int code, const char *text) {
    SL_GROW(m->faults, m->cap_faults, m->n_faults);
    m->faults[m->n_faults++] = (struct sl_manifest_fault){sl_xstrdup(file), sl_xstrdup(text), line, code};
}

/* A fault of one place: kept, where others are looked for too. */
static int wrong(struct sl_manifests *m, const struct sl_manifest *place, int line, int code, const char *text,
                 struct sl_err *err) {
    if (code != SL_INVALID || !m->go_on)
        return sl_err_set(err, code, "%s:%d: %s", place->file, line, text);
    keep_fault(m, place->file, line, code, text);
    return 0;
}

/* lines: of the values of the object; item: its place in a list, -1. */
static int add(struct sl_manifests *m, const struct sl_manifest *place, const int *lines, const struct sl_json *object,
               int64_t item, struct sl_err *err) {
    SL_AUTO_FREE char *text = NULL;
    if (!sl_json_is_object(object)) {
        text = item < 0 ? sl_xprintf("document %d: must be an object", place->document)
                        : sl_xprintf("document %d: items[%lld]: Invalid value: must be an object", place->document,
                                     (long long)item);
        return wrong(m, place, *lines, SL_INVALID, text, err);
    }
    const char *kind = sl_json_get_str(object, "kind", "");
    const struct sl_json *items = sl_json_get(object, "items");
    bool list = !strcmp(kind, "List");
    if (list || (strlen(kind) > 4 && !strcmp(kind + strlen(kind) - 4, "List") && sl_json_is_array(items))) {
        size_t at = 1;
        SL_JSON_EACH (object, e) {
            if (!strcmp(e.key, "items"))
                break;
            (void)sl_json_measure(e.value, &at);
        }
        if (!sl_json_is_null(items) && !sl_json_is_array(items)) {
            text = sl_xprintf("document %d: items: Invalid value: must be an array", place->document);
            return wrong(m, place, lines[at], SL_INVALID, text, err);
        }
        at++; /* behind the array itself */
        SL_JSON_ITEMS (items, e) {
            int rc = add(m, place, lines + at, e.value, (int64_t)e.i, err);
            if (rc)
                return rc;
            (void)sl_json_measure(e.value, &at);
        }
        return 0;
    }
    if (m->n >= MAX_DOCUMENTS) {
        text = sl_xprintf("more than %d documents", MAX_DOCUMENTS);
        return wrong(m, place, *lines, SL_TOO_BIG, text, err);
    }
    SL_GROW(m->items, m->cap, m->n);
    m->items[m->n++] = (struct sl_manifest){sl_xstrdup(place->file), lines[0],         lines,
                                            place->document,         place->documents, sl_json_ref(object)};
    return 0;
}

static int add_documents(struct sl_manifests *m, const char *path, const struct sl_json *docs,
                         const struct sl_yaml_lines *lines, struct sl_err *err) {
    SL_AUTO_FREE char *file = sl_xstrdup(path);
    struct sl_manifest place = {.file = file, .documents = (int)sl_json_len(docs)};
    SL_JSON_ITEMS (docs, e) {
        place.document = (int)e.i + 1;
        int rc = add(m, &place, lines->line + lines->documents[e.i], e.value, -1, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int load_file(struct sl_manifests *m, const char *path, struct sl_err *err) {
    SL_AUTO_BUF text = SL_BUF_INIT(MAX_FILE);
    struct sl_err own = SL_ERR_INIT;
    SL_AUTO_JSON *docs = NULL;
    struct sl_yaml_lines lines = SL_YAML_LINES_INIT;
    int rc = sl_file_read(path, &text, &own);
    bool read = !rc;
    if (!rc)
        rc = sl_yaml_parse_lines(sl_buf_text(&text), text.len, true, &docs, &lines, &own);
    SL_GROW(m->files, m->cap_files, m->n_files);
    m->files[m->n_files++] = lines;
    if (!rc)
        return add_documents(m, path, docs, &m->files[m->n_files - 1], err);
    if (m->go_on) {
        size_t named = !read && !strncmp(own.text, path, strlen(path)) ? strlen(path) + strlen(": ") : 0;
        keep_fault(m, path, lines.fault, rc, own.text + named);
        return 0;
    }
    sl_err_set(err, rc, "%s", own.text);
    return read ? sl_err_wrap(err, "%s", path) : rc;
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
        return errno == ENOENT ? sl_err_set(err, SL_NOT_FOUND, "%s: no such file or folder", path)
                               : sl_err_set(err, SL_IO, "%s: %s", path, strerror(errno));
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
    for (size_t i = 0; i < m->n_faults; i++) {
        free(m->faults[i].file);
        free(m->faults[i].text);
    }
    free(m->faults);
    for (size_t i = 0; i < m->n_files; i++)
        sl_yaml_lines_done(&m->files[i]);
    free(m->files);
    *m = (struct sl_manifests){0};
}

/* ---- where it is wrong ---- */

/* How much of a path a member's name makes up, as ".name" or "[name]"; 0: another one's path. */
static size_t matches(const char *path, const char *key) {
    size_t len = strlen(key);
    if (*path == '[')
        return !strncmp(path + 1, key, len) && path[1 + len] == ']' ? len + 2 : 0;
    size_t dot = *path == '.';
    return len > 0 && !strncmp(path + dot, key, len) && (!path[dot + len] || strchr(".[", path[dot + len])) ? dot + len
                                                                                                            : 0;
}

/* The value in `at` that the path begins with; *index, its place in the order of the tree, and *path go there. NULL:
 * there is none. */
static const struct sl_json *enter(const struct sl_json *at, const char **path, size_t *index) {
    const struct sl_json *found = NULL;
    size_t i = *index + 1, best = 0;
    SL_JSON_EACH (at, e) {
        size_t n = matches(*path, e.key);
        if (n > best) { /* the longest: a name may have dots */
            best = n;
            found = e.value;
            *index = i;
        }
        (void)sl_json_measure(e.value, &i);
    }
    SL_JSON_ITEMS (at, e) {
        char number[32];
        snprintf(number, sizeof number, "%zu", e.i);
        if (**path == '[' && (best = matches(*path, number)) > 0) {
            found = e.value;
            *index = i;
            break;
        }
        (void)sl_json_measure(e.value, &i);
    }
    *path += best;
    return found;
}

int sl_manifest_line(const struct sl_manifest *m, const char *path, const char *text) {
    const char *list = text + (*text == '['); /* of errors: the first */
    SL_AUTO_FREE char *whole = *path ? sl_xstrdup(path) : sl_xstrndup(list, strcspn(list, ":"));
    size_t index = 0;
    const char *rest = whole;
    for (const struct sl_json *at = m->object; at && *rest;)
        at = enter(at, &rest, &index);
    return m->lines[index];
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
        printf("%s:%d: ", m->file, sl_manifest_line(m, path, text));
        if (m->documents > 1)
            printf("document %d: ", m->document);
        printf("%s: %s/%s: %s%s%s\n", level, kind, name, path, *path ? ": " : "", text);
        return;
    }
    SL_AUTO_JSON *o = sl_json_new_object();
    sl_json_set_str(o, "file", m->file);
    sl_json_set_int(o, "line", sl_manifest_line(m, path, text));
    sl_json_set_int(o, "document", m->document);
    sl_json_set_str(o, "level", level);
    sl_json_set_str(o, "kind", kind);
    sl_json_set_str(o, "name", name);
    sl_json_set_str(o, "path", path);
    sl_json_set_str(o, "text", text);
    sl_output_put(as, o);
}

void sl_manifest_report_fault(enum sl_output as, const struct sl_manifest_fault *f) {
    if (!as) {
        printf("%s:", f->file);
        if (f->line)
            printf("%d:", f->line);
        printf(" error: %s\n", f->text);
        return;
    }
    SL_AUTO_JSON *o = sl_json_new_object();
    sl_json_set_str(o, "file", f->file);
    sl_json_set_int(o, "line", f->line);
    sl_json_set_str(o, "level", "error");
    sl_json_set_str(o, "kind", "");
    sl_json_set_str(o, "name", "");
    sl_json_set_str(o, "path", "");
    sl_json_set_str(o, "text", f->text);
    sl_output_put(as, o);
}
