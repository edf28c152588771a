/* Any text as a configuration: it is taken or refused with a message, and the defaults stand after a refusal. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "sluice/api/config.h"
#include "sluice/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1 << 16)
        return 0;
    struct sl_config c;
    struct sl_err err = SL_ERR_INIT;
    char *message = NULL;
    if (sl_config_parse_text((const char *)data, size, &c, &message, &err) < 0) {
        SL_ASSERT(message && *message && err.text[0] && c.webhook.port == 9443 && c.n_gates == 0);
    } else {
        SL_ASSERT(!message && c.namespace && c.pods_ready.timeout_ms >= 0 && c.leader.lease_ms > c.leader.renew_ms);
        SL_ASSERT(c.webhook.port >= 0 && c.webhook.port <= 65535);
    }
    free(message);
    sl_config_done(&c);
    return 0;
}
