/* Attention in the orders attn/k128/pair and attn/k128/f32: AVX2. */
#include "kernels/cpu/vec_avx2.h"

static inline vd_vf vd_v_product(vd_vf a, vd_vf b, vd_vf c) { return vd_vf_fma(a, b, c); }

#include "kernels/cpu/vec_attention.h"

#include "kernels/cpu/avx2/avx2.h"

void    vd_avx2_fma_attention(vd_exec *exec, const vd_attention *op) { vd_v_attention(exec, op, false); }
int64_t vd_avx2_fma_attention_scratch(const vd_attention *op, int threads) { return vd_v_attention_scratch(op, threads, false); }
