/* Linears: every order, odd sizes and tails, one row, one column, K = 16, odd K, strides, weights at any address, bias or none. */
#include <string.h>

#include "kernels/cases.h"

static int64_t pick(h_random *r, const int64_t *choices, int count)
{
    return choices[h_next(r) % (uint64_t)count];
}

/* Sizes near multiples of every tile that a kernel may have, and small enough for the definition's speed. */
static void draw_shape(h_random *r, vd_linear *op)
{
    static const int64_t ms[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 70};
    static const int64_t ns[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 97, 127, 128, 130};
    static const int64_t ks[] = {16, 16, 32, 48, 64, 128, 256, 272, 512, 528, 1024, 1040, 1536};
    op->m = pick(r, ms, 18);
    op->n = pick(r, ns, 20);
    op->k = h_chance(r, 4) ? h_range(r, 1, 700) : pick(r, ks, 13);
    while (op->m * op->n * op->k > 1500000) {
        op->m = op->m > 1 ? op->m / 2 : 1;
        op->n = op->n > 8 ? op->n / 2 : op->n;
    }
}

static vd_dtype draw_type(h_random *r) { return h_chance(r, 2) ? VD_BF16 : VD_F32; }

static void run_linear(h_run *run, vd_linear op, h_kind x_kind, h_kind w_kind)
{
    h_random *r = &run->random;
    op.x_stride = op.k + (h_chance(r, 3) ? h_range(r, 0, 9) : 0);
    op.y_stride = op.n + (h_chance(r, 3) ? h_range(r, 0, 9) : 0);
    op.y_type   = draw_type(r);
    op.b_type   = draw_type(r);
    const int64_t w_align = (int64_t)1 << h_range(r, 0, 6);
    if (!op.x) /* unless the caller made its data */
        op.x = h_input(run, x_kind, op.x_type, op.m, op.k, op.x_stride, h_chance(r, 2) ? 64 : vd_dtype_size(op.x_type));
    else
        op.x_stride = op.k;
    if (!op.w)
        op.w = h_input(run, w_kind, op.w_type, op.n, op.k, op.k, w_align);
    op.b = h_chance(r, 2) ? h_input(run, h_chance(r, 4) ? H_SPECIAL : H_NORMAL, op.b_type, 1, op.n, op.n, (int64_t)1 << h_range(r, 0, 6)) : NULL;
    const int     threads = (int)h_range(r, 1, 3);
    const int64_t span    = h_span(op.y_type, op.m, op.n, op.y_stride);
    snprintf(run->what, sizeof run->what, "%s splits %d, m %lld n %lld k %lld, x %s %s stride %lld, w %s %s align %lld, b %s, y %s stride %lld, threads %d",
             vd_order_id(op.order), op.splits, (long long)op.m, (long long)op.n, (long long)op.k, h_kind_name(x_kind), vd_dtype_name(op.x_type),
             (long long)op.x_stride, h_kind_name(w_kind), vd_dtype_name(op.w_type), (long long)w_align, op.b ? vd_dtype_name(op.b_type) : "none",
             vd_dtype_name(op.y_type), (long long)op.y_stride, threads);
    vd_linear a = op, b = op;
    a.y          = h_output(run, span, vd_dtype_size(op.y_type));
    b.y          = h_output(run, span, h_chance(r, 2) ? 64 : vd_dtype_size(op.y_type));
    vd_exec base = h_exec(run, 2, run->generic->linear_scratch(&a, 2)), exec = h_exec(run, threads, run->level->linear_scratch(&b, threads));
    run->generic->linear(&base, &a);
    run->level->linear(&exec, &b);
    h_same(run, a.y, b.y, span, op.y_type);
}

static h_kind draw_kind(h_random *r)
{
    return (h_kind)h_range(r, 0, H_KINDS - 1);
}

/* Half of the cases on ordinary data, so that the fast path is the one tested; the rest any kind against any other. */
static void run_kinds(h_run *run, const vd_linear *op)
{
    h_random *r = &run->random;
    if (h_chance(r, 2))
        run_linear(run, *op, h_chance(r, 2) ? H_NORMAL : H_MASSIVE, h_chance(r, 4) ? H_SPECIAL : H_SMALL);
    else
        run_linear(run, *op, draw_kind(r), draw_kind(r));
}

