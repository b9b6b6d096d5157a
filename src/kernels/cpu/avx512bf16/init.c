#include "kernels/cpu/avx512bf16/avx512bf16.h"

void vd_kernels_init_avx512bf16(vd_kernels *table)
{
    table->level             = vd_cpu_level_name(VD_CPU_AVX512BF16);
    table->linear            = vd_avx512bf16_linear;
    table->linear_scratch    = vd_avx512bf16_linear_scratch;
    table->attention         = vd_avx512bf16_attention;
    table->attention_scratch = vd_avx512bf16_attention_scratch;
}
