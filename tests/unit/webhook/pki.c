#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/base/mem.h"
#include "sluice/webhook/pki.h"
#include "sluice/webhook/tls.h"

#define NOW ((int64_t)1800000000000)
#define DAY ((int64_t)86400000)
static const char *const names[] = {"hook.ns.svc", "hook.ns.svc.cluster.local", "10.1.2.3", "fd00::1", NULL};

static struct sl_pki_pair ca_of(const char *name, int64_t life) {
    struct sl_pki_pair ca = SL_PKI_PAIR_INIT;
    assert_int_equal(sl_pki_make_ca(name, NOW, life, &ca, NULL), 0);
    return ca;
}
static struct sl_pki_pair serving_of(const struct sl_pki_pair *ca, int64_t life) {
    struct sl_pki_pair pair = SL_PKI_PAIR_INIT;
    assert_int_equal(sl_pki_make_serving(ca, names, NOW, life, &pair, NULL), 0);
    return pair;
}

static void pki__serving_certificate_is_trusted_for_its_names(void **state) {
    (void)state;
    struct sl_pki_pair ca = ca_of("ca", 100 * DAY), s = serving_of(&ca, DAY);
    for (size_t i = 0; names[i]; i++)
        assert_int_equal(sl_pki_check_chain(s.cert_pem, ca.cert_pem, names[i], NOW, NULL), 0);
    assert_int_equal(sl_pki_check_chain(s.cert_pem, ca.cert_pem, NULL, NOW, NULL), 0);
    static const char *const others[] = {"other.ns.svc", "ns.svc", "10.1.2.4", "fd00::2", "x.hook.ns.svc"};
    for (size_t i = 0; i < SL_COUNT(others); i++)
        assert_int_equal(sl_pki_check_chain(s.cert_pem, ca.cert_pem, others[i], NOW, NULL), SL_INVALID);
    sl_pki_pair_done(&s);
    sl_pki_pair_done(&ca);
}

static void pki__trust_ends_with_time_and_ca(void **state) {
    (void)state;
    struct sl_pki_pair ca = ca_of("ca", 100 * DAY), s = serving_of(&ca, DAY);
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_pki_check_chain(s.cert_pem, ca.cert_pem, names[0], NOW - SL_PKI_BACKDATE_MS + 1000, NULL), 0);
    assert_int_equal(sl_pki_check_chain(s.cert_pem, ca.cert_pem, names[0], NOW - SL_PKI_BACKDATE_MS - 1000, NULL),
                     SL_INVALID);
    assert_int_equal(sl_pki_check_chain(s.cert_pem, ca.cert_pem, names[0], NOW + DAY - 1000, NULL), 0);
    assert_int_equal(sl_pki_check_chain(s.cert_pem, ca.cert_pem, names[0], NOW + DAY + 1000, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "expired"));
    /* another CA of the same name: told apart by the key, in a bundle of both the right one is found, in either order
     */
    struct sl_pki_pair other = ca_of("ca", 100 * DAY);
    assert_int_equal(sl_pki_check_chain(s.cert_pem, other.cert_pem, names[0], NOW, NULL), SL_INVALID);
    char *one = sl_xprintf("%s%s", ca.cert_pem, other.cert_pem), *two = sl_xprintf("%s%s", other.cert_pem, ca.cert_pem);
    assert_int_equal(sl_pki_check_chain(s.cert_pem, one, names[0], NOW, NULL), 0);
    assert_int_equal(sl_pki_check_chain(s.cert_pem, two, names[0], NOW, NULL), 0);
    /* a serving certificate signs nothing */
    struct sl_pki_pair x = SL_PKI_PAIR_INIT;
    assert_int_equal(sl_pki_make_serving(&s, names, NOW, DAY, &x, &err), SL_INVALID);
    assert_null(x.cert_pem);
    free(one);
    free(two);
    sl_pki_pair_done(&other);
    sl_pki_pair_done(&s);
    sl_pki_pair_done(&ca);
}

static void pki__info(void **state) {
    (void)state;
    struct sl_pki_pair ca = ca_of("ca", 100 * DAY), a = serving_of(&ca, DAY), b = serving_of(&ca, 365 * DAY);
    struct sl_pki_info i, j;
    assert_int_equal(sl_pki_info(ca.cert_pem, &i, NULL), 0);
    assert_true(i.ca);
    assert_int_equal(i.not_before_ms, NOW - SL_PKI_BACKDATE_MS);
    assert_int_equal(i.not_after_ms, NOW + 100 * DAY);
    assert_int_equal(sl_pki_info(a.cert_pem, &i, NULL), 0);
    assert_false(i.ca);
    assert_int_equal(i.not_after_ms, NOW + DAY);
    assert_int_equal(strlen(i.serial), 32);
    assert_int_equal(sl_pki_info(b.cert_pem, &j, NULL), 0);
    assert_int_equal(j.not_after_ms, NOW + 100 * DAY); /* never beyond the CA */
    assert_string_not_equal(i.serial, j.serial);
    assert_int_equal(sl_pki_info("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &i, NULL),
                     SL_INVALID);
    assert_int_equal(sl_pki_info("", &i, NULL), SL_INVALID);
    assert_int_equal(sl_pki_info(NULL, &i, NULL), SL_INVALID);
    sl_pki_pair_done(&a);
    sl_pki_pair_done(&b);
    sl_pki_pair_done(&ca);
}

static void pki__pairs(void **state) {
    (void)state;
    struct sl_pki_pair ca = ca_of("ca", DAY), s = serving_of(&ca, DAY);
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_pki_check_pair(s.cert_pem, s.key_pem, NULL), 0);
    assert_int_equal(sl_pki_check_pair(s.cert_pem, ca.key_pem, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "does not belong"));
    assert_int_equal(sl_pki_check_pair(s.key_pem, s.cert_pem, NULL), SL_INVALID);
    assert_int_equal(sl_pki_check_pair(s.cert_pem, NULL, NULL), SL_INVALID);
    struct sl_pki_pair mixed = {ca.cert_pem, s.key_pem}, x = SL_PKI_PAIR_INIT;
    assert_int_equal(sl_pki_make_serving(&mixed, names, NOW, DAY, &x, NULL), SL_INVALID);
    sl_pki_pair_done(&s);
    sl_pki_pair_done(&ca);
}

