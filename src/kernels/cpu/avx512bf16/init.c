#include <cpuid.h>

#include "kernels/cpu/avx512bf16/avx512bf16.h"

/* Whether the instruction is the faster way to its own bytes. On AMD's cores it is twice as fast as the two fused multiply-adds that it stands
 * for; on Intel's it is half as fast, but that it reads half the bytes (docs/kernels_fma.md). Only speed depends on it. */
static bool instruction_pays(void)
{
    uint32_t a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx;
}

void vd_kernels_init_avx512bf16(vd_kernels *table)
{
    const bool pays          = instruction_pays();
    table->level             = vd_cpu_level_name(VD_CPU_AVX512BF16);
    table->linear            = pays ? vd_avx512bf16_linear : vd_avx512bf16_linear_few;
    table->linear_scratch    = vd_avx512bf16_linear_scratch;
    table->attention         = pays ? vd_avx512bf16_attention : table->attention;
    table->attention_scratch = pays ? vd_avx512bf16_attention_scratch : table->attention_scratch;
}
