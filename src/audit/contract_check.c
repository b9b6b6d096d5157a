/* The list of contracts, what each promises, and the check of each. */
#include "audit/contract_check.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef enum subject {
    LINEAR, ROWSUM, ATTENTION, RMS_NORM, NORM_MODULATE, ROTARY, HEAD_NORM_ROTARY, SITU, GATED_RESIDUAL, FUNCTION, TRANSPOSE, SINUSOIDS, ROPE
} subject;

typedef struct promise {
    const char *id;   /* NULL: the order's */
    subject     what;
    int         which; /* order or function */
    const char *text;
} promise;

static const promise promises[] = {
    {NULL, LINEAR, VD_TC16_CHAIN, "bf16 products in steps of 16 ascending k, each step as a Hopper tensor core adds, one accumulator from +0"},
    {NULL, LINEAR, VD_TC16_SPLIT, "K in S equal slices, each a tc16 chain from +0, the slices' sums added ascending in fp32"},
    {NULL, LINEAR, VD_TC16_FOLD512, "K in leaves of 512, each a tc16 chain from +0, the leaves' sums added ascending in fp32 from +0"},
    {NULL, LINEAR, VD_TC16_TREE8, "K in eight equal parts, each folded, the eight sums joined ((0+1)+(2+3))+((4+5)+(6+7)) in fp32"},
    {NULL, LINEAR, VD_FMA_CHAIN, "fp32 operands, one chain of fused multiply-adds, k ascending from +0"},
    {NULL, LINEAR, VD_FMA_FOLD512, "fp32 operands, the chain in leaves of 512, the leaves' sums added ascending from +0"},
    {NULL, LINEAR, VD_FMA_PAIR, "bf16 operands, one chain in which of each pair (2j, 2j+1) the odd element comes first, subnormals flushed, as VDPBF16PS adds"},
    {NULL, ROWSUM, VD_ROWSUM128,
     "squares rounded to fp32 in 128 lanes, element i in lane i mod 128; lanes joined in fours left to right, the 32 sums folded in halves"},
    {NULL, ROWSUM, VD_ROWSUM512, "128 lanes of four neighbours each by fused multiply-add; 32 lanes folded in halves, four groups joined (0+2)+(1+3)"},
    {NULL, ATTENTION, VD_ATTN_K128,
     "keys in tiles of 128 ascending, running maximum, ex2, P rounded to bf16, sums by tc16, denominator in four lanes, rcp: cuDNN's order on Hopper"},
    {NULL, ATTENTION, VD_ATTN_K128_PAIR, "the frame of attn/k128 with both products in the order of fma/pair"},
    {NULL, ATTENTION, VD_ATTN_K128_F32, "the frame of attn/k128 in fp32: both products in the order of fma/chain, P not rounded"},
    {"rms_norm@1", RMS_NORM, 0, "x·rstd rounded, then the weight; or, in the fused form, (x·rstd)·w with one rounding"},
    {"norm_modulate@1", NORM_MODULATE, 0, "the norm, then ·(1 + scale) + shift, each operation rounded"},
    {"rotary@1", ROTARY, 0, "half-split rotation, both products and the sum rounded"},
    {"head_norm_rotary@1", HEAD_NORM_ROTARY, 0, "the norm of each head, rounded before and after its weight, then the rotation"},
    {"situ@1", SITU, 0, "(4·tanh(g/4)·sigmoid(g))·(25·tanh(u/25)), nine operations, each rounded"},
    {"gated_residual@1", GATED_RESIDUAL, 0, "x + y·gate, the product rounded before the sum: no fused multiply-add"},
    {"ex2@1", FUNCTION, VD_EX2, "2^x as the special-function unit of an H200 returns it, for every input"},
    {"rsq@1", FUNCTION, VD_RSQ, "1/sqrt(x), likewise"},
    {"rcp@1", FUNCTION, VD_RCP, "1/x, likewise"},
    {"exp@1", FUNCTION, VD_EXP, "e^x as torch computes it on a GPU, through ex2"},
    {"tanh@1", FUNCTION, VD_TANH, "tanh as torch computes it on a GPU"},
    {"sigmoid@1", FUNCTION, VD_SIGMOID, "1 / (1 + exp(-x)), an IEEE division"},
    {"silu@1", FUNCTION, VD_SILU, "x / (1 + exp(-x)), an IEEE division"},
    {"softplus@1", FUNCTION, VD_SOFTPLUS, "x above 20, else log1p(exp(x)), log1p correctly rounded"},
    {"sin@1", FUNCTION, VD_SIN, "sin as torch computes it on a GPU, for |x| below 105615"},
    {"cos@1", FUNCTION, VD_COS, "cos, likewise"},
    {"convert@1", FUNCTION, VD_CONVERT, "fp32 to bf16 to nearest even, subnormals kept, any NaN the one NaN; bf16 to fp32 exact"},
    {"transpose@1", TRANSPOSE, 0, "rows to columns, each value converted"},
    {"sinusoid@1", SINUSOIDS, 0, "MOSS-Image's timestep: phase in float64, cos and sin correctly rounded to fp32; MiniMax-H3's: all fp32"},
    {"rope_bands@1", ROPE, 0, "band j = fp32(1 / fp32(base^fp32(j/count))), the power correctly rounded; tables by sin and cos as here"},
};

