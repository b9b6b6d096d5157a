/* Linear layers in the fma orders: AVX2. */
#include "kernels/cpu/vec_avx2.h"

static inline vd_vf vd_v_product(vd_vf a, vd_vf b, vd_vf c) { return vd_vf_fma(a, b, c); }

#include "kernels/cpu/vec_linear.h"

#include "kernels/cpu/avx2/avx2.h"

void    vd_avx2_fma_linear(vd_exec *exec, const vd_linear *op) { vd_v_linear(exec, op, false); }
int64_t vd_avx2_fma_linear_scratch(const vd_linear *op, int threads) { return vd_v_linear_scratch(op, threads, false); }
