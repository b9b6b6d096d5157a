#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/avx512/tc16.h"

void vd_kernels_init_avx512(vd_kernels *table)
{
    table->level             = vd_cpu_level_name(VD_CPU_AVX512);
    table->rms_norm          = vd_avx512_rms_norm;
    table->norm_modulate     = vd_avx512_norm_modulate;
    table->rotary            = vd_avx512_rotary;
    table->head_norm_rotary  = vd_avx512_head_norm_rotary;
    table->situ              = vd_avx512_situ;
    table->gated_residual    = vd_avx512_gated_residual;
    table->map               = vd_avx512_map;
    table->transpose         = vd_avx512_transpose;
    table->linear            = vd_avx512_linear;
    table->linear_scratch    = vd_avx512_linear_scratch;
    table->attention         = vd_avx512_attention;
    table->attention_scratch = vd_avx512_attention_scratch;
}