void h_linear_tc16(h_run *run)
{
    static const vd_order orders[] = {VD_TC16_CHAIN, VD_TC16_CHAIN, VD_TC16_FOLD512, VD_TC16_SPLIT, VD_TC16_TREE8};
    h_random             *r        = &run->random;
    vd_linear             op       = {.order = orders[h_next(r) % 5], .splits = 1, .x_type = VD_BF16, .w_type = VD_BF16};
    draw_shape(r, &op);
    if (op.order == VD_TC16_SPLIT) {
        op.splits = (int)h_range(r, 1, 6);
        op.k      = (op.k + op.splits - 1) / op.splits * op.splits;
    } else if (op.order == VD_TC16_TREE8) {
        op.k = 128 * h_range(r, 1, 9);
        op.m = vd_dtype_size(VD_BF16) * h_range(r, 1, 4);
    }
    run_kinds(run, &op);
}

void h_linear_fma(h_run *run)
{
    h_random *r  = &run->random;
    vd_linear op = {.order = h_chance(r, 2) ? VD_FMA_CHAIN : VD_FMA_FOLD512, .x_type = VD_F32, .w_type = draw_type(r)};
    draw_shape(r, &op);
    run_kinds(run, &op);
}

void h_linear_pair(h_run *run)
{
    vd_linear op = {.order = VD_FMA_PAIR, .x_type = VD_BF16, .w_type = VD_BF16};
    draw_shape(&run->random, &op);
    run_kinds(run, &op);
}

/* Sums of sixteen largest products on top of a large carry: a 32-bit sum of the step's terms overflows. Random data never get there. */
void h_linear_overflow(h_run *run)
{
    h_random *r  = &run->random;
    vd_linear op = {.order = VD_TC16_CHAIN, .splits = 1, .x_type = VD_BF16, .w_type = VD_BF16, .m = h_range(r, 1, 9), .n = h_range(r, 1, 70), .k = 64};
    uint16_t  x[9 * 64], w[70 * 64];
    for (int64_t i = 0; i < op.m * op.k; i++)
        x[i] = i % op.k < 16 ? (i % op.k ? 0 : 0x3FFF) : i % op.k < 32 || h_chance(r, 2) ? 0x3FFF : 0xBFFF;
    for (int64_t i = 0; i < op.n * op.k; i++)
        w[i] = i % op.k == 0 ? 0x3F80 : h_chance(r, 64) ? 0x3FFE : 0x3FFF;
    op.x = h_copy(run, x, 2 * op.m * op.k, 2);
    op.w = h_copy(run, w, 2 * op.n * op.k, 2);
    run_linear(run, op, H_CONSTANT, H_CONSTANT);
}

/* fma/pair where flushing is decided: carries of 2^-126 or its neighbours less products of about 2^-150, which leave the normal numbers only
 * when rounded at full precision. */
void h_linear_sliver(h_run *run)
{
    h_random *r  = &run->random;
    vd_linear op = {.order = VD_FMA_PAIR, .x_type = VD_BF16, .w_type = VD_BF16, .m = h_range(r, 1, 9), .n = h_range(r, 1, 70), .k = 2 * h_range(r, 1, 4)};
    uint16_t  x[9 * 8], w[70 * 8];
    for (int64_t i = 0; i < op.m * op.k; i++) /* odd elements come first: they make the carry */
        x[i] = i % 2 ? (uint16_t)((64 - h_range(r, 0, 1)) << 7) : (uint16_t)(0x8000 | (64 - h_range(r, 8, 14)) << 7 | h_range(r, 0, 127));
    for (int64_t i = 0; i < op.n * op.k; i++)
        w[i] = i % 2 ? (uint16_t)(64 << 7) : (uint16_t)((64 - h_range(r, 9, 14)) << 7 | h_range(r, 0, 127));
    op.x = h_copy(run, x, 2 * op.m * op.k, 2);
    op.w = h_copy(run, w, 2 * op.n * op.k, 2);
    run_linear(run, op, H_TINY, H_TINY);
}
