#include "audit/peak.h"

#include <math.h>
#include <stdint.h>
#include <time.h>

#include "kernels/table.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

double vd_now(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Chains enough to hide an FMA's latency of four cycles on two ports. Each loop returns its sum so that it cannot be left out; the factor
 * is below one and the addend small, so that no value runs away. */
enum { CHAINS = 12, TURNS = 200000 };

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static float run_avx2(void)
{
    const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-3f);
    __m256       c[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        c[i] = _mm256_set1_ps((float)i);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < CHAINS; i++)
            c[i] = _mm256_fmadd_ps(c[i], a, b);
        __asm__ volatile("" : "+x"(c[0])); /* the turns may not be folded into one */
    }
    for (int i = 1; i < CHAINS; i++)
        c[0] = _mm256_add_ps(c[0], c[i]);
    return _mm256_cvtss_f32(c[0]);
}

__attribute__((target("avx512f"))) static float run_avx512(void)
{
    const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-3f);
    __m512       c[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        c[i] = _mm512_set1_ps((float)i);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < CHAINS; i++)
            c[i] = _mm512_fmadd_ps(c[i], a, b);
        __asm__ volatile("" : "+v"(c[0]));
    }
    for (int i = 1; i < CHAINS; i++)
        c[0] = _mm512_add_ps(c[0], c[i]);
    return _mm512_cvtss_f32(c[0]);
}
#endif

static float run_generic(void)
{
    float c[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        c[i] = (float)i;
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < CHAINS; i++)
            c[i] = fmaf(c[i], 0.999f, 1e-3f);
    for (int i = 1; i < CHAINS; i++)
        c[0] += c[i];
    return c[0];
}

double vd_measure_peak(void)
{
    float (*run)(void) = run_generic;
    int lanes          = 1;
#if defined(__x86_64__)
    const vd_cpu_level best = vd_cpu_best_level();
    if (best >= VD_CPU_AVX512)
        run = run_avx512, lanes = 16;
    else if (best >= VD_CPU_AVX2)
        run = run_avx2, lanes = 8;
#endif
    double         best_rate = 0;
    volatile float sink      = 0;
    for (double start = vd_now(); vd_now() - start < 0.2;) {
        const double begin = vd_now();
        sink               = run();
        const double rate  = 2.0 * CHAINS * TURNS * lanes / (vd_now() - begin) * 1e-9;
        best_rate          = rate > best_rate ? rate : best_rate;
    }
    (void)sink;
    return best_rate;
}
