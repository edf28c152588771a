/*
 * A kubeconfig is checked in the order client-go reads it: context, cluster, user. What we cannot do (proxies,
 * credential plugins, passwords, impersonation) is refused by name, since ignoring it would connect as somebody else or
 * not at all.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth.h"
#include "sluice/base/mem.h"
#include "sluice/base/yaml.h"

#define MAX_FILE ((size_t)4 << 20)

static void source_done(struct kube_source *s) {
    kube_secret_done(&s->inline_data);
    free(s->path);
}

void kube_config_done(struct kube_config *c) {
    free(c->server);
    free(c->tls_server_name);
    source_done(&c->ca);
    source_done(&c->cert);
    source_done(&c->key);
    source_done(&c->token);
    memset(c, 0, sizeof *c);
}

/* The entry called name in list `plural` (members: name, singular); NULL when absent. */
static const struct sl_json *find_entry(const struct sl_json *doc, const char *plural, const char *name) {
    SL_JSON_ITEMS (sl_json_get(doc, plural), e) {
        if (!strcmp(sl_json_get_str(e.value, "name", ""), name))
            return e.value;
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

static int read_doc(struct kube_config *c, const struct sl_json *doc, const char *folder, const char *context,
                    struct sl_err *err) {
    const char *current = NULL, *cluster_name = NULL, *user_name = NULL;
    int rc = text_of(doc, "kubeconfig", "current-context", &current, err);
    if (rc)
        return rc;
    if (!context)
        context = current;
    if (!context)
        return sl_err_set(err, SL_INVALID, "current-context is missing and no context was chosen");
    const struct sl_json *entry = find_entry(doc, "contexts", context);
    if (!entry)
        return sl_err_set(err, SL_NOT_FOUND, "contexts: there is none called \"%s\"", context);
    rc = text_of(sl_json_get(entry, "context"), "context", "cluster", &cluster_name, err);
    if (!rc)
        rc = text_of(sl_json_get(entry, "context"), "context", "user", &user_name, err);
    if (rc)
        return rc;
    const struct sl_json *cluster = cluster_name ? find_entry(doc, "clusters", cluster_name) : NULL;
    if (!cluster)
        return sl_err_set(err, SL_NOT_FOUND, "clusters: there is none called \"%s\" (context \"%s\")",
                          cluster_name ? cluster_name : "", context);
    rc = read_cluster(c, sl_json_get(cluster, "cluster"), folder, err);
    if (rc)
        return sl_err_wrap(err, "cluster \"%s\"", cluster_name);
    const struct sl_json *user = user_name ? find_entry(doc, "users", user_name) : NULL;
    if (user_name && !user)
        return sl_err_set(err, SL_NOT_FOUND, "users: there is none called \"%s\" (context \"%s\")", user_name, context);
    rc = read_user(c, sl_json_get(user, "user"), folder, err);
    return rc ? sl_err_wrap(err, "user \"%s\"", user_name) : 0;
}

int kube_config_parse(struct kube_config *ret, const char *text, size_t len, const char *folder, const char *context,
                      struct sl_err *err) {
    SL_AUTO_JSON *docs = NULL;
    int rc = sl_yaml_parse(text, len, false, &docs, NULL, err);
    if (rc)
        return rc;
    if (sl_json_len(docs) != 1 || !sl_json_is_object(sl_json_at(docs, 0)))
        return sl_err_set(err, SL_INVALID, "a kubeconfig is one YAML document with a mapping");
    struct kube_config c = {0};
    rc = read_doc(&c, sl_json_at(docs, 0), folder, context, err);
    if (rc) {
        kube_config_done(&c);
        return rc;
    }
    *ret = c;
    return 0;
}

int kube_config_load(struct kube_config *ret, const char *path, const char *context, struct sl_err *err) {
    struct kube_secret text = {0};
    const char *slash = strrchr(path, '/');
    SL_AUTO_FREE char *folder = slash ? sl_xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : sl_xstrdup("");
    int rc = kube_secret_read(&text, path, MAX_FILE, err);
    if (!rc)
        rc = kube_config_parse(ret, text.data, text.len, folder, context, err);
    kube_secret_done(&text);
    return rc ? sl_err_wrap(err, "kubeconfig %s", path) : 0;
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
    int rc = check_server(c.server, err);
    if (rc) {
        kube_config_done(&c);
        return rc;
    }
    *ret = c;
    return 0;
}
