/* Any safetensors file as the weights of the smallest MOSS-Image. When it is accepted, every weight's bytes are there to be read. */
#include "formats/tensors.h"
#include "fuzz.h"
#include "models/moss_image/load.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) { return fuzz_mutate_tensors(data, size, room, seed); }

static void read_weight(const vd_weight *w, int64_t elements)
{
    volatile uint64_t sum = 0;
    FUZZ_CHECK(w->data != NULL && w->type == VD_BF16);
    for (int64_t i = 0; i < 2 * elements; i++)
        sum = sum + ((const uint8_t *)w->data)[i];
}

static void read_weights(const vd_moss_model *m)
{
    const vd_moss_config *c = &m->config;
    const int64_t         d = c->dim;
    read_weight(&m->weights.video, d * c->latent_channels);
    read_weight(&m->weights.text, d * c->text_dim);
    read_weight(&m->weights.time0, d * c->freq_dim);
    read_weight(&m->weights.time2, d * d);
    read_weight(&m->weights.mod, VD_MOSS_MOD_ROWS * d * d);
    read_weight(&m->weights.head_mod, VD_MOSS_HEAD_MOD_ROWS * d * d);
    read_weight(&m->weights.final_linear, d * c->latent_channels);
    for (int i = 0; i < VD_MOSS_TEXT_BLOCKS; i++) {
        read_weight(&m->weights.text_blocks[i].qkv, 3 * d * d);
        read_weight(&m->weights.text_blocks[i].ffn_down, d * c->ffn_dim);
    }
    for (int64_t i = 0; i < c->layers; i++) {
        const vd_moss_block *b = &m->weights.blocks[i];
        read_weight(&b->q, d * d);
        read_weight(&b->k, d * d);
        read_weight(&b->v, d * d);
        read_weight(&b->up_gate, 2 * c->ffn_dim * d);
        read_weight(&b->down, c->ffn_dim * d);
        read_weight(&b->norm2, d);
        read_weight(&b->k_norm, vd_moss_head_dim(c));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vd_context    *ctx   = fuzz_open();
    vd_moss_model *model = vd_alloc(ctx, sizeof *model, "a model");
    FUZZ_CHECK(model != NULL);
    model->config = (vd_moss_config){.dim = 8, .ffn_dim = 2, .heads = 1, .layers = 2, .text_dim = 4, .freq_dim = 2, .latent_channels = 2, .rope_base = 10000};
    vd_status status = vd_tensors_parse(ctx, "fuzzed", data, (int64_t)size, &model->files);
    if (status == VD_OK)
        status = vd_moss_match(ctx, "fuzzed", model);
    if (status == VD_OK)
        read_weights(model);
    vd_moss_close(ctx, model);
    fuzz_close(ctx, status);
    return 0;
}
