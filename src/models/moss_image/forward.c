/* The forward of MOSS-Image, as its formulas stand in docs/moss_image.md. Each line computes one node; where a value was given, begin()
 * puts it into its place instead. The same function, run dry, measures the scratch that its calls need. */
#include "models/moss_image/forward.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "models/match.h"
#include "models/moss_image/run.h"

static const vd_weight no_bias = {0};

static char *at(const void *base, vd_dtype type, int64_t elements) { return (char *)(uintptr_t)base + elements * vd_dtype_size(type); }

/* ---- The table's calls in the model's words ---- */

static void linear(vd_moss_run *r, const void *x, vd_dtype x_type, int64_t m, vd_weight w, vd_weight b, int64_t n, int64_t k, void *y, vd_dtype y_type, int64_t y_stride)
{
    vd_linear call = {.m = m, .n = n, .k = k, .x = x, .x_type = x_type, .x_stride = k, .w = w.data, .w_type = w.type, .b = b.data, .b_type = b.type,
                      .y = y, .y_type = y_type, .y_stride = y_stride};
    bool      measured = true;
    if (x_type == VD_F32) {
        call.order = r->options->match == VD_MATCH_NONE ? VD_FMA_FOLD512 : VD_FMA_CHAIN;
    } else if (r->options->arith == VD_ARITH_FMA) {
        call.order = VD_FMA_PAIR;
    } else {
        call.splits = vd_match_splits(r->options->match, r->whole, n, k, b.data != NULL, &measured);
        call.order  = call.splits > 1 ? VD_TC16_SPLIT : VD_TC16_CHAIN;
    }
    if (r->dry) {
        r->scratch = vd_max(r->scratch, r->kernels.linear_scratch(&call, r->exec.threads));
        if (!measured && r->unmeasured++ == 0)
            r->unmeasured_rows = r->whole, r->unmeasured_n = n, r->unmeasured_k = k;
    } else {
        r->kernels.linear(&r->exec, &call);
    }
}

static void norm(vd_moss_run *r, const void *x, int64_t m, vd_weight w, float eps, void *y, vd_dtype y_type)
{
    const int64_t     dim  = r->model->config.dim;
    const vd_rms_norm call = {.order = VD_ROWSUM128, .eps = eps, .m = m, .n = dim, .cast = r->points.stream, .x = x, .x_type = r->points.stream, .x_stride = dim,
                              .w = w.data, .w_type = w.type, .y = y, .y_type = y_type, .y_stride = dim};
    if (!r->dry)
        r->kernels.rms_norm(&r->exec, &call);
}

/* `mod` holds rows of dim: shift, then scale. */
static void norm_modulate(vd_moss_run *r, const void *x, int64_t m, vd_weight w, const void *mod, float eps, void *y, vd_dtype y_type)
{
    const int64_t          dim  = r->model->config.dim;
    const vd_norm_modulate call = {.eps = eps, .m = m, .n = dim, .round = r->points.stream, .x = x, .x_type = r->points.stream, .x_stride = dim, .w = w.data, .w_type = w.type,
                                   .shift = mod, .scale = at(mod, r->points.stream, dim), .mod_type = r->points.stream, .y = y, .y_type = y_type, .y_stride = dim};
    if (!r->dry)
        r->kernels.norm_modulate(&r->exec, &call);
}

static void head_norm_rotary(vd_moss_run *r, void *x, vd_dtype type, int64_t m, int64_t stride, vd_weight w, float eps, const void *cosines, const void *sines)
{
    const vd_moss_config     *c    = &r->model->config;
    const vd_head_norm_rotary call = {.rotary = {.m = m, .heads = c->heads, .d = vd_moss_head_dim(c), .round = r->points.stream, .x = x, .x_type = type, .x_stride = stride,
                                                 .cos = cosines, .sin = sines, .table_type = r->points.stream, .y = x, .y_type = type, .y_stride = stride},
                                      .eps = eps, .cast = type, .w = w.data, .w_type = w.type};
    if (!r->dry)
        r->kernels.head_norm_rotary(&r->exec, &call);
}

