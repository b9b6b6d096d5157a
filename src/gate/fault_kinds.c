/* The catalogue. Each entry says what is wrong, where it can be, and how it is planted; the functions above it do that. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "contract/contract.h"
#include "core/parallel.h"
#include "gate/fault_run.h"

/* ---- Rows and elements of one node ---- */

static void scale_row(vd_tensor *value, int64_t row, double factor)
{
    const int64_t cols = value->shape[1];
    for (int64_t j = row * cols; j < (row + 1) * cols; j++)
        vd_store(value->data, value->type, j, (float)((double)vd_load(value->data, value->type, j) * factor));
}

static void alter_row(vd_fault *f, vd_tensor *value)
{
    if (vd_fault_sees_node(f, value))
        scale_row(value, value->shape[0] / 2, f->kind->amount);
}

static void alter_massive_row(vd_fault *f, vd_tensor *value)
{
    int64_t at = 0;
    float   most = -1;
    if (!vd_fault_sees_node(f, value))
        return;
    for (int64_t i = 0; i < value->shape[0] * value->shape[1]; i++)
        if (fabsf(vd_load(value->data, value->type, i)) > most)
            most = fabsf(vd_load(value->data, value->type, i)), at = i;
    scale_row(value, at / value->shape[1], f->kind->amount);
}

static void alter_last_row(vd_fault *f, vd_tensor *value)
{
    const int64_t size = value->shape[1] * vd_dtype_size(value->type);
    if (vd_fault_sees_node(f, value))
        memset((char *)value->data + (value->shape[0] - 1) * size, 0, (size_t)size);
}

static int64_t middle(const vd_tensor *value) { return value->shape[0] / 2 * value->shape[1] + value->shape[1] / 2; }

static void alter_nan(vd_fault *f, vd_tensor *value)
{
    if (vd_fault_sees_node(f, value))
        vd_store(value->data, value->type, middle(value), NAN);
}

static void alter_flicker(vd_fault *f, vd_tensor *value)
{
    if (vd_fault_sees_node(f, value) && f->run == 1)
        ((uint8_t *)value->data)[middle(value) * vd_dtype_size(value->type)] ^= 1;
}

static void alter_minus_zero(vd_fault *f, vd_tensor *value)
{
    int64_t at = 0;
    if (!vd_fault_sees_node(f, value))
        return;
    for (int64_t i = 1; i < value->shape[0] * value->shape[1]; i++)
        if (fabsf(vd_load(value->data, value->type, i)) < fabsf(vd_load(value->data, value->type, at)))
            at = i;
    vd_store(value->data, value->type, at, f->run == 1 ? -0.0f : 0.0f);
}

static void alter_sign(vd_fault *f, vd_tensor *value)
{
    if (!vd_fault_sees_node(f, value))
        return;
    for (int64_t i = 0; i < value->shape[0]; i++)
        scale_row(value, i, -1);
}

/* ---- Norms ---- */

static vd_status prepare_norm_eps(vd_context *ctx, vd_fault *f)
{
    (void)ctx;
    f->hooks.norm_eps  = 1e-5f;
    f->hooks.eps_block = (int)f->block;
    return VD_OK;
}

static vd_status prepare_qk_eps(vd_context *ctx, vd_fault *f)
{
    (void)ctx;
    f->hooks.qk_eps    = 1e-5f;
    f->hooks.eps_block = (int)f->block;
    return VD_OK;
}

/* ---- Whole blocks ---- */

static vd_status reserve_entering(vd_context *ctx, vd_fault *f)
{
    f->entering = vd_keep_alloc(&f->keep, f->c->joint_rows * f->c->config.dim * vd_dtype_size(f->stream), "the rows that enter a faulty block");
    f->mod      = vd_keep_alloc(&f->keep, VD_MOSS_MOD_ROWS * f->c->config.dim * vd_dtype_size(f->stream), "a faulty block's modulation");
    return f->entering && f->mod ? VD_OK : ctx->status;
}

static void alter_missing(vd_fault *f, vd_tensor *value)
{
    if (vd_fault_sees(f, value, ".x"))
        memcpy(value->data, f->entering, (size_t)vd_tensor_bytes(value));
}

