#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sluice/base/file.h"
#include "sluice/base/mem.h"
#include "sluice/webhook/certs.h"
#include "sluice/webhook/pki.h"

#define NOW  ((int64_t)1800000000000)
#define DAY  ((int64_t)86400000)
#define HOUR ((int64_t)3600000)

static const char *const names[] = {"hook.ns.svc", "hook.ns", NULL};
static const struct sl_certs_policy policy = {
    .ca_name = "ca", .names = names, .ca_life_ms = 3000 * DAY, .serving_life_ms = 300 * DAY, .publish_wait_ms = HOUR};

/* A cluster of one Secret and one webhook configuration; `lag` keeps the manager from publishing. */
struct world {
    struct sl_certs_data secret;
    char *published;
    int64_t now, next_ms;
    bool lag;
    int steps[SL_CERTS_DROP_OLD_CA + 1];
    enum sl_certs_step last;
};

/* One look at the Secret; returns the step that was taken. What is served must be trusted by what was published before
 * and by what is published after. */
static enum sl_certs_step look(struct world *w) {
    struct sl_certs_plan plan;
    struct sl_err err = SL_ERR_INIT;
    if (sl_certs_plan(&policy, &w->secret, w->published, w->now, &plan, &err))
        fail_msg("%s", err.text);
    enum sl_certs_step step = plan.step;
    if (step == SL_CERTS_KEEP) {
        assert_string_equal(plan.why, "");
        assert_true(plan.next_ms > w->now);
    } else {
        assert_string_not_equal(plan.why, "");
    }
    w->steps[step]++;
    w->next_ms = plan.next_ms;
    sl_certs_data_done(&w->secret);
    w->secret = plan.data;
    plan.data = (struct sl_certs_data)SL_CERTS_DATA_INIT;
    if (!w->lag) {
        free(w->published);
        w->published = SL_TAKE(plan.ca_bundle);
    }
    sl_certs_plan_done(&plan);
    return step;
}

static void trusted(const struct world *w) {
    for (size_t i = 0; names[i]; i++) {
        struct sl_err err = SL_ERR_INIT;
        if (sl_pki_check_chain(w->secret.field[SL_CERT_TLS_CRT], w->published, names[i], w->now, &err))
            fail_msg("not trusted at %lld: %s", (long long)w->now, err.text);
    }
    assert_int_equal(sl_pki_check_pair(w->secret.field[SL_CERT_TLS_CRT], w->secret.field[SL_CERT_TLS_KEY], NULL), 0);
}

static struct world fresh(void) {
    struct world w = {.now = NOW};
    assert_int_equal(look(&w), SL_CERTS_CREATE);
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    trusted(&w);
    return w;
}

static void done(struct world *w) {
    sl_certs_data_done(&w->secret);
    free(w->published);
}

static void set(struct world *w, enum sl_cert_field f, const char *text) {
    free(w->secret.field[f]);
    w->secret.field[f] = sl_xstrdup(text);
}

static void certs__created_once(void **state) {
    (void)state;
    struct world w = fresh();
    assert_null(w.secret.field[SL_CERT_NEXT_CRT]);
    assert_null(w.secret.field[SL_CERT_OLD_CRT]);
    assert_string_equal(w.published, w.secret.field[SL_CERT_CA_CRT]);
    assert_int_equal(w.next_ms, NOW + 200 * DAY); /* two thirds of the serving certificate */
    done(&w);
}

static void certs__serving_is_renewed_at_two_thirds(void **state) {
    (void)state;
    struct world w = fresh();
    char *ca = sl_xstrdup(w.published);
    w.now = NOW + 200 * DAY - 1000;
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    w.now = NOW + 200 * DAY;
    assert_int_equal(look(&w), SL_CERTS_RENEW_SERVING);
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    assert_string_equal(w.published, ca);
    trusted(&w);
    free(ca);
    done(&w);
}