static void attention(vd_moss_run *r, vd_dtype type, int64_t m, const void *q, int64_t q_stride, int64_t s, const void *k, const void *v, int64_t kv_stride, void *o)
{
    const vd_moss_config *c    = &r->model->config;
    const vd_attention    call = {.order = type == VD_F32 ? VD_ATTN_K128_F32 : r->options->arith == VD_ARITH_FMA ? VD_ATTN_K128_PAIR : VD_ATTN_K128,
                                  .m = m, .s = s, .heads = c->heads, .d = vd_moss_head_dim(c), .type = type, .q = q, .q_stride = q_stride,
                                  .k = k, .k_stride = kv_stride, .v = v, .v_stride = kv_stride, .o = o, .o_stride = c->dim};
    if (r->dry)
        r->scratch = vd_max(r->scratch, r->kernels.attention_scratch(&call, r->exec.threads));
    else
        r->kernels.attention(&r->exec, &call);
}

static void situ(vd_moss_run *r, const void *ug, vd_dtype type, int64_t m, vd_dtype round, void *y)
{
    const int64_t f    = r->model->config.ffn_dim;
    const vd_situ call = {.m = m, .n = f, .round = round, .u = ug, .g = at(ug, type, f), .x_type = type, .x_stride = 2 * f, .y = y, .y_type = type, .y_stride = f};
    if (!r->dry)
        r->kernels.situ(&r->exec, &call);
}

/* x ← x + y·gate, in place; gate NULL: x + y. */
static void residual(vd_moss_run *r, void *x, const void *y, vd_dtype y_type, int64_t m, const void *gate)
{
    const int64_t           dim  = r->model->config.dim;
    const vd_gated_residual call = {.m = m, .n = dim, .x = x, .x_type = r->points.stream, .x_stride = dim, .y = y, .y_type = y_type, .y_stride = dim,
                                    .gate = gate, .gate_type = r->points.stream, .o = x, .o_stride = dim};
    if (!r->dry)
        r->kernels.gated_residual(&r->exec, &call);
}

static void map(vd_moss_run *r, vd_function f, int64_t n, const void *x, vd_dtype x_type, void *y, vd_dtype y_type)
{
    const vd_map call = {.f = f, .n = n, .x = x, .x_type = x_type, .y = y, .y_type = y_type};
    if (!r->dry)
        r->kernels.map(&r->exec, &call);
}

static void transpose(vd_moss_run *r, int64_t m, int64_t n, const void *x, vd_dtype x_type, void *y, vd_dtype y_type)
{
    const vd_transpose call = {.m = m, .n = n, .x = x, .x_type = x_type, .x_stride = n, .y = y, .y_type = y_type, .y_stride = m};
    if (!r->dry)
        r->kernels.transpose(&r->exec, &call);
}

static void gather(vd_moss_run *r, const vd_moss_state *s, const void *x, vd_dtype type, int64_t cols, void *y)
{
    const vd_gather call = {.m = s->in->row_count, .n = cols, .rows = s->in->rows, .type = type, .x = x, .x_stride = cols, .y = y, .y_stride = cols};
    if (!r->dry)
        r->kernels.gather(&r->exec, &call);
}

/* ---- Tables that depend on sizes only ---- */

static float eps_of(float planted, const vd_moss_hooks *hooks, int64_t block)
{
    return planted != 0 && (hooks->eps_block < 0 || hooks->eps_block == block) ? planted : 1e-6f;
}

static float norm_eps(const vd_moss_run *r, int64_t block) { return eps_of(r->hooks.norm_eps, &r->hooks, block); }
static float qk_eps(const vd_moss_run *r, int64_t block) { return eps_of(r->hooks.qk_eps, &r->hooks, block); }

