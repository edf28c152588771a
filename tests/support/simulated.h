/* A cluster in memory with a manager over it, as tests of cmd/ begin, change and end it. */
#ifndef SLUICE_TESTS_SIMULATED_H
#define SLUICE_TESTS_SIMULATED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "simulate.h"

/* Creates an object as a client would, and lets everything come to rest. */
static inline void create_in(struct simulation *s, const char *text) {
    struct sl_err err = SL_ERR_INIT;
    SL_AUTO_JSON *o = sl_json_from(text);
    if (simulation_create(s, o, NULL, &err))
        fail_msg("%s", err.text);
    assert_true(simulation_settle(s));
}

/* A simulation in which managers follow each other. */
struct world {
    struct simulation sim;
    struct sl_config config;
    struct manager *before; /* whose last writes may still be under way */
};

static inline void create(struct world *x, const char *text) {
    create_in(&x->sim, text);
}

static inline void later(struct world *x, int64_t ms) {
    assert_true(simulation_advance(&x->sim, sl_cluster_wall_ms(x->sim.cluster) + ms));
}

static inline void restart(struct world *x) {
    struct sl_err err = SL_ERR_INIT;
    assert_null(x->before);
    x->before = x->sim.manager;
    sl_manager_retire(x->before);
    assert_int_equal(
        sl_manager_new(
            &(struct sl_manager_options){.cluster = x->sim.cluster, .config = &x->config, .identity = "next"},
            &x->sim.manager, &err),
        0);
}

static inline void end(struct world *x) {
    simulation_done(&x->sim);
    sl_manager_free(x->before);
    sl_config_done(&x->config);
}

#endif
