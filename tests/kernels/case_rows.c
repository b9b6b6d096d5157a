/* Row operations and maps: both types everywhere, odd widths, strides, in place where that is allowed. */
#include <string.h>

#include "kernels/cases.h"

static vd_dtype draw_type(h_random *r) { return h_chance(r, 2) ? VD_BF16 : VD_F32; }
static int64_t  draw_gap(h_random *r) { return h_chance(r, 3) ? h_range(r, 1, 9) : 0; }
static h_kind   draw_kind(h_random *r) { return h_chance(r, 3) ? H_NORMAL : (h_kind)h_range(r, 0, H_KINDS - 1); }
static int64_t  draw_align(h_random *r, vd_dtype type) { return h_chance(r, 2) ? 64 : vd_dtype_size(type); }

static int64_t draw_width(h_random *r)
{
    static const int64_t widths[] = {1, 2, 3, 8, 15, 16, 17, 31, 32, 64, 100, 127, 128, 129, 256, 300, 512, 1000, 3072};
    return widths[h_next(r) % 19];
}

/* A row vector at any address: weights come from files. */
static void *draw_vector(h_run *run, vd_dtype type, int64_t n, h_kind kind)
{
    return h_input(run, kind, type, 1, n, n, (int64_t)1 << h_range(&run->random, 0, 6));
}

/* The two outputs of an operation that reads x: in place both start as x itself. */
typedef struct pair {
    void *a, *b;
    const void *x_a, *x_b;
    int64_t     span;
} pair;

static pair draw_outputs(h_run *run, bool in_place, const void *x, int64_t x_span, vd_dtype y_type, int64_t m, int64_t n, int64_t y_stride)
{
    pair p = {.x_a = x, .x_b = x, .span = in_place ? x_span : h_span(y_type, m, n, y_stride)};
    if (in_place) {
        p.x_a = p.a = h_copy(run, x, x_span, vd_dtype_size(y_type));
        p.x_b = p.b = h_copy(run, x, x_span, vd_dtype_size(y_type));
    } else {
        p.a = h_output(run, p.span, vd_dtype_size(y_type));
        p.b = h_output(run, p.span, draw_align(&run->random, y_type));
    }
    return p;
}

#define CALL(entry, a_op, b_op)                                                                                                                \
    do {                                                                                                                                       \
        vd_exec base = h_exec(run, 2, 0), exec = h_exec(run, (int)h_range(&run->random, 1, 3), 0);                                             \
        run->generic->entry(&base, a_op);                                                                                                      \
        run->level->entry(&exec, b_op);                                                                                                        \
    } while (0)

void h_rms_norm_case(h_run *run)
{
    h_random     *r = &run->random;
    const h_kind  kind = draw_kind(r);
    const bool    in_place = h_chance(r, 4);
    vd_rms_norm   op = {.order = h_chance(r, 2) ? VD_ROWSUM128 : VD_ROWSUM512, .eps = 1e-6f, .m = h_range(r, 1, 9), .n = draw_width(r),
                        .cast = draw_type(r), .x_type = draw_type(r), .w_type = draw_type(r), .y_type = draw_type(r)};
    if (op.order == VD_ROWSUM512)
        op.n = (op.n + 3) / 4 * 4;
    op.x_stride = op.n + draw_gap(r);
    op.y_stride = op.n + draw_gap(r);
    if (in_place)
        op.y_type = op.x_type, op.y_stride = op.x_stride;
    op.x = h_input(run, kind, op.x_type, op.m, op.n, op.x_stride, draw_align(r, op.x_type));
    op.w = draw_vector(run, op.w_type, op.n, draw_kind(r));
    snprintf(run->what, sizeof run->what, "%s m %lld n %lld, x %s %s, cast %s, w %s, y %s%s", vd_order_id(op.order), (long long)op.m, (long long)op.n,
             h_kind_name(kind), vd_dtype_name(op.x_type), vd_dtype_name(op.cast), vd_dtype_name(op.w_type), vd_dtype_name(op.y_type), in_place ? " in place" : "");
    const pair  p = draw_outputs(run, in_place, op.x, h_span(op.x_type, op.m, op.n, op.x_stride), op.y_type, op.m, op.n, op.y_stride);
    vd_rms_norm a = op, b = op;
    a.x = p.x_a, a.y = p.a, b.x = p.x_b, b.y = p.b;
    CALL(rms_norm, &a, &b);
    h_same(run, p.a, p.b, p.span, op.y_type);
}

