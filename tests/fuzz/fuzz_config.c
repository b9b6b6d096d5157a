/* Any text as MOSS-Image's config.json. Accepted sizes keep the model's rules, and no product of them overflows. */
#include <math.h>

#include "contract/contract.h"
#include "fuzz.h"
#include "models/moss_image/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vd_context           *ctx   = fuzz_open();
    vd_moss_model         model = {0};
    const vd_moss_config *c     = &model.config;
    const vd_status       status = vd_moss_config_parse(ctx, "fuzzed", (const char *)data, (int64_t)size, &model.config);
    if (status == VD_OK) {
        FUZZ_CHECK(c->heads > 0 && c->dim % c->heads == 0 && vd_moss_head_dim(c) % 8 == 0 && c->freq_dim % 2 == 0);
        FUZZ_CHECK(c->layers > 0 && c->layers <= VD_MOSS_MAX_LAYERS && c->rope_base >= 1);
        FUZZ_CHECK(vd_moss_weight_bytes(&model) > 0);
        float *bands = vd_alloc(ctx, vd_moss_bands(c) * (int64_t)sizeof *bands, "bands");
        FUZZ_CHECK(bands != NULL);
        vd_rope_bands(c->rope_base, vd_moss_bands(c), bands);
        for (int64_t i = 0; i < vd_moss_bands(c); i++)
            FUZZ_CHECK(bands[i] > 0 && bands[i] <= 1);
        vd_free(ctx, bands);
    }
    fuzz_close(ctx, status);
    return 0;
}
