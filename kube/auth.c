/*
 * Credentials in use. Files are read through their paths each time, since projected volumes swap a link, and are read
 * as a whole: whatever differs from what is in use makes a new struct kube_creds. A file that cannot be read or is
 * malformed leaves the old ones in use, because they may still work and a half-written file must not stop us.
 */
#include "auth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/kube/client.h"

#define LOOK_EVERY_MS  60000
#define DOUBT_EVERY_MS 1000
#define MAX_PEM        ((size_t)1 << 20)
#define MAX_TOKEN      ((size_t)64 << 10)

void kube_secret_done(struct kube_secret *s) {
    if (s->data)
        explicit_bzero(s->data, s->len);
    free(s->data);
    s->data = NULL;
    s->len = 0;
}

void kube_secret_set(struct kube_secret *s, const char *data, size_t len) {
    kube_secret_done(s);
    s->data = sl_xstrndup(data, len);
    s->len = len;
}

/* Not sl_file_read: its buffer grows by moving, which leaves copies of the secret behind. What has no size (a pipe, as
 * shells make it of <(...), or /dev/null, which says nothing) is given all the room that there may be. */
int kube_secret_read(struct kube_secret *s, const char *path, size_t max, struct sl_err *err) {
    int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe that nobody writes into is empty, not waited for */
    if (fd < 0)
        return sl_err_set(err, errno == ENOENT || errno == ENOTDIR ? SL_NOT_FOUND : SL_IO, "%s: %s", path,
                          strerror(errno));
    struct stat st;
    bool sized = !fstat(fd, &st) && S_ISREG(st.st_mode);
    (void)fcntl(fd, F_SETFL, 0); /* but one who does is */
    size_t room = !sized ? max + 1 : (uintmax_t)st.st_size <= max ? (size_t)st.st_size : 0, got = 0;
    struct kube_secret out = {sl_xalloc(room + 1), room}; /* a zero after what was read */
    ssize_t n = 1;
    while (got < room && n > 0) {
        do
            n = read(fd, out.data + got, room - got);
        while (n < 0 && errno == EINTR);
        got += n > 0 ? (size_t)n : 0;
    }
    int e = errno;
    close(fd);
    int rc = 0;
    if ((sized && (uintmax_t)st.st_size > max) || got > max)
        rc = sl_err_set(err, SL_TOO_BIG, "%s: more than %zu bytes", path, max);
    else if (n < 0)
        rc = sl_err_set(err, SL_IO, "%s: %s", path, strerror(e));
    else if (sized && got < room)
        rc = sl_err_set(err, SL_IO, "%s: changed while it was read", path);
    if (rc) {
        kube_secret_done(&out);
        return rc;
    }
    out.len = got;
    kube_secret_done(s);
    *s = out;
    return 0;
}

struct kube_creds *kube_creds_ref(struct kube_creds *c) {
    c->refs++;
    return c;
}

void kube_creds_unref(struct kube_creds *c) {
    if (!c || --c->refs)
        return;
    kube_secret_done(&c->ca);
    kube_secret_done(&c->cert);
    kube_secret_done(&c->key);
    kube_secret_done(&c->token);
    free(c);
}

struct kube_auth {
    struct kube_files files; /* none: in-cluster */
    char *context;           /* NULL: current-context */
    struct kube_config config;
    struct kube_creds *creds;
    int64_t looked_ms;
    bool doubted, complained;
};

static int load_pem(const struct kube_source *s, const char *field, const char *marker, struct kube_secret *out,
                    struct sl_err *err) {
    if (s->inline_data.data)
        kube_secret_set(out, s->inline_data.data, s->inline_data.len);
    else if (s->path) {
        int rc = kube_secret_read(out, s->path, MAX_PEM, err);
        if (rc)
            return sl_err_wrap(err, "%s", field);
    }
    if (out->data && (strlen(out->data) != out->len || !strstr(out->data, marker)))
        return sl_err_set(err, SL_INVALID, "%s%s%s: no PEM block \"%s\"", field, s->path ? " " : "",
                          s->path ? s->path : "", marker);
    return 0;
}

static int load_token(const struct kube_source *s, struct kube_secret *out, struct sl_err *err) {
    if (s->inline_data.data)
        kube_secret_set(out, s->inline_data.data, s->inline_data.len);
    else if (s->path) {
        int rc = kube_secret_read(out, s->path, MAX_TOKEN, err);
        if (rc)
            return sl_err_wrap(err, "token");
    }
    if (!out->data)
        return 0;
    while (out->len && strchr(" \t\r\n", out->data[out->len - 1]))
        out->data[--out->len] = 0;
    for (size_t i = 0; i < out->len; i++) {
        if ((unsigned char)out->data[i] <= ' ' || (unsigned char)out->data[i] >= 0x7f)
            return sl_err_set(err, SL_INVALID, "token%s%s: holds a byte that no token has", s->path ? " " : "",
                              s->path ? s->path : "");
    }
    if (!out->len)
        return sl_err_set(err, SL_INVALID, "token%s%s: is empty", s->path ? " " : "", s->path ? s->path : "");
    return 0;
}

