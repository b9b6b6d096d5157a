/* Rotary position and the head's norm: AVX512. */
#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/vec_rotary.h"

#include "kernels/cpu/avx512/avx512.h"

void vd_avx512_rotary(vd_exec *exec, const vd_rotary *op) { vd_v_rotary(exec, op); }
void vd_avx512_head_norm_rotary(vd_exec *exec, const vd_head_norm_rotary *op) { vd_v_head_norm_rotary(exec, op); }