static int keep_value(void *user, int sample, const vd_tensor *value)
{
    (void)sample;
    memcpy(((vd_tensor *)user)->data, value->data, (size_t)vd_tensor_bytes(value));
    return 0;
}

static void alter_doubled(vd_fault *f, vd_tensor *value)
{
    if (!vd_fault_sees(f, value, ".x"))
        return;
    memcpy(f->entering, value->data, (size_t)vd_tensor_bytes(value));
    vd_tensor x = *value, mod = {.name = "mod", .type = f->stream, .rank = 2, .shape = {VD_MOSS_MOD_ROWS, f->c->config.dim}, .data = f->mod};
    char      from[32];
    snprintf(from, sizeof from, "b%lld.a", (long long)f->block);
    x.name = "x", x.data = f->entering;
    const vd_tensor    inputs[] = {x, mod};
    const vd_sample    sample   = {.inputs = inputs, .input_count = 2, .h = f->c->h, .w = f->c->w, .text_rows = f->c->text_rows};
    vd_forward_options options;
    vd_forward_options_init(&options);
    options.policy = f->c->policy, options.from = from, options.to = value->name, options.tap = keep_value, options.tap_user = value;
    f->status = vd_moss_forward(f->ctx, f->base, &options, &sample, 1, NULL, NULL);
}

static vd_status prepare_neighbour(vd_context *ctx, vd_fault *f)
{
    const int64_t layers = f->c->config.layers;
    f->block_weights     = vd_keep_alloc(&f->keep, layers * (int64_t)sizeof *f->block_weights, "a faulty list of blocks");
    if (!f->block_weights)
        return ctx->status;
    if (layers < 2)
        return vd_fail(ctx, VD_UNSUPPORTED, "plant", "%s needs two blocks; the model has one", f->kind->text.name);
    for (int64_t i = 0; i < layers; i++)
        f->block_weights[i] = i != f->block ? i : i + 1 < layers ? i + 1 : i - 1;
    f->hooks.block_weights = f->block_weights;
    return VD_OK;
}

/* ---- Weights of ffn_down ---- */

static uint16_t *copy_down(vd_fault *f)
{
    return vd_fault_copy_weight(f, &f->model.weights.blocks[f->block].down, f->c->config.dim * f->c->config.ffn_dim);
}

/* w + amount·rms(w)·z, z of variance 1 from a fixed stream: a weight that is `amount` of its own size away from the right one. */
static vd_status prepare_stale(vd_context *ctx, vd_fault *f)
{
    const int64_t count = f->c->config.dim * f->c->config.ffn_dim;
    uint16_t     *w     = copy_down(f);
    uint64_t      state = 0x9E3779B97F4A7C15u;
    double        sum   = 0;
    if (!w)
        return ctx->status;
    for (int64_t i = 0; i < count; i++)
        sum += (double)vd_from_bf16(w[i]) * (double)vd_from_bf16(w[i]);
    const double size = f->kind->amount * sqrt(sum / (double)count);
    for (int64_t i = 0; i < count; i++) {
        double z = 0;
        for (int k = 0; k < 4; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            z += (double)(state >> 40) / 16777216 - 0.5;
        }
        w[i] = vd_to_bf16((float)((double)vd_from_bf16(w[i]) + size * z * sqrt(3)));
    }
    return VD_OK;
}

static vd_status prepare_channel(vd_context *ctx, vd_fault *f)
{
    const int64_t width = f->c->config.ffn_dim, row = f->c->config.dim / 3;
    uint16_t     *w     = copy_down(f);
    if (!w)
        return ctx->status;
    memcpy(w + row * width, w + (row + 1) * width, (size_t)(2 * width));
    return VD_OK;
}