/* Axes r, f, h, w. Image row (y, x): 0, text rows, y − (h−1)/2, x − (w−1)/2; text row i: 0, i, 0, 0. */
static void make_rotary_table(vd_moss_run *r, vd_moss_state *s)
{
    const vd_moss_config *c = &r->model->config;
    const int64_t         d = vd_moss_head_dim(c), joint = s->image + s->text;
    if (r->dry)
        return;
    for (int64_t i = 0; i < joint; i++) {
        float position[VD_MOSS_ROPE_AXES] = {0, (float)(i - s->image), 0, 0};
        if (i < s->image) {
            position[1] = (float)s->text;
            position[2] = (float)(i / s->w) - (float)(s->h - 1) / 2;
            position[3] = (float)(i % s->w) - (float)(s->w - 1) / 2;
        }
        if (!vd_rotary_table_row(position, VD_MOSS_ROPE_AXES, r->bands, vd_moss_bands(c), r->points.stream, at(s->cos, r->points.stream, i * d), at(s->sin, r->points.stream, i * d))) {
            r->exec.status = vd_fail(r->ctx, VD_UNSUPPORTED, "rotary-range", "row %lld lies at a position whose phase is outside the range of sin and cos (105,615 rad)", (long long)i);
            return;
        }
    }
    vd_moss_alter(r, s, "rope.cos", s->cos, r->points.stream, joint, d);
    vd_moss_alter(r, s, "rope.sin", s->sin, r->points.stream, joint, d);
    if (s->last_block >= 0) {
        gather(r, s, s->cos, r->points.stream, d, s->cos_rows);
        gather(r, s, s->sin, r->points.stream, d, s->sin_rows);
    }
}

/* ---- Before the blocks ---- */

/* temb = W2·SiLU(W0·e + b0) + b2; mod = Wm·temb + bm, shared by all blocks; head_mod likewise. */
static void run_time(vd_moss_run *r, vd_moss_state *s)
{
    const vd_moss_config  *c    = &r->model->config;
    const vd_moss_weights *w    = &r->model->weights;
    const vd_dtype         type = r->points.stream;
    float                 *e    = r->a;
    void                  *hidden = at(e, VD_F32, (c->freq_dim + 15) / 16 * 16), *narrow = r->big;
    r->whole = 1;
    if (vd_moss_begin(r, s, VD_MOSS_TIME, s->time, type)) {
        if (!r->dry) {
            float t;
            memcpy(&t, vd_moss_named_input(s, "t")->data, sizeof t);
            vd_sinusoid_moss(t, c->freq_dim, e);
        }
        vd_moss_alter(r, s, "time.in", e, VD_F32, 1, c->freq_dim);
        map(r, VD_CONVERT, c->freq_dim, e, VD_F32, narrow, type);
        linear(r, narrow, type, 1, w->time0, w->time0_bias, c->dim, c->freq_dim, hidden, type, c->dim);
        map(r, VD_SILU, c->dim, hidden, type, hidden, type);
        linear(r, hidden, type, 1, w->time2, w->time2_bias, c->dim, c->dim, s->time, type, c->dim);
        vd_moss_end(r, s, VD_MOSS_TIME, s->time, type);
    }
    if (vd_moss_begin(r, s, VD_MOSS_MOD, s->mod, type)) {
        linear(r, s->time, type, 1, w->mod, w->mod_bias, VD_MOSS_MOD_ROWS * c->dim, c->dim, s->mod, type, VD_MOSS_MOD_ROWS * c->dim);
        vd_moss_end(r, s, VD_MOSS_MOD, s->mod, type);
    }
    if (vd_moss_begin(r, s, VD_MOSS_HEAD_MOD, s->head_mod, type)) {
        linear(r, s->time, type, 1, w->head_mod, w->head_mod_bias, VD_MOSS_HEAD_MOD_ROWS * c->dim, c->dim, s->head_mod, type, VD_MOSS_HEAD_MOD_ROWS * c->dim);
        vd_moss_end(r, s, VD_MOSS_HEAD_MOD, s->head_mod, type);
    }
}

