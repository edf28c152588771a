/* The configuration file, read for a verb. */
#include <stdio.h>
#include <stdlib.h>

#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"
#include "sluice/cmd/config.h"

int sl_config_load(const char *path, const char *gates, const char *ns, struct sl_config *ret,
                   struct sl_json **ret_document) {
    struct sl_err err = SL_ERR_INIT;
    *ret_document = NULL;
    sl_config_init(ret);
    if (path) {
        SL_AUTO_BUF text = SL_BUF_INIT(1u << 20);
        SL_AUTO_JSON *docs = NULL;
        SL_AUTO_FREE char *message = NULL;
        int rc = sl_file_read(path, &text, &err);
        if (!rc)
            rc = sl_yaml_parse(sl_buf_text(&text), text.len, false, &docs, NULL, &err);
        if (!rc && sl_json_len(docs) != 1)
            rc = sl_err_set(&err, SL_INVALID, "must hold one document, holds %zu", sl_json_len(docs));
        if (!rc) {
            sl_config_done(ret);
            rc = sl_config_parse(sl_json_at(docs, 0), ret, &message, &err);
        }
        if (rc) {
            fprintf(stderr, "sluice: configuration %s: %s\n", path, message ? message : err.text);
            sl_config_done(ret);
            return -1;
        }
        *ret_document = sl_json_ref(sl_json_at(docs, 0));
    }
    if (gates && sl_config_set_gates(ret, gates, &err)) {
        fprintf(stderr, "sluice: --feature-gates: %s\n", err.text);
        sl_config_done(ret);
        sl_json_unref(*ret_document);
        return -1;
    }
    if (ns && !*ret->namespace) {
        free(ret->namespace);
        ret->namespace = sl_xstrdup(ns);
    }
    return 0;
}