/* `amount` is the bit, in the weight of largest magnitude. */
static vd_status prepare_bit(vd_context *ctx, vd_fault *f)
{
    const int64_t count = f->c->config.dim * f->c->config.ffn_dim;
    uint16_t     *w     = copy_down(f);
    int64_t       at    = 0;
    if (!w)
        return ctx->status;
    for (int64_t i = 1; i < count; i++)
        if ((w[i] & 0x7FFF) > (w[at] & 0x7FFF))
            at = i;
    w[at] ^= (uint16_t)(1u << (int)f->kind->amount);
    return VD_OK;
}

/* ---- Modulation ---- */

static void change_shift_scale(const vd_fault *f, vd_dtype type, void *mod)
{
    const int64_t dim = f->c->config.dim;
    for (int64_t i = 0; i < dim; i++) {
        const float shift = vd_load(mod, type, i), scale = vd_load(mod, type, dim + i);
        vd_store(mod, type, i, scale);
        vd_store(mod, type, dim + i, shift);
    }
}

static void change_gate(const vd_fault *f, vd_dtype type, void *mod)
{
    const int64_t dim = f->c->config.dim;
    for (int64_t i = 0; i < dim; i++)
        vd_store(mod, type, 2 * dim + i, 1);
}

/* ---- FFN ---- */

static void alter_halves(vd_fault *f, vd_tensor *value)
{
    const int64_t n = f->c->config.ffn_dim;
    if (!vd_fault_sees(f, value, ".ug"))
        return;
    for (int64_t i = 0; i < value->shape[0]; i++)
        for (int64_t j = 0; j < n; j++) {
            const float u = vd_load(value->data, value->type, 2 * n * i + j), g = vd_load(value->data, value->type, 2 * n * i + n + j);
            vd_store(value->data, value->type, 2 * n * i + j, g);
            vd_store(value->data, value->type, 2 * n * i + n + j, u);
        }
}

static vd_status reserve_up_gate(vd_context *ctx, vd_fault *f)
{
    f->ug = vd_keep_alloc(&f->keep, f->c->joint_rows * 2 * f->c->config.ffn_dim * (int64_t)sizeof(float), "a faulty block's up and gate");
    return f->ug ? VD_OK : ctx->status;
}

static void alter_silu(vd_fault *f, vd_tensor *value)
{
    const int64_t n = f->c->config.ffn_dim;
    if (!vd_fault_sees(f, value, ".situ"))
        return;
    for (int64_t i = 0; i < value->shape[0]; i++)
        for (int64_t j = 0; j < n; j++) {
            const double u = (double)f->ug[2 * n * i + j], g = (double)f->ug[2 * n * i + n + j];
            vd_store(value->data, value->type, i * n + j, (float)(u * g / (1 + exp(-g))));
        }
}

static vd_status reserve_situ(vd_context *ctx, vd_fault *f)
{
    f->situ = vd_keep_alloc(&f->keep, f->c->joint_rows * f->c->config.ffn_dim * (int64_t)sizeof(float), "a faulty block's SiTU");
    return f->situ ? VD_OK : ctx->status;
}

typedef struct partial_job {
    const vd_fault *f;
    vd_tensor      *value;
} partial_job;

/* One row: the sum is rounded to bf16 behind every 16 products. */
static void sum_coarsely(void *arg, int64_t row, int worker)
{
    const partial_job *job   = arg;
    const int64_t      n = job->f->c->config.ffn_dim, dim = job->f->c->config.dim;
    const void        *w = job->f->base->weights.blocks[job->f->block].down.data;
    const float       *x = job->f->situ + row * n;
    (void)worker;
    for (int64_t j = 0; j < dim; j++) {
        float sum = 0;
        for (int64_t k = 0; k < n; k += 16) {
            float part = 0;
            for (int64_t i = k; i < n && i < k + 16; i++)
                part += x[i] * vd_load(w, VD_BF16, j * n + i);
            sum = vd_round_bf16(sum + vd_round_bf16(part));
        }
        vd_store(job->value->data, job->value->type, row * dim + j, sum);
    }
}

static void alter_partial_sums(vd_fault *f, vd_tensor *value)
{
    partial_job job = {f, value};
    if (vd_fault_sees(f, value, ".down"))
        vd_parallel(f->ctx->threads, value->shape[0], sum_coarsely, &job);
}

