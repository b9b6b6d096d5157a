/* Linear layers in the fma orders: AVX512. */
#include "kernels/cpu/vec_avx512.h"

static inline vd_vf vd_v_product(vd_vf a, vd_vf b, vd_vf c) { return vd_vf_fma(a, b, c); }

#include "kernels/cpu/vec_linear.h"

#include "kernels/cpu/avx512/avx512.h"

void    vd_avx512_fma_linear(vd_exec *exec, const vd_linear *op) { vd_v_linear(exec, op, false); }
int64_t vd_avx512_fma_linear_scratch(const vd_linear *op, int threads) { return vd_v_linear_scratch(op, threads, false); }