/* y ← y + proj(attn(norm1 y)); y ← y + ffn_down(situ(ffn_up n, ffn_gate n)), n = norm2 y: text rows among themselves, no modulation. */
static void run_text_block(vd_moss_run *r, vd_moss_state *s, const vd_moss_text_block *w, void *y)
{
    const vd_moss_config *c = &r->model->config;
    const vd_dtype        type = r->points.text, stream = r->points.stream;
    const int64_t         m = s->text, dim = c->dim, f = c->ffn_dim, d = vd_moss_head_dim(c);
    const void           *cosines = at(s->cos, stream, s->image * d), *sines = at(s->sin, stream, s->image * d);
    void                 *n = r->a, *q = r->big, *k = at(q, type, dim), *v = at(q, type, 2 * dim), *att = at(q, type, 3 * dim * m);
    void                 *u = r->big, *g = at(u, type, f), *product = at(u, type, 2 * f * m);

    norm(r, y, m, w->norm1, norm_eps(r, -1), n, type);
    linear(r, n, type, m, w->qkv, w->qkv_bias, 3 * dim, dim, q, type, 3 * dim);
    head_norm_rotary(r, q, type, m, 3 * dim, w->q_norm, qk_eps(r, -1), cosines, sines);
    head_norm_rotary(r, k, type, m, 3 * dim, w->k_norm, qk_eps(r, -1), cosines, sines);
    attention(r, type, m, q, 3 * dim, m, k, v, 3 * dim, att);
    linear(r, att, type, m, w->proj, w->proj_bias, dim, dim, n, type, dim);
    residual(r, y, n, type, m, NULL);

    norm(r, y, m, w->norm2, norm_eps(r, -1), n, type);
    linear(r, n, type, m, w->ffn_up, w->ffn_up_bias, f, dim, u, type, 2 * f);
    linear(r, n, type, m, w->ffn_gate, w->ffn_gate_bias, f, dim, g, type, 2 * f);
    situ(r, u, type, m, r->points.text_situ, product);
    linear(r, product, type, m, w->ffn_down, w->ffn_down_bias, dim, f, n, type, dim);
    residual(r, y, n, type, m, NULL);
}

static void run_embedders(vd_moss_run *r, vd_moss_state *s)
{
    const vd_moss_config  *c = &r->model->config;
    const vd_moss_weights *w = &r->model->weights;
    const vd_dtype         stream = r->points.stream, text = r->points.text;
    void                  *y = at(s->x, stream, s->image * c->dim); /* text rows: the tail of the joint rows */

    r->whole = s->image;
    if (vd_moss_begin(r, s, VD_MOSS_VIDEO, s->x, stream)) {
        const vd_tensor *latents = vd_moss_named_input(s, "latents");
        if (!latents) {
            r->exec.status = vd_fail(r->ctx, VD_BAD_ARGUMENT, "input-missing", "the image rows are needed: give latents, F32 [%lld, h, w], or start later (--from) from given rows", (long long)c->latent_channels);
            return;
        }
        transpose(r, c->latent_channels, s->image, latents->data, VD_F32, r->a, stream);
        linear(r, r->a, stream, s->image, w->video, w->video_bias, c->dim, c->latent_channels, s->x, stream, c->dim);
        vd_moss_end(r, s, VD_MOSS_VIDEO, s->x, stream);
    }
    r->whole = s->text;
    if (vd_moss_begin(r, s, VD_MOSS_TEXT_IN, y, stream)) {
        const vd_tensor *states = vd_moss_named_input(s, "text");
        if (!states) {
            r->exec.status = vd_fail(r->ctx, VD_BAD_ARGUMENT, "input-missing", "the text rows are needed: give text, BF16 [rows, %lld], or start later (--from) from given rows", (long long)c->text_dim);
            return;
        }
        if (!r->dry)
            r->exec.status = vd_moss_copy_input(r, states, r->a, text, s->text * c->text_dim, true);
        /* the projection's output has the text linears' type; in the stream it is widened */
        void *out = text == stream ? y : r->big;
        linear(r, r->a, text, s->text, w->text, w->text_bias, c->dim, c->text_dim, out, text, c->dim);
        if (out != y)
            map(r, VD_CONVERT, s->text * c->dim, out, text, y, stream);
        vd_moss_end(r, s, VD_MOSS_TEXT_IN, y, stream);
    }
    for (int64_t i = 0; i < VD_MOSS_TEXT_BLOCKS; i++) {
        if (vd_moss_begin(r, s, VD_MOSS_TEXT_0 + i, y, stream)) {
            run_text_block(r, s, &w->text_blocks[i], y);
            vd_moss_end(r, s, VD_MOSS_TEXT_0 + i, y, stream);
        }
    }
    if (vd_moss_begin(r, s, VD_MOSS_X0, s->x, stream))
        vd_moss_end(r, s, VD_MOSS_X0, s->x, stream);
}

