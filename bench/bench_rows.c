/* Row operations at the model's sizes, one thread: against the generic level (the contract's own loops) and against a copy of the bytes that
 * the operation must read and write.
 * usage: bench_rows [--json] [--cpu LEVEL] [--seconds S] [--rows N] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { WIDTH = 3072, FFN = 8192, HEADS = 24, HEAD = 128 };

typedef struct tensors {
    int64_t rows;
    void   *u, *g, *x, *y, *w, *scale, *shift, *cos, *sin, *out;
} tensors;

typedef struct call {
    const vd_kernels *kernels;
    const tensors    *t;
    void (*run)(const vd_kernels *, vd_exec *, const tensors *);
    vd_exec exec;
} call;

static void run_rms_norm(const vd_kernels *k, vd_exec *e, const tensors *t)
{
    const vd_rms_norm op = {VD_ROWSUM128, 1e-6f, t->rows, WIDTH, VD_BF16, t->x, VD_BF16, WIDTH, t->w, VD_BF16, t->out, VD_BF16, WIDTH};
    k->rms_norm(e, &op);
}

static void run_norm_modulate(const vd_kernels *k, vd_exec *e, const tensors *t)
{
    const vd_norm_modulate op = {1e-6f, t->rows, WIDTH, VD_BF16, t->x, VD_BF16, WIDTH, t->w, VD_BF16, t->scale, t->shift, VD_BF16, t->out, VD_BF16, WIDTH};
    k->norm_modulate(e, &op);
}

static void run_head_norm_rotary(const vd_kernels *k, vd_exec *e, const tensors *t)
{
    const vd_rotary           rotary = {t->rows, HEADS, HEAD, VD_BF16, t->x, VD_BF16, WIDTH, t->cos, t->sin, VD_BF16, t->out, VD_BF16, WIDTH};
    const vd_head_norm_rotary op     = {rotary, 1e-6f, VD_BF16, t->w, VD_BF16};
    k->head_norm_rotary(e, &op);
}

static void run_situ(const vd_kernels *k, vd_exec *e, const tensors *t)
{
    const vd_situ op = {t->rows, FFN, VD_BF16, t->u, t->g, VD_BF16, FFN, t->out, VD_BF16, FFN};
    k->situ(e, &op);
}

static void run_gated_residual(const vd_kernels *k, vd_exec *e, const tensors *t)
{
    const vd_gated_residual op = {t->rows, WIDTH, t->x, VD_BF16, WIDTH, t->y, VD_BF16, WIDTH, t->scale, VD_BF16, t->out, WIDTH};
    k->gated_residual(e, &op);
}

static void run_silu(const vd_kernels *k, vd_exec *e, const tensors *t)
{
    const vd_map op = {VD_SILU, t->rows * WIDTH, t->x, VD_BF16, t->out, VD_BF16};
    k->map(e, &op);
}

static void run_convert(const vd_kernels *k, vd_exec *e, const tensors *t)
{
    const vd_map op = {VD_CONVERT, t->rows * WIDTH, t->x, VD_BF16, t->out, VD_F32};
    k->map(e, &op);
}

static const struct row_bench {
    const char *name;
    void (*run)(const vd_kernels *, vd_exec *, const tensors *);
    int64_t elements, bytes; /* outputs of a row; bytes read and written a row */
} benches[] = {
    {"rms_norm", run_rms_norm, WIDTH, 4 * WIDTH},       {"norm_modulate", run_norm_modulate, WIDTH, 4 * WIDTH},
    {"head_norm_rotary", run_head_norm_rotary, WIDTH, 4 * WIDTH + 4 * HEAD}, {"situ", run_situ, FFN, 6 * FFN},
    {"gated_residual", run_gated_residual, WIDTH, 6 * WIDTH}, {"map silu", run_silu, WIDTH, 4 * WIDTH},
    {"map convert", run_convert, WIDTH, 6 * WIDTH},
};

