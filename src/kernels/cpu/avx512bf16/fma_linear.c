/* Linear layers in the order of VDPBF16PS, by the instruction itself. It ignores the control register: subnormals are always zeros. */
#include "kernels/cpu/vec_avx512.h"

static inline vd_vf vd_v_product(vd_vf a, vd_vf b, vd_vf c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}

#include "kernels/cpu/vec_linear.h"

#include "kernels/cpu/avx512bf16/avx512bf16.h"

void    vd_avx512bf16_pair_linear(vd_exec *exec, const vd_linear *op) { vd_v_linear(exec, op, true); }
int64_t vd_avx512bf16_pair_linear_scratch(const vd_linear *op, int threads) { return vd_v_linear_scratch(op, threads, true); }
