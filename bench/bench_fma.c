/* Linear layers in the fma orders against oneDNN and OpenBLAS, one thread, the model's shapes.
 * usage: bench_fma [--json] [--cpu LEVEL] [--seconds S] [--order fma/fold512|fma/chain|fma/pair] [--m M] [--shape NxK]
 *
 * Peers get the same row-major tensors, weights as they lie in a file: fp32 [n, k]; bf16 too where the CPU has AVX512_BF16. oneDNN is kept
 * from AMX, whose tiles sum in another order than fma/pair may. */
#include <cblas.h>
#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

extern void openblas_set_num_threads(int threads);

typedef struct shape {
    int64_t n, k;
} shape;

typedef struct peer {
    dnnl_primitive_t primitive;
    dnnl_stream_t    stream;
    dnnl_exec_arg_t  args[3];
    int64_t          m, n, k; /* for OpenBLAS */
    const float     *x, *w;
    float           *y;
} peer;

static void check(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success) {
        fprintf(stderr, "bench_fma: oneDNN %s failed: status %d\n", what, (int)status);
        exit(70);
    }
}

static dnnl_exec_arg_t make_argument(dnnl_engine_t engine, int which, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag, void *data,
                                     dnnl_memory_desc_t *desc)
{
    dnnl_exec_arg_t arg = {which, NULL};
    check(dnnl_memory_desc_init_by_tag(desc, 2, dims, type, tag), "memory description");
    check(dnnl_memory_create(&arg.memory, desc, engine, data), "memory");
    return arg;
}

static void open_dnnl(peer *p, dnnl_engine_t engine, dnnl_data_type_t type, int64_t m, int64_t n, int64_t k, void *x, void *w, void *y)
{
    const dnnl_dims_t       xd = {m, k}, wd = {k, n}, yd = {m, n};
    dnnl_memory_desc_t      xm, wm, ym;
    dnnl_matmul_desc_t      desc;
    dnnl_primitive_desc_t   pd;
    p->args[0] = make_argument(engine, DNNL_ARG_SRC, xd, type, dnnl_ab, x, &xm);
    p->args[1] = make_argument(engine, DNNL_ARG_WEIGHTS, wd, type, dnnl_ba, w, &wm);
    p->args[2] = make_argument(engine, DNNL_ARG_DST, yd, type, dnnl_ab, y, &ym);
    check(dnnl_matmul_desc_init(&desc, &xm, &wm, NULL, &ym), "matmul");
    check(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL), "matmul");
    check(dnnl_primitive_create(&p->primitive, pd), "primitive");
    dnnl_primitive_desc_destroy(pd);
    check(dnnl_stream_create(&p->stream, engine, dnnl_stream_default_flags), "stream");
}

static void close_dnnl(peer *p)
{
    dnnl_primitive_destroy(p->primitive);
    dnnl_stream_destroy(p->stream);
    for (int i = 0; i < 3; i++)
        dnnl_memory_destroy(p->args[i].memory);
}

static void run_dnnl(void *arg)
{
    peer *p = arg;
    check(dnnl_primitive_execute(p->primitive, p->stream, 3, p->args), "matmul");
    check(dnnl_stream_wait(p->stream), "matmul");
}

static void run_openblas(void *arg)
{
    const peer *p = arg;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)p->m, (blasint)p->n, (blasint)p->k, 1.0f, p->x, (blasint)p->k, p->w, (blasint)p->k,
                0.0f, p->y, (blasint)p->n);
}

typedef struct call {
    const vd_kernels *kernels;
    vd_exec           exec;
    vd_linear         op;
} call;

static void run_ours(void *arg)
{
    call *c = arg;
    c->kernels->linear(&c->exec, &c->op);
}

typedef struct settings {
    bool         json;
    double       seconds;
    vd_cpu_level level;
    vd_order     order; /* VD_ORDER_NONE: all */
    int64_t      m;     /* 0: all */
    shape        only;  /* 0: all */
} settings;

static double peak;
static bool   first_line = true;

static void report(const settings *s, vd_order order, int64_t m, shape at, const char *name, bench_result r)
{
    const double flops = 2.0 * (double)m * (double)at.n * (double)at.k * 1e-9;
    if (s->json)
        printf("%s\n  {\"order\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"peer\": \"%s\", \"ratio\": %.3f, \"gflops\": %.1f, \"peer_gflops\": %.1f, \"share_of_peak\": %.3f, "
               "\"turns\": %d}",
               first_line ? "" : ",", vd_order_id(order), (long long)m, (long long)at.n, (long long)at.k, name, r.ratio, flops / r.ours, flops / r.peer, flops / r.ours / peak, r.turns);
    else
        printf("%-14s M %5lld  %5lld x %4lld  ours %6.1f GFLOP/s (%.2f of peak)  %-13s %6.1f  ratio %.2f  (%d turns)\n", vd_order_id(order), (long long)m, (long long)at.n,
               (long long)at.k, flops / r.ours, flops / r.ours / peak, name, flops / r.peer, r.ratio, r.turns);
    first_line = false;
    fflush(stdout);
}

