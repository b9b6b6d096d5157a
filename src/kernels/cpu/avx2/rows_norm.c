/* RMS norms: AVX2. */
#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/vec_norm.h"

#include "kernels/cpu/avx2/avx2.h"

void vd_avx2_rms_norm(vd_exec *exec, const vd_rms_norm *op) { vd_v_rms_norm(exec, op); }
void vd_avx2_norm_modulate(vd_exec *exec, const vd_norm_modulate *op) { vd_v_norm_modulate(exec, op); }
