/* The entries of the avx512 level: see kernels/table.h for what each computes. */
#ifndef VD_CPU_AVX512_H
#define VD_CPU_AVX512_H

#include "kernels/table.h"

void    vd_avx512_rms_norm(vd_exec *exec, const vd_rms_norm *op);
void    vd_avx512_norm_modulate(vd_exec *exec, const vd_norm_modulate *op);
void    vd_avx512_rotary(vd_exec *exec, const vd_rotary *op);
void    vd_avx512_head_norm_rotary(vd_exec *exec, const vd_head_norm_rotary *op);
void    vd_avx512_situ(vd_exec *exec, const vd_situ *op);
void    vd_avx512_gated_residual(vd_exec *exec, const vd_gated_residual *op);
void    vd_avx512_map(vd_exec *exec, const vd_map *op);
void    vd_avx512_transpose(vd_exec *exec, const vd_transpose *op);

/* Behind linear.c and attention.c, which choose by the order. */
void    vd_avx512_fma_linear(vd_exec *exec, const vd_linear *op);
int64_t vd_avx512_fma_linear_scratch(const vd_linear *op, int threads);
void    vd_avx512_fma_attention(vd_exec *exec, const vd_attention *op);
int64_t vd_avx512_fma_attention_scratch(const vd_attention *op, int threads);

#endif