/* ---- The blocks ---- */

/* a = RMS(x)·w1·(1 + scale_a) + shift_a;  q, k, v = Wq a, Wk a, Wv a;  q, k ← rot(RMS(q)·wq), rot(RMS(k)·wk) per head;
 * x ← x + (Wo softmax(q kᵀ/√d) v)·gate_a;  b = RMS(x)·w2·(1 + scale_f) + shift_f;  [u | g] = Wug b;  x ← x + (Wd situ(u, g))·gate_f. */
static void run_block(vd_moss_run *r, vd_moss_state *s, int64_t block)
{
    const vd_moss_config *c = &r->model->config;
    const vd_moss_block  *w = &r->model->weights.blocks[r->hooks.block_weights ? r->hooks.block_weights[block] : block];
    const vd_dtype        type = r->points.block, stream = r->points.stream;
    const int64_t         dim = c->dim, f = c->ffn_dim, joint = s->image + s->text;
    const int64_t         node = vd_moss_node_index(VD_MOSS_A, block, c->layers) - VD_MOSS_A;
    const bool            picked = block == s->last_block; /* from here on, queries are the asked rows only */
    const int64_t         m = picked ? s->in->row_count : joint;
    const void           *shift_a = s->mod, *gate_a = at(s->mod, stream, 2 * dim), *shift_f = at(s->mod, stream, 3 * dim), *gate_f = at(s->mod, stream, 5 * dim);
    const void           *cosines = picked ? s->cos_rows : s->cos, *sines = picked ? s->sin_rows : s->sin;
    void                 *x = s->x, *a = r->a, *aq = picked ? at(a, type, joint * dim) : a;
    void                 *q = r->big, *k = at(q, type, m * dim), *v = at(k, type, joint * dim), *att = at(v, type, joint * dim);
    void                 *o = a, *b = a, *ug = r->big, *product = at(ug, type, m * 2 * f), *down = a;

    r->whole = joint;
    if (vd_moss_begin(r, s, node + VD_MOSS_A, a, type)) {
        norm_modulate(r, x, joint, w->norm1, shift_a, norm_eps(r, block), a, type);
        vd_moss_end(r, s, node + VD_MOSS_A, a, type);
    }
    if (picked) {
        gather(r, s, a, type, dim, aq);
        gather(r, s, x, stream, dim, s->x_rows);
        x = s->x_rows;
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_Q, q, type)) {
        linear(r, aq, type, m, w->q, no_bias, dim, dim, q, type, dim);
        vd_moss_end(r, s, node + VD_MOSS_Q, q, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_K, k, type)) {
        linear(r, a, type, joint, w->k, no_bias, dim, dim, k, type, dim);
        vd_moss_end(r, s, node + VD_MOSS_K, k, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_V, v, type)) {
        linear(r, a, type, joint, w->v, no_bias, dim, dim, v, type, dim);
        vd_moss_end(r, s, node + VD_MOSS_V, v, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_Q_ROT, q, type)) {
        head_norm_rotary(r, q, type, m, dim, w->q_norm, qk_eps(r, block), cosines, sines);
        vd_moss_end(r, s, node + VD_MOSS_Q_ROT, q, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_K_ROT, k, type)) {
        head_norm_rotary(r, k, type, joint, dim, w->k_norm, qk_eps(r, block), s->cos, s->sin);
        vd_moss_end(r, s, node + VD_MOSS_K_ROT, k, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_ATT, att, type)) {
        attention(r, type, m, q, dim, joint, k, v, dim, att);
        vd_moss_end(r, s, node + VD_MOSS_ATT, att, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_O, o, type)) {
        linear(r, att, type, m, w->o, no_bias, dim, dim, o, type, dim);
        vd_moss_end(r, s, node + VD_MOSS_O, o, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_MID, x, stream)) {
        residual(r, x, o, type, m, gate_a);
        vd_moss_end(r, s, node + VD_MOSS_MID, x, stream);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_B, b, type)) {
        norm_modulate(r, x, m, w->norm2, shift_f, norm_eps(r, block), b, type);
        vd_moss_end(r, s, node + VD_MOSS_B, b, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_UG, ug, type)) {
        linear(r, b, type, m, w->up_gate, no_bias, 2 * f, dim, ug, type, 2 * f);
        vd_moss_end(r, s, node + VD_MOSS_UG, ug, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_SITU, product, type)) {
        situ(r, ug, type, m, r->points.situ, product);
        vd_moss_end(r, s, node + VD_MOSS_SITU, product, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_DOWN, down, type)) {
        linear(r, product, type, m, w->down, no_bias, dim, f, down, type, dim);
        vd_moss_end(r, s, node + VD_MOSS_DOWN, down, type);
    }
    if (vd_moss_begin(r, s, node + VD_MOSS_X, x, stream)) {
        residual(r, x, down, type, m, gate_f);
        vd_moss_end(r, s, node + VD_MOSS_X, x, stream);
    }
}

