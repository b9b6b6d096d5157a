/* RMS norms: AVX512. */
#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/vec_norm.h"

#include "kernels/cpu/avx512/avx512.h"

void vd_avx512_rms_norm(vd_exec *exec, const vd_rms_norm *op) { vd_v_rms_norm(exec, op); }
void vd_avx512_norm_modulate(vd_exec *exec, const vd_norm_modulate *op) { vd_v_norm_modulate(exec, op); }
