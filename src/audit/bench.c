/* The operations at the published model's sizes, timed. */
#include <stdio.h>
#include <string.h>

#include "audit/peak.h"
#include "core/core.h"
#include "kernels/table.h"
#include "models/synthetic.h"

enum { DIM = 3072, FFN = 8192, HEADS = 24, WIDTH = 128, ROWS = 1088, REPEATS = 64 };

typedef struct bench {
    vd_context  *ctx;
    vd_kernels   kernels;
    vd_exec      exec;
    double       budget, peak;
    const char  *only; /* NULL: all operations */
    vd_bench_fn *row;
    void        *user;
    char        *data[4]; /* inputs and outputs: the largest of all cases */
} bench;

static const int64_t room[4] = {(int64_t)2 * ROWS * 2 * FFN, (int64_t)2 * 2 * FFN *DIM, (int64_t)4 * ROWS *DIM, (int64_t)4 * ROWS *DIM};

static void fill(void *arg, int64_t index, int worker)
{
    (void)worker;
    const bench *b = arg;
    uint16_t    *x = (void *)b->data[index];
    for (int64_t i = 0; i < room[index] / 2; i++)
        x[i] = (uint16_t)(0x3C00 | (vd_synth_value((uint64_t)index, i) & 0x81FF)); /* about 0.01 … 2, both signs, in bf16 as in the halves of fp32 */
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct timed {
    const char *operation, *contract;
    char        shape[64];
    double      operations, bytes; /* of one call */
    void (*call)(bench *, const void *);
    const void *arguments;
} timed;

static vd_status measure(bench *b, const timed *t)
{
    if (b->only && strcmp(b->only, t->operation) != 0)
        return VD_OK;
    double seconds[REPEATS];
    int    count = 0;
    double start = vd_now();
    t->call(b, t->arguments); /* first touch of memory is not what is asked */
    const int least = vd_now() - start > b->budget ? 1 : 3; /* sizes do not depend on the time allowed, so a call may take all of it */
    for (start = vd_now(); count < REPEATS && (count < least || vd_now() - start < b->budget); count++) {
        const double begin = vd_now();
        t->call(b, t->arguments);
        seconds[count] = vd_now() - begin;
    }
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    const double       median = seconds[count / 2];
    const vd_bench_row row    = {.operation = t->operation,
                                 .contract  = t->contract,
                                 .shape     = t->shape,
                                 .seconds   = median,
                                 .repeats   = count,
                                 .gflops    = t->operations / median * 1e-9,
                                 .share     = t->operations / median * 1e-9 / (b->peak * b->exec.threads),
                                 .gbytes    = t->bytes / median * 1e-9};
    if (b->row(b->user, &row) != 0)
        return vd_fail(b->ctx, VD_CANCELLED, "cancelled", "the bench was stopped on request");
    return vd_report_progress(b->ctx, t->operation, 0, 1);
}

static void call_linear(bench *b, const void *a) { b->kernels.linear(&b->exec, a); }
static void call_attention(bench *b, const void *a) { b->kernels.attention(&b->exec, a); }
static void call_norm_modulate(bench *b, const void *a) { b->kernels.norm_modulate(&b->exec, a); }
static void call_head_norm_rotary(bench *b, const void *a) { b->kernels.head_norm_rotary(&b->exec, a); }
static void call_situ(bench *b, const void *a) { b->kernels.situ(&b->exec, a); }
static void call_gated_residual(bench *b, const void *a) { b->kernels.gated_residual(&b->exec, a); }

static vd_status reserve(bench *b, int64_t bytes)
{
    if (bytes <= b->exec.scratch_bytes)
        return VD_OK;
    vd_free(b->ctx, b->exec.scratch);
    b->exec.scratch       = vd_alloc(b->ctx, bytes, "the bench's scratch");
    b->exec.scratch_bytes = b->exec.scratch ? bytes : 0;
    return b->exec.scratch ? VD_OK : b->ctx->status;
}

/* The generic level is the definition, hundreds of times slower: a part of the published sizes tells the same, and its row says which. */
static bool is_definition(const bench *b) { return !strcmp(b->kernels.level, "generic"); }

static vd_status run_linears(bench *b)
{
    static const struct {
        vd_order order;
        int64_t  m, n, k;
    } cases[] = {
        {VD_TC16_CHAIN, 64, DIM, DIM},  {VD_TC16_CHAIN, 64, 2 * FFN, DIM}, {VD_TC16_CHAIN, 64, DIM, FFN}, {VD_TC16_CHAIN, 1, DIM, DIM},
        {VD_FMA_PAIR, 64, DIM, DIM},    {VD_FMA_PAIR, 64, 2 * FFN, DIM},   {VD_FMA_PAIR, 64, DIM, FFN},   {VD_FMA_PAIR, 1, DIM, DIM},
        {VD_FMA_FOLD512, 64, DIM, DIM}, {VD_FMA_FOLD512, 1, DIM, DIM},
    };
    const bool slow   = is_definition(b); /* fewer columns */
    vd_status  status = VD_OK;
    for (size_t i = 0; status == VD_OK && i < sizeof cases / sizeof *cases; i++) {
        const bool      f32 = cases[i].order == VD_FMA_FOLD512;
        const int64_t   m = cases[i].m, k = cases[i].k, n = slow ? 64 : cases[i].n;
        const vd_dtype  type = f32 ? VD_F32 : VD_BF16;
        const vd_linear l    = {.order    = cases[i].order,
                                .splits   = 1,
                                .m        = m,
                                .n        = n,
                                .k        = k,
                                .x        = b->data[0],
                                .x_type   = type,
                                .x_stride = k,
                                .w        = b->data[1],
                                .w_type   = type,
                                .y        = b->data[2],
                                .y_type   = type,
                                .y_stride = n};
        timed           t    = {.operation  = "linear",
                                .contract   = vd_order_id(cases[i].order),
                                .operations = 2.0 * (double)m * (double)n * (double)k,
                                .call       = call_linear,
                                .arguments  = &l};
        snprintf(t.shape, sizeof t.shape, "%lld x %lld -> %lld", (long long)m, (long long)k, (long long)n);
        status = reserve(b, b->kernels.linear_scratch(&l, b->exec.threads));
        if (status == VD_OK)
            status = measure(b, &t);
    }
    return status;
}

static vd_status run_attentions(bench *b)
{
    static const vd_order orders[] = {VD_ATTN_K128, VD_ATTN_K128_PAIR, VD_ATTN_K128_F32};
    const bool            slow     = is_definition(b); /* one head, a few rows */
    vd_status             status   = VD_OK;
    if (b->only && strcmp(b->only, "attention") != 0)
        return VD_OK;
    for (int i = 0; status == VD_OK && i < 3; i++) {
        const bool    f32 = orders[i] == VD_ATTN_K128_F32;
        const int64_t s   = f32 ? 256 : ROWS; /* the text embedder's length; the joint rows' */
        const vd_attention a = {.order    = orders[i],
                             .m        = slow ? 4 : s,
                             .s        = s,
                             .heads    = slow ? 1 : HEADS,
                             .d        = WIDTH,
                             .type     = f32 ? VD_F32 : VD_BF16,
                             .q        = b->data[0],
                             .q_stride = DIM,
                             .k        = b->data[1],
                             .k_stride = DIM,
                             .v        = b->data[2],
                             .v_stride = DIM,
                             .o        = b->data[3],
                             .o_stride = DIM};
        timed         t   = {.operation  = "attention",
                             .contract   = vd_order_id(orders[i]),
                             .operations = 4.0 * (double)a.m * (double)s * WIDTH * (double)a.heads,
                             .call       = call_attention,
                             .arguments  = &a};
        snprintf(t.shape, sizeof t.shape, "%lld head%s, %lld rows, %lld keys", (long long)a.heads, a.heads == 1 ? "" : "s", (long long)a.m, (long long)s);
        status = reserve(b, b->kernels.attention_scratch(&a, b->exec.threads));
        if (status == VD_OK)
            status = measure(b, &t);
    }
    return status;
}

static vd_status run_rows(bench *b)
{
    const vd_norm_modulate    norm     = {.eps      = 1e-6f,
                                          .m        = ROWS,
                                          .n        = DIM,
                                          .round    = VD_BF16,
                                          .x        = b->data[0],
                                          .x_type   = VD_BF16,
                                          .x_stride = DIM,
                                          .w        = b->data[1],
                                          .w_type   = VD_BF16,
                                          .scale    = b->data[1],
                                          .shift    = b->data[1] + 2 * DIM,
                                          .mod_type = VD_BF16,
                                          .y        = b->data[3],
                                          .y_type   = VD_BF16,
                                          .y_stride = DIM};
    const vd_head_norm_rotary rotary   = {.rotary = {.m          = ROWS,
                                                     .heads      = HEADS,
                                                     .d          = WIDTH,
                                                     .round      = VD_BF16,
                                                     .x          = b->data[0],
                                                     .x_type     = VD_BF16,
                                                     .x_stride   = DIM,
                                                     .cos        = b->data[1],
                                                     .sin        = b->data[2],
                                                     .table_type = VD_BF16,
                                                     .y          = b->data[3],
                                                     .y_type     = VD_BF16,
                                                     .y_stride   = DIM},
                                          .eps    = 1e-6f,
                                          .cast   = VD_BF16,
                                          .w      = b->data[1],
                                          .w_type = VD_BF16};
    const vd_situ             situ     = {.m        = ROWS,
                                          .n        = FFN,
                                          .round    = VD_BF16,
                                          .u        = b->data[0],
                                          .g        = b->data[0] + 2 * FFN,
                                          .x_type   = VD_BF16,
                                          .x_stride = 2 * FFN,
                                          .y        = b->data[1],
                                          .y_type   = VD_BF16,
                                          .y_stride = FFN};
    const vd_gated_residual   residual = {.m         = ROWS,
                                          .n         = DIM,
                                          .x         = b->data[0],
                                          .x_type    = VD_BF16,
                                          .x_stride  = DIM,
                                          .y         = b->data[2],
                                          .y_type    = VD_BF16,
                                          .y_stride  = DIM,
                                          .gate      = b->data[1],
                                          .gate_type = VD_BF16,
                                          .o         = b->data[3],
                                          .o_stride  = DIM};
    const double              stream   = 2.0 * ROWS * DIM; /* bytes of the stream in bf16 */
    const timed               cases[]  = {
                       {"norm_modulate", "rowsum128@1", "1088 x 3072", 0, 2 * stream, call_norm_modulate, &norm},
                       {"head_norm_rotary", "rowsum128@1", "1088 x 24 x 128", 0, 2 * stream, call_head_norm_rotary, &rotary},
                       {"situ", "", "1088 x 8192", 0, 3.0 * 2 * ROWS * FFN, call_situ, &situ},
                       {"gated_residual", "", "1088 x 3072", 0, 3 * stream, call_gated_residual, &residual},
    };
    vd_status status = VD_OK;
    for (int i = 0; status == VD_OK && i < 4; i++)
        status = measure(b, &cases[i]);
    return status;
}

vd_status vd_bench(vd_context *ctx, const char *only, double seconds, vd_bench_fn *row, void *user, double *peak, const char **level)
{
    static const char *const operations[] = {"linear", "attention", "norm_modulate", "head_norm_rotary", "situ", "gated_residual"};
    bool                     known        = !only;
    vd_clear_error(ctx);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        known |= only && !strcmp(only, operations[i]);
    if (!known)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "bench",
                       "there is no bench of '%s'; there are linear, attention, norm_modulate, head_norm_rotary, situ, gated_residual", only);
    bench     b      = {.ctx = ctx, .only = only, .budget = seconds > 0 ? seconds : 0.5, .row = row, .user = user, .exec = {.threads = ctx->threads}};
    vd_status status = vd_kernels_select(ctx, &b.kernels);
    for (int i = 0; status == VD_OK && i < 4; i++) {
        b.data[i] = vd_alloc(ctx, room[i], "the bench's tensors");
        if (b.data[i])
            fill(&b, i, 0);
        else
            status = ctx->status;
    }
    if (status == VD_OK) {
        b.peak = vd_measure_peak();
        if (peak)
            *peak = b.peak;
        if (level)
            *level = b.kernels.level;
        status = run_linears(&b) || run_attentions(&b) || run_rows(&b) ? ctx->status : b.exec.status;
    }
    for (int i = 0; i < 4; i++)
        vd_free(ctx, b.data[i]);
    vd_free(ctx, b.exec.scratch);
    return status;
}