static int load(const struct kube_config *config, struct kube_creds **ret, struct sl_err *err) {
    struct kube_creds *c = sl_xalloc(sizeof *c);
    c->refs = 1;
    c->insecure = config->insecure;
    int rc = load_pem(&config->ca, "certificate-authority", "-----BEGIN CERTIFICATE-----", &c->ca, err);
    if (!rc)
        rc = load_pem(&config->cert, "client-certificate", "-----BEGIN CERTIFICATE-----", &c->cert, err);
    if (!rc)
        rc = load_pem(&config->key, "client-key", "PRIVATE KEY-----", &c->key, err);
    if (!rc)
        rc = load_token(&config->token, &c->token, err);
    if (rc) {
        kube_creds_unref(c);
        return rc;
    }
    *ret = c;
    return 0;
}

static int in_cluster(struct kube_auth *a, struct sl_err *err) {
    const char *ns = getenv("POD_NAMESPACE");
    int rc = kube_config_in_cluster(&a->config, KUBE_SERVICE_ACCOUNT, getenv("KUBERNETES_SERVICE_HOST"),
                                    getenv("KUBERNETES_SERVICE_PORT"), err);
    if (!rc && ns && *ns) {
        free(a->config.ns);
        a->config.ns = sl_xstrdup(ns);
    }
    return rc;
}

/* The files, and where they say nothing, the pod. */
static int find(struct kube_auth *a, struct sl_err *err) {
    int rc = a->files.n ? kube_config_load(&a->config, &a->files, a->context, err) : 0;
    if (rc || a->config.server)
        return rc;
    if (!a->files.n || getenv("KUBERNETES_SERVICE_HOST")) {
        kube_files_done(&a->files);
        return in_cluster(a, err);
    }
    return sl_err_set(err, SL_NOT_FOUND,
                      "no cluster is named: %s%s does not exist or has no current-context, and this is no pod; "
                      "--kubeconfig names another file",
                      a->files.paths[0], a->files.n > 1 ? " (and what else KUBECONFIG lists)" : "");
}

int kube_auth_new(const struct sl_client_options *options, struct kube_auth **ret, struct sl_err *err) {
    struct kube_auth *a = sl_xalloc(sizeof *a);
    a->looked_ms = INT64_MIN;
    a->context = sl_xstrdup(options->context);
    int rc = kube_files_find(&a->files, options->kubeconfig, options->usual_places, err);
    if (!rc)
        rc = find(a, err);
    if (!rc)
        rc = load(&a->config, &a->creds, err);
    if (rc) {
        kube_auth_free(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void kube_auth_free(struct kube_auth *a) {
    if (!a)
        return;
    kube_creds_unref(a->creds);
    kube_config_done(&a->config);
    kube_files_done(&a->files);
    free(a->context);
    free(a);
}

const struct kube_config *kube_auth_config(const struct kube_auth *a) {
    return &a->config;
}

static bool same(const struct kube_secret *a, const struct kube_secret *b) {
    return a->len == b->len && !a->data == !b->data && (!a->len || !memcmp(a->data, b->data, a->len));
}

/* The kubeconfig itself may have new credentials in line. Where the server is stays as it was at the start:
 * connections, watches and the books behind them belong to that one. */
static int read_config(const struct kube_auth *a, struct kube_config *ret, struct sl_err *err) {
    struct kube_config c = {0};
    int rc = kube_config_load(&c, &a->files, a->context, err);
    if (rc)
        return rc;
    if (!c.server)
        return sl_err_set(err, SL_NOT_FOUND, "kubeconfig %s: names no cluster any more", a->files.paths[0]);
    const char *name = c.tls_server_name ? c.tls_server_name : "",
               *old = a->config.tls_server_name ? a->config.tls_server_name : "";
    if (strcmp(c.server, a->config.server) || strcmp(name, old)) {
        kube_config_done(&c);
        return sl_err_set(err, SL_INVALID, "kubeconfig %s names another server now: restart to use it",
                          a->files.paths[0]);
    }
    *ret = c;
    return 0;
}

static int load_again(struct kube_auth *a, struct kube_creds **ret, struct sl_err *err) {
    if (!a->files.n)
        return load(&a->config, ret, err);
    struct kube_config c = {0};
    int rc = read_config(a, &c, err);
    if (!rc)
        rc = load(&c, ret, err);
    if (rc) {
        kube_config_done(&c);
        return rc;
    }
    kube_config_done(&a->config);
    a->config = c;
    return 0;
}

static void look(struct kube_auth *a) {
    struct kube_creds *c = NULL;
    struct sl_err err = SL_ERR_INIT;
    if (load_again(a, &c, &err)) {
        if (!a->complained)
            SL_LOG(WARN, "credentials could not be read again, the old ones stay in use", SL_STR("error", err.text));
        a->complained = true;
        return;
    }
    a->complained = false;
    const struct kube_creds *old = a->creds;
    if (c->insecure == old->insecure && same(&c->ca, &old->ca) && same(&c->cert, &old->cert) &&
        same(&c->key, &old->key) && same(&c->token, &old->token)) {
        kube_creds_unref(c);
        return;
    }
    SL_LOG(DEBUG, "credentials changed");
    kube_creds_unref(a->creds);
    a->creds = c;
}

struct kube_creds *kube_auth_get(struct kube_auth *a, int64_t now) {
    if (a->looked_ms == INT64_MIN)
        a->looked_ms = now;
    int64_t age = now - a->looked_ms;
    if (age >= LOOK_EVERY_MS || (a->doubted && age >= DOUBT_EVERY_MS)) {
        a->looked_ms = now;
        a->doubted = false;
        look(a);
    }
    return kube_creds_ref(a->creds);
}

void kube_auth_doubt(struct kube_auth *a) {
    a->doubted = true;
}
