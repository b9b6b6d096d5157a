/* The contracts: plain C that *is* the meaning of every operation. One file per operation; each function is the definition of its bytes,
 * written for reading, not speed. Kernels on every backend return these bytes; tests compare with memcmp.
 *
 * A contract has an id, NAME@VERSION. Changing one byte of one result is a new version. Nothing here depends on how many rows there
 * are, on threads, tiles or devices. Compiled with contraction off; every rounding is written out. The reader's text is docs/contract.md;
 * functions of one number are in functions.h.
 *
 * Tensors here are pointers with an element type, VD_F32 or VD_BF16; they are widened to fp32 exactly when read and rounded once, to
 * nearest even, when written; a NaN written is the one NaN. Pointers may have any alignment. `round` arguments name the type to which an
 * intermediate result is rounded (VD_F32: no further rounding, since every operation is an fp32 operation already).
 */
#ifndef VD_CONTRACT_H
#define VD_CONTRACT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "contract/functions.h"
#include "verdit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Orders of summation: what tells two contracts of one operation apart. */
typedef enum vd_order {
    VD_ORDER_NONE = 0,
    VD_TC16_CHAIN,    /* tc16/chain: steps of 16, one accumulator; Hopper's tensor core */
    VD_TC16_SPLIT,    /* tc16/splitS: K in S equal slices, each a chain, added ascending */
    VD_TC16_FOLD512,  /* tc16/fold512: leaves of 512, added ascending from +0 */
    VD_TC16_TREE8,    /* tc16/tree8: eight parts, folded, joined by a balanced tree */
    VD_FMA_CHAIN,     /* fma/chain: one chain of fmaf (fp32 operands) */
    VD_FMA_FOLD512,   /* fma/fold512: the same in leaves of 512 */
    VD_FMA_PAIR,      /* fma/pair: bf16 operands in the order of VDPBF16PS */
    VD_ROWSUM128,     /* rowsum128: ATen's order for means over rows */
    VD_ROWSUM512,     /* rowsum512: torch's fused RMSNorm */
    VD_ATTN_K128,     /* attn/k128: cuDNN 9.19 on Hopper; tc16 inside */
    VD_ATTN_K128_PAIR,/* attn/k128/pair: fma/pair inside */
    VD_ATTN_K128_F32, /* attn/k128/f32: fp32 operands, fma/chain inside */
    VD_ORDER_COUNT
} vd_order;

/* "tc16/chain@1"; NULL outside the list. vd_order_find takes it with or without the version; VD_ORDER_NONE if unknown (another
 * version is unknown). "tc16/splitS" stands for every number of slices. */
const char *vd_order_id(vd_order order);
vd_order    vd_order_find(const char *id);

/* ---- Elements ---- */

static inline float vd_load(const void *p, vd_dtype type, int64_t i)
{
    if (type == VD_BF16) {
        uint16_t x;
        memcpy(&x, (const char *)p + 2 * i, sizeof x);
        return vd_from_bf16(x);
    }
    float x;
    memcpy(&x, (const char *)p + 4 * i, sizeof x);
    return x;
}

static inline void vd_store(void *p, vd_dtype type, int64_t i, float value)
{
    if (type == VD_BF16) {
        const uint16_t x = vd_to_bf16(value);
        memcpy((char *)p + 2 * i, &x, sizeof x);
        return;
    }
    const float x = vd_canonical(value);
    memcpy((char *)p + 4 * i, &x, sizeof x);
}

/* x rounded to `type`, still as fp32 */
static inline float vd_round(float x, vd_dtype type) { return type == VD_BF16 ? vd_round_bf16(x) : x; }

/* ---- Dot products: tc16.c, fma.c. All return the fp32 sum before bias and rounding. a, b: bf16 [k], or fp32 [k] for fma/chain and
 * fma/fold512, contiguous, any alignment. ---- */

/* One step of the tensor core: c + sum a[i]·b[i], 16 bf16 pairs; recorded on an H200. docs/contract.md, "tc16". */
float vd_tc16_step(float c, const uint16_t a[16], const uint16_t b[16]);
/* Continues a chain from c over k elements; a last step of fewer than 16 is completed with zeros in both factors. */
float vd_tc16_chain(float c, const void *a, const void *b, int64_t k);
float vd_tc16_split(const void *a, const void *b, int64_t k, int splits); /* k divisible by splits */
float vd_tc16_fold512(const void *a, const void *b, int64_t k);
float vd_tc16_tree8(const void *a, const void *b, int64_t k);             /* k/8 a multiple of 16 */
bool  vd_tc16_tree8_fits(int64_t k);                                      /* k > 0 and k/8 a multiple of 16 */
float vd_fma_chain(float c, const void *a, const void *b, vd_dtype b_type, int64_t k);
float vd_fma_fold512(const void *a, const void *b, vd_dtype b_type, int64_t k);
float vd_fma_pair(float c, const void *a, const void *b, int64_t k);
/* One fused multiply-add of fma/pair: subnormal inputs are zeros of their sign, a result that is subnormal after rounding is one too. */
float vd_fma_flush(float a, float b, float c);

