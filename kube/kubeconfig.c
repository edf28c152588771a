/*
 * A kubeconfig is checked in the order client-go reads it: context, cluster, user. What we cannot do (proxies,
 * credential plugins, passwords, impersonation) is refused by name, since ignoring it would connect as somebody else or
 * not at all.
 *
 * Several files are not merged into one tree: whatever is looked for is looked for in one after the other, which comes
 * to the same (an entry is taken whole from the first file that has one of its name) and remembers the file, whose
 * folder relative paths start from.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

#define MAX_FILE  ((size_t)4 << 20)
#define MAX_FILES 64
#define MAX_NAME  ((size_t)256)

static void source_done(struct kube_source *s) {
    kube_secret_done(&s->inline_data);
    free(s->path);
}

void kube_config_done(struct kube_config *c) {
    free(c->server);
    free(c->tls_server_name);
    free(c->ns);
    source_done(&c->ca);
    source_done(&c->cert);
    source_done(&c->key);
    source_done(&c->token);
    memset(c, 0, sizeof *c);
}

/* A file of a kubeconfig, read. */
struct part {
    const char *name; /* for errors; NULL: a text */
    struct sl_json *doc;
    char *folder;
};

/* The entry called name in list `plural` (members: name, singular) of the first part that has one, and that part; NULL
 * when absent. */
static const struct sl_json *find_entry(const struct part *parts, size_t n, const char *plural, const char *name,
                                        const struct part **ret) {
    for (size_t i = 0; i < n; i++)
        SL_JSON_ITEMS (sl_json_get(parts[i].doc, plural), e) {
            if (!strcmp(sl_json_get_str(e.value, "name", ""), name)) {
                *ret = &parts[i];
                return e.value;
            }
        }
    return NULL;
}

/* Text members only; anything else under that name is an error. *ret stays NULL when the member is absent or "". */
static int text_of(const struct sl_json *object, const char *where, const char *key, const char **ret,
                   struct sl_err *err) {
    const struct sl_json *v = sl_json_get(object, key);
    if (sl_json_is_null(v))
        return 0;
    if (sl_json_type(v) != SL_JSON_STRING || strlen(sl_json_str(v, "")) != sl_json_str_len(v))
        return sl_err_set(err, SL_INVALID, "%s.%s must be text", where, key);
    if (sl_json_str_len(v))
        *ret = sl_json_str(v, NULL);
    return 0;
}

/* `key`-data in line (base64), else `key` as a path. */
static int read_source(const struct sl_json *object, const char *where, const char *key, const char *folder,
                       struct kube_source *s, struct sl_err *err) {
    SL_AUTO_FREE char *data_key = sl_xprintf("%s-data", key);
    const char *data = NULL, *path = NULL;
    int rc = text_of(object, where, data_key, &data, err);
    if (!rc)
        rc = text_of(object, where, key, &path, err);
    if (rc)
        return rc;
    if (data) {
        struct sl_buf raw = SL_BUF_INIT(MAX_FILE);
        rc = sl_buf_add_unbase64(&raw, data, strlen(data), err);
        if (!rc)
            kube_secret_set(&s->inline_data, sl_buf_text(&raw), raw.len);
        if (raw.data)
            explicit_bzero(raw.data, raw.cap);
        sl_buf_done(&raw);
        return rc ? sl_err_wrap(err, "%s.%s", where, data_key) : 0;
    }
    if (path)
        s->path = *path == '/' || !folder || !*folder ? sl_xstrdup(path) : sl_xprintf("%s/%s", folder, path);
    return 0;
}

static bool is_loopback(const char *host) {
    return !strncmp(host, "127.", 4) || !strncmp(host, "[::1]", 5) ||
           (!strncasecmp(host, "localhost", 9) && strchr(":/", host[9]));
}

static int check_server(const char *server, struct sl_err *err) {
    bool https = !strncasecmp(server, "https://", 8), http = !strncasecmp(server, "http://", 7);
    const char *host = server + (https ? 8 : 7);
    if ((!https && !http) || !*host || *host == '/' || *host == ':')
        return sl_err_set(err, SL_INVALID, "cluster.server \"%s\" must be a URL that begins with https://", server);
    if (http && !is_loopback(host))
        return sl_err_set(err, SL_INVALID,
                          "cluster.server \"%s\" must be https (http is accepted for a loopback address only)", server);
    for (const char *p = server; *p; p++) {
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || strchr("@?#\"\\", *p))
            return sl_err_set(err, SL_INVALID,
                              "cluster.server may not contain white space, user names, a query or a fragment");
    }
    return 0;
}