/* ---- Attention ---- */

static vd_status reserve_heads(vd_context *ctx, vd_fault *f)
{
    const int64_t size = f->c->joint_rows * f->c->config.dim * (int64_t)sizeof(float);
    f->q               = vd_keep_alloc(&f->keep, size, "a faulty block's heads");
    f->k               = vd_keep_alloc(&f->keep, size, "a faulty block's heads");
    f->v               = vd_keep_alloc(&f->keep, size, "a faulty block's heads");
    return f->q && f->k && f->v ? VD_OK : ctx->status;
}

static vd_status need_two_heads(vd_context *ctx, vd_fault *f)
{
    return f->c->config.heads > 1 ? VD_OK : vd_fail(ctx, VD_UNSUPPORTED, "plant", "%s needs two heads; the model has one", f->kind->text.name);
}

typedef struct key_job {
    const vd_fault *f;
    vd_tensor      *value;
    bool            added; /* a key of zeros is added; else the last one is taken away */
} key_job;

static void change_keys(void *arg, int64_t row, int worker)
{
    const key_job        *job   = arg;
    const vd_moss_config *m     = &job->f->c->config;
    const int64_t         d = vd_moss_head_dim(m), keys = job->f->c->joint_rows;
    (void)worker;
    for (int64_t h = 0; h < m->heads; h++) {
        double most = 0, total = 0, last = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t key = 0; key < keys; key++) {
                double score = 0;
                for (int64_t j = h * d; j < (h + 1) * d; j++)
                    score += (double)job->f->q[row * m->dim + j] * (double)job->f->k[key * m->dim + j];
                score /= sqrt((double)d);
                if (pass == 0)
                    most = fmax(most, score);
                else
                    total += last = exp(score - most);
            }
        for (int64_t j = h * d; j < (h + 1) * d; j++) {
            const double o = (double)vd_load(job->value->data, job->value->type, row * m->dim + j);
            const double v = (double)job->f->v[(keys - 1) * m->dim + j];
            const double changed = job->added ? o * total / (total + exp(-most)) : (o * total - last * v) / (total - last);
            vd_store(job->value->data, job->value->type, row * m->dim + j, (float)changed);
        }
    }
}

static void alter_padding_key(vd_fault *f, vd_tensor *value)
{
    key_job job = {f, value, true};
    if (vd_fault_sees(f, value, ".att"))
        vd_parallel(f->ctx->threads, value->shape[0], change_keys, &job);
}

static void alter_last_key(vd_fault *f, vd_tensor *value)
{
    key_job job = {f, value, false};
    if (vd_fault_sees(f, value, ".att"))
        vd_parallel(f->ctx->threads, value->shape[0], change_keys, &job);
}

static void alter_softmax_scale(vd_fault *f, vd_tensor *value)
{
    if (!vd_fault_sees(f, value, ".q_rot"))
        return;
    for (int64_t i = 0; i < value->shape[0]; i++)
        scale_row(value, i, f->kind->amount);
}

static void alter_heads(vd_fault *f, vd_tensor *value)
{
    const int64_t d = vd_moss_head_dim(&f->c->config), dim = f->c->config.dim;
    if (!vd_fault_sees(f, value, ".att"))
        return;
    for (int64_t i = 0; i < value->shape[0]; i++)
        for (int64_t j = 0; j < d; j++) {
            const float a = vd_load(value->data, value->type, i * dim + j), b = vd_load(value->data, value->type, i * dim + d + j);
            vd_store(value->data, value->type, i * dim + j, b);
            vd_store(value->data, value->type, i * dim + d + j, a);
        }
}

/* ---- Time ---- */

static vd_status need_fine_timestep(vd_context *ctx, vd_fault *f)
{
    if (vd_round_bf16(f->c->t) != f->c->t)
        return VD_OK;
    return vd_fail(ctx, VD_UNSUPPORTED, "plant", "%s would change nothing: t is %.9g, which bf16 holds; take a case with another t", f->kind->text.name, (double)f->c->t);
}