static void run_call(void *arg)
{
    call *c = arg;
    c->run(c->kernels, &c->exec, c->t);
}

typedef struct copy {
    void   *to, *from;
    int64_t bytes;
} copy;

static void run_copy(void *arg)
{
    const copy *c = arg;
    memcpy(c->to, c->from, (size_t)c->bytes / 2); /* reads half, writes half */
}

static void *make(int64_t n, float scale, uint64_t seed)
{
    void *p = bench_alloc(n * 2);
    bench_fill(p, VD_BF16, n, scale, seed);
    return p;
}

int main(int argc, char **argv)
{
    vd_cpu_level level   = vd_cpu_best_level();
    double       seconds = 1.0;
    bool         json    = false;
    tensors      t       = {.rows = 256};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
            continue;
        }
        const char *option = argv[i], *value = i + 1 < argc ? argv[++i] : "";
        const bool  good = strcmp(option, "--cpu") == 0 ? vd_cpu_find_level(value, &level) && level <= vd_cpu_best_level()
                           : strcmp(option, "--seconds") == 0 ? (seconds = atof(value)) > 0
                           : strcmp(option, "--rows") == 0 ? (t.rows = atoll(value)) > 0
                                                           : false;
        if (!good) {
            fprintf(stderr, "bench_rows: %s %s: not an option, not a value of it, or a level that this CPU has not\n", option, value);
            return 2;
        }
    }
    t.u = make(t.rows * FFN, 2.0f, 1), t.g = make(t.rows * FFN, 2.0f, 2), t.x = make(t.rows * WIDTH, 1.0f, 3), t.y = make(t.rows * WIDTH, 1.0f, 4);
    t.w = make(WIDTH, 1.0f, 5), t.scale = make(WIDTH, 0.3f, 6), t.shift = make(WIDTH, 0.3f, 7), t.cos = make(t.rows * HEAD, 0.7f, 8);
    t.sin = make(t.rows * HEAD, 0.7f, 9), t.out = bench_alloc(t.rows * FFN * 4);
    vd_kernels generic, kernels;
    vd_kernels_init_cpu(&generic, VD_CPU_GENERIC);
    vd_kernels_init_cpu(&kernels, level);
    copy bytes = {bench_alloc(t.rows * FFN * 3), bench_alloc(t.rows * FFN * 3), 0};
    if (json)
        printf("{\"bench\": \"rows\", \"level\": \"%s\", \"threads\": 1, \"rows\": %lld, \"results\": [", kernels.level, (long long)t.rows);
    else
        printf("level %s, one thread, %lld rows, bf16\n", kernels.level, (long long)t.rows);
    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
        call               ours = {&kernels, &t, benches[i].run, {1, NULL, 0, VD_OK}}, theirs = {&generic, &t, benches[i].run, {1, NULL, 0, VD_OK}};
        const bench_result g    = bench_compare(run_call, &ours, run_call, &theirs, seconds);
        bytes.bytes             = t.rows * benches[i].bytes;
        const bench_result c    = bench_compare(run_call, &ours, run_copy, &bytes, seconds);
        const double       ns   = g.ours / (double)(t.rows * benches[i].elements) * 1e9;
        if (json)
            printf("%s\n  {\"operation\": \"%s\", \"ns_per_element\": %.3f, \"ratio_generic\": %.2f, \"ratio_copy\": %.3f, \"turns\": %d}", i ? "," : "",
                   benches[i].name, ns, g.ratio, c.ratio, g.turns);
        else
            printf("%-17s %6.3f ns an element; generic takes %.1f times as long; a copy of its bytes %.2f of it\n", benches[i].name, ns, g.ratio, c.ratio);
    }
    if (json)
        printf("\n]}\n");
    void *all[] = {t.u, t.g, t.x, t.y, t.w, t.scale, t.shift, t.cos, t.sin, t.out, bytes.to, bytes.from};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return 0;
}