static void bench_one(const settings *s, const vd_kernels *kernels, dnnl_engine_t engine, vd_order order, int64_t m, shape at)
{
    const bool     pair = order == VD_FMA_PAIR;
    const vd_dtype type = pair ? VD_BF16 : VD_F32;
    float         *x = bench_alloc(m * at.k * 4), *w = bench_alloc(at.n * at.k * 4), *y = bench_alloc(m * at.n * 4), *y2 = bench_alloc(m * at.n * 4);
    uint16_t      *x16 = pair ? bench_alloc(m * at.k * 2) : NULL, *w16 = pair ? bench_alloc(at.n * at.k * 2) : NULL;
    bench_fill(x, VD_F32, m * at.k, 1.0f, 1);
    bench_fill(w, VD_F32, at.n * at.k, 0.02f, 2);
    if (pair) {
        bench_fill(x16, VD_BF16, m * at.k, 1.0f, 1);
        bench_fill(w16, VD_BF16, at.n * at.k, 0.02f, 2);
    }
    call c = {kernels, {1, NULL, 0, VD_OK}, {order, 1, m, at.n, at.k, pair ? (void *)x16 : x, type, at.k, pair ? (void *)w16 : w, type, NULL, type, y, type, at.n}};
    c.exec.scratch_bytes = kernels->linear_scratch(&c.op, 1);
    c.exec.scratch       = bench_alloc(c.exec.scratch_bytes);
    peer p = {.m = m, .n = at.n, .k = at.k, .x = x, .w = w, .y = y2};
    open_dnnl(&p, engine, dnnl_f32, m, at.n, at.k, x, w, y2);
    report(s, order, m, at, "onednn-f32", bench_compare(run_ours, &c, run_dnnl, &p, s->seconds));
    close_dnnl(&p);
    if (!pair)
        report(s, order, m, at, "openblas-sgemm", bench_compare(run_ours, &c, run_openblas, &p, s->seconds));
    if (pair && vd_cpu_best_level() >= VD_CPU_AVX512BF16) {
        open_dnnl(&p, engine, dnnl_bf16, m, at.n, at.k, x16, w16, y2);
        report(s, order, m, at, "onednn-bf16", bench_compare(run_ours, &c, run_dnnl, &p, s->seconds));
        close_dnnl(&p);
    }
    free(x), free(w), free(y), free(y2), free(x16), free(w16), free(c.exec.scratch);
}

static const char *value_of(int argc, char **argv, int i)
{
    if (i + 1 < argc)
        return argv[i + 1];
    fprintf(stderr, "bench_fma: %s needs a value\n", argv[i]);
    exit(2);
}

int main(int argc, char **argv)
{
    static const shape    shapes[] = {{3072, 3072}, {16384, 3072}, {3072, 8192}, {3072, 4096}};
    static const int64_t  rows[]   = {1, 8, 64, 1088};
    static const vd_order orders[] = {VD_FMA_FOLD512, VD_FMA_CHAIN, VD_FMA_PAIR};
    settings              s        = {false, 3.0, vd_cpu_best_level(), VD_ORDER_NONE, 0, {0, 0}};
    for (int i = 1; i < argc; i++) {
        long long n = 0, k = 0;
        if (strcmp(argv[i], "--json") == 0) {
            s.json = true;
            continue;
        }
        const char *option = argv[i], *value = value_of(argc, argv, i++);
        const bool  good = strcmp(option, "--cpu") == 0 ? vd_cpu_find_level(value, &s.level) && s.level <= vd_cpu_best_level()
                           : strcmp(option, "--seconds") == 0 ? (s.seconds = atof(value)) > 0
                           : strcmp(option, "--order") == 0 ? (s.order = vd_order_find(value)) != VD_ORDER_NONE
                           : strcmp(option, "--m") == 0 ? (s.m = atoll(value)) > 0
                           : strcmp(option, "--shape") == 0 ? sscanf(value, "%lldx%lld", &n, &k) == 2 && (s.only = (shape){n, k}, n > 0 && k > 0)
                                                            : false;
        if (!good) {
            fprintf(stderr, "bench_fma: %s %s: not an option, not a value of it, or a level that this CPU has not\n", option, value);
            return 2;
        }
    }
    omp_set_num_threads(1);
    openblas_set_num_threads(1);
    vd_kernels kernels;
    vd_kernels_init_cpu(&kernels, s.level);
    dnnl_engine_t engine;
    check(dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16), "limit");
    check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    peak = bench_fma_peak();
    if (s.json)
        printf("{\"bench\": \"fma-linear\", \"level\": \"%s\", \"threads\": 1, \"fma_peak_gflops\": %.1f, \"results\": [", kernels.level, peak);
    else
        printf("level %s, one thread, fp32 FMA peak %.1f GFLOP/s; ratio: the peer's time over ours, median of turns\n", kernels.level, peak);
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
                if ((s.order == VD_ORDER_NONE || s.order == orders[o]) && (s.m == 0 || s.m == rows[r]) &&
                    (s.only.n == 0 || (s.only.n == shapes[i].n && s.only.k == shapes[i].k)))
                    bench_one(&s, &kernels, engine, orders[o], rows[r], shapes[i]);
    if (s.json)
        printf("\n]}\n");
    dnnl_engine_destroy(engine);
    return 0;
}