/* A skipped block: its rows are those before it. */
static void pass_block(vd_moss_run *r, vd_moss_state *s, int64_t block)
{
    const int64_t node = vd_moss_node_index(VD_MOSS_X, block, r->model->config.layers);
    void         *x    = s->last_block >= 0 && block > s->last_block ? s->x_rows : s->x;
    if (vd_moss_begin(r, s, node, x, r->points.stream))
        vd_moss_end(r, s, node, x, r->points.stream);
}

/* ---- After the blocks ---- */

/* v = Wv (RMS(x)·wf·(1 + scale) + shift) on image rows, then float32. */
static void run_head(vd_moss_run *r, vd_moss_state *s)
{
    const vd_moss_config  *c = &r->model->config;
    const vd_moss_weights *w = &r->model->weights;
    const vd_dtype         stream = r->points.stream;
    const int64_t          m = s->head_rows, channels = c->latent_channels, index = vd_moss_node_index(VD_MOSS_VELOCITY, 0, c->layers);
    const void            *x = s->last_block >= 0 ? s->x_rows : s->x;
    void                  *rows = r->big, *picture = at(rows, VD_F32, (m * channels + 15) / 16 * 16);

    r->whole = s->image;
    if (vd_moss_begin(r, s, index, NULL, VD_F32)) {
        norm_modulate(r, x, m, w->final_norm, s->head_mod, norm_eps(r, -1), r->a, stream);
        linear(r, r->a, stream, m, w->final_linear, no_bias, channels, c->dim, rows, stream, channels);
        vd_moss_alter(r, s, "velocity", rows, stream, m, channels);
        if (s->last_block >= 0)
            map(r, VD_CONVERT, m * channels, rows, stream, picture, VD_F32);
        else
            transpose(r, m, channels, rows, stream, picture, VD_F32);
        vd_moss_end(r, s, index, picture, VD_F32);
    }
}

static vd_status run_all(vd_moss_run *r)
{
    const int64_t layers = r->model->config.layers;
    int64_t       first, last;
    vd_moss_node_at(r->from, layers, &first);
    vd_moss_node_at(r->to, layers, &last);
    first = vd_max(first, r->from > VD_MOSS_X0 && first < 0 ? layers : 0);
    last  = last < 0 ? (r->to > VD_MOSS_X0 ? layers - 1 : -1) : last;
    if (!r->dry)
        vd_rope_bands(r->model->config.rope_base, vd_moss_bands(&r->model->config), r->bands);
    for (int i = 0; i < r->sample_count && !r->exec.status; i++) {
        make_rotary_table(r, &r->samples[i]);
        run_time(r, &r->samples[i]);
        run_embedders(r, &r->samples[i]);
    }
    /* The rows entering a block in the middle are given: they take their place here. */
    for (int i = 0; i < r->sample_count && first > 0 && !r->exec.status; i++)
        vd_moss_begin(r, &r->samples[i], vd_moss_node_index(VD_MOSS_X, first - 1, layers), r->samples[i].x, r->points.stream);
    for (int64_t block = first; block <= last && !r->exec.status; block++) {
        if (!r->dry && vd_report_progress(r->ctx, "block", block - first, last - first + 1))
            return r->ctx->status;
        for (int i = 0; i < r->sample_count && !r->exec.status; i++) {
            if (!r->samples[i].skipped[block])
                run_block(r, &r->samples[i], block);
            else
                pass_block(r, &r->samples[i], block);
        }
    }
    if (!r->dry && last >= first && !r->exec.status && vd_report_progress(r->ctx, "block", last - first + 1, last - first + 1))
        return r->ctx->status;
    for (int i = 0; i < r->sample_count && !r->exec.status; i++)
        run_head(r, &r->samples[i]);
    return r->exec.status;
}

