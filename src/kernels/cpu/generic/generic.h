/* The generic level: every entry of the table is the contract itself, outputs split over threads. The other levels are measured against it. */
#ifndef VD_CPU_GENERIC_H
#define VD_CPU_GENERIC_H

#include "kernels/table.h"

void    vd_generic_linear(vd_exec *exec, const vd_linear *op);
void    vd_generic_rms_norm(vd_exec *exec, const vd_rms_norm *op);
void    vd_generic_norm_modulate(vd_exec *exec, const vd_norm_modulate *op);
void    vd_generic_rotary(vd_exec *exec, const vd_rotary *op);
void    vd_generic_head_norm_rotary(vd_exec *exec, const vd_head_norm_rotary *op);
void    vd_generic_attention(vd_exec *exec, const vd_attention *op);
void    vd_generic_situ(vd_exec *exec, const vd_situ *op);
void    vd_generic_gated_residual(vd_exec *exec, const vd_gated_residual *op);
void    vd_generic_map(vd_exec *exec, const vd_map *op);
void    vd_generic_transpose(vd_exec *exec, const vd_transpose *op);
void    vd_generic_gather(vd_exec *exec, const vd_gather *op);
int64_t vd_generic_linear_scratch(const vd_linear *op, int threads);
int64_t vd_generic_attention_scratch(const vd_attention *op, int threads);

/* The address of element i of a tensor. */
static inline const char *vd_at(const void *p, vd_dtype type, int64_t i) { return (const char *)p + i * vd_dtype_size(type); }
static inline char       *vd_at_out(void *p, vd_dtype type, int64_t i) { return (char *)p + i * vd_dtype_size(type); }

#endif