static int read_cluster(struct kube_config *c, const struct sl_json *cluster, const char *folder, struct sl_err *err) {
    const char *server = NULL, *proxy = NULL, *name = NULL;
    const struct sl_json *insecure = sl_json_get(cluster, "insecure-skip-tls-verify");
    int rc = text_of(cluster, "cluster", "server", &server, err);
    if (!rc)
        rc = text_of(cluster, "cluster", "proxy-url", &proxy, err);
    if (!rc)
        rc = text_of(cluster, "cluster", "tls-server-name", &name, err);
    if (!rc)
        rc = read_source(cluster, "cluster", "certificate-authority", folder, &c->ca, err);
    if (rc)
        return rc;
    if (!server)
        return sl_err_set(err, SL_INVALID, "cluster.server is missing");
    if (proxy)
        return sl_err_set(err, SL_INVALID, "cluster.proxy-url is not supported: connect to the API server directly");
    if (!sl_json_is_null(insecure) && sl_json_type(insecure) != SL_JSON_BOOL)
        return sl_err_set(err, SL_INVALID, "cluster.insecure-skip-tls-verify must be true or false");
    c->insecure = sl_json_bool(insecure, false);
    if (c->insecure && (c->ca.path || c->ca.inline_data.data))
        return sl_err_set(err, SL_INVALID,
                          "cluster.certificate-authority and cluster.insecure-skip-tls-verify exclude each other");
    rc = check_server(server, err);
    if (rc)
        return rc;
    if (name && (strlen(name) > 253 || strpbrk(name, " /:@?#\"\\\r\n\t")))
        return sl_err_set(err, SL_INVALID, "cluster.tls-server-name must be a host name");
    size_t n = strlen(server);
    while (n && server[n - 1] == '/')
        n--;
    c->server = sl_xstrndup(server, n);
    c->tls_server_name = sl_xstrdup(name);
    return 0;
}

static int read_user(struct kube_config *c, const struct sl_json *user, const char *folder, struct sl_err *err) {
    static const struct {
        const char *key, *advice;
    } refused[] = {
        {"exec", "credential plugins are not run; use a client certificate, a token or tokenFile"},
        {"auth-provider", "credential plugins are not run; use a client certificate, a token or tokenFile"},
        {"username", "basic authentication no longer exists in Kubernetes"},
        {"password", "basic authentication no longer exists in Kubernetes"},
        {"as", "impersonation is not supported"},
        {"as-uid", "impersonation is not supported"},
        {"as-groups", "impersonation is not supported"},
        {"as-user-extra", "impersonation is not supported"},
    };
    for (size_t i = 0; i < SL_COUNT(refused); i++) {
        if (!sl_json_is_null(sl_json_get(user, refused[i].key)))
            return sl_err_set(err, SL_INVALID, "user.%s is not supported: %s", refused[i].key, refused[i].advice);
    }
    const char *token = NULL, *file = NULL;
    int rc = text_of(user, "user", "token", &token, err);
    if (!rc)
        rc = text_of(user, "user", "tokenFile", &file, err);
    if (!rc)
        rc = read_source(user, "user", "client-certificate", folder, &c->cert, err);
    if (!rc)
        rc = read_source(user, "user", "client-key", folder, &c->key, err);
    if (rc)
        return rc;
    if (file) /* as in client-go, the file wins */
        c->token.path = *file == '/' || !folder || !*folder ? sl_xstrdup(file) : sl_xprintf("%s/%s", folder, file);
    else if (token)
        kube_secret_set(&c->token.inline_data, token, strlen(token));
    bool cert = c->cert.path || c->cert.inline_data.data, key = c->key.path || c->key.inline_data.data;
    if (cert != key)
        return sl_err_set(err, SL_INVALID, "user.%s is missing: certificate and key come together",
                          cert ? "client-key" : "client-certificate");
    return 0;
}

/* Of several files: which one it is about. */
static int in_part(const struct part *part, size_t n, int rc, struct sl_err *err) {
    if (n > 1)
        sl_err_wrap(err, "%s", part->name);
    return rc;
}