static const char *id_of(const promise *p) { return p->id ? p->id : vd_order_id((vd_order)p->which); }

static vd_status run(vd_proof *proof, const promise *p)
{
    switch (p->what) {
    case LINEAR: return vd_prove_linear(proof, (vd_order)p->which);
    case ROWSUM: return vd_prove_rowsum(proof, (vd_order)p->which);
    case ATTENTION: return vd_prove_attention(proof, (vd_order)p->which);
    case RMS_NORM: return vd_prove_rms_norm(proof);
    case NORM_MODULATE: return vd_prove_norm_modulate(proof);
    case ROTARY: return vd_prove_rotary(proof);
    case HEAD_NORM_ROTARY: return vd_prove_head_norm_rotary(proof);
    case SITU: return vd_prove_situ(proof);
    case GATED_RESIDUAL: return vd_prove_gated_residual(proof);
    case FUNCTION: return vd_prove_function(proof, (vd_function)p->which);
    case TRANSPOSE: return vd_prove_transpose(proof);
    case SINUSOIDS: return vd_prove_sinusoids(proof);
    case ROPE: return vd_prove_rope(proof);
    }
    return VD_INTERNAL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static vd_status check_one(vd_context *ctx, const vd_kernels *table, const promise *p, vd_contract_fn *report, void *user, bool *all_hold)
{
    vd_proof     proof = {.ctx = ctx, .table = table, .random = 0x2545F4914F6CDD1Du};
    const double start = now();
    vd_status    status = run(&proof, p);
    for (int i = 0; i < proof.memory_count; i++)
        vd_free(ctx, proof.memory[i]);
    if (status != VD_OK)
        return status;
    char detail[1000];
    if (proof.failed)
        snprintf(detail, sizeof detail, "%s", proof.detail);
    else
        snprintf(detail, sizeof detail, "%lld outputs equal the definition's bytes%s%s", (long long)proof.compared, proof.detail[0] ? "; " : "", proof.detail);
    const bool             portable = p->what == SINUSOIDS || p->what == ROPE;
    const vd_contract_item item     = {id_of(p), p->text, portable ? "portable" : table->level, !proof.failed, detail, now() - start};
    *all_hold                       = *all_hold && item.passed;
    if (report && report(user, &item) != 0)
        return vd_fail(ctx, VD_CANCELLED, "cancelled", "stopped on request after contract %s", item.id);
    return VD_OK;
}

/* An id with or without its version. */
static bool matches(const char *wanted, const char *id)
{
    const size_t name = (size_t)(strchr(id, '@') - id);
    return strcmp(wanted, id) == 0 || (strlen(wanted) == name && memcmp(wanted, id, name) == 0);
}

vd_status vd_contract_check_table(vd_context *ctx, const vd_kernels *table, const char *id, vd_contract_fn *report, void *user)
{
    vd_status status = VD_OK;
    bool      found = false, all_hold = true;
    for (size_t i = 0; i < sizeof promises / sizeof promises[0] && status == VD_OK; i++) {
        if (id && !matches(id, id_of(&promises[i])))
            continue;
        found  = true;
        status = check_one(ctx, table, &promises[i], report, user, &all_hold);
    }
    if (status != VD_OK)
        return status;
    if (!found)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "contract", "there is no contract \"%s\"; `verdit contract` lists them", id);
    if (!all_hold)
        return vd_fail(ctx, VD_FAILED, "contract", "the kernels of level %s do not keep a contract on this machine", table->level);
    return VD_OK;
}