static void certs__rotation_waits_for_the_bundles(void **state) {
    (void)state;
    struct world w = fresh();
    w.now = NOW + 2000 * DAY;
    assert_int_equal(look(&w), SL_CERTS_RENEW_SERVING); /* it slept long: expired */
    w.lag = true;
    assert_int_equal(look(&w), SL_CERTS_PREPARE_CA);
    char *former_leaf = sl_xstrdup(w.secret.field[SL_CERT_TLS_CRT]),
         *former_ca = sl_xstrdup(w.secret.field[SL_CERT_CA_CRT]);
    w.now += 2 * HOUR; /* the wait is over, but nothing was published */
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    assert_int_equal(w.next_ms, w.now + 1000);
    w.lag = false;
    assert_int_equal(look(&w), SL_CERTS_KEEP); /* publishes */
    assert_non_null(strstr(w.published, former_ca));
    assert_non_null(strstr(w.published, w.secret.field[SL_CERT_NEXT_CRT]));
    trusted(&w);
    char *both = sl_xstrdup(w.published);
    w.lag = true; /* the new bundle is not out yet when the new certificate is served */
    assert_int_equal(look(&w), SL_CERTS_SWITCH_CA);
    trusted(&w);
    for (int f = SL_CERT_NEXT_CRT; f <= SL_CERT_NEXT_SINCE; f++)
        assert_null(w.secret.field[f]);
    w.lag = false;
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    trusted(&w);
    /* another replica may still serve the former certificate, another API server have the former bundle */
    assert_int_equal(sl_pki_check_chain(former_leaf, w.published, names[0], w.now, NULL), 0);
    assert_int_equal(sl_pki_check_chain(w.secret.field[SL_CERT_TLS_CRT], both, names[0], w.now, NULL), 0);
    /* until the last certificate of the former CA is over */
    struct sl_pki_info leaf;
    assert_int_equal(sl_pki_info(former_leaf, &leaf, NULL), 0);
    w.now = leaf.not_after_ms - 1000;
    assert_int_equal(look(&w), SL_CERTS_RENEW_SERVING);
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    assert_int_equal(w.next_ms, w.now + 1000);
    w.now = leaf.not_after_ms;
    assert_int_equal(look(&w), SL_CERTS_DROP_OLD_CA);
    assert_null(strstr(w.published, former_ca));
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    trusted(&w);
    free(former_leaf);
    free(former_ca);
    free(both);
    done(&w);
}

static void certs__wait_is_kept_even_when_published(void **state) {
    (void)state;
    struct world w = fresh();
    w.now = NOW + 2000 * DAY;
    assert_int_equal(look(&w), SL_CERTS_RENEW_SERVING);
    assert_int_equal(look(&w), SL_CERTS_PREPARE_CA);
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    assert_int_equal(w.next_ms, w.now + HOUR);
    w.now += HOUR - 1;
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    w.now += 1;
    assert_int_equal(look(&w), SL_CERTS_SWITCH_CA);
    done(&w);
}

/* Woken at the times it asks for, with and without delay: for forty years nothing is ever served that is not trusted.
 */
static void certs__forty_years(void **state) {
    (void)state;
    for (int64_t late = 0; late <= 90 * DAY; late += 90 * DAY) {
        struct world w = fresh();
        int looks = 0;
        while (w.now < NOW + 40 * 365 * DAY) {
            w.lag = true; /* the Secret first, the bundles later */
            for (int i = 0; look(&w) != SL_CERTS_KEEP; i++) {
                trusted(&w);
                assert_true(i < 4);
            }
            w.lag = false;
            assert_int_equal(look(&w), SL_CERTS_KEEP);
            trusted(&w);
            w.now = w.next_ms + late;
            assert_true(++looks < 2000);
        }
        assert_true(w.steps[SL_CERTS_SWITCH_CA] >= 5);
        assert_in_range(w.steps[SL_CERTS_DROP_OLD_CA], w.steps[SL_CERTS_SWITCH_CA] - 1, w.steps[SL_CERTS_SWITCH_CA]);
        assert_int_equal(w.steps[SL_CERTS_CREATE], 1);
        done(&w);
    }
}