/* A first pass without work: places every buffer, finds the largest scratch. */
static void measure(vd_moss_run *r, vd_memory_plan *plan)
{
    r->dry            = true;
    plan->activations = vd_moss_place(r, 64);
    run_all(r);
    r->dry         = false;
    plan->scratch  = r->scratch;
    plan->weights  = vd_moss_weight_bytes(r->model);
    plan->total    = plan->weights + plan->activations + plan->scratch;
}

static vd_status start(vd_moss_run *r, const vd_kernels *kernels, const vd_moss_hooks *hooks, const vd_sample *samples, vd_memory_plan *plan)
{
    r->points       = vd_moss_points_of(r->options->policy);
    r->exec.threads = r->ctx->threads;
    if (hooks)
        r->hooks = *hooks;
    if (kernels)
        r->kernels = *kernels;
    else if (vd_kernels_select(r->ctx, &r->kernels))
        return r->ctx->status;
    if (vd_moss_prepare(r, samples))
        return r->ctx->status;
    measure(r, plan);
    return r->exec.status;
}

/* Once per context. */
static void warn_unmeasured(const vd_moss_run *r)
{
    char others[64] = ": it takes";
    if (r->unmeasured == 0 || r->ctx->warned_match)
        return;
    r->ctx->warned_match = true;
    if (r->unmeasured > 1)
        snprintf(others, sizeof others, ", the first of %lld: they take", (long long)r->unmeasured);
    vd_log(r->ctx, VD_LOG_WARNING, "match %s: no measurement for a linear of %lld row%s, %lld × %lld%s tc16/chain", vd_match_name(r->options->match), (long long)r->unmeasured_rows,
           r->unmeasured_rows == 1 ? "" : "s", (long long)r->unmeasured_k, (long long)r->unmeasured_n, others);
}

vd_status vd_moss_plan(vd_context *ctx, const vd_moss_model *model, const vd_forward_options *options, const vd_sample *samples, int sample_count, vd_memory_plan *plan)
{
    vd_moss_run run = {.ctx = ctx, .model = model, .options = options, .sample_count = sample_count};
    const vd_status status = start(&run, NULL, NULL, samples, plan);
    vd_moss_unprepare(&run);
    return status;
}

vd_status vd_moss_forward(vd_context *ctx, const vd_moss_model *model, const vd_forward_options *options, const vd_sample *samples, int sample_count,
                          const vd_moss_hooks *hooks, const vd_kernels *kernels)
{
    vd_moss_run    run = {.ctx = ctx, .model = model, .options = options, .sample_count = sample_count};
    vd_memory_plan plan  = {0};
    void          *arena = NULL;
    vd_status      status = start(&run, kernels, hooks, samples, &plan);
    const int64_t  need = plan.activations + plan.scratch, free_bytes = status == VD_OK ? vd_available_memory() : -1;
    if (status == VD_OK && free_bytes >= 0 && need > free_bytes) /* else the kernel would kill the process in the middle */
        status = vd_fail(ctx, VD_NO_MEMORY, "no-memory", "the forward needs %.1f MB beside the mapped weights, %.1f MB are free: take a smaller size, fewer samples or a machine with more memory",
                         (double)need / 1e6, (double)free_bytes / 1e6);
    if (status == VD_OK) {
        arena = vd_alloc(ctx, need, "the forward's activations");
        if (arena) {
            vd_moss_place(&run, (int64_t)(uintptr_t)arena);
            run.exec.scratch       = (char *)arena + plan.activations;
            run.exec.scratch_bytes = plan.scratch;
            warn_unmeasured(&run);
            status = run_all(&run);
        } else {
            status = ctx->status;
        }
    }
    vd_free(ctx, arena);
    vd_moss_unprepare(&run);
    return status;
}