static void alter_timestep(vd_fault *f, vd_tensor *value)
{
    if (strcmp(value->name, "time.in") == 0)
        vd_sinusoid_moss(vd_round_bf16(f->c->t), f->c->config.freq_dim, value->data);
}

static void alter_sin_cos(vd_fault *f, vd_tensor *value)
{
    const int64_t half = f->c->config.freq_dim / 2;
    if (strcmp(value->name, "time.in") != 0)
        return;
    for (int64_t i = 0; i < half; i++) {
        const float c = vd_load(value->data, VD_F32, i);
        vd_store(value->data, VD_F32, i, vd_load(value->data, VD_F32, half + i));
        vd_store(value->data, VD_F32, half + i, c);
    }
}

static void alter_coarse_sinusoid(vd_fault *f, vd_tensor *value)
{
    const int64_t half = f->c->config.freq_dim / 2;
    if (strcmp(value->name, "time.in") != 0)
        return;
    for (int64_t i = 0; i < half; i++) {
        const float phase = f->c->t * expf(-logf(10000) * (float)i / (float)half);
        vd_store(value->data, VD_F32, i, cosf(phase));
        vd_store(value->data, VD_F32, half + i, sinf(phase));
    }
}

/* ---- Order of rows ---- */

static void alter_text_shift(vd_fault *f, vd_tensor *value)
{
    const int64_t size = value->shape[1] * vd_dtype_size(value->type);
    if (vd_fault_sees_node(f, value))
        memmove((char *)value->data + size, value->data, (size_t)((value->shape[0] - 1) * size));
}

static vd_status need_plane(vd_context *ctx, vd_fault *f)
{
    f->entering = vd_keep_alloc(&f->keep, f->c->image_rows * f->c->config.dim * vd_dtype_size(f->stream), "image rows in another order");
    if (!f->entering)
        return ctx->status;
    return f->c->h > 1 && f->c->w > 1 ? VD_OK : vd_fail(ctx, VD_UNSUPPORTED, "plant", "%s would change nothing: the latent is one row or column", f->kind->text.name);
}

static void alter_image_order(vd_fault *f, vd_tensor *value)
{
    const int64_t h = f->c->h, w = f->c->w, size = value->shape[1] * vd_dtype_size(value->type);
    if (!vd_fault_sees_node(f, value))
        return;
    memcpy(f->entering, value->data, (size_t)(h * w * size));
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            memcpy((char *)value->data + (x * h + y) * size, (const char *)f->entering + (y * w + x) * size, (size_t)size);
}

/* ---- The table ---- */

/* ---- The table ---- */

