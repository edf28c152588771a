/* Kubeconfigs, credentials in files, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth.h"
#include "sluice/base/file.h"
#include "sluice/base/log.h"
#include "sluice/base/mem.h"
#include "sluice/kube/client.h"

#define HEAD                                                                                                           \
    "apiVersion: v1\nkind: Config\ncurrent-context: c\n"                                                               \
    "contexts: [{name: c, context: {cluster: k, user: u}}, {name: d, context: {cluster: k}}]\n"
#define CLUSTER(x) "clusters: [{name: k, cluster: {" x "}}]\n"
#define USER(x)    "users: [{name: u, user: {" x "}}]\n"
#define SERVER     "server: 'https://h:6443'"

static int parse(const char *text, struct kube_config *c, struct sl_err *err) {
    memset(c, 0, sizeof *c);
    return kube_config_parse(c, text, strlen(text), "/etc/kube", NULL, err);
}

static void reads_what_is_supported(void **state) {
    (void)state;
    struct kube_config c;
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(
        parse(HEAD CLUSTER("server: 'https://h:6443//', certificate-authority: ca.crt, tls-server-name: other")
                  USER("client-certificate: /abs/cert, client-key-data: a2V5, token: secret, tokenFile: tok"),
              &c, &err),
        0);
    assert_string_equal(c.server, "https://h:6443");
    assert_string_equal(c.tls_server_name, "other");
    assert_string_equal(c.ca.path, "/etc/kube/ca.crt");
    assert_string_equal(c.cert.path, "/abs/cert");
    assert_string_equal(c.key.inline_data.data, "key");
    assert_string_equal(c.token.path, "/etc/kube/tok"); /* the file wins */
    assert_null(c.token.inline_data.data);
    assert_false(c.insecure);
    kube_config_done(&c);
    assert_int_equal(parse(HEAD CLUSTER("server: 'http://127.0.0.1:8001/prefix', insecure-skip-tls-verify: true")
                               USER("token: t"),
                           &c, &err),
                     0);
    assert_true(c.insecure);
    assert_string_equal(c.server, "http://127.0.0.1:8001/prefix");
    assert_string_equal(c.token.inline_data.data, "t");
    kube_config_done(&c);
}

static void refuses_by_name(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {HEAD CLUSTER(SERVER) USER("exec: {command: aws}"), "user \"u\": user.exec is not supported"},
        {HEAD CLUSTER(SERVER) USER("auth-provider: {name: gcp}"), "user.auth-provider is not supported"},
        {HEAD CLUSTER(SERVER) USER("username: a, password: b"), "user.username is not supported"},
        {HEAD CLUSTER(SERVER) USER("as: root"), "user.as is not supported"},
        {HEAD CLUSTER(SERVER) USER("as-user-extra: {a: [b]}"), "user.as-user-extra is not supported"},
        {HEAD CLUSTER(SERVER) USER("client-certificate: c"), "user.client-key is missing"},
        {HEAD CLUSTER(SERVER) USER("client-key: c"), "user.client-certificate is missing"},
        {HEAD CLUSTER(SERVER) USER("token: [1]"), "user.token must be text"},
        {HEAD CLUSTER(SERVER) USER("client-key-data: '***'"), "user.client-key-data"},
        {HEAD CLUSTER(SERVER ", proxy-url: 'http://p'") USER(""), "cluster \"k\": cluster.proxy-url is not supported"},
        {HEAD CLUSTER(SERVER ", certificate-authority: x, insecure-skip-tls-verify: true") USER(""),
         "exclude each other"},
        {HEAD CLUSTER(SERVER ", insecure-skip-tls-verify: 'yes'") USER(""), "must be true or false"},
        {HEAD CLUSTER("server: ''") USER(""), "cluster.server is missing"},
        {HEAD CLUSTER("server: 'h:6443'") USER(""), "must be a URL"},
        {HEAD CLUSTER("server: 'http://example.com'") USER(""), "must be https"},
        {HEAD CLUSTER("server: 'https://u:p@h'") USER(""), "may not contain"},
        {HEAD CLUSTER("server: 'https://'") USER(""), "must be a URL"},
        {HEAD CLUSTER(SERVER ", tls-server-name: 'a b'") USER(""), "tls-server-name"},
        {HEAD CLUSTER(SERVER), "users: there is none called \"u\""},
        {HEAD USER(""), "clusters: there is none called \"k\""},
        {"current-context: x\n", "contexts: there is none called \"x\""},
        {"kind: Config\n", "current-context is missing"},
        {"[]", "one YAML document"},
        {"a: [", "line"},
        {HEAD CLUSTER(SERVER) "users: [{name: u, user: &x {token: *x}}]\n", ""},
    };
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        struct kube_config c;
        struct sl_err err = SL_ERR_INIT;
        assert_true(parse(bad[i].text, &c, &err) < 0);
        if (!strstr(err.text, bad[i].says))
            fail_msg("case %zu says: %s", i, err.text);
        assert_null(strstr(err.text, "secret"));
    }
}

