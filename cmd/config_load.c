/* The configuration file, read for a verb. */
#include <stdio.h>
#include <stdlib.h>

#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"
#include "sluice/cmd/config.h"

static int read_document(const char *path, struct sl_json **ret, struct sl_err *err) {
    SL_AUTO_BUF text = SL_BUF_INIT(1u << 20);
    SL_AUTO_JSON *docs = NULL;
    int rc = sl_file_read(path, &text, err);
    if (rc)
        return rc; /* its text begins with the path */
    rc = sl_yaml_parse(sl_buf_text(&text), text.len, false, &docs, NULL, err);
    if (!rc && sl_json_len(docs) != 1)
        rc = sl_err_set(err, SL_INVALID, "must hold one document, holds %zu", sl_json_len(docs));
    if (rc) {
        sl_err_wrap(err, "%s", path);
        return rc;
    }
    *ret = sl_json_ref(sl_json_at(docs, 0));
    return 0;
}

int sl_config_read(const char *path, const char *gates, const char *ns, struct sl_config *ret, char **ret_error) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *document = NULL;
    *ret_error = NULL;
    sl_config_init(ret);
    if (path) {
        SL_AUTO_FREE char *message = NULL;
        if (read_document(path, &document, &err)) {
            *ret_error = sl_xprintf("configuration %s", err.text);
        } else {
            sl_config_done(ret);
            if (sl_config_parse(document, ret, &message, &err))
                *ret_error = sl_xprintf("configuration %s: %s", path, message ? message : err.text);
        }
    }
    if (!*ret_error && gates && sl_config_set_gates(ret, gates, &err))
        *ret_error = sl_xprintf("--feature-gates: %s", err.text);
    if (*ret_error) {
        sl_config_done(ret);
        return -1;
    }
    if (ns && !*ret->namespace) {
        free(ret->namespace);
        ret->namespace = sl_xstrdup(ns);
    }
    return 0;
}

int sl_config_load(const char *path, const char *gates, const char *ns, struct sl_config *ret) {
    SL_AUTO_FREE char *error = NULL;
    int rc = sl_config_read(path, gates, ns, ret, &error);
    if (rc)
        fprintf(stderr, "sluice: %s\n", error);
    return rc;
}
