/* The avx512bf16 level: the avx512 level but for fma/pair, which is one instruction here. */
#ifndef VD_CPU_AVX512BF16_H
#define VD_CPU_AVX512BF16_H

#include "kernels/table.h"

void    vd_avx512bf16_linear(vd_exec *exec, const vd_linear *op);
void    vd_avx512bf16_linear_few(vd_exec *exec, const vd_linear *op);
int64_t vd_avx512bf16_linear_scratch(const vd_linear *op, int threads);
void    vd_avx512bf16_attention(vd_exec *exec, const vd_attention *op);
int64_t vd_avx512bf16_attention_scratch(const vd_attention *op, int threads);

/* VD_FMA_PAIR alone */
void    vd_avx512bf16_pair_linear(vd_exec *exec, const vd_linear *op);
int64_t vd_avx512bf16_pair_linear_scratch(const vd_linear *op, int threads);
/* VD_ATTN_K128_PAIR alone */
void    vd_avx512bf16_pair_attention(vd_exec *exec, const vd_attention *op);
int64_t vd_avx512bf16_pair_attention_scratch(const vd_attention *op, int threads);

/* The other orders' entries, of the avx512 level. */
void    vd_avx512_linear(vd_exec *exec, const vd_linear *op);
int64_t vd_avx512_linear_scratch(const vd_linear *op, int threads);
void    vd_avx512_attention(vd_exec *exec, const vd_attention *op);
int64_t vd_avx512_attention_scratch(const vd_attention *op, int threads);

#endif
