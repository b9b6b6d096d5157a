/* Levels of this CPU, and the table filled for one. */
#include <string.h>

#include "kernels/table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const names[VD_CPU_LEVELS] = {"generic", "avx2", "avx512", "avx512bf16"};

const char *vd_cpu_level_name(vd_cpu_level level)
{
    return (unsigned)level < VD_CPU_LEVELS ? names[level] : NULL;
}

bool vd_cpu_find_level(const char *name, vd_cpu_level *level)
{
    for (int i = 0; name && i < VD_CPU_LEVELS; i++)
        if (strcmp(name, names[i]) == 0) {
            *level = (vd_cpu_level)i;
            return true;
        }
    return false;
}

#if defined(__x86_64__)

/* The register state that the operating system saves; without it a feature that CPUID shows may not be used. */
static uint64_t read_saved_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

vd_cpu_level vd_cpu_best_level(void)
{
    uint32_t a, b, c, d, b7, a71;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C))
        return VD_CPU_GENERIC;
    const uint64_t saved = read_saved_state();
    if ((saved & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b7, &c, &d) || !has(b7, bit_AVX2 | bit_BMI2))
        return VD_CPU_GENERIC;
    if ((saved & 0xE6) != 0xE6 || !has(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL | bit_AVX512CD))
        return VD_CPU_AVX2;
    if (a < 1 || !__get_cpuid_count(7, 1, &a71, &b, &c, &d) || !has(a71, 1u << 5)) /* AVX512_BF16 */
        return VD_CPU_AVX512;
    return VD_CPU_AVX512BF16;
}

#else

vd_cpu_level vd_cpu_best_level(void)
{
    return VD_CPU_GENERIC;
}

#endif

void vd_kernels_init_cpu(vd_kernels *table, vd_cpu_level level)
{
    memset(table, 0, sizeof *table);
    vd_kernels_init_generic(table);
#if defined(__x86_64__)
    if (level >= VD_CPU_AVX2)
        vd_kernels_init_avx2(table);
    if (level >= VD_CPU_AVX512)
        vd_kernels_init_avx512(table);
    if (level >= VD_CPU_AVX512BF16)
        vd_kernels_init_avx512bf16(table);
#else
    (void)level;
#endif
}
