#include "bench.h"

#include <immintrin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((target("avx2,fma"))) static double peak_avx2(int64_t n)
{
    __m256 s[12], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-3f);
    for (int i = 0; i < 12; i++)
        s[i] = _mm256_set1_ps((float)i);
    const double t = bench_now();
    for (int64_t k = 0; k < n; k++) {
        __asm__ volatile("" : "+x"(a), "+x"(b));
        s[0] = _mm256_fmadd_ps(s[0], a, b), s[1] = _mm256_fmadd_ps(s[1], a, b), s[2] = _mm256_fmadd_ps(s[2], a, b);
        s[3] = _mm256_fmadd_ps(s[3], a, b), s[4] = _mm256_fmadd_ps(s[4], a, b), s[5] = _mm256_fmadd_ps(s[5], a, b);
        s[6] = _mm256_fmadd_ps(s[6], a, b), s[7] = _mm256_fmadd_ps(s[7], a, b), s[8] = _mm256_fmadd_ps(s[8], a, b);
        s[9] = _mm256_fmadd_ps(s[9], a, b), s[10] = _mm256_fmadd_ps(s[10], a, b), s[11] = _mm256_fmadd_ps(s[11], a, b);
    }
    const double seconds = bench_now() - t;
    for (int i = 1; i < 12; i++)
        s[0] = _mm256_add_ps(s[0], s[i]);
    __asm__ volatile("" : : "x"(s[0]));
    return (double)n * 12 * 16 / seconds * 1e-9;
}

__attribute__((target("avx512f"))) static double peak_avx512(int64_t n)
{
    __m512 s[12], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-3f);
    for (int i = 0; i < 12; i++)
        s[i] = _mm512_set1_ps((float)i);
    const double t = bench_now();
    for (int64_t k = 0; k < n; k++) {
        __asm__ volatile("" : "+v"(a), "+v"(b));
        s[0] = _mm512_fmadd_ps(s[0], a, b), s[1] = _mm512_fmadd_ps(s[1], a, b), s[2] = _mm512_fmadd_ps(s[2], a, b);
        s[3] = _mm512_fmadd_ps(s[3], a, b), s[4] = _mm512_fmadd_ps(s[4], a, b), s[5] = _mm512_fmadd_ps(s[5], a, b);
        s[6] = _mm512_fmadd_ps(s[6], a, b), s[7] = _mm512_fmadd_ps(s[7], a, b), s[8] = _mm512_fmadd_ps(s[8], a, b);
        s[9] = _mm512_fmadd_ps(s[9], a, b), s[10] = _mm512_fmadd_ps(s[10], a, b), s[11] = _mm512_fmadd_ps(s[11], a, b);
    }
    const double seconds = bench_now() - t;
    for (int i = 1; i < 12; i++)
        s[0] = _mm512_add_ps(s[0], s[i]);
    __asm__ volatile("" : : "v"(s[0]));
    return (double)n * 12 * 32 / seconds * 1e-9;
}

double bench_fma_peak(void)
{
    double best = 0;
    for (int i = 0; i < 40; i++)
        best = fmax(best, vd_cpu_best_level() >= VD_CPU_AVX512 ? peak_avx512(20000) : peak_avx2(20000));
    return best;
}

void *bench_alloc(int64_t size)
{
    void *p = aligned_alloc(64, (size_t)(size + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "bench: no memory for %lld bytes\n", (long long)size);
        exit(5);
    }
    return memset(p, 0, (size_t)size);
}

void bench_fill(void *to, vd_dtype type, int64_t n, float scale, uint64_t seed)
{
    uint64_t s = seed * 2 + 1;
    for (int64_t i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        const float x = scale * ((float)(int32_t)(s >> 32) * 0x1p-31f + (float)(int32_t)(s >> 20) * 0x1p-31f);
        vd_store(to, type, i, x);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

bench_result bench_compare(bench_fn *ours, void *our_arg, bench_fn *peer, void *peer_arg, double seconds)
{
    enum { MOST = 4096 };
    static double a[MOST], b[MOST], r[MOST];
    int           n     = 0;
    const double  start = bench_now();
    ours(our_arg);
    peer(peer_arg);
    while (n < 3 || (n < MOST && bench_now() - start < seconds)) {
        const double t0 = bench_now();
        ours(our_arg);
        const double t1 = bench_now();
        peer(peer_arg);
        const double t2 = bench_now();
        a[n] = t1 - t0, b[n] = t2 - t1, r[n] = b[n] / a[n];
        n++;
    }
    return (bench_result){median(a, n), median(b, n), median(r, n), n};
}
