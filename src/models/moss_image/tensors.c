#include "models/moss_image/tensors.h"

#include <stdio.h>

/* A dimension is a multiple of one of the configuration's sizes. */
typedef enum size_name { NOTHING, DIM, FFN, TEXT, FREQ, LATENT, HEAD_DIM, BANDS } size_name;

typedef struct entry {
    const char *name;
    size_t      place; /* of the vd_weight in its struct */
    size_name   rows;
    int         times; /* rows = times · size */
    size_name   columns;
} entry;

#define PLACE(field) offsetof(vd_moss_weights, field)
static const entry front[] = {
    {"video_embedder.weight", PLACE(video), DIM, 1, LATENT},       {"video_embedder.bias", PLACE(video_bias), DIM, 1, NOTHING},
    {"text_embedder.proj.weight", PLACE(text), DIM, 1, TEXT},      {"text_embedder.proj.bias", PLACE(text_bias), DIM, 1, NOTHING},
    {"rope.bands", PLACE(bands), BANDS, 1, NOTHING},
    {"time_embedding.0.weight", PLACE(time0), DIM, 1, FREQ},       {"time_embedding.0.bias", PLACE(time0_bias), DIM, 1, NOTHING},
    {"time_embedding.2.weight", PLACE(time2), DIM, 1, DIM},        {"time_embedding.2.bias", PLACE(time2_bias), DIM, 1, NOTHING},
    {"shared_block_modulation.weight", PLACE(mod), DIM, 6, DIM},   {"shared_block_modulation.bias", PLACE(mod_bias), DIM, 6, NOTHING},
    {"video_head_modulation.weight", PLACE(head_mod), DIM, 2, DIM}, {"video_head_modulation.bias", PLACE(head_mod_bias), DIM, 2, NOTHING},
    {"final_norm_video.weight", PLACE(final_norm), DIM, 1, NOTHING}, {"final_linear_video.weight", PLACE(final_linear), LATENT, 1, DIM},
};
#undef PLACE

#define PLACE(field) offsetof(vd_moss_text_block, field)
static const entry text_block[] = {
    {"norm1.weight", PLACE(norm1), DIM, 1, NOTHING},           {"norm2.weight", PLACE(norm2), DIM, 1, NOTHING},
    {"q_norm.weight", PLACE(q_norm), HEAD_DIM, 1, NOTHING},    {"k_norm.weight", PLACE(k_norm), HEAD_DIM, 1, NOTHING},
    {"qkv.weight", PLACE(qkv), DIM, 3, DIM},                   {"qkv.bias", PLACE(qkv_bias), DIM, 3, NOTHING},
    {"proj.weight", PLACE(proj), DIM, 1, DIM},                 {"proj.bias", PLACE(proj_bias), DIM, 1, NOTHING},
    {"ffn_gate.weight", PLACE(ffn_gate), FFN, 1, DIM},         {"ffn_gate.bias", PLACE(ffn_gate_bias), FFN, 1, NOTHING},
    {"ffn_up.weight", PLACE(ffn_up), FFN, 1, DIM},             {"ffn_up.bias", PLACE(ffn_up_bias), FFN, 1, NOTHING},
    {"ffn_down.weight", PLACE(ffn_down), DIM, 1, FFN},         {"ffn_down.bias", PLACE(ffn_down_bias), DIM, 1, NOTHING},
};
#undef PLACE

#define PLACE(field) offsetof(vd_moss_block, field)
static const entry block[] = {
    {"norm1.weight", PLACE(norm1), DIM, 1, NOTHING},           {"norm2.weight", PLACE(norm2), DIM, 1, NOTHING},
    {"q_norm.weight", PLACE(q_norm), HEAD_DIM, 1, NOTHING},    {"k_norm.weight", PLACE(k_norm), HEAD_DIM, 1, NOTHING},
    {"proj.q.weight", PLACE(q), DIM, 1, DIM},                  {"proj.k.weight", PLACE(k), DIM, 1, DIM},
    {"proj.v.weight", PLACE(v), DIM, 1, DIM},                  {"proj.o.weight", PLACE(o), DIM, 1, DIM},
    {"proj.ffn_up_gate.weight", PLACE(up_gate), FFN, 2, DIM},  {"proj.ffn_down.weight", PLACE(down), DIM, 1, FFN},
};
#undef PLACE

enum { FRONT = sizeof front / sizeof *front, TEXT_BLOCK = sizeof text_block / sizeof *text_block, BLOCK = sizeof block / sizeof *block };

static int64_t size_of(const vd_moss_config *c, size_name name)
{
    switch (name) {
    case DIM: return c->dim;
    case FFN: return c->ffn_dim;
    case TEXT: return c->text_dim;
    case FREQ: return c->freq_dim;
    case LATENT: return c->latent_channels;
    case HEAD_DIM: return vd_moss_head_dim(c);
    case BANDS: return vd_moss_bands(c);
    case NOTHING: break;
    }
    return 0;
}

int64_t vd_moss_tensor_count(const vd_moss_config *config) { return FRONT + VD_MOSS_TEXT_BLOCKS * TEXT_BLOCK + config->layers * BLOCK; }

void vd_moss_tensor_at(const vd_moss_config *config, vd_moss_weights *weights, int64_t index, vd_moss_tensor *out)
{
    const entry *e    = &front[index < FRONT ? index : 0];
    char        *base = (char *)weights;
    snprintf(out->name, sizeof out->name, "%s", index < FRONT ? e->name : "");
    if (index >= FRONT + VD_MOSS_TEXT_BLOCKS * TEXT_BLOCK) {
        const int64_t i = index - FRONT - VD_MOSS_TEXT_BLOCKS * TEXT_BLOCK;
        e    = &block[i % BLOCK];
        base = weights ? (char *)&weights->blocks[i / BLOCK] : NULL;
        snprintf(out->name, sizeof out->name, "layers.%lld.%s", (long long)(i / BLOCK), e->name);
    } else if (index >= FRONT) {
        const int64_t i = index - FRONT;
        e    = &text_block[i % TEXT_BLOCK];
        base = weights ? (char *)&weights->text_blocks[i / TEXT_BLOCK] : NULL;
        snprintf(out->name, sizeof out->name, "text_embedder.blocks.%lld.%s", (long long)(i / TEXT_BLOCK), e->name);
    }
    out->type     = e->rows == BANDS ? VD_F32 : VD_BF16;
    out->rank     = e->columns == NOTHING ? 1 : 2;
    out->shape[0] = e->times * size_of(config, e->rows);
    out->shape[1] = size_of(config, e->columns);
    out->weight   = base ? (vd_weight *)(void *)(base + e->place) : NULL;
}

int64_t vd_moss_weight_bytes(const vd_moss_model *model)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < vd_moss_tensor_count(&model->config); i++) {
        vd_moss_tensor t;
        vd_moss_tensor_at(&model->config, NULL, i, &t);
        bytes += t.shape[0] * (t.rank > 1 ? t.shape[1] : 1) * vd_dtype_size(t.type);
    }
    return bytes;
}