static void reads_the_pods_own(void **state) {
    (void)state;
    struct kube_config c = {0};
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(kube_config_in_cluster(&c, "/sa", "10.0.0.1", "443", &err), 0);
    assert_string_equal(c.server, "https://10.0.0.1:443");
    assert_string_equal(c.ca.path, "/sa/ca.crt");
    assert_string_equal(c.token.path, "/sa/token");
    kube_config_done(&c);
    assert_int_equal(kube_config_in_cluster(&c, "/sa", "fd00::1", "443", &err), 0);
    assert_string_equal(c.server, "https://[fd00::1]:443");
    kube_config_done(&c);
    assert_int_equal(kube_config_in_cluster(&c, "/sa", NULL, "443", &err), SL_INVALID);
    assert_non_null(strstr(err.text, "KUBERNETES_SERVICE_HOST"));
}

static char folder[64];
static void put(const char *name, const char *text) {
    SL_AUTO_FREE char *path = sl_xprintf("%s/%s", folder, name);
    assert_int_equal(sl_file_write(path, text, strlen(text), 0600, NULL), 0);
}

static void files_are_read_again(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/sluice-auth-XXXXXX");
    assert_non_null(mkdtemp(folder));
    SL_AUTO_FREE char *config = sl_xprintf("%s/config", folder), *token = sl_xprintf("%s/token", folder),
                      *ca = sl_xprintf("%s/ca", folder);
    put("config", HEAD CLUSTER(SERVER ", certificate-authority: ca") USER("tokenFile: token"));
    put("token", "one\n");
    put("ca", "-----BEGIN CERTIFICATE-----\nA\n");
    struct kube_auth *a = NULL;
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(kube_auth_new(&(struct sl_client_options){.kubeconfig = config}, &a, &err), 0);
    struct kube_creds *first = kube_auth_get(a, 1000);
    assert_string_equal(first->token.data, "one");
    put("token", "two");
    struct kube_creds *same = kube_auth_get(a, 60999);
    assert_ptr_equal(same, first);
    struct kube_creds *second = kube_auth_get(a, 61000); /* a minute later */
    assert_string_equal(second->token.data, "two");
    assert_string_equal(first->token.data, "one"); /* who still uses the old ones may */
    put("token", "three");
    kube_auth_doubt(a); /* a 401 */
    struct kube_creds *early = kube_auth_get(a, 61500);
    assert_ptr_equal(early, second);
    struct kube_creds *third = kube_auth_get(a, 62000);
    assert_string_equal(third->token.data, "three");
    /* a file that is gone or half written changes nothing */
    put("token", "");
    put("ca", "-----BEGIN CERT");
    struct kube_creds *kept = kube_auth_get(a, 130000);
    assert_ptr_equal(kept, third);
    unlink(ca);
    kube_creds_unref(kept);
    kept = kube_auth_get(a, 200000);
    assert_ptr_equal(kept, third);
    put("ca", "-----BEGIN CERTIFICATE-----\nB\n");
    put("token", "four");
    struct kube_creds *fourth = kube_auth_get(a, 300000);
    assert_string_equal(fourth->token.data, "four");
    assert_non_null(strstr(fourth->ca.data, "B"));
    struct kube_creds *all[] = {first, same, second, early, third, kept, fourth};
    for (size_t i = 0; i < SL_COUNT(all); i++)
        kube_creds_unref(all[i]);
    kube_auth_free(a);
    /* at the start such files are errors that name file and field */
    put("token", "bad token");
    assert_int_equal(kube_auth_new(&(struct sl_client_options){.kubeconfig = config}, &a, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "token"));
    put("ca", "nothing");
    assert_int_equal(kube_auth_new(&(struct sl_client_options){.kubeconfig = config}, &a, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "certificate-authority"));
    unlink(ca);
    assert_int_equal(kube_auth_new(&(struct sl_client_options){.kubeconfig = config}, &a, &err), SL_NOT_FOUND);
    unlink(config);
    assert_int_equal(kube_auth_new(&(struct sl_client_options){.kubeconfig = config}, &a, &err), SL_NOT_FOUND);
    assert_non_null(strstr(err.text, config));
    unlink(token);
    rmdir(folder);
}