static void certs__damage_is_repaired(void **state) {
    (void)state;
    static const struct {
        enum sl_cert_field field;
        enum sl_certs_step step;
    } rows[] = {
        {SL_CERT_TLS_CRT, SL_CERTS_RENEW_SERVING},
        {SL_CERT_TLS_KEY, SL_CERTS_RENEW_SERVING},
        {SL_CERT_CA_CRT, SL_CERTS_CREATE},
        {SL_CERT_CA_KEY, SL_CERTS_PREPARE_CA},
    };
    static const char *const values[] = {NULL, "", "junk",
                                         "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"};
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        for (size_t k = 0; k < SL_COUNT(values); k++) {
            struct world w = fresh();
            set(&w, rows[i].field, values[k]);
            assert_int_equal(look(&w), rows[i].step);
            assert_int_equal(look(&w), SL_CERTS_KEEP);
            trusted(&w);
            done(&w);
        }
    }
}

static void certs__lost_ca_key_is_replaced_gracefully(void **state) {
    (void)state;
    struct world w = fresh();
    set(&w, SL_CERT_CA_KEY, NULL);
    assert_int_equal(look(&w), SL_CERTS_PREPARE_CA);
    trusted(&w);
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    w.now += HOUR;
    assert_int_equal(look(&w), SL_CERTS_SWITCH_CA);
    trusted(&w);
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    done(&w);
}

static void certs__old_ca_is_not_kept_beyond_its_life(void **state) {
    (void)state;
    struct world w = fresh();
    w.now = NOW + 2900 * DAY; /* the CA has 100 days left, a serving certificate would live for 300 */
    set(&w, SL_CERT_CA_KEY, NULL);
    set(&w, SL_CERT_TLS_CRT, NULL);
    char *former = sl_xstrdup(w.secret.field[SL_CERT_CA_CRT]);
    assert_int_equal(look(&w), SL_CERTS_CREATE);
    assert_string_equal(w.secret.field[SL_CERT_OLD_CRT], former);
    assert_non_null(strstr(w.published, former));
    w.now = NOW + 3000 * DAY;
    assert_int_equal(look(&w), SL_CERTS_DROP_OLD_CA);
    trusted(&w);
    free(former);
    done(&w);
}

static void certs__broken_next_and_old_do_no_harm(void **state) {
    (void)state;
    struct world w = fresh();
    set(&w, SL_CERT_NEXT_CRT, "junk");
    set(&w, SL_CERT_OLD_CRT, "junk");
    set(&w, SL_CERT_OLD_UNTIL, "never");
    assert_int_equal(look(&w), SL_CERTS_DROP_OLD_CA);
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    assert_null(strstr(w.published, "junk"));
    w.now = NOW + 2000 * DAY;
    assert_int_equal(look(&w), SL_CERTS_RENEW_SERVING);
    assert_int_equal(look(&w), SL_CERTS_PREPARE_CA);
    trusted(&w);
    done(&w);
}

static void certs__everything_expired_while_asleep(void **state) {
    (void)state;
    struct world w = fresh();
    w.now = NOW + 4000 * DAY;
    assert_int_equal(look(&w), SL_CERTS_CREATE);
    assert_null(w.secret.field[SL_CERT_OLD_CRT]);
    assert_int_equal(look(&w), SL_CERTS_KEEP);
    trusted(&w);
    /* with a prepared CA that one takes over at once */
    w.now += 2000 * DAY;
    assert_int_equal(look(&w), SL_CERTS_RENEW_SERVING);
    assert_int_equal(look(&w), SL_CERTS_PREPARE_CA);
    w.now += 1500 * DAY;
    char *next = sl_xstrdup(w.secret.field[SL_CERT_NEXT_CRT]);
    assert_int_equal(look(&w), SL_CERTS_SWITCH_CA);
    assert_string_equal(w.secret.field[SL_CERT_CA_CRT], next);
    trusted(&w);
    free(next);
    done(&w);
}