vd_status vd_contract_check(vd_context *ctx, const char *id, vd_contract_fn *report, void *user)
{
    vd_kernels      table;
    const vd_status status = vd_kernels_select(ctx, &table);
    return status == VD_OK ? vd_contract_check_table(ctx, &table, id, report, user) : status;
}

/* ---- For the checks ---- */

void vd_prove_fail(vd_proof *proof, const char *format, ...)
{
    va_list args;
    if (proof->failed)
        return;
    va_start(args, format);
    vsnprintf(proof->detail, sizeof proof->detail, format, args);
    va_end(args);
    proof->failed = true;
}

void vd_prove_note(vd_proof *proof, const char *format, ...)
{
    va_list      args;
    const size_t used = strlen(proof->detail);
    if (proof->failed)
        return;
    va_start(args, format);
    vsnprintf(proof->detail + used, sizeof proof->detail - used, format, args);
    va_end(args);
}

void vd_prove_same(vd_proof *proof, const char *what, const void *expected, const void *got, vd_dtype type, int64_t count)
{
    const int64_t size = vd_dtype_size(type);
    int64_t       wrong = 0, first = -1;
    proof->compared += count;
    if (memcmp(expected, got, (size_t)(count * size)) == 0)
        return;
    for (int64_t i = 0; i < count; i++)
        if (memcmp((const char *)expected + i * size, (const char *)got + i * size, (size_t)size) != 0) {
            first = first < 0 ? i : first;
            wrong++;
        }
    uint32_t a = 0, b = 0;
    memcpy(&a, (const char *)expected + first * size, (size_t)size);
    memcpy(&b, (const char *)got + first * size, (size_t)size);
    vd_prove_fail(proof, "%s: %lld of %lld outputs differ from the definition, the first at %lld: %#x instead of %#x", what, (long long)wrong,
                  (long long)count, (long long)first, b, a);
}

static uint64_t draw(vd_proof *proof)
{
    uint64_t *s = &proof->random;
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

void vd_prove_fill(vd_proof *proof, int kind, void *p, vd_dtype type, int64_t count)
{
    static const uint32_t special[] = {0x7FC00000, 0xFF800001, 0x7F800000, 0xFF800000, 0x80000000, 0, 1, 0x80010000, 0x007F0000, 0x00800000, 0x7F7F0000, 0xFF7FFFFF};
    for (int64_t i = 0; i < count; i++) {
        float x = 0;
        for (int n = 0; n < 4; n++)
            x += (float)(int32_t)(draw(proof) >> 32) * 0x1p-31f;
        const int      wide  = (int)(draw(proof) % 100) - 50, small = -(int)(draw(proof) % 20) - 115;
        const uint64_t bits = draw(proof);
        if (kind == 1)
            x = ldexpf(x, wide);
        else if (kind == 2 && bits % 40 == 0)
            x = vd_float(special[bits / 40 % (sizeof special / sizeof special[0])]);
        else if (kind == 3)
            x = vd_float((uint32_t)bits);
        else if (kind == 4)
            x = ldexpf(x, small);
        if (type == VD_F32) /* as it is: other NaNs than the one are inputs too */
            memcpy((char *)p + 4 * i, &x, 4);
        else if (kind == 3)
            memcpy((char *)p + 2 * i, &bits, 2);
        else
            vd_store(p, VD_BF16, i, x);
    }
}

void *vd_prove_alloc(vd_proof *proof, int64_t size)
{
    if (proof->memory_count == (int)(sizeof proof->memory / sizeof proof->memory[0])) {
        vd_fail(proof->ctx, VD_INTERNAL, "contract-check", "a contract check asked for more memory blocks than it may");
        return NULL;
    }
    void *p = vd_alloc(proof->ctx, size, "a contract check");
    if (p)
        proof->memory[proof->memory_count++] = p;
    return p;
}

vd_exec vd_prove_exec(vd_proof *proof, int64_t scratch)
{
    return (vd_exec){.threads = proof->ctx->threads, .scratch = vd_prove_alloc(proof, scratch), .scratch_bytes = scratch};
}
