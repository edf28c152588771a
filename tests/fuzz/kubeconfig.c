/* Any text as a kubeconfig: refused with an error, or what comes out is of the promised form. */
#include <stdint.h>
#include <string.h>

#include "../../kube/auth.h"
#include "sluice/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct kube_config c = {0};
    struct sl_err err = SL_ERR_INIT;
    if (size > 65536)
        return 0;
    if (kube_config_parse(&c, (const char *)data, size, "/folder", NULL, &err)) {
        SL_ASSERT(err.code && err.text[0]);
        return 0;
    }
    SL_ASSERT(c.server && strstr(c.server, "://") && c.server[strlen(c.server) - 1] != '/');
    SL_ASSERT(!strpbrk(c.server, " \r\n@"));
    SL_ASSERT(!c.insecure || (!c.ca.path && !c.ca.inline_data.data));
    SL_ASSERT((c.cert.path || c.cert.inline_data.data) == (c.key.path || c.key.inline_data.data));
    kube_config_done(&c);
    return 0;
}