static void certs__other_names_need_another_certificate(void **state) {
    (void)state;
    struct world w = fresh();
    static const char *const more[] = {"hook.ns.svc", "10.0.0.1", NULL};
    struct sl_certs_policy other = policy;
    other.names = more;
    struct sl_certs_plan plan;
    assert_int_equal(sl_certs_plan(&other, &w.secret, w.published, w.now, &plan, NULL), 0);
    assert_int_equal(plan.step, SL_CERTS_RENEW_SERVING);
    assert_non_null(strstr(plan.why, "10.0.0.1"));
    assert_int_equal(sl_pki_check_chain(plan.data.field[SL_CERT_TLS_CRT], w.published, "10.0.0.1", w.now, NULL), 0);
    sl_certs_plan_done(&plan);
    done(&w);
}

static void certs__lives_of_seconds(void **state) {
    (void)state;
    const struct sl_certs_policy quick = {
        .ca_name = "ca", .names = names, .ca_life_ms = 30000, .serving_life_ms = 6000, .publish_wait_ms = 1000};
    struct sl_certs_data data = SL_CERTS_DATA_INIT;
    char *published = NULL;
    int steps[SL_CERTS_DROP_OLD_CA + 1] = {0};
    for (int64_t now = NOW; now < NOW + 120000; now += 400) {
        struct sl_certs_plan plan;
        assert_int_equal(sl_certs_plan(&quick, &data, published, now, &plan, NULL), 0);
        steps[plan.step]++;
        sl_certs_data_done(&data);
        data = plan.data;
        plan.data = (struct sl_certs_data)SL_CERTS_DATA_INIT;
        free(published);
        published = SL_TAKE(plan.ca_bundle);
        assert_int_equal(sl_pki_check_chain(data.field[SL_CERT_TLS_CRT], published, names[0], now, NULL), 0);
        sl_certs_plan_done(&plan);
    }
    assert_int_equal(steps[SL_CERTS_CREATE], 1);
    assert_in_range(steps[SL_CERTS_SWITCH_CA], 4, 6);
    assert_in_range(steps[SL_CERTS_RENEW_SERVING], 15, 40);
    sl_certs_data_done(&data);
    free(published);
}

static void certs__bad_policy(void **state) {
    (void)state;
    struct sl_certs_data none = SL_CERTS_DATA_INIT;
    struct sl_certs_plan plan;
    struct sl_certs_policy p = policy;
    p.serving_life_ms = 0;
    assert_int_equal(sl_certs_plan(&p, &none, NULL, NOW, &plan, NULL), SL_INVALID);
    static const char *const bad[] = {"not a name", NULL};
    p = policy;
    p.names = bad;
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_certs_plan(&p, &none, NULL, NOW, &plan, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "certificates: create: \"not a name\""));
}

static void certs__secret_there_and_back(void **state) {
    (void)state;
    struct world w = fresh();
    SL_AUTO_JSON *secret = sl_json_new_object();
    sl_json_set(secret, "data", sl_certs_data_to_secret(&w.secret));
    assert_int_equal(sl_json_len(sl_json_get(secret, "data")), 4);
    struct sl_certs_data back;
    sl_certs_data_from_secret(secret, &back);
    for (int f = 0; f < SL_CERT__COUNT; f++) {
        if (w.secret.field[f])
            assert_string_equal(back.field[f], w.secret.field[f]);
        else
            assert_null(back.field[f]);
    }
    sl_certs_data_done(&back);
    SL_AUTO_JSON *odd =
        sl_json_from("{'data':{'ca.crt':'%%%','ca.key':5,'tls.crt':'','tls.key':'AAAA','ca-old.crt':'eA=='}}");
    sl_certs_data_from_secret(odd, &back);
    for (int f = 0; f < SL_CERT__COUNT; f++)
        assert_true(f == SL_CERT_OLD_CRT ? strcmp(back.field[f], "x") == 0 : !back.field[f]);
    sl_certs_data_done(&back);
    sl_certs_data_from_secret(NULL, &back);
    assert_null(back.field[SL_CERT_CA_CRT]);
    done(&w);
}