static void a_kubeconfig_is_read_again_too(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/sluice-auth-XXXXXX");
    assert_non_null(mkdtemp(folder));
    SL_AUTO_FREE char *config = sl_xprintf("%s/config", folder);
    put("config", HEAD CLUSTER(SERVER) USER("token: one"));
    struct kube_auth *a = NULL;
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(kube_auth_new(&(struct sl_client_options){.kubeconfig = config}, &a, &err), 0);
    struct kube_creds *first = kube_auth_get(a, 0);
    static const struct {
        const char *text, *token;
    } later[] = {
        {HEAD CLUSTER(SERVER) USER("token: two"), "two"},
        {"half a fi", "two"},
        {HEAD CLUSTER("server: 'https://other:6443'") USER("token: three"), "two"}, /* another server needs a restart */
        {HEAD CLUSTER(SERVER) USER("token: four"), "four"},
    };
    for (size_t i = 0; i < SL_COUNT(later); i++) {
        put("config", later[i].text);
        struct kube_creds *c = kube_auth_get(a, 60000 * (int64_t)(i + 1));
        assert_string_equal(c->token.data, later[i].token);
        kube_creds_unref(c);
        assert_string_equal(kube_auth_config(a)->server, "https://h:6443");
    }
    assert_string_equal(first->token.data, "one");
    kube_creds_unref(first);
    kube_auth_free(a);
    unlink(config);
    rmdir(folder);
}

