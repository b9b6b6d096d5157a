/* Contracts of row operations, functions and tables: built-in data against the definition, and hashes of torch's recorded bytes. */
#include "audit/contract_check.h"

#include <string.h>

static const vd_dtype types[2] = {VD_BF16, VD_F32};

/* A filled tensor; NULL with the error set. */
static void *make(vd_proof *proof, int kind, vd_dtype type, int64_t count)
{
    void *p = vd_prove_alloc(proof, 4 * count);
    if (p)
        vd_prove_fill(proof, kind, p, type, count);
    return p;
}

enum { M = 3, N = 333 };

vd_status vd_prove_rms_norm(vd_proof *proof)
{
    vd_exec exec = {.threads = proof->ctx->threads};
    for (int kind = 0; kind < VD_PROOF_KINDS; kind++) {
        const vd_dtype x_type = types[kind & 1], y_type = types[kind >> 1 & 1];
        const int64_t  n = kind & 1 ? N - 1 : 128; /* multiples of 4 */
        void          *x = make(proof, kind, x_type, M * n), *w = make(proof, 0, VD_BF16, n), *y = make(proof, 0, y_type, M * n);
        void          *expected = make(proof, 0, y_type, M * n);
        if (!x || !w || !y || !expected)
            return proof->ctx->status;
        for (int form = 0; form < 3; form++) { /* cast to bf16, cast to fp32, fused */
            const vd_rms_norm op = {.order = form == 2 ? VD_ROWSUM512 : VD_ROWSUM128, .eps = 1e-6f, .m = M, .n = n, .cast = types[form & 1], .x = x,
                                    .x_type = x_type, .x_stride = n, .w = w, .w_type = VD_BF16, .y = y, .y_type = y_type, .y_stride = n};
            proof->table->rms_norm(&exec, &op);
            for (int64_t i = 0; i < M; i++)
                vd_rms_norm_row(op.order, op.eps, n, op.cast, (char *)x + i * n * vd_dtype_size(x_type), x_type, w, VD_BF16,
                                (char *)expected + i * n * vd_dtype_size(y_type), y_type);
            vd_prove_same(proof, form == 2 ? "the fused form" : "the form that casts first", expected, y, y_type, M * n);
        }
    }
    return VD_OK;
}

vd_status vd_prove_norm_modulate(vd_proof *proof)
{
    vd_exec exec = {.threads = proof->ctx->threads};
    for (int kind = 0; kind < VD_PROOF_KINDS; kind++) {
        const vd_dtype type = types[kind & 1];
        void          *x = make(proof, kind, type, M * N), *w = make(proof, 0, type, N), *scale = make(proof, 0, type, N), *shift = make(proof, 0, type, N);
        void          *y = make(proof, 0, VD_BF16, M * N), *expected = make(proof, 0, VD_BF16, M * N);
        if (!x || !w || !scale || !shift || !y || !expected)
            return proof->ctx->status;
        const vd_norm_modulate op = {.eps = 1e-6f, .m = M, .n = N, .round = type, .x = x, .x_type = type, .x_stride = N, .w = w, .w_type = type,
                                     .scale = scale, .shift = shift, .mod_type = type, .y = y, .y_type = VD_BF16, .y_stride = N};
        proof->table->norm_modulate(&exec, &op);
        for (int64_t i = 0; i < M; i++)
            vd_norm_modulate_row(1e-6f, N, type, (char *)x + i * N * vd_dtype_size(type), type, w, type, scale, shift, type, (char *)expected + i * N * 2, VD_BF16);
        vd_prove_same(proof, vd_dtype_name(type), expected, y, VD_BF16, M * N);
    }
    return VD_OK;
}

enum { HEADS = 2, D = 128, WIDTH = HEADS * D };

/* With `norm` the head's norm comes first. */
static vd_status check_rotary(vd_proof *proof, bool norm)
{
    vd_exec exec = {.threads = proof->ctx->threads};
    for (int kind = 0; kind < VD_PROOF_KINDS; kind++) {
        const vd_dtype type = types[kind & 1];
        const int64_t  size = vd_dtype_size(type);
        char          *x = make(proof, kind, type, M * WIDTH), *c = make(proof, 0, type, M * D), *s = make(proof, 0, type, M * D), *w = make(proof, 0, type, D);
        char          *y = make(proof, 0, type, M * WIDTH), *expected = make(proof, 0, type, M * WIDTH);
        if (!x || !c || !s || !w || !y || !expected)
            return proof->ctx->status;
        const vd_head_norm_rotary op = {.rotary = {.m = M, .heads = HEADS, .d = D, .round = type, .x = x, .x_type = type, .x_stride = WIDTH, .cos = c, .sin = s,
                                                   .table_type = type, .y = y, .y_type = type, .y_stride = WIDTH},
                                        .eps = 1e-6f, .cast = VD_BF16, .w = w, .w_type = type};
        if (norm)
            proof->table->head_norm_rotary(&exec, &op);
        else
            proof->table->rotary(&exec, &op.rotary);
        for (int64_t i = 0; i < M * HEADS; i++) {
            const int64_t table = i / HEADS * D * size, at = i * D * size;
            if (norm)
                vd_head_norm_rotary_head(D, 1e-6f, VD_BF16, type, x + at, type, w, type, c + table, s + table, type, expected + at, type);
            else
                vd_rotary_head(D, type, x + at, type, c + table, s + table, type, expected + at, type);
        }
        vd_prove_same(proof, vd_dtype_name(type), expected, y, type, M * WIDTH);
    }
    return VD_OK;
}