/* *ret_context stays NULL when no part names one. */
static int current_context(const struct part *parts, size_t n, const char **ret_context, struct sl_err *err) {
    int rc = 0;
    for (size_t i = 0; i < n && !rc && !*ret_context; i++) {
        rc = text_of(parts[i].doc, "kubeconfig", "current-context", ret_context, err);
        if (rc)
            in_part(&parts[i], n, rc, err);
    }
    return rc;
}

static int read_parts(struct kube_config *c, const struct part *parts, size_t n, const char *context,
                      struct sl_err *err) {
    const char *cluster_name = NULL, *user_name = NULL, *ns = NULL;
    const struct part *part = NULL;
    const struct sl_json *entry = find_entry(parts, n, "contexts", context, &part), *inner;
    if (!entry)
        return sl_err_set(err, SL_NOT_FOUND, "contexts: there is none called \"%s\"", context);
    inner = sl_json_get(entry, "context");
    int rc = text_of(inner, "context", "cluster", &cluster_name, err);
    if (!rc)
        rc = text_of(inner, "context", "user", &user_name, err);
    if (!rc)
        rc = text_of(inner, "context", "namespace", &ns, err);
    if (rc)
        return in_part(part, n, rc, err);
    const struct sl_json *cluster = cluster_name ? find_entry(parts, n, "clusters", cluster_name, &part) : NULL;
    if (!cluster)
        return sl_err_set(err, SL_NOT_FOUND, "clusters: there is none called \"%s\" (context \"%s\")",
                          cluster_name ? cluster_name : "", context);
    rc = read_cluster(c, sl_json_get(cluster, "cluster"), part->folder, err);
    if (rc) {
        sl_err_wrap(err, "cluster \"%s\"", cluster_name);
        return in_part(part, n, rc, err);
    }
    const struct sl_json *user = user_name ? find_entry(parts, n, "users", user_name, &part) : NULL;
    if (user_name && !user)
        return sl_err_set(err, SL_NOT_FOUND, "users: there is none called \"%s\" (context \"%s\")", user_name, context);
    rc = user ? read_user(c, sl_json_get(user, "user"), part->folder, err) : 0;
    if (rc) {
        sl_err_wrap(err, "user \"%s\"", user_name);
        return in_part(part, n, rc, err);
    }
    c->ns = sl_xstrdup(ns);
    return 0;
}

/* *ret_doc: owned; stays NULL for a file without a document. */
static int parse_part(const char *text, size_t len, struct sl_json **ret_doc, struct sl_err *err) {
    SL_AUTO_JSON *docs = NULL;
    int rc = sl_yaml_parse(text, len, false, &docs, NULL, err);
    if (rc)
        return rc;
    if (sl_json_len(docs) > 1 || (sl_json_len(docs) && !sl_json_is_object(sl_json_at(docs, 0))))
        return sl_err_set(err, SL_INVALID, "a kubeconfig is one YAML document with a mapping");
    *ret_doc = sl_json_ref(sl_json_at(docs, 0));
    return 0;
}

int kube_config_parse(struct kube_config *ret, const char *text, size_t len, const char *folder, const char *context,
                      struct sl_err *err) {
    SL_AUTO_JSON *doc = NULL;
    SL_AUTO_FREE char *where = sl_xstrdup(folder);
    int rc = parse_part(text, len, &doc, err);
    const struct part part = {NULL, doc, where};
    if (!rc && !context)
        rc = current_context(&part, 1, &context, err);
    if (!rc && !context)
        rc = sl_err_set(err, SL_INVALID, "current-context is missing and no context was chosen");
    struct kube_config c = {0};
    if (!rc)
        rc = read_parts(&c, &part, 1, context, err);
    if (rc) {
        kube_config_done(&c);
        return rc;
    }
    *ret = c;
    return 0;
}

static int load_part(struct part *part, const char *path, struct sl_err *err) {
    struct kube_secret text = {0};
    const char *slash = strrchr(path, '/');
    part->name = path;
    part->folder = slash ? sl_xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : sl_xstrdup("");
    int rc = kube_secret_read(&text, path, MAX_FILE, err);
    if (!rc) {
        rc = parse_part(text.data, text.len, &part->doc, err);
        if (rc)
            sl_err_wrap(err, "%s", path);
    }
    kube_secret_done(&text);
    return rc;
}