static void in_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/sluice-auth-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static void gone(const char *const *names) {
    for (; *names; names++) {
        SL_AUTO_FREE char *path = sl_xprintf("%s/%s", folder, *names);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* "a:b" of files in the folder as KUBECONFIG, read; what it says as SERVER TOKEN CA NAMESPACE, or the error. */
static char *merged(const char *list, const char *context) {
    SL_AUTO_BUF env = SL_BUF_INIT(65536);
    for (size_t len; *list; list += len) {
        len = strcspn(list, ":");
        if (len)
            sl_buf_printf(&env, "%s/%.*s", folder, (int)len, list);
        for (; list[len] == ':'; len++)
            sl_buf_putc(&env, ':');
    }
    assert_int_equal(setenv("KUBECONFIG", sl_buf_text(&env), 1), 0);
    struct kube_files files;
    struct kube_config c = {0};
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(kube_files_find(&files, NULL, true, &err), 0);
    int rc = kube_config_load(&c, &files, context, &err);
    char *ret = rc ? sl_xstrdup(err.text)
                : !c.server
                    ? sl_xstrdup("nothing")
                    : sl_xprintf("%s %s %s %s", c.server, c.token.path ? c.token.path : c.token.inline_data.data,
                                 c.ca.path ? c.ca.path : "-", c.ns ? c.ns : "-");
    kube_config_done(&c);
    kube_files_done(&files);
    assert_int_equal(unsetenv("KUBECONFIG"), 0);
    return ret;
}

/* Each row is what kubectl makes of the same list. */
static void a_list_of_files_is_read_as_kubectl_does(void **state) {
    (void)state;
    in_folder();
    put("a", "clusters: [{name: k, cluster: {server: 'https://a:1', certificate-authority: ca.crt}}]\n"
             "users: [{name: u, user: {token: ta}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n");
    put("b", "clusters: [{name: k, cluster: {server: 'https://b:1', tls-server-name: bb}}, {name: l, cluster: {server: "
             "'https://l:1'}}]\nusers: [{name: u, user: {token: tb, tokenFile: tok}}]\ncontexts: [{name: c, context: "
             "{cluster: l, user: u, namespace: nb}}, {name: d, context: {cluster: l, user: u}}]\ncurrent-context: d\n");
    put("e", "");
    put("f", "current-context: c\n");
    put("x", "a: [");
    put("y",
        "users: [{name: y, user: {exec: {command: aws}}}]\ncontexts: [{name: y, context: {cluster: k, user: y}}]\n");
    SL_AUTO_FREE char *ca = sl_xprintf("https://a:1 ta %s/ca.crt -", folder),
                      *of_b = sl_xprintf("https://l:1 %s/tok - nb", folder),
                      *broken = sl_xprintf("kubeconfig: %s/x: YAML line ", folder),
                      *plugin = sl_xprintf("kubeconfig: %s/y: user \"y\": user.exec is not supported", folder);
    const struct {
        const char *list, *context, *says;
    } rows[] = {
        {"a:b", NULL, "https://l:1 ta - -"}, /* context d of b, with the user of a: not a field of b's is mixed in */
        {"a:b", "c", ca},
        {"b:a", "c", of_b},
        {"f:a:b", NULL, ca},
        {"b:f", NULL, "https://l:1"}, /* the first current-context counts */
        {"nope:b:nope::a", "c", of_b},
        {"e:a:b", "c", ca},
        {"a:a:a", "c", ca},
        {"nope:nope2", NULL, "nothing"},
        {"e", NULL, "nothing"},
        {"a", NULL, "nothing"}, /* no current-context */
        {"nope", "c", "contexts: there is none called \"c\""},
        {"a:b", "zz", "contexts: there is none called \"zz\""},
        {"a:x", "c", broken},
        {"a:y", "y", plugin},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        SL_AUTO_FREE char *is = merged(rows[i].list, rows[i].context);
        if (strncmp(is, rows[i].says, strlen(rows[i].says)) != 0 && !strstr(is, rows[i].says))
            fail_msg("%s: %s, not %s", rows[i].list, is, rows[i].says);
    }
    gone((const char *const[]){"a", "b", "e", "f", "x", "y", NULL});
    struct sl_buf many = SL_BUF_INIT(4096);
    for (int i = 0; i < 65; i++)
        sl_buf_printf(&many, "%d:", i);
    struct kube_files files;
    struct sl_err err = SL_ERR_INIT;
    setenv("KUBECONFIG", sl_buf_text(&many), 1);
    assert_int_equal(kube_files_find(&files, NULL, true, &err), SL_TOO_BIG);
    unsetenv("KUBECONFIG");
    sl_buf_done(&many);
}

/* Shells make a pipe of <(...), and /dev/null is how people say that there is none. */
static void a_kubeconfig_need_not_be_a_file(void **state) {
    (void)state;
    static const char text[] = HEAD CLUSTER(SERVER) USER("token: piped");
    in_folder();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(close(ends[1]), 0);
    SL_AUTO_FREE char *piped = sl_xprintf("/dev/fd/%d", ends[0]), *fifo = sl_xprintf("%s/fifo", folder),
                      *below = sl_xprintf("%s/b/below", folder);
    put("b", "x");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const struct {
        const char *kubeconfig, *says;
    } rows[] = {
        {piped, NULL},
        {"/dev/null", "current-context is missing"},
        {fifo, "current-context is missing"}, /* without waiting for somebody to write */
        {"/dev/zero", "/dev/zero: more than 4194304 bytes"},
        {folder, "Is a directory"},
        {below, "Not a directory"},
    };
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct kube_auth *a = NULL;
        struct sl_err err = SL_ERR_INIT;
        int rc = kube_auth_new(&(struct sl_client_options){.kubeconfig = rows[i].kubeconfig}, &a, &err);
        assert_true((rc == 0) == (rows[i].says == NULL));
        if (rows[i].says && !strstr(err.text, rows[i].says))
            fail_msg("%s: %s", rows[i].kubeconfig, err.text);
        if (!rc) {
            struct kube_creds *c = kube_auth_get(a, 0);
            assert_string_equal(c->token.data, "piped");
            kube_creds_unref(c);
            kube_auth_free(a);
        }
    }
    assert_int_equal(setenv("KUBECONFIG", "/dev/null", 1), 0);
    struct kube_files files;
    struct kube_config c = {0};
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(kube_files_find(&files, NULL, true, &err), 0);
    assert_int_equal(kube_config_load(&c, &files, NULL, &err), 0);
    assert_null(c.server);
    kube_files_done(&files);
    assert_int_equal(setenv("KUBECONFIG", below, 1), 0); /* as if it were not there */
    assert_int_equal(kube_files_find(&files, NULL, true, &err), 0);
    assert_int_equal(kube_config_load(&c, &files, NULL, &err), 0);
    assert_null(c.server);
    kube_files_done(&files);
    unsetenv("KUBECONFIG");
    close(ends[0]);
    gone((const char *const[]){"b", "fifo", NULL});
}

static struct sl_cluster *client(const struct sl_client_options *options, const char **ret_says) {
    static struct sl_err err;
    struct sl_cluster *c = NULL;
    err.text[0] = 0;
    assert_true((sl_client_new(options, &c, &err) == 0) == (c != NULL));
    *ret_says = err.text;
    return c;
}

static void a_cluster_is_looked_for_in_the_usual_places(void **state) {
    (void)state;
    in_folder();
    SL_AUTO_FREE char *kube = sl_xprintf("%s/.kube", folder), *home = sl_xstrdup(getenv("HOME")),
                      *own = sl_xprintf("%s/own", folder);
    const struct sl_client_options usual = {.usual_places = true}, chosen = {.usual_places = true, .context = "d"},
                                   pod = {.usual_places = false}, named = {.usual_places = true, .kubeconfig = own};
    const char *says;
    assert_int_equal(setenv("HOME", folder, 1) | unsetenv("KUBECONFIG") | unsetenv("KUBERNETES_SERVICE_HOST"), 0);
    assert_null(client(&usual, &says)); /* nothing there at all */
    assert_non_null(strstr(says, "/.kube/config does not exist or has no current-context, and this is no pod"));
    assert_int_equal(mkdir(kube, 0700), 0);
    put(".kube/config", HEAD CLUSTER(SERVER) USER("token: t"));
    struct sl_cluster *c = client(&usual, &says);
    assert_string_equal(sl_client_namespace(c), "default");
    sl_cluster_free(c);
    put("own", "current-context: m\ncontexts: [{name: m, context: {cluster: k, namespace: mine}}]\n" CLUSTER(SERVER));
    c = client(&named, &says);
    assert_string_equal(sl_client_namespace(c), "mine");
    sl_cluster_free(c);
    assert_int_equal(setenv("KUBECONFIG", own, 1), 0); /* instead of that in the home */
    c = client(&usual, &says);
    assert_string_equal(sl_client_namespace(c), "mine");
    sl_cluster_free(c);
    assert_null(client(&chosen, &says));
    assert_non_null(strstr(says, "contexts: there is none called \"d\""));
    assert_int_equal(setenv("KUBECONFIG", "", 1), 0); /* as if it were not set */
    c = client(&chosen, &says);
    assert_non_null(c);
    sl_cluster_free(c);
    assert_null(client(&pod, &says)); /* the manager's own way does not look there */
    assert_non_null(strstr(says, "no kubeconfig was given, and this is no pod"));
    SL_AUTO_FREE char *file = sl_xprintf("%s/config", kube);
    assert_int_equal(unlink(file) | rmdir(kube), 0);
    setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1); /* in a pod whose home has none: its own account, if it had one */
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    assert_null(client(&usual, &says));
    assert_non_null(strstr(says, KUBE_SERVICE_ACCOUNT));
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
    unsetenv("KUBECONFIG");
    setenv("HOME", home ? home : "/", 1);
    gone((const char *const[]){"own", NULL});
}

