/* Manifests from files and folders. */
#include "sluice/cmd/manifests.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

#define MAX_DOCUMENTS 20000
#define MAX_FILE      (4u << 20)
#define MAX_DEPTH     16

static int add(struct sl_manifests *m, const char *file, int line, const struct sl_json *object, struct sl_err *err) {
    if (!sl_json_is_object(object))
        return sl_err_set(err, SL_INVALID, "%s:%d: a document must be an object", file, line);
    const char *kind = sl_json_get_str(object, "kind", "");
    if (strlen(kind) >= 4 && !strcmp(kind + strlen(kind) - 4, "List") &&
        sl_json_is_array(sl_json_get(object, "items"))) {
        SL_JSON_ITEMS (sl_json_get(object, "items"), e) {
            int rc = add(m, file, line, e.value, err);
            if (rc)
                return rc;
        }
        return 0;
    }
    if (m->n >= MAX_DOCUMENTS)
        return sl_err_set(err, SL_TOO_BIG, "%s: more than %d documents", file, MAX_DOCUMENTS);
    SL_GROW(m->items, m->cap, m->n);
    m->items[m->n++] = (struct sl_manifest){sl_xstrdup(file), line, sl_json_ref(object)};
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
    SL_JSON_ITEMS (docs, e) {
        if (!rc)
            rc = add(m, path, lines[e.i], e.value, err);
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
