/* tc16 replayed with AVX2. */
#ifndef VD_AVX2_TC16_H
#define VD_AVX2_TC16_H

#include "kernels/cpu/replay/tally.h"
#include "kernels/table.h"

/* VD_TC16_* orders. `tally` may be NULL. */
void    vd_avx2_tc16_linear(vd_exec *exec, const vd_linear *op, vd_tally *tally);
int64_t vd_avx2_tc16_linear_scratch(const vd_linear *op, int threads);

/* VD_ATTN_K128. `tally` may be NULL. */
void    vd_avx2_tc16_attention(vd_exec *exec, const vd_attention *op, vd_tally *tally);
int64_t vd_avx2_tc16_attention_scratch(const vd_attention *op, int threads);

/* The table's entries (linear.c, attention.c): whatever the order. */
void    vd_avx2_linear(vd_exec *exec, const vd_linear *op);
int64_t vd_avx2_linear_scratch(const vd_linear *op, int threads);
void    vd_avx2_attention(vd_exec *exec, const vd_attention *op);
int64_t vd_avx2_attention_scratch(const vd_attention *op, int threads);

#endif
