#include "kernels/cpu/avx2/avx2.h"
#include "kernels/cpu/avx2/tc16.h"

void vd_kernels_init_avx2(vd_kernels *table)
{
    table->level             = vd_cpu_level_name(VD_CPU_AVX2);
    table->rms_norm          = vd_avx2_rms_norm;
    table->norm_modulate     = vd_avx2_norm_modulate;
    table->rotary            = vd_avx2_rotary;
    table->head_norm_rotary  = vd_avx2_head_norm_rotary;
    table->situ              = vd_avx2_situ;
    table->gated_residual    = vd_avx2_gated_residual;
    table->map               = vd_avx2_map;
    table->transpose         = vd_avx2_transpose;
    table->linear            = vd_avx2_linear;
    table->linear_scratch    = vd_avx2_linear_scratch;
    table->attention         = vd_avx2_attention;
    table->attention_scratch = vd_avx2_attention_scratch;
}