void h_norm_modulate_case(h_run *run)
{
    h_random        *r = &run->random;
    const h_kind     kind = draw_kind(r);
    vd_norm_modulate op = {.eps = 1e-6f, .m = h_range(r, 1, 9), .n = draw_width(r), .round = draw_type(r), .x_type = draw_type(r),
                           .w_type = draw_type(r), .mod_type = draw_type(r), .y_type = draw_type(r)};
    op.x_stride = op.n + draw_gap(r);
    op.y_stride = op.n + draw_gap(r);
    op.x     = h_input(run, kind, op.x_type, op.m, op.n, op.x_stride, draw_align(r, op.x_type));
    op.w     = draw_vector(run, op.w_type, op.n, draw_kind(r));
    op.scale = draw_vector(run, op.mod_type, op.n, draw_kind(r));
    op.shift = draw_vector(run, op.mod_type, op.n, draw_kind(r));
    snprintf(run->what, sizeof run->what, "m %lld n %lld, x %s %s, round %s, w %s, mod %s, y %s", (long long)op.m, (long long)op.n, h_kind_name(kind),
             vd_dtype_name(op.x_type), vd_dtype_name(op.round), vd_dtype_name(op.w_type), vd_dtype_name(op.mod_type), vd_dtype_name(op.y_type));
    const pair       p = draw_outputs(run, false, op.x, 0, op.y_type, op.m, op.n, op.y_stride);
    vd_norm_modulate a = op, b = op;
    a.y = p.a, b.y = p.b;
    CALL(norm_modulate, &a, &b);
    h_same(run, p.a, p.b, p.span, op.y_type);
}

/* Everything of a rotary but its outputs; returns whether it is in place. */
static bool draw_rotary(h_run *run, vd_rotary *op, h_kind kind)
{
    static const int64_t dims[] = {2, 6, 8, 16, 24, 32, 64, 96, 128, 128, 130};
    h_random            *r = &run->random;
    const bool           in_place = h_chance(r, 4);
    *op = (vd_rotary){.m = h_range(r, 1, 9), .heads = h_range(r, 1, 5), .d = dims[h_next(r) % 11], .round = draw_type(r), .x_type = draw_type(r),
                      .table_type = draw_type(r), .y_type = draw_type(r)};
    const int64_t width = op->heads * op->d;
    op->x_stride = width + draw_gap(r);
    op->y_stride = width + draw_gap(r);
    if (in_place)
        op->y_type = op->x_type, op->y_stride = op->x_stride;
    op->x   = h_input(run, kind, op->x_type, op->m, width, op->x_stride, draw_align(r, op->x_type));
    op->cos = h_input(run, h_chance(r, 4) ? draw_kind(r) : H_NORMAL, op->table_type, op->m, op->d, op->d, draw_align(r, op->table_type));
    op->sin = h_input(run, h_chance(r, 4) ? draw_kind(r) : H_NORMAL, op->table_type, op->m, op->d, op->d, draw_align(r, op->table_type));
    snprintf(run->what, sizeof run->what, "m %lld heads %lld d %lld, x %s %s, round %s, table %s, y %s%s", (long long)op->m, (long long)op->heads,
             (long long)op->d, h_kind_name(kind), vd_dtype_name(op->x_type), vd_dtype_name(op->round), vd_dtype_name(op->table_type),
             vd_dtype_name(op->y_type), in_place ? " in place" : "");
    return in_place;
}

void h_rotary_case(h_run *run)
{
    vd_rotary  op;
    const bool in_place = draw_rotary(run, &op, draw_kind(&run->random));
    const pair p = draw_outputs(run, in_place, op.x, h_span(op.x_type, op.m, op.heads * op.d, op.x_stride), op.y_type, op.m, op.heads * op.d, op.y_stride);
    vd_rotary  a = op, b = op;
    a.x = p.x_a, a.y = p.a, b.x = p.x_b, b.y = p.b;
    CALL(rotary, &a, &b);
    h_same(run, p.a, p.b, p.span, op.y_type);
}

void h_head_norm_rotary_case(h_run *run)
{
    h_random           *r = &run->random;
    vd_head_norm_rotary op = {.eps = 1e-6f, .cast = draw_type(r), .w_type = draw_type(r)};
    const bool          in_place = draw_rotary(run, &op.rotary, draw_kind(r));
    const vd_rotary    *o = &op.rotary;
    op.w = draw_vector(run, op.w_type, o->d, draw_kind(r));
    const pair          p = draw_outputs(run, in_place, o->x, h_span(o->x_type, o->m, o->heads * o->d, o->x_stride), o->y_type, o->m, o->heads * o->d, o->y_stride);
    vd_head_norm_rotary a = op, b = op;
    a.rotary.x = p.x_a, a.rotary.y = p.a, b.rotary.x = p.x_b, b.rotary.y = p.b;
    CALL(head_norm_rotary, &a, &b);
    h_same(run, p.a, p.b, p.span, o->y_type);
}