vd_status vd_prove_rotary(vd_proof *proof) { return check_rotary(proof, false); }
vd_status vd_prove_head_norm_rotary(vd_proof *proof) { return check_rotary(proof, true); }

vd_status vd_prove_situ(vd_proof *proof)
{
    vd_exec exec = {.threads = proof->ctx->threads};
    for (int kind = 0; kind < VD_PROOF_KINDS; kind++) {
        const vd_dtype type = types[kind & 1];
        void          *u = make(proof, kind, type, M * N), *g = make(proof, kind, type, M * N), *y = make(proof, 0, type, M * N);
        void          *expected = make(proof, 0, type, M * N);
        if (!u || !g || !y || !expected)
            return proof->ctx->status;
        const vd_situ op = {.m = M, .n = N, .round = type, .u = u, .g = g, .x_type = type, .x_stride = N, .y = y, .y_type = type, .y_stride = N};
        proof->table->situ(&exec, &op);
        for (int64_t i = 0; i < M * N; i++)
            vd_store(expected, type, i, vd_situ_value(vd_load(u, type, i), vd_load(g, type, i), type));
        vd_prove_same(proof, vd_dtype_name(type), expected, y, type, M * N);
    }
    return VD_OK;
}

vd_status vd_prove_gated_residual(vd_proof *proof)
{
    vd_exec exec = {.threads = proof->ctx->threads};
    for (int kind = 0; kind < VD_PROOF_KINDS; kind++) {
        const vd_dtype type = types[kind & 1];
        void          *x = make(proof, kind, type, M * N), *y = make(proof, kind, VD_BF16, M * N), *gate = make(proof, 0, type, N);
        void          *o = make(proof, 0, type, M * N), *expected = make(proof, 0, type, M * N);
        if (!x || !y || !gate || !o || !expected)
            return proof->ctx->status;
        for (int with_gate = 0; with_gate < 2; with_gate++) {
            const vd_gated_residual op = {.m = M, .n = N, .x = x, .x_type = type, .x_stride = N, .y = y, .y_type = VD_BF16, .y_stride = N,
                                          .gate = with_gate ? gate : NULL, .gate_type = type, .o = o, .o_stride = N};
            proof->table->gated_residual(&exec, &op);
            for (int64_t i = 0; i < M * N; i++) {
                const float a = vd_load(x, type, i), b = vd_load(y, VD_BF16, i);
                vd_store(expected, type, i, with_gate ? vd_gated_residual_value(a, b, vd_load(gate, type, i % N), type) : vd_residual_value(a, b, type));
            }
            vd_prove_same(proof, with_gate ? "with a gate" : "without a gate", expected, o, type, M * N);
        }
    }
    return VD_OK;
}

/* ---- Functions ---- */

static float apply(vd_function f, float x)
{
    switch (f) {
    case VD_SILU: return vd_silu(x);
    case VD_TANH: return vd_tanh(x);
    case VD_SIGMOID: return vd_sigmoid(x);
    case VD_EXP: return vd_exp(x);
    case VD_SOFTPLUS: return vd_softplus(x);
    case VD_EX2: return vd_ex2(x);
    case VD_RSQ: return vd_rsq(x);
    case VD_RCP: return vd_rcp(x);
    case VD_SIN: return vd_sin(x);
    case VD_COS: return vd_cos(x);
    default: return x;
    }
}

static uint64_t hash(const void *p, int64_t size)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < size; i++)
        h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3u;
    return h;
}

/* Hashes of what torch returned on an H200 for all 65,536 bf16 numbers in order. */
static uint64_t recorded(vd_function f)
{
    switch (f) {
    case VD_TANH: return 0xc5a37839399d1125u;
    case VD_SIGMOID: return 0xb557e1f04b9bb24cu;
    case VD_SILU: return 0x49392f13fbcb0edbu;
    case VD_EXP: return 0x0ce11e588d4ebe19u;
    case VD_SOFTPLUS: return 0x5426870e859566f5u;
    default: return 0;
    }
}

