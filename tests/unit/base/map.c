/* The map against a model that is too simple to be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sluice/base/map.h"
#include "sluice/base/mem.h"
#include "sluice/base/num.h"

enum { KEYS = 300 };

static size_t key_number(const char *key) {
    int64_t n = -1;
    assert_int_equal(sl_parse_i64(key + 4, strlen(key + 4), &n, NULL), 0);
    return (size_t)n;
}

static void map__random_operations_agree_with_a_model(void **state) {
    (void)state;
    srandom(11);
    for (int round = 0; round < 30; round++) {
        struct sl_map m = SL_MAP_INIT;
        uintptr_t model[KEYS] = {0};
        size_t count = 0;
        int keys = round % 3 ? KEYS : 5;
        for (int i = 0; i < 3000; i++) {
            char key[20];
            int k = (int)(random() % keys);
            snprintf(key, sizeof key, "key-%d", k);
            long what = random() % 100;
            if (what < 45) {
                uintptr_t v = (uintptr_t)random() + 1;
                assert_int_equal(sl_map_set(&m, key, (void *)v), model[k]);
                count += model[k] == 0;
                model[k] = v;
            } else if (what < 90) {
                assert_int_equal(sl_map_del(&m, key), model[k]);
                count -= model[k] != 0;
                model[k] = 0;
            } else if (what < 99) {
                assert_int_equal(sl_map_get(&m, key), model[k]);
                assert_int_equal(sl_map_has(&m, key), model[k] != 0);
            } else if (random() % 20 == 0) {
                sl_map_clear(&m, NULL);
                memset(model, 0, sizeof model);
                count = 0;
            }
            assert_int_equal(m.count, count);
        }
        size_t seen = 0;
        SL_MAP_EACH (&m, e) {
            assert_int_equal(e->value, model[key_number(e->key)]);
            seen++;
        }
        assert_int_equal(seen, count);
        const char **sorted = sl_map_sorted_keys(&m);
        for (size_t i = 1; i < count; i++)
            assert_true(strcmp(sorted[i - 1], sorted[i]) < 0);
        free(sorted);
        sl_map_done(&m, NULL);
    }
}

static void each__current_may_be_removed(void **state) {
    (void)state;
    struct sl_map m = SL_MAP_INIT;
    for (int i = 0; i < 100; i++) {
        char key[20];
        snprintf(key, sizeof key, "%03d", i);
        sl_map_set(&m, key, sl_xstrdup(key));
    }
    int at = 0;
    SL_MAP_EACH (&m, e) {
        char want[20];
        snprintf(want, sizeof want, "%03d", at++);
        assert_string_equal(e->key, want); /* in order of insertion */
        if (at % 2)
            free(sl_map_del(&m, want));
    }
    assert_int_equal(at, 100);
    assert_int_equal(m.count, 50);
    assert_null(sl_map_get(&m, "000"));
    assert_string_equal(sl_map_get(&m, "001"), "001");
    sl_map_done(&m, free);
}

static void map__churn_does_not_grow(void **state) {
    (void)state;
    struct sl_map m = SL_MAP_INIT;
    for (int i = 0; i < 100000; i++) {
        char key[20];
        snprintf(key, sizeof key, "%d", i);
        sl_map_set(&m, key, &m);
        if (i >= 10) {
            snprintf(key, sizeof key, "%d", i - 10);
            assert_ptr_equal(sl_map_del(&m, key), &m);
        }
    }
    assert_int_equal(m.count, 10);
    assert_true(m.cap < 100 && m.index_cap < 400);
    sl_map_done(&m, NULL);
}

static void map__edges(void **state) {
    (void)state;
    struct sl_map m = SL_MAP_INIT;
    assert_null(sl_map_get(&m, "x"));
    assert_null(sl_map_get(&m, NULL));
    assert_false(sl_map_has(&m, "x"));
    assert_null(sl_map_del(&m, "x"));
    sl_map_set(&m, "", NULL); /* an empty key and a NULL value are values like others */
    assert_true(sl_map_has(&m, ""));
    assert_null(sl_map_get(&m, ""));
    assert_int_equal(m.count, 1);
    free(sl_map_sorted_keys(&m));
    SL_MAP_EACH (&m, e)
        assert_string_equal(e->key, "");
    sl_map_done(&m, NULL);
    sl_map_done(&m, NULL);
}

static void siphash__depends_on_every_byte_and_the_length(void **state) {
    (void)state;
    unsigned char data[40] = {0};
    uint64_t base = sl_siphash(data, sizeof data);
    assert_true(base == sl_siphash(data, sizeof data));
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] ^= 1;
        assert_true(sl_siphash(data, sizeof data) != base);
        data[i] ^= 1;
        assert_true(sl_siphash(data, i) != base);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map__random_operations_agree_with_a_model),
        cmocka_unit_test(each__current_may_be_removed),
        cmocka_unit_test(map__churn_does_not_grow),
        cmocka_unit_test(map__edges),
        cmocka_unit_test(siphash__depends_on_every_byte_and_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
