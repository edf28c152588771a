/* Two replicas over one cluster, in virtual time: never two holders, and the lease always finds one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "sluice/base/mem.h"
#include "sluice/kube/lease.h"
#include "sluice/kube/memory.h"

static const struct sl_resource leases = {"coordination.k8s.io", "v1", "leases", "Lease", true};
static struct sl_cluster *cluster;

enum { REPLICAS = 3 };
static struct sl_lease *lease[REPLICAS];
static int64_t due[REPLICAS];
static bool stopped[REPLICAS]; /* does not get CPU */

static void open_cluster(uint64_t seed) {
    struct sl_memory_options o = {.seed = seed};
    cluster = sl_memory_new(&o);
    memset(lease, 0, sizeof lease);
    memset(due, 0, sizeof due);
    memset(stopped, 0, sizeof stopped);
}
static void join(int i) {
    static const char *const names[] = {"a", "b", "c"};
    struct sl_lease_options o = {"sys", "main", names[i], 15000, 10000, 2000};
    lease[i] = sl_lease_new(cluster, &o);
    due[i] = 0;
}
static void close_cluster(void) {
    for (int i = 0; i < REPLICAS; i++)
        sl_lease_free(SL_TAKE(lease[i]));
    sl_cluster_free(SL_TAKE(cluster));
}

static int holders(int *ret_who) {
    int n = 0;
    for (int i = 0; i < REPLICAS; i++) {
        if (lease[i] && sl_lease_held(lease[i])) {
            n++;
            *ret_who = i;
        }
    }
    return n;
}

/* Lets time pass; -1 or who holds it at the end. Fails when ever two hold it. */
static int pass(int64_t ms) {
    int64_t until = sl_cluster_mono_ms(cluster) + ms;
    int who = -1;
    while (sl_cluster_mono_ms(cluster) < until) {
        int64_t now = sl_cluster_mono_ms(cluster);
        for (int i = 0; i < REPLICAS; i++) {
            if (!lease[i] || stopped[i] || now < due[i])
                continue;
            int64_t wait = sl_lease_tick(lease[i]);
            assert_true(wait > 0);
            due[i] = now + wait;
        }
        sl_cluster_step(cluster, 50);
        assert_true(holders(&who) <= 1);
    }
    return holders(&who) ? who : -1;
}

static void stored(const char *path, const char *want) {
    SL_AUTO_JSON *l = sl_memory_get(cluster, &leases, "sys", "main");
    const struct sl_json *v = sl_json_path(l, path);
    SL_AUTO_FREE char *text = sl_json_type(v) == SL_JSON_STRING ? sl_xstrdup(sl_json_str(v, ""))
                              : v                               ? sl_json_text(v)
                                                                : sl_xstrdup("-");
    assert_string_equal(text, want);
}

static void one_gets_it_and_keeps_it(void **state) {
    (void)state;
    open_cluster(1);
    join(0);
    assert_false(sl_lease_held(lease[0]));
    assert_int_equal(pass(100), 0);
    stored("spec.holderIdentity", "a");
    stored("spec.leaseDurationSeconds", "15");
    stored("spec.leaseTransitions", "0");
    stored("spec.acquireTime", "2026-01-01T00:00:00.000000Z");
    join(1);
    assert_int_equal(pass(600000), 0);
    stored("spec.leaseTransitions", "0");
    close_cluster();
}

static void a_released_lease_is_taken_at_once(void **state) {
    (void)state;
    open_cluster(2);
    join(0);
    assert_int_equal(pass(1000), 0);
    join(1);
    pass(1000);
    sl_lease_release(lease[0]);
    assert_false(sl_lease_held(lease[0])); /* from this moment, not from the reply */
    assert_int_equal(pass(2100), 1);
    stored("spec.leaseTransitions", "1");
    assert_int_equal(pass(60000), 1); /* who released it does not come back */
    close_cluster();
}

static void a_dead_holder_is_replaced_after_its_time(void **state) {
    (void)state;
    open_cluster(3);
    join(0);
    join(1);
    int first = pass(5000);
    assert_true(first == 0 || first == 1);
    stopped[first] = true;
    assert_int_equal(pass(7900), first);
    assert_int_equal(pass(2200), -1); /* it counts as lost before anybody else may take it */
    assert_int_equal(pass(8000), 1 - first);
    stored("spec.leaseTransitions", "1");
    stopped[first] = false;
    assert_int_equal(pass(30000), 1 - first);
    close_cluster();
}

static void a_deleted_lease_is_made_again(void **state) {
    (void)state;
    open_cluster(4);
    join(0);
    join(1);
    pass(5000);
    assert_int_equal(sl_memory_delete(cluster, &leases, "sys", "main", NULL), 0);
    assert_true(pass(20000) >= 0);
    close_cluster();
}

static void another_writer_takes_it_away(void **state) {
    (void)state;
    open_cluster(5);
    join(0);
    assert_int_equal(pass(3000), 0);
    SL_AUTO_JSON *thief = sl_json_from("{'spec':{'holderIdentity':'z','leaseDurationSeconds':5}}");
    assert_int_equal(sl_memory_merge(cluster, &leases, "sys", "main", NULL, thief, NULL, NULL), 0);
    assert_int_equal(pass(2100), -1);
    assert_int_equal(pass(7000), 0); /* z is silent for the five seconds it claimed */
    stored("spec.leaseTransitions", "1");
    close_cluster();
}

static void never_two_whatever_happens(void **state) {
    (void)state;
    for (uint64_t seed = 10; seed < 40; seed++) {
        open_cluster(seed);
        struct sl_memory_faults f = {
            .conflict = 100, .unavailable = 150, .unknown_applied = 100, .unknown_lost = 100, .delay_ms = 3000};
        sl_memory_set_faults(cluster, &f);
        for (int i = 0; i < REPLICAS; i++)
            join(i);
        bool had[REPLICAS] = {false};
        for (int round = 0; round < 30; round++) {
            int victim = (int)((seed * 7 + (uint64_t)round) % REPLICAS);
            stopped[victim] = round % 3 == 0;
            if (round == 15) {
                sl_lease_release(lease[victim]); /* a replica goes and comes back */
                pass(500);
                sl_lease_free(lease[victim]);
                join(victim);
            }
            int who = pass(20000);
            if (who >= 0)
                had[who] = true;
        }
        struct sl_memory_faults none = {0};
        sl_memory_set_faults(cluster, &none);
        memset(stopped, 0, sizeof stopped);
        assert_true(pass(60000) >= 0);
        assert_true(had[0] || had[1] || had[2]);
        close_cluster();
    }
}

static void freed_while_a_request_is_under_way(void **state) {
    (void)state;
    open_cluster(6);
    join(0);
    sl_lease_tick(lease[0]);
    sl_lease_release(lease[0]);
    sl_lease_free(SL_TAKE(lease[0]));
    join(1);
    assert_int_equal(pass(3000), 1);
    sl_lease_tick(lease[1]);
    close_cluster();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gets_it_and_keeps_it),
        cmocka_unit_test(a_released_lease_is_taken_at_once),
        cmocka_unit_test(a_dead_holder_is_replaced_after_its_time),
        cmocka_unit_test(a_deleted_lease_is_made_again),
        cmocka_unit_test(another_writer_takes_it_away),
        cmocka_unit_test(never_two_whatever_happens),
        cmocka_unit_test(freed_while_a_request_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