void h_situ_case(h_run *run)
{
    h_random    *r = &run->random;
    const h_kind kind = draw_kind(r);
    vd_situ      op = {.m = h_range(r, 1, 9), .n = draw_width(r), .round = draw_type(r), .x_type = draw_type(r), .y_type = draw_type(r)};
    op.x_stride = op.n + draw_gap(r);
    op.y_stride = op.n + draw_gap(r);
    op.u = h_input(run, kind, op.x_type, op.m, op.n, op.x_stride, draw_align(r, op.x_type));
    op.g = h_input(run, draw_kind(r), op.x_type, op.m, op.n, op.x_stride, draw_align(r, op.x_type));
    snprintf(run->what, sizeof run->what, "m %lld n %lld, u %s, x %s, round %s, y %s", (long long)op.m, (long long)op.n, h_kind_name(kind),
             vd_dtype_name(op.x_type), vd_dtype_name(op.round), vd_dtype_name(op.y_type));
    const pair p = draw_outputs(run, false, op.u, 0, op.y_type, op.m, op.n, op.y_stride);
    vd_situ    a = op, b = op;
    a.y = p.a, b.y = p.b;
    CALL(situ, &a, &b);
    h_same(run, p.a, p.b, p.span, op.y_type);
}

void h_gated_residual_case(h_run *run)
{
    h_random         *r = &run->random;
    const h_kind      kind = draw_kind(r);
    const bool        in_place = h_chance(r, 2);
    vd_gated_residual op = {.m = h_range(r, 1, 9), .n = draw_width(r), .x_type = draw_type(r), .y_type = draw_type(r), .gate_type = draw_type(r)};
    op.x_stride = op.n + draw_gap(r);
    op.y_stride = op.n + draw_gap(r);
    op.o_stride = in_place ? op.x_stride : op.n + draw_gap(r);
    op.x    = h_input(run, kind, op.x_type, op.m, op.n, op.x_stride, draw_align(r, op.x_type));
    op.y    = h_input(run, draw_kind(r), op.y_type, op.m, op.n, op.y_stride, draw_align(r, op.y_type));
    op.gate = h_chance(r, 3) ? NULL : draw_vector(run, op.gate_type, op.n, draw_kind(r));
    snprintf(run->what, sizeof run->what, "m %lld n %lld, x %s %s, y %s, gate %s%s", (long long)op.m, (long long)op.n, h_kind_name(kind),
             vd_dtype_name(op.x_type), vd_dtype_name(op.y_type), op.gate ? vd_dtype_name(op.gate_type) : "none", in_place ? ", in place" : "");
    const pair        p = draw_outputs(run, in_place, op.x, h_span(op.x_type, op.m, op.n, op.x_stride), op.x_type, op.m, op.n, op.o_stride);
    vd_gated_residual a = op, b = op;
    a.x = p.x_a, a.o = p.a, b.x = p.x_b, b.o = p.b;
    CALL(gated_residual, &a, &b);
    h_same(run, p.a, p.b, p.span, op.x_type);
}

void h_map_case(h_run *run)
{
    h_random    *r = &run->random;
    const h_kind kind = draw_kind(r);
    const bool   in_place = h_chance(r, 4);
    vd_map       op = {.f = (vd_function)h_range(r, 0, VD_FUNCTION_COUNT - 1), .n = h_chance(r, 4) ? h_range(r, 4000, 9000) : h_range(r, 1, 300),
                       .x_type = draw_type(r), .y_type = draw_type(r)};
    if (in_place)
        op.y_type = op.x_type;
    op.x = h_input(run, kind, op.x_type, 1, op.n, op.n, draw_align(r, op.x_type));
    snprintf(run->what, sizeof run->what, "function %d n %lld, x %s %s, y %s%s", (int)op.f, (long long)op.n, h_kind_name(kind), vd_dtype_name(op.x_type),
             vd_dtype_name(op.y_type), in_place ? " in place" : "");
    const pair p = draw_outputs(run, in_place, op.x, h_span(op.x_type, 1, op.n, op.n), op.y_type, 1, op.n, op.n);
    vd_map     a = op, b = op;
    a.x = p.x_a, a.y = p.a, b.x = p.x_b, b.y = p.b;
    CALL(map, &a, &b);
    h_same(run, p.a, p.b, p.span, op.y_type);
}

void h_transpose_case(h_run *run)
{
    h_random    *r = &run->random;
    vd_transpose op = {.m = h_range(r, 1, 70), .n = h_range(r, 1, 140), .x_type = draw_type(r), .y_type = draw_type(r)};
    op.x_stride = op.n + draw_gap(r);
    op.y_stride = op.m + draw_gap(r);
    op.x = h_input(run, draw_kind(r), op.x_type, op.m, op.n, op.x_stride, draw_align(r, op.x_type));
    snprintf(run->what, sizeof run->what, "m %lld n %lld, x %s, y %s", (long long)op.m, (long long)op.n, vd_dtype_name(op.x_type), vd_dtype_name(op.y_type));
    const pair   p = draw_outputs(run, false, op.x, 0, op.y_type, op.n, op.m, op.y_stride);
    vd_transpose a = op, b = op;
    a.y = p.a, b.y = p.b;
    CALL(transpose, &a, &b);
    h_same(run, p.a, p.b, p.span, op.y_type);
}