const vd_fault_kind vd_fault_kinds[] = {
    {.text = {"row-1%", "one row 1% too large", "any node of the case; the middle block unless said", "the middle row of the node times 1.01"},
     .place = VD_PLACE_NODE, .amount = 1.01, .alter = alter_row},
    {.text = {"row-5%", "one row 5% too large", "any node of the case; the middle block unless said", "the middle row of the node times 1.05"},
     .place = VD_PLACE_NODE, .amount = 1.05, .alter = alter_row},
    {.text = {"massive-row-5%", "the row with the largest value 5% too large", "any node of the case; the middle block unless said", "that row of the node times 1.05"},
     .place = VD_PLACE_NODE, .amount = 1.05, .alter = alter_massive_row},
    {.text = {"row-lost", "the last row is not written", "any node of the case; the middle block unless said", "the node's last row becomes zeros"},
     .place = VD_PLACE_NODE, .alter = alter_last_row},
    {.text = {"nan", "one element is NaN", "any node of the case; the middle block unless said", "the middle element of the node"},
     .place = VD_PLACE_NODE, .alter = alter_nan},
    {.text = {"flicker", "the second run differs in one bit", "any node of the case; the middle block unless said", "the lowest bit of the node's middle element, second run only"},
     .place = VD_PLACE_NODE, .alter = alter_flicker},
    {.text = {"minus-zero", "the second run has -0 where the first has +0", "any node of the case; the middle block unless said", "the node's smallest element becomes +0, then -0"},
     .place = VD_PLACE_NODE, .alter = alter_minus_zero},
    {.text = {"norm-eps", "norm eps 1e-5 for 1e-6", "any kept block, or all; the middle block unless said", "the block's two norms, or with @all every norm"},
     .place = VD_PLACE_EPS, .prepare = prepare_norm_eps},
    {.text = {"qk-eps", "eps of the q and k norms 1e-5 for 1e-6", "any kept block, or all; the middle block unless said", "the block's head norms, or with @all every head norm"},
     .place = VD_PLACE_EPS, .prepare = prepare_qk_eps},
    {.text = {"rope-pair", "one pair of one head turned the wrong way", "any kept block; the middle one unless said", "first pair of axis h of the middle head, in rotated q and k"},
     .place = VD_PLACE_BLOCK, .prepare = vd_fault_prepare_tables, .alter = vd_fault_alter_pair},
    {.text = {"rope-base", "rotary base 500000 for the model's own", "text.0", "the model's descriptor; text blocks and all blocks"},
     .place = VD_PLACE_FIXED, .node = "text.0", .amount = 500000, .prepare = vd_fault_prepare_rope_base},
    {.text = {"rope-axes", "axes h and w exchanged", "all blocks", "the rotary table's columns"},
     .place = VD_PLACE_BLOCKS, .alter = vd_fault_alter_axes},
    {.text = {"rope-coarse", "phases rounded to bf16 before sine and cosine", "all blocks", "the rotary table is made again"},
     .place = VD_PLACE_BLOCKS, .alter = vd_fault_alter_coarse_table},
    {.text = {"rope-interleaved", "q and k laid out for interleaved pairs under a half-split rotary", "any kept block; the middle one unless said", "rows of the block's q and k weights and of their norms' weights, reordered in memory"},
     .place = VD_PLACE_BLOCK, .prepare = vd_fault_prepare_interleaved},
    {.text = {"text-positions", "text row i turned as row i + 1", "all blocks", "the rotary table's text rows"},
     .place = VD_PLACE_BLOCKS, .alter = vd_fault_alter_text_positions},
    {.text = {"block-missing", "the block passes its input through", "any kept block; the middle one unless said", "the rows that entered replace the rows behind it"},
     .place = VD_PLACE_BLOCK, .prepare = reserve_entering, .alter = alter_missing},
    {.text = {"block-doubled", "the block runs twice", "any kept block; the middle one unless said", "its output goes through it once more"},
     .place = VD_PLACE_BLOCK, .prepare = reserve_entering, .alter = alter_doubled},
    {.text = {"block-neighbour", "the block takes its neighbour's weights", "any kept block; the middle one unless said", "the next block's, the last block's predecessor's"},
     .place = VD_PLACE_BLOCK, .prepare = prepare_neighbour},
    {.text = {"stale-1%", "ffn_down 1% away from its right value", "any kept block; the middle one unless said", "every element plus 0.01 of the weight's size times noise, in memory"},
     .place = VD_PLACE_BLOCK, .amount = 0.01, .prepare = prepare_stale},
    {.text = {"stale-3%", "ffn_down 3% away from its right value", "any kept block; the middle one unless said", "as stale-1%"},
     .place = VD_PLACE_BLOCK, .amount = 0.03, .prepare = prepare_stale},
    {.text = {"stale-10%", "ffn_down 10% away from its right value", "any kept block; the middle one unless said", "as stale-1%"},
     .place = VD_PLACE_BLOCK, .amount = 0.1, .prepare = prepare_stale},
    {.text = {"stale-30%", "ffn_down 30% away from its right value", "any kept block; the middle one unless said", "as stale-1%"},
     .place = VD_PLACE_BLOCK, .amount = 0.3, .prepare = prepare_stale},
    {.text = {"channel", "one output channel takes its neighbour's weight row", "any kept block; the middle one unless said", "row dim/3 of ffn_down, in memory"},
     .place = VD_PLACE_BLOCK, .prepare = prepare_channel},
    {.text = {"weight-bit", "the lowest exponent bit of one weight is flipped", "any kept block; the middle one unless said", "the largest weight of ffn_down, in memory"},
     .place = VD_PLACE_BLOCK, .amount = 7, .prepare = prepare_bit},
    {.text = {"weight-high-bit", "the highest exponent bit of one weight is flipped", "any kept block; the middle one unless said", "the largest weight of ffn_down, in memory"},
     .place = VD_PLACE_BLOCK, .amount = 14, .prepare = prepare_bit},
    {.text = {"shift-scale", "shift and scale of the attention's norm exchanged", "any kept block; the middle one unless said", "the modulation as the block reads it; through the whole step all blocks"},
     .place = VD_PLACE_BLOCK, .change_mod = change_shift_scale},
    {.text = {"gate-dropped", "the attention's gate taken as 1", "any kept block; the middle one unless said", "the modulation as the block reads it; through the whole step all blocks"},
     .place = VD_PLACE_BLOCK, .change_mod = change_gate},
    {.text = {"up-gate", "up and gate halves exchanged", "any kept block; the middle one unless said", "columns of ug"},
     .place = VD_PLACE_BLOCK, .alter = alter_halves},
    {.text = {"silu", "SiLU gating where SiTU belongs", "any kept block; the middle one unless said", "situ becomes u times silu(g)"},
     .place = VD_PLACE_BLOCK, .prepare = reserve_up_gate, .alter = alter_silu},
    {.text = {"partial-sums", "ffn_down adds partial sums in bf16", "any kept block; the middle one unless said", "down computed again, rounded to bf16 behind every 16 products"},
     .place = VD_PLACE_BLOCK, .prepare = reserve_situ, .alter = alter_partial_sums},
    {.text = {"softmax-scale", "scores 2% too large", "any kept block; the middle one unless said", "rotated q times 1.02"},
     .place = VD_PLACE_BLOCK, .amount = 1.02, .alter = alter_softmax_scale},
    {.text = {"padding-key", "one padding key not masked", "any kept block; the middle one unless said", "att as a key and value of zeros beyond the last makes it"},
     .place = VD_PLACE_BLOCK, .prepare = reserve_heads, .alter = alter_padding_key},
    {.text = {"last-key", "the last text row masked off as a key", "any kept block; the middle one unless said", "att without its last key"},
     .place = VD_PLACE_BLOCK, .prepare = reserve_heads, .alter = alter_last_key},
    {.text = {"heads", "heads 0 and 1 exchanged", "any kept block; the middle one unless said", "columns of att"},
     .place = VD_PLACE_BLOCK, .prepare = need_two_heads, .alter = alter_heads},
    {.text = {"t-bf16", "the timestep rounded to bf16", "mod", "the sinusoid of the rounded t"},
     .place = VD_PLACE_FIXED, .node = "mod", .prepare = need_fine_timestep, .alter = alter_timestep},
    {.text = {"sin-cos", "sine and cosine halves of the timestep exchanged", "mod", "halves of the sinusoid"},
     .place = VD_PLACE_FIXED, .node = "mod", .alter = alter_sin_cos},
    {.text = {"sinusoid-f32", "the timestep's sinusoid in float32", "mod", "frequencies, phases and functions in float32"},
     .place = VD_PLACE_FIXED, .node = "mod", .alter = alter_coarse_sinusoid},
    {.text = {"text-shift", "text rows moved down by one", "text.in", "rows of text.in; the first stays"},
     .place = VD_PLACE_FIXED, .node = "text.in", .alter = alter_text_shift},
    {.text = {"image-order", "image rows column by column", "video", "rows of video"},
     .place = VD_PLACE_FIXED, .node = "video", .prepare = need_plane, .alter = alter_image_order},
    {.text = {"sign", "the velocity's sign turned", "velocity", "velocity times -1"},
     .place = VD_PLACE_FIXED, .node = "velocity", .alter = alter_sign},
};

const int vd_fault_kind_count = (int)(sizeof vd_fault_kinds / sizeof vd_fault_kinds[0]);

const vd_gate_fault *vd_gate_list_fault(int index)
{
    return index >= 0 && index < vd_fault_kind_count ? &vd_fault_kinds[index].text : NULL;
}