vd_status vd_prove_function(vd_proof *proof, vd_function f)
{
    enum { ALL = 65536 };
    uint16_t *x = vd_prove_alloc(proof, 2 * ALL), *y = vd_prove_alloc(proof, 2 * ALL), *expected = vd_prove_alloc(proof, 2 * ALL);
    float    *bits = make(proof, 3, VD_F32, ALL / 8), *wide = vd_prove_alloc(proof, 4 * ALL / 8), *wide_expected = vd_prove_alloc(proof, 4 * ALL / 8);
    vd_exec   exec = {.threads = proof->ctx->threads};
    if (!x || !y || !expected || !bits || !wide || !wide_expected)
        return proof->ctx->status;
    const int64_t step = f == VD_SOFTPLUS && !recorded(f) ? 7 : 1;
    for (int64_t i = 0; i < ALL; i += step) {
        x[i]        = (uint16_t)i;
        expected[i] = recorded(f) ? 0 : vd_to_bf16(apply(f, vd_from_bf16((uint16_t)i)));
    }
    const vd_map all = {.f = f, .n = ALL, .x = x, .x_type = VD_BF16, .y = y, .y_type = VD_BF16};
    proof->table->map(&exec, &all);
    if (recorded(f)) {
        if (hash(y, 2 * ALL) != recorded(f))
            vd_prove_fail(proof, "the bf16 outputs for all bf16 inputs are not torch's recorded ones");
        vd_prove_note(proof, "all 65,536 bf16 outputs equal torch's recorded ones");
    } else {
        vd_prove_same(proof, "all bf16 inputs", expected, y, VD_BF16, ALL);
    }
    for (int64_t i = 0; i < ALL / 16; i++) /* half of them where the function does something */
        bits[i] = ldexpf((float)(int32_t)vd_bits(bits[i]), -26);
    const vd_map random = {.f = f, .n = ALL / 8, .x = bits, .x_type = VD_F32, .y = wide, .y_type = VD_F32};
    proof->table->map(&exec, &random);
    for (int64_t i = 0; i < ALL / 8; i++)
        wide_expected[i] = vd_canonical(apply(f, bits[i]));
    vd_prove_same(proof, "fp32 inputs", wide_expected, wide, VD_F32, ALL / 8);
    return VD_OK;
}

vd_status vd_prove_transpose(vd_proof *proof)
{
    vd_exec exec = {.threads = proof->ctx->threads};
    for (int kind = 0; kind < 4; kind++) {
        const vd_dtype x_type = types[kind & 1], y_type = types[kind >> 1];
        void          *x = make(proof, 3, x_type, M * N), *y = make(proof, 0, y_type, M * N), *expected = make(proof, 0, y_type, M * N);
        if (!x || !y || !expected)
            return proof->ctx->status;
        const vd_transpose op = {.m = M, .n = N, .x = x, .x_type = x_type, .x_stride = N, .y = y, .y_type = y_type, .y_stride = M};
        proof->table->transpose(&exec, &op);
        for (int64_t i = 0; i < M * N; i++)
            vd_store(expected, y_type, i % N * M + i / N, vd_load(x, x_type, i));
        vd_prove_same(proof, "random bits", expected, y, y_type, M * N);
    }
    return VD_OK;
}

/* ---- Tables ---- */

vd_status vd_prove_sinusoids(vd_proof *proof)
{
    float moss[256], h3[256];
    vd_sinusoid_moss(1000.0f, 256, moss);
    vd_sinusoid_h3(vd_float(0x3F35C28F), 256, h3); /* 0.71 */
    if (hash(moss, sizeof moss) != 0x4f6698885614e746u)
        vd_prove_fail(proof, "MOSS-Image's sinusoid of t = 1000 is not torch's recorded one");
    if (hash(h3, sizeof h3) != 0xcaf77b7037a32254u)
        vd_prove_fail(proof, "MiniMax-H3's sinusoid of t = 0.71 is not torch's recorded one");
    proof->compared += 512;
    vd_prove_note(proof, "torch's recorded ones");
    return VD_OK;
}

vd_status vd_prove_rope(vd_proof *proof)
{
    static const uint32_t words[16] = {0x3f800000, 0x3f0ff59a, 0x3ea1e89b, 0x3e361887, 0x3dcccccd, 0x3d6655c2, 0x3d0186e3, 0x3c91ad39,
                                       0x3c23d70a, 0x3bb8449c, 0x3b4f3e38, 0x3ae91528, 0x3a83126f, 0x3a136a16, 0x39a5cb60, 0x393a7753};
    float                 bands[16];
    vd_rope_bands(10000.0, 16, bands);
    vd_prove_same(proof, "bands of base 10000", words, bands, VD_F32, 16);
    return VD_OK;
}
