/* tc16 linear at the model's shapes, one thread, as a share of the core's own fp32 FMA peak.
 *
 * The machine may be shared, so time is the thread's own, and nothing is timed alone: each window of work (at most about a third of a second) lies between two short FMA
 * loops, its share is taken against their mean, and the median over all windows of a shape is reported. Weights are rotated through
 * more memory than the caches hold, as in a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "kernels/table.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { CHAINS = 10, FMA_TURNS = 100000 };

__attribute__((noinline, target("avx2,fma"))) static float run_fma_256(int64_t turns)
{
    __m256       a[CHAINS];
    const __m256 m = _mm256_set1_ps(0.999f), d = _mm256_set1_ps(0.5f);
    for (int i = 0; i < CHAINS; i++)
        a[i] = _mm256_set1_ps((float)i);
    for (int64_t t = 0; t < turns; t++) {
#pragma GCC unroll 10
        for (int i = 0; i < CHAINS; i++)
            a[i] = _mm256_fmadd_ps(a[i], m, d);
    }
    for (int i = 1; i < CHAINS; i++)
        a[0] = _mm256_add_ps(a[0], a[i]);
    return _mm256_cvtss_f32(a[0]);
}

__attribute__((noinline, target("avx512f"))) static float run_fma_512(int64_t turns)
{
    __m512       a[CHAINS];
    const __m512 m = _mm512_set1_ps(0.999f), d = _mm512_set1_ps(0.5f);
    for (int i = 0; i < CHAINS; i++)
        a[i] = _mm512_set1_ps((float)i);
    for (int64_t t = 0; t < turns; t++) {
#pragma GCC unroll 10
        for (int i = 0; i < CHAINS; i++)
            a[i] = _mm512_fmadd_ps(a[i], m, d);
    }
    for (int i = 1; i < CHAINS; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    return _mm512_cvtss_f32(a[0]);
}

/* GFLOP/s of the core's fp32 FMA units over about a millisecond. */
static double measure_peak(vd_cpu_level level)
{
    volatile float sink;
    const int      width = level >= VD_CPU_AVX512 ? 16 : 8;
    const double   start = bench_now();
    sink = width == 16 ? run_fma_512(FMA_TURNS) : run_fma_256(FMA_TURNS);
    (void)sink;
    return 2e-9 * FMA_TURNS * CHAINS * width / (bench_now() - start);
}

typedef struct shape {
    int64_t n, k;
} shape;

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, compare_doubles);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

enum { WINDOWS = 256 };

static const int64_t SCRATCH = 64 << 20;
static const int64_t POOL = 160 << 20; /* bytes of weights that calls go through in turn */

typedef struct result {
    double  gflops, peak, share;
    int64_t windows;
} result;

static result measure(const vd_kernels *table, vd_cpu_level level, vd_order order, shape s, int64_t m, const uint16_t *x, const char *pool, void *y,
                      void *scratch, double seconds)
{
    double        share[WINDOWS], rate[WINDOWS], peaks[WINDOWS];
    const int64_t slice  = m >= 512 ? 1024 : s.n; /* outputs of a window: whole tasks */
    const int64_t size   = 2 * slice * s.k, places = POOL / size;
    const double  finish = bench_now() + seconds;
    int64_t       count  = 0;
    double        before = measure_peak(level);
    for (int64_t i = 0; i < WINDOWS && (count < 5 || bench_now() < finish); i++) {
        vd_exec   exec = {.threads = 1, .scratch = scratch, .scratch_bytes = SCRATCH};
        vd_linear op   = {.order = order, .m = m, .n = slice, .k = s.k, .x = x, .x_type = VD_BF16, .x_stride = s.k, .w = pool + i % places * size,
                          .w_type = VD_BF16, .y = y, .y_type = VD_BF16, .y_stride = slice};
        const double start = bench_now();
        table->linear(&exec, &op);
        const double took = bench_now() - start, after = measure_peak(level);
        rate[count]  = 2e-9 * (double)(m * slice) * (double)s.k / took;
        peaks[count] = 0.5 * (before + after);
        share[count] = rate[count] / peaks[count];
        before       = after;
        count += i > 0; /* the first warms up */
    }
    return (result){median(rate, count), median(peaks, count), median(share, count), count};
}

int main(int argc, char **argv)
{
    static const shape    shapes[] = {{3072, 3072}, {16384, 3072}, {3072, 8192}};
    static const int64_t  rows[]   = {1, 2, 4, 8, 64, 1088};
    static const vd_order orders[] = {VD_TC16_CHAIN, VD_TC16_FOLD512};
    bool                  json = false, brief = false;
    vd_cpu_level          level = vd_cpu_best_level();
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--brief") == 0)
            brief = true; /* chain at M = 1, 64 and 1088 only */
        else if (!vd_cpu_find_level(argv[i], &level) || level > vd_cpu_best_level()) {
            fprintf(stderr, "usage: %s [--json] [--brief] [LEVEL]; LEVEL: one that this machine has\n", argv[0]);
            return 2;
        }
    if (level < VD_CPU_AVX2) {
        fprintf(stderr, "not run: the replay needs AVX2\n");
        return 0;
    }
    vd_kernels table;
    vd_kernels_init_cpu(&table, level);
    uint16_t *x = bench_alloc(2 * 1088 * 8192), *y = bench_alloc(2 * 1088 * 16384);
    char     *pool = bench_alloc(POOL), *scratch = bench_alloc(SCRATCH);
    bench_fill(x, VD_BF16, 1088 * 8192, 1.0f, 1);
    bench_fill(pool, VD_BF16, POOL / 2, 0.02f, 2);
    if (json)
        printf("{\"bench\":\"tc16\",\"level\":\"%s\",\"threads\":1,\"peer\":\"fp32 FMA peak of the core, same run\",\"results\":[", vd_cpu_level_name(level));
    else
        printf("tc16 linear, level %s, one thread; share of the core's fp32 FMA peak, median of windows\n%-14s %6s x %5s, M %4s: GFLOP/s   peak  share\n",
               vd_cpu_level_name(level), "order", "N", "K", "");
    bool first = true;
    for (size_t o = 0; o < (brief ? 1 : 2); o++)
        for (size_t s = 0; s < 3; s++)
            for (size_t r = 0; r < 6; r++) {
                if (brief && rows[r] != 1 && rows[r] < 64)
                    continue;
                const result q = measure(&table, level, orders[o], shapes[s], rows[r], x, pool, y, scratch, brief ? 1.0 : 2.0);
                if (json)
                    printf("%s{\"order\":\"%s\",\"n\":%lld,\"k\":%lld,\"m\":%lld,\"gflops\":%.2f,\"peak\":%.2f,\"share\":%.4f,\"windows\":%lld}",
                           first ? "" : ",", vd_order_id(orders[o]), (long long)shapes[s].n, (long long)shapes[s].k, (long long)rows[r], q.gflops,
                           q.peak, q.share, (long long)q.windows);
                else
                    printf("%-14s %6lld x %5lld, M %4lld: %7.1f %6.1f  %.3f  (%lld windows)\n", vd_order_id(orders[o]), (long long)shapes[s].n,
                           (long long)shapes[s].k, (long long)rows[r], q.gflops, q.peak, q.share, (long long)q.windows);
                fflush(stdout);
                first = false;
            }
    if (json)
        puts("]}");
    free(x), free(y), free(pool), free(scratch);
    return 0;
}

#else

int main(void)
{
    puts("not run: the replay kernels are for x86-64");
    return 0;
}

#endif