static int load_parts(struct kube_config *c, const struct kube_files *files, struct part *parts, const char *context,
                      struct sl_err *err) {
    size_t n = 0;
    for (size_t i = 0; i < files->n; i++) {
        int rc = load_part(&parts[n], files->paths[i], err);
        if (!rc && parts[n].doc)
            n++;
        else
            free(SL_TAKE(parts[n].folder));
        if (rc && !(rc == SL_NOT_FOUND && files->may_lack))
            return rc;
    }
    int rc = context ? 0 : current_context(parts, n, &context, err);
    if (!rc && !context)
        return files->may_lack ? 0
                               : sl_err_set(err, SL_INVALID, "current-context is missing and no context was chosen");
    return rc ? rc : read_parts(c, parts, n, context, err);
}

int kube_config_load(struct kube_config *ret, const struct kube_files *files, const char *context, struct sl_err *err) {
    struct part parts[MAX_FILES] = {{0}};
    struct kube_config c = {0};
    struct sl_err own = SL_ERR_INIT;
    SL_ASSERT(files->n <= MAX_FILES);
    int rc = load_parts(&c, files, parts, context, &own);
    for (size_t i = 0; i < files->n; i++) {
        sl_json_unref(parts[i].doc);
        free(parts[i].folder);
    }
    if (rc) {
        kube_config_done(&c);
        sl_err_set(err, rc, "%s", own.text);
        return files->n == 1 && strncmp(own.text, files->paths[0], strlen(files->paths[0])) != 0
                   ? sl_err_wrap(err, "kubeconfig %s", files->paths[0])
                   : sl_err_wrap(err, "kubeconfig");
    }
    *ret = c;
    return 0;
}

static void add_file(struct kube_files *f, size_t *cap, char *take) {
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->paths[i], take)) {
            free(take);
            return;
        }
    SL_GROW(f->paths, *cap, f->n);
    f->paths[f->n++] = take;
}

int kube_files_find(struct kube_files *ret, const char *kubeconfig, bool usual, struct sl_err *err) {
    const char *list = kubeconfig || !usual ? NULL : getenv("KUBECONFIG"), *home = getenv("HOME");
    struct kube_files f = {.may_lack = !kubeconfig};
    size_t cap = 0;
    if (kubeconfig) {
        add_file(&f, &cap, sl_xstrdup(kubeconfig));
    } else if (list && *list) {
        for (size_t len; *list; list += len + (list[len] == ':')) {
            len = strcspn(list, ":");
            if (len)
                add_file(&f, &cap, sl_xstrndup(list, len));
        }
    } else if (usual && home && *home) {
        add_file(&f, &cap, sl_xprintf("%s/.kube/config", home));
    }
    if (f.n > MAX_FILES) {
        kube_files_done(&f);
        return sl_err_set(err, SL_TOO_BIG, "KUBECONFIG names more than %d files", MAX_FILES);
    }
    *ret = f;
    return 0;
}

void kube_files_done(struct kube_files *f) {
    for (size_t i = 0; i < f->n; i++)
        free(f->paths[i]);
    free(f->paths);
    *f = (struct kube_files){0};
}

int kube_config_in_cluster(struct kube_config *ret, const char *folder, const char *host, const char *port,
                           struct sl_err *err) {
    if (!host || !*host || !port || !*port)
        return sl_err_set(err, SL_INVALID,
                          "no kubeconfig was given, and this is no pod: KUBERNETES_SERVICE_HOST or _PORT is not set");
    struct kube_config c = {0};
    c.server = sl_xprintf(strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
    c.ca.path = sl_xprintf("%s/ca.crt", folder);
    c.token.path = sl_xprintf("%s/token", folder);
    SL_AUTO_FREE char *ns_path = sl_xprintf("%s/namespace", folder);
    struct kube_secret ns = {0};
    if (!kube_secret_read(&ns, ns_path, MAX_NAME, NULL)) /* not every pod's account has one */
        c.ns = sl_xstrndup(ns.data, strcspn(ns.data, " \t\r\n"));
    kube_secret_done(&ns);
    int rc = check_server(c.server, err);
    if (rc) {
        kube_config_done(&c);
        return rc;
    }
    *ret = c;
    return 0;
}
