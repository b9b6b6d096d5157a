/* Rotary position and the head's norm: AVX2. */
#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/vec_rotary.h"

#include "kernels/cpu/avx2/avx2.h"

void vd_avx2_rotary(vd_exec *exec, const vd_rotary *op) { vd_v_rotary(exec, op); }
void vd_avx2_head_norm_rotary(vd_exec *exec, const vd_head_norm_rotary *op) { vd_v_head_norm_rotary(exec, op); }