static void certs__service_names(void **state) {
    (void)state;
    char **n = sl_certs_service_names("s", "ns", NULL);
    assert_string_equal(n[0], "s.ns.svc");
    assert_string_equal(n[1], "s.ns.svc.cluster.local");
    assert_string_equal(n[2], "s.ns");
    assert_null(n[3]);
    sl_certs_names_free(n);
}

static void write_text(const char *dir, const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!text)
        assert_int_equal(unlink(path), 0);
    else
        assert_int_equal(sl_file_write(path, text, strlen(text), 0600, NULL), 0);
}

static void certs__folder(void **state) {
    (void)state;
    char dir[] = "/tmp/sluice-certs-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct world a = fresh(), b = fresh();
    const char *const *x = (const char *const *)a.secret.field, *const *y = (const char *const *)b.secret.field;
    struct sl_certs_dir *d = sl_certs_dir_new(dir);
    bool changed = true;
    assert_int_equal(sl_certs_dir_poll(d, &changed, NULL), SL_NOT_FOUND);
    write_text(dir, "tls.crt", x[SL_CERT_TLS_CRT]);
    write_text(dir, "tls.key", x[SL_CERT_TLS_KEY]);
    assert_int_equal(sl_certs_dir_poll(d, &changed, NULL), 0);
    assert_true(changed);
    assert_null(sl_certs_dir_ca(d));
    assert_int_equal(sl_certs_dir_poll(d, &changed, NULL), 0);
    assert_false(changed);
    write_text(dir, "ca.crt", x[SL_CERT_CA_CRT]);
    assert_int_equal(sl_certs_dir_poll(d, &changed, NULL), 0);
    assert_true(changed);
    assert_string_equal(sl_certs_dir_ca(d), x[SL_CERT_CA_CRT]);
    /* half replaced: the old pair stays until the new one is whole */
    write_text(dir, "tls.crt", y[SL_CERT_TLS_CRT]);
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_certs_dir_poll(d, &changed, &err), SL_INVALID);
    assert_non_null(strstr(err.text, dir));
    assert_string_equal(sl_certs_dir_cert(d), x[SL_CERT_TLS_CRT]);
    write_text(dir, "tls.key", y[SL_CERT_TLS_KEY]);
    assert_int_equal(sl_certs_dir_poll(d, &changed, NULL), 0);
    assert_true(changed);
    assert_string_equal(sl_certs_dir_cert(d), y[SL_CERT_TLS_CRT]);
    assert_string_equal(sl_certs_dir_key(d), y[SL_CERT_TLS_KEY]);
    write_text(dir, "tls.key", NULL);
    assert_int_equal(sl_certs_dir_poll(d, &changed, NULL), SL_NOT_FOUND);
    assert_string_equal(sl_certs_dir_key(d), y[SL_CERT_TLS_KEY]);
    sl_certs_dir_free(d);
    write_text(dir, "tls.crt", NULL);
    write_text(dir, "ca.crt", NULL);
    assert_int_equal(rmdir(dir), 0);
    done(&a);
    done(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certs__created_once),
        cmocka_unit_test(certs__serving_is_renewed_at_two_thirds),
        cmocka_unit_test(certs__rotation_waits_for_the_bundles),
        cmocka_unit_test(certs__wait_is_kept_even_when_published),
        cmocka_unit_test(certs__forty_years),
        cmocka_unit_test(certs__damage_is_repaired),
        cmocka_unit_test(certs__lost_ca_key_is_replaced_gracefully),
        cmocka_unit_test(certs__old_ca_is_not_kept_beyond_its_life),
        cmocka_unit_test(certs__broken_next_and_old_do_no_harm),
        cmocka_unit_test(certs__everything_expired_while_asleep),
        cmocka_unit_test(certs__other_names_need_another_certificate),
        cmocka_unit_test(certs__lives_of_seconds),
        cmocka_unit_test(certs__bad_policy),
        cmocka_unit_test(certs__secret_there_and_back),
        cmocka_unit_test(certs__service_names),
        cmocka_unit_test(certs__folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
