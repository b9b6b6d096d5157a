/* Attention in the order attn/k128/pair, by the instruction VDPBF16PS itself. */
#include "kernels/cpu/vec_avx512.h"

static inline vd_vf vd_v_product(vd_vf a, vd_vf b, vd_vf c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}

#include "kernels/cpu/vec_attention.h"

#include "kernels/cpu/avx512bf16/avx512bf16.h"

void    vd_avx512bf16_pair_attention(vd_exec *exec, const vd_attention *op) { vd_v_attention(exec, op, true); }
int64_t vd_avx512bf16_pair_attention_scratch(const vd_attention *op, int threads) { return vd_v_attention_scratch(op, threads, true); }
