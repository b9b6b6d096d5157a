/* The contracts: plain C that *is* the meaning of every operation. One file per operation; each function is the definition of its bytes,
 * written for reading, not speed. Kernels on every backend return these bytes; tests compare with memcmp.
 *
 * A contract has an id, NAME@VERSION. Changing one byte of one result is a new version. Nothing here depends on how many rows there
 * are, on threads, tiles or devices. Compiled with contraction off; every rounding is written out.
 */
#ifndef VD_CONTRACT_H
#define VD_CONTRACT_H

#include <stdbool.h>
#include <stdint.h>

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
 * version is unknown). */
const char *vd_order_id(vd_order order);
vd_order    vd_order_find(const char *id);

/* ---- Dot products: tc16.c, fma.c. All return the fp32 sum before bias and rounding. ---- */

/* One step of the tensor core: c + sum a[i]·b[i], 16 bf16 pairs. spec: docs/contract.md "tc16". */
float vd_tc16_step(float c, const uint16_t a[16], const uint16_t b[16]);
/* Continues a chain from c over k elements; a last step of fewer than 16 is completed with zeros in both factors. */
float vd_tc16_chain(float c, const uint16_t *a, const uint16_t *b, int64_t k);
float vd_tc16_split(const uint16_t *a, const uint16_t *b, int64_t k, int splits); /* k divisible by splits */
float vd_tc16_fold512(const uint16_t *a, const uint16_t *b, int64_t k);
float vd_tc16_tree8(const uint16_t *a, const uint16_t *b, int64_t k);             /* k/8 a multiple of 16 */
float vd_fma_chain(float c, const float *a, const float *b, int64_t k);
float vd_fma_fold512(const float *a, const float *b, int64_t k);
float vd_fma_pair(float c, const uint16_t *a, const uint16_t *b, int64_t k);

/* ---- Rows ---- */

float vd_rowsum128(const float *x, int64_t n);                 /* sum of squares of a row, fp32 */
float vd_rowsum512(const float *x, int64_t n);                 /* the same in the fused norm's order; n a multiple of 4 */
float vd_rms_rstd(vd_order order, const float *x, int64_t n, float eps); /* rsq(mean + eps) with either order's mean */

#endif
