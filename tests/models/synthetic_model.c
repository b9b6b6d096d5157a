#include "models/synthetic_model.h"

#include <assert.h>

#include "contract/contract.h"
#include "core/hash.h"
#include "core/parallel.h"
#include "models/moss_image/nodes.h"
#include "models/moss_image/tensors.h"
#include "models/synthetic.h"

#undef NDEBUG
#include <assert.h>

typedef struct filler {
    const vd_moss_config *config;
    uint64_t              seed;
    vd_tensor             tensor;
    int64_t               count;
} filler;

enum { CHUNK = 1 << 16 };

static void fill(void *arg, int64_t index, int worker)
{
    (void)worker;
    filler       *f     = arg;
    const int64_t first = index * CHUNK;
    vd_synth_fill(f->config, f->seed, &f->tensor, first, vd_min(CHUNK, f->count - first), (char *)f->tensor.data + first * vd_dtype_size(f->tensor.type));
}

vd_moss_model *make_model(vd_context *ctx, const vd_moss_config *config, uint64_t seed, const char *patterns)
{
    vd_moss_model *model  = vd_alloc(ctx, sizeof *model, "a model");
    model->config         = *config;
    model->weights.blocks = vd_alloc(ctx, config->layers * (int64_t)sizeof *model->weights.blocks, "blocks");
    for (int64_t i = 0; i < vd_moss_tensor_count(config); i++) {
        vd_moss_tensor t;
        vd_moss_tensor_at(config, &model->weights, i, &t);
        if (!vd_moss_name_matches(patterns, t.name))
            continue;
        filler f = {config, seed, {.name = t.name, .type = t.type, .rank = t.rank, .shape = {t.shape[0], t.shape[1]}}, t.shape[0] * (t.rank > 1 ? t.shape[1] : 1)};
        f.tensor.data = vd_alloc(ctx, f.count * vd_dtype_size(t.type), t.name);
        assert(f.tensor.data);
        vd_parallel(vd_cpu_count(), (f.count + CHUNK - 1) / CHUNK, fill, &f);
        *t.weight = (vd_weight){f.tensor.data, t.type};
    }
    return model;
}

void free_model(vd_context *ctx, vd_moss_model *model)
{
    for (int64_t i = 0; i < vd_moss_tensor_count(&model->config); i++) {
        vd_moss_tensor t;
        vd_moss_tensor_at(&model->config, &model->weights, i, &t);
        vd_free(ctx, (void *)(uintptr_t)t.weight->data);
    }
    vd_free(ctx, model->weights.blocks);
    vd_free(ctx, model);
}

vd_tensor make_latents(vd_context *ctx, const vd_moss_config *config, uint64_t seed, int64_t h, int64_t w)
{
    const int64_t  count = config->latent_channels * h * w;
    const uint64_t base  = vd_synth_base(vd_fnv1a("input.latents"), seed);
    float         *data  = vd_alloc(ctx, count * 4, "latents");
    assert(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)vd_synth_value(base, i) * 0x1p-14f;
    return (vd_tensor){.name = "latents", .type = VD_F32, .rank = 3, .shape = {config->latent_channels, h, w}, .data = data};
}

vd_tensor make_text(vd_context *ctx, const vd_moss_config *config, uint64_t seed, int64_t rows)
{
    const int64_t  count = rows * config->text_dim;
    const uint64_t base  = vd_synth_base(vd_fnv1a("input.text"), seed);
    uint16_t      *data  = vd_alloc(ctx, count * 2, "text");
    assert(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = vd_to_bf16((float)vd_synth_value(base, i) * 0x1p-14f);
    return (vd_tensor){.name = "text", .type = VD_BF16, .rank = 2, .shape = {rows, config->text_dim}, .data = data};
}
