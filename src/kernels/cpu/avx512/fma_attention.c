/* Attention in the orders attn/k128/pair and attn/k128/f32: AVX512. */
#include "kernels/cpu/vec_avx512.h"

static inline vd_vf vd_v_product(vd_vf a, vd_vf b, vd_vf c) { return vd_vf_fma(a, b, c); }

#include "kernels/cpu/vec_attention.h"

#include "kernels/cpu/avx512/avx512.h"

void    vd_avx512_fma_attention(vd_exec *exec, const vd_attention *op) { vd_v_attention(exec, op, false); }
int64_t vd_avx512_fma_attention_scratch(const vd_attention *op, int threads) { return vd_v_attention_scratch(op, threads, false); }