static void a_pod_has_a_namespace(void **state) {
    (void)state;
    in_folder();
    struct kube_config c = {0};
    struct sl_err err = SL_ERR_INIT;
    put("namespace", "team-a\n");
    assert_int_equal(kube_config_in_cluster(&c, folder, "10.0.0.1", "443", &err), 0);
    assert_string_equal(c.ns, "team-a");
    kube_config_done(&c);
    gone((const char *const[]){"namespace", NULL});
}

static void a_client_needs_credentials_of_the_right_form(void **state) {
    (void)state;
    struct sl_client_options o = {.kubeconfig = "/nonexistent/config"};
    struct sl_cluster *c = NULL;
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_client_new(&o, &c, &err), SL_NOT_FOUND);
    assert_null(c);
    assert_non_null(strstr(err.text, "/nonexistent/config"));
}

int main(void) {
    sl_log_set_fd(-1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_is_supported),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(reads_the_pods_own),
        cmocka_unit_test(files_are_read_again),
        cmocka_unit_test(a_kubeconfig_is_read_again_too),
        cmocka_unit_test(a_list_of_files_is_read_as_kubectl_does),
        cmocka_unit_test(a_kubeconfig_need_not_be_a_file),
        cmocka_unit_test(a_cluster_is_looked_for_in_the_usual_places),
        cmocka_unit_test(a_pod_has_a_namespace),
        cmocka_unit_test(a_client_needs_credentials_of_the_right_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