static void pki__encrypted_key_is_refused_without_asking(void **state) {
    (void)state;
    static const char key[] = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
                              "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhSsYcXTBpQTwICCAAw\n"
                              "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEH0P1nX9lmSU3gZq4nVj0g0EgZBy\n"
                              "-----END ENCRYPTED PRIVATE KEY-----\n";
    struct sl_pki_pair ca = ca_of("ca", DAY);
    assert_int_equal(sl_pki_check_pair(ca.cert_pem, key, NULL), SL_INVALID);
    sl_pki_pair_done(&ca);
}

static void pki__names_are_checked(void **state) {
    (void)state;
    struct sl_pki_pair ca = ca_of("ca", DAY), x = SL_PKI_PAIR_INIT;
    char long_label[70];
    memset(long_label, 'a', 64);
    long_label[64] = 0;
    const char *bad[] = {"",  "a b",       "a..b",   ".a",      "a.", "-a", "a-", "a-.b", "a,DNS:b", "file:/etc/passwd",
                         "*", "1.2.3.4/8", "\u00e4", long_label};
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        const char *list[] = {"good", bad[i], NULL};
        struct sl_err err = SL_ERR_INIT;
        if (sl_pki_make_serving(&ca, list, NOW, DAY, &x, &err) != SL_INVALID)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_null(x.cert_pem);
    }
    const char *none[] = {NULL};
    assert_int_equal(sl_pki_make_serving(&ca, none, NOW, DAY, &x, NULL), SL_INVALID);
    assert_int_equal(sl_pki_make_ca("", NOW, DAY, &x, NULL), SL_INVALID);
    long_label[63] = 0;
    const char *longest[] = {long_label, NULL};
    assert_int_equal(sl_pki_make_serving(&ca, longest, NOW, DAY, &x, NULL), 0);
    sl_pki_pair_done(&x);
    sl_pki_pair_done(&ca);
}

static void pki__expired_ca_signs_nothing(void **state) {
    (void)state;
    struct sl_pki_pair ca = ca_of("ca", DAY), x = SL_PKI_PAIR_INIT;
    assert_int_equal(sl_pki_make_serving(&ca, names, NOW + DAY + 1000, DAY, &x, NULL), SL_INVALID);
    sl_pki_pair_done(&ca);
}

static void tls__keeps_the_old_pair_when_the_new_one_is_bad(void **state) {
    (void)state;
    struct sl_pki_pair ca = ca_of("ca", DAY), a = serving_of(&ca, DAY), b = serving_of(&ca, DAY);
    struct sl_tls *tls = sl_tls_new();
    assert_false(sl_tls_ready(tls));
    assert_int_equal(sl_tls_set(tls, a.cert_pem, b.key_pem, NULL), SL_INVALID);
    assert_int_equal(sl_tls_set(tls, NULL, a.key_pem, NULL), SL_INVALID);
    assert_int_equal(sl_tls_set(tls, "x", "y", NULL), SL_INVALID);
    assert_false(sl_tls_ready(tls));
    assert_int_equal(sl_tls_set(tls, a.cert_pem, a.key_pem, NULL), 0);
    assert_int_equal(sl_tls_set(tls, b.cert_pem, a.key_pem, NULL), SL_INVALID);
    assert_int_equal(sl_tls_generation(tls), 1);
    char *chain = sl_xprintf("%s%s", b.cert_pem, ca.cert_pem);
    assert_int_equal(sl_tls_set(tls, chain, b.key_pem, NULL), 0);
    assert_int_equal(sl_tls_generation(tls), 2);
    char *far = sl_xprintf("%s%s%s%s%s", chain, chain, chain, chain, chain);
    char *too_far = sl_xprintf("%s%s", far, far);
    struct sl_err err = SL_ERR_INIT;
    assert_int_equal(sl_tls_set(tls, too_far, b.key_pem, &err), SL_INVALID);
    assert_non_null(strstr(err.text, "chain of more than"));
    assert_int_equal(sl_tls_generation(tls), 2);
    sl_tls_free(tls);
    free(chain);
    free(far);
    free(too_far);
    sl_pki_pair_done(&a);
    sl_pki_pair_done(&b);
    sl_pki_pair_done(&ca);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pki__serving_certificate_is_trusted_for_its_names),
        cmocka_unit_test(pki__trust_ends_with_time_and_ca),
        cmocka_unit_test(pki__info),
        cmocka_unit_test(pki__pairs),
        cmocka_unit_test(pki__encrypted_key_is_refused_without_asking),
        cmocka_unit_test(pki__names_are_checked),
        cmocka_unit_test(pki__expired_ca_signs_nothing),
        cmocka_unit_test(tls__keeps_the_old_pair_when_the_new_one_is_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
