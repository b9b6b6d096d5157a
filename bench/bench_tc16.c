/* tc16 linear and attention at the model's shapes, one thread, as a share of the core's own fp32 FMA peak.
 *
 * The machine may be shared, so time is the thread's own, and nothing is timed alone: each window of work (at most about a third of a
 * second) lies between two short FMA loops, its share is taken against their mean, and the median over all windows of a shape is reported.
 * Weights are rotated through more memory than the caches hold, as in a model; so one row is bound by memory, and the rate at which one
 * thread reads it is reported too. "cached": the same weights every time. */
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

/* What a window runs. */
typedef struct work {
    const vd_kernels *table;
    vd_order          order;
    int64_t           m, n, k;        /* linear; attention: m queries, n keys, k heads of 128 */
    const uint16_t   *x;
    const char       *pool;
    int64_t           places;         /* matrices in the pool that are used in turn */
    void             *y, *scratch;
} work;

static double run_window(const work *w, int64_t i)
{
    vd_exec exec = {.threads = 1, .scratch = w->scratch, .scratch_bytes = SCRATCH};
    if (w->order == VD_ATTN_K128) {
        const int64_t      width = w->k * 128;
        const vd_attention op    = {.order = w->order, .m = w->m, .s = w->n, .heads = w->k, .d = 128, .type = VD_BF16, .q = w->x, .q_stride = width,
                                    .k = w->pool, .k_stride = width, .v = w->pool + 2 * w->n * width, .v_stride = width, .o = w->y, .o_stride = width};
        w->table->attention(&exec, &op);
        return 4e-9 * (double)(w->m * w->n) * (double)width;
    }
    const vd_linear op = {.order = w->order, .m = w->m, .n = w->n, .k = w->k, .x = w->x, .x_type = VD_BF16, .x_stride = w->k,
                          .w = w->pool + i % w->places * 2 * w->n * w->k, .w_type = VD_BF16, .y = w->y, .y_type = VD_BF16, .y_stride = w->n};
    w->table->linear(&exec, &op);
    return 2e-9 * (double)(w->m * w->n) * (double)w->k;
}

static result measure(const work *w, vd_cpu_level level, double seconds)
{
    double       share[WINDOWS], rate[WINDOWS], peaks[WINDOWS], before = measure_peak(level);
    const double finish = bench_now() + seconds;
    int64_t      count  = 0;
    for (int64_t i = 0; i < WINDOWS && (count < 5 || bench_now() < finish); i++) {
        const double start = bench_now(), work = run_window(w, i), took = bench_now() - start, after = measure_peak(level);
        rate[count]  = work / took;
        peaks[count] = 0.5 * (before + after);
        share[count] = rate[count] / peaks[count];
        before       = after;
        count += i > 0; /* the first warms up */
    }
    return (result){median(rate, count), median(peaks, count), median(share, count), count};
}

/* GB/s of one thread reading the pool in order: the median of a few times. */
static double measure_reading(const char *pool)
{
    double rate[5];
    for (int t = 0; t < 5; t++) {
        const double start = bench_now();
        uint64_t     sum   = 0;
        for (int64_t i = 0; i < POOL; i += 64) {
            uint64_t a[8];
            memcpy(a, pool + i, sizeof a);
            sum += a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];
        }
        volatile uint64_t sink = sum;
        (void)sink;
        rate[t] = 1e-9 * (double)POOL / (bench_now() - start);
    }
    return median(rate, 5);
}

static void report(const work *w, const char *note, result q, bool json, bool *first)
{
    const bool attention = w->order == VD_ATTN_K128;
    if (json)
        printf("%s{\"order\":\"%s\",\"m\":%lld,\"%s\":%lld,\"%s\":%lld,\"note\":\"%s\",\"gflops\":%.2f,\"peak\":%.2f,\"share\":%.4f,\"windows\":%lld}",
               *first ? "" : ",", vd_order_id(w->order), (long long)w->m, attention ? "keys" : "n", (long long)w->n, attention ? "heads" : "k",
               (long long)w->k, note, q.gflops, q.peak, q.share, (long long)q.windows);
    else
        printf("%-14s %s%6lld %s%5lld, M %4lld: %7.1f %6.1f  %.3f  (%lld windows%s%s)\n", vd_order_id(w->order), attention ? "S " : "N ", (long long)w->n,
               attention ? "heads" : "K ", (long long)w->k, (long long)w->m, q.gflops, q.peak, q.share, (long long)q.windows, *note ? "; " : "", note);
    fflush(stdout);
    *first = false;
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
        printf("tc16 linear, level %s, one thread; share of the core's fp32 FMA peak, median of windows\n%-36s GFLOP/s   peak  share\n",
               vd_cpu_level_name(level), "");
    bool         first   = true;
    const double seconds = brief ? 1.0 : 2.0;
    for (size_t o = 0; o < (brief ? 1 : 2); o++)
        for (size_t s = 0; s < 3; s++)
            for (size_t r = 0; r < 6; r++) {
                if (brief && rows[r] != 1 && rows[r] < 64)
                    continue;
                /* many rows: a window is some whole tasks of the layer */
                work w = {&table, orders[o], rows[r], rows[r] >= 512 ? 1024 : shapes[s].n, shapes[s].k, x, pool, 0, y, scratch};
                w.places = POOL / (2 * w.n * w.k);
                char note[64] = "";
                if (w.n < shapes[s].n)
                    snprintf(note, sizeof note, "windows of a layer of %lld outputs", (long long)shapes[s].n);
                report(&w, note, measure(&w, level, seconds), json, &first);
                if (rows[r] == 1 && shapes[s].n == 3072 && shapes[s].k == 3072) {
                    w.places = 1;
                    report(&w, "cached", measure(&w, level, seconds), json, &first);
                }
            }
    static const int64_t queries[] = {10, 64, 1088};
    for (size_t r = 0; r < 3; r++) {
        const work w = {&table, VD_ATTN_K128, queries[r], 1088, queries[r] >= 512 ? 4 : 24, x, pool, 1, y, scratch};
        report(&w, "", measure(&w, level, seconds), json, &first);
    }
    const double reading = measure_reading(pool);
    if (!json)
        printf("one thread reads memory at %.1f GB/s: one row can reach %.1f GFLOP/s\n", reading, reading);
    if (json)
        printf("],\"memory_gb_s\":%.2f}\n", reading);
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
