/* Operations on single values, and the transposition: AVX512. */
#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/vec_point.h"

#include "kernels/cpu/avx512/avx512.h"

void vd_avx512_situ(vd_exec *exec, const vd_situ *op) { vd_v_situ(exec, op); }
void vd_avx512_gated_residual(vd_exec *exec, const vd_gated_residual *op) { vd_v_gated_residual(exec, op); }
void vd_avx512_map(vd_exec *exec, const vd_map *op) { vd_v_map(exec, op); }
void vd_avx512_transpose(vd_exec *exec, const vd_transpose *op) { vd_v_transpose(exec, op); }