/* The sum of one output of a linear in any of the orders above; a is x's row, b is w's row. */
float vd_linear_sum(vd_order order, int splits, const void *a, const void *b, vd_dtype b_type, int64_t k);
/* Which element types an order takes: x bf16 and w bf16 for tc16 and fma/pair; x fp32 and w fp32 or bf16 for the other two. */
bool vd_linear_takes(vd_order order, vd_dtype x_type, vd_dtype w_type);

/* ---- Rows: rowsum.c, norm.c ---- */

float vd_rowsum128(const void *x, vd_dtype type, int64_t n);                 /* sum of squares of a row */
float vd_rowsum512(const void *x, vd_dtype type, int64_t n);                 /* the same in the fused norm's order; n a multiple of 4 */
/* rsq(mean + eps): the mean is sum · fp32(1/n) with VD_ROWSUM128, sum / n with VD_ROWSUM512. n < 2^24. */
float vd_rms_rstd(vd_order order, const void *x, vd_dtype type, int64_t n, float eps);

/* VD_ROWSUM128: y = round_y(round_cast(x·rstd)·w). VD_ROWSUM512: y = round_y((x·rstd)·w), `cast` unused. x, w, y [n]; y may be x. */
void vd_rms_norm_row(vd_order order, float eps, int64_t n, vd_dtype cast, const void *x, vd_dtype x_type, const void *w, vd_dtype w_type,
                     void *y, vd_dtype y_type);

/* y = round_y(round(round(round(x·rstd)·w) · round(1 + scale)) + shift), rstd by VD_ROWSUM128. All [n]; y may be x. */
void vd_norm_modulate_row(float eps, int64_t n, vd_dtype round, const void *x, vd_dtype x_type, const void *w, vd_dtype w_type,
                          const void *scale, const void *shift, vd_dtype mod_type, void *y, vd_dtype y_type);

/* ---- Rotary: rotary.c ---- */

/* Half-split rotation of one head of d (even): for p < d/2, h = p + d/2
 *   y_p = round_y(round(round(x_p·cos_p) − round(x_h·sin_p))), y_h = round_y(round(round(x_h·cos_h) + round(x_p·sin_h))). y may be x. */
void vd_rotary_head(int64_t d, vd_dtype round, const void *x, vd_dtype x_type, const void *cosines, const void *sines, vd_dtype table_type,
                    void *y, vd_dtype y_type);
/* The same after the head's norm: n_i = round(round_cast(x_i·rstd)·w_i), rstd by VD_ROWSUM128 over d. */
void vd_head_norm_rotary_head(int64_t d, float eps, vd_dtype cast, vd_dtype round, const void *x, vd_dtype x_type, const void *w,
                              vd_dtype w_type, const void *cosines, const void *sines, vd_dtype table_type, void *y, vd_dtype y_type);

/* Band j of `count`: e = fp32(j/count), p = fp32(base^e) correctly rounded, band = fp32(1/p). base > 1; NaN where base is
 * none or is not positive and finite. */
float vd_rope_band(double base, int64_t j, int64_t count);
void  vd_rope_bands(double base, int64_t count, float *bands); /* all of them */
/* One row of the table, d = 2·axes·count: for pair p = axis·count + j the phase is fp32(position[axis]·band[j]); entries p and p + d/2 are
 * cos and sin of it, rounded to `type`. Returns false, having written NaN, if a phase is out of the range of sin and cos. */
bool vd_rotary_table_row(const float *positions, int64_t axes, const float *bands, int64_t count, vd_dtype type, void *cosines, void *sines);

/* ---- Single values: situ.c, residual.c ---- */

/* (4·tanh(g/4)·sigmoid(g))·(25·tanh(u/25)), each of the nine operations rounded to `round`. */
float vd_situ_value(float u, float g, vd_dtype round);
/* round(x + round(y·gate)); without a gate round(x + y). */
float vd_gated_residual_value(float x, float y, float gate, vd_dtype round);
float vd_residual_value(float x, float y, vd_dtype round);

/* ---- Sinusoids of the timestep: sinusoid.c. e fp32 [dim], dim even: cosines first, then sines. ---- */

/* MOSS-Image: phase = t·10000^(−k/half), frequency (correctly rounded) and product in float64; cos and sin of it correctly rounded
 * to fp32; NaN where the phase is not below 2^29. */
void vd_sinusoid_moss(float t, int64_t dim, float *e);
/* MiniMax-H3, all fp32: f = exp(fp32(fp32(−ln 10000)·k)·fp32(1/half)), cos and sin of fp32(t·f). t in [0, 1]. */
void vd_sinusoid_h3(float t, int64_t dim, float *e);

/* ---- Attention: attention.c ---- */

#define VD_ATTN_TILE 128

/* One query row of one head: o = softmax(q kᵀ/√d) v. q [d], k and v [s, d] with strides between keys in elements, o [d]; type VD_BF16, or
 * VD_F32 for VD_ATTN_K128_F32. `sums`: scratch [d]. s >= 1. */
void vd_attention_row(vd_order order, int64_t s, int64_t d, const void *q, const void *k, int64_t k_stride, const void *v, int64_t v_stride,
                      void *o, float *sums);
/* fp32(log2 e/√d) */
float vd_attention_scale(int64_t d);

#ifdef __cplusplus
}
#endif
#endif
