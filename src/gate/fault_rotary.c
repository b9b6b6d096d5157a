/* Faults of the rotary: the table, the pairs, the layout. */
#include <math.h>
#include <string.h>

#include "contract/contract.h"
#include "gate/fault_run.h"

vd_status vd_fault_prepare_tables(vd_context *ctx, vd_fault *f)
{
    const int64_t size = f->c->joint_rows * vd_moss_head_dim(&f->c->config) * (int64_t)sizeof(float);
    f->cosines         = vd_keep_alloc(&f->keep, size, "a fault's rotary table");
    f->sines           = vd_keep_alloc(&f->keep, size, "a fault's rotary table");
    return f->cosines && f->sines ? VD_OK : ctx->status;
}

/* Turns one pair of one head back by its angle and forth by its opposite. */
void vd_fault_alter_pair(vd_fault *f, vd_tensor *value)
{
    const vd_moss_config *m    = &f->c->config;
    const int64_t         d = vd_moss_head_dim(m), half = d / 2, pair = 2 * vd_moss_bands(m), head = m->heads / 2;
    if (!vd_fault_sees(f, value, ".q_rot") && !vd_fault_sees(f, value, ".k_rot"))
        return;
    for (int64_t i = 0; i < value->shape[0]; i++) {
        const int64_t at = i * m->dim + head * d + pair;
        const double  c = (double)f->cosines[i * d + pair], s = (double)f->sines[i * d + pair];
        const double  a = (double)vd_load(value->data, value->type, at), b = (double)vd_load(value->data, value->type, at + half);
        const double  x = a * c + b * s, y = b * c - a * s;
        vd_store(value->data, value->type, at, (float)(x * c + y * s));
        vd_store(value->data, value->type, at + half, (float)(y * c - x * s));
    }
}

vd_status vd_fault_prepare_rope_base(vd_context *ctx, vd_fault *f)
{
    (void)ctx;
    f->model.config.rope_base = f->kind->amount;
    return VD_OK;
}

static bool is_table(const vd_fault *f, const vd_tensor *value)
{
    return value->shape[0] == f->c->joint_rows && (strcmp(value->name, "rope.cos") == 0 || strcmp(value->name, "rope.sin") == 0);
}

void vd_fault_alter_axes(vd_fault *f, vd_tensor *value)
{
    const int64_t bands = vd_moss_bands(&f->c->config), d = value->shape[1];
    if (!is_table(f, value))
        return;
    for (int64_t i = 0; i < value->shape[0]; i++)
        for (int64_t half = 0; half < 2; half++)
            for (int64_t j = 0; j < bands; j++) {
                const int64_t h = i * d + half * d / 2 + 2 * bands + j, w = h + bands;
                const float   x = vd_load(value->data, value->type, h), y = vd_load(value->data, value->type, w);
                vd_store(value->data, value->type, h, y);
                vd_store(value->data, value->type, w, x);
            }
}

/* Phases rounded to bf16 before sine and cosine: good near 0, worse with every position. */
void vd_fault_alter_coarse_table(vd_fault *f, vd_tensor *value)
{
    const vd_case *c    = f->c;
    const int64_t  bands = vd_moss_bands(&c->config), d = value->shape[1];
    const bool     sine = strcmp(value->name, "rope.sin") == 0;
    if (!is_table(f, value))
        return;
    for (int64_t i = 0; i < value->shape[0]; i++) {
        const bool  image = i < c->image_rows;
        const float position[4] = {0, image ? (float)c->text_rows : (float)(i - c->image_rows), image ? (float)(i / c->w) - (float)(c->h - 1) / 2 : 0,
                                   image ? (float)(i % c->w) - (float)(c->w - 1) / 2 : 0};
        for (int64_t p = 0; p < d / 2; p++) {
            const float band  = (float)pow(c->config.rope_base, -(double)(p % bands) / (double)bands);
            const float phase = vd_round_bf16(position[p / bands] * band), turned = sine ? sinf(phase) : cosf(phase);
            vd_store(value->data, value->type, i * d + p, turned);
            vd_store(value->data, value->type, i * d + d / 2 + p, turned);
        }
    }
}

/* Text row i turned as row i + 1. */
void vd_fault_alter_text_positions(vd_fault *f, vd_tensor *value)
{
    const vd_case *c    = f->c;
    const int64_t  d = value->shape[1], bands = vd_moss_bands(&c->config), size = d * vd_dtype_size(value->type);
    const bool     sine = strcmp(value->name, "rope.sin") == 0;
    char          *rows = (char *)value->data + c->image_rows * size;
    if (!is_table(f, value))
        return;
    memmove(rows, rows + size, (size_t)((c->text_rows - 1) * size));
    for (int64_t p = 0; p < d; p++) {
        const int64_t pair  = p % (d / 2);
        const double  phase = pair / bands == 1 ? (double)c->text_rows * pow(c->config.rope_base, -(double)(pair % bands) / (double)bands) : 0;
        vd_store(rows, value->type, (c->text_rows - 1) * d + p, (float)(sine ? sin(phase) : cos(phase)));
    }
}

/* q and k laid out as a converter for interleaved rotary writes them, under a half-split kernel. */
vd_status vd_fault_prepare_interleaved(vd_context *ctx, vd_fault *f)
{
    const vd_moss_config *m     = &f->c->config;
    vd_moss_block        *w     = &f->model.weights.blocks[f->block];
    const int64_t         d = vd_moss_head_dim(m);
    vd_weight *const      matrices[] = {&w->q, &w->k, &w->q_norm, &w->k_norm};
    for (int i = 0; i < 4; i++) {
        const int64_t   heads = i < 2 ? m->heads : 1, size = i < 2 ? m->dim : 1;
        const uint16_t *from = matrices[i]->data;
        uint16_t       *to   = vd_fault_copy_weight(f, matrices[i], heads * d * size);
        if (!to)
            return ctx->status;
        for (int64_t h = 0; h < heads; h++)
            for (int64_t j = 0; j < d; j++) {
                const int64_t old = j < d / 2 ? 2 * j : 2 * (j - d / 2) + 1;
                memcpy(to + (h * d + j) * size, (const char *)from + 2 * (h * d + old) * size, (size_t)(2 * size));
            }
    }
    return VD_OK;
}
