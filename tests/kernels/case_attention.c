/* Attention: lengths around tiles of 128 keys, one query row, one head, strided rows, special values in q, k or v. */
#include "kernels/cases.h"

static void run_attention(h_run *run, vd_order order)
{
    static const int64_t lengths[] = {1, 2, 3, 7, 8, 16, 63, 96, 100, 127, 128, 129, 130, 200, 255, 256, 257, 300, 385};
    static const int64_t dims[]    = {128, 128, 128, 64, 32, 16, 8, 40, 48, 96};
    h_random            *r         = &run->random;
    vd_attention         op        = {.order = order, .type = order == VD_ATTN_K128_F32 ? VD_F32 : VD_BF16};
    op.s     = lengths[h_next(r) % 19];
    op.d     = dims[h_next(r) % 10];
    op.heads = h_range(r, 1, 3);
    op.m     = h_chance(r, 3) ? 1 : h_range(r, 1, 20);
    while (op.m > 1 && op.m * op.heads * op.s * op.d > 900000)
        op.m /= 2;
    const int64_t width = op.heads * op.d;
    op.q_stride = width + (h_chance(r, 3) ? h_range(r, 1, 40) : 0);
    op.k_stride = width + (h_chance(r, 3) ? h_range(r, 1, 40) : 0);
    op.v_stride = h_chance(r, 2) ? op.k_stride : width;
    op.o_stride = width + (h_chance(r, 3) ? h_range(r, 1, 9) : 0);
    const bool   plain = h_chance(r, 2);
    const h_kind q = plain ? H_NORMAL : (h_kind)h_range(r, 0, H_KINDS - 1), k = plain ? H_NORMAL : (h_kind)h_range(r, 0, H_KINDS - 1);
    const h_kind v = plain && h_chance(r, 2) ? H_NORMAL : (h_kind)h_range(r, 0, H_KINDS - 1);
    const int    threads = (int)h_range(r, 1, 3);
    op.q = h_input(run, q, op.type, op.m, width, op.q_stride, h_chance(r, 2) ? 64 : vd_dtype_size(op.type));
    op.k = h_input(run, k, op.type, op.s, width, op.k_stride, h_chance(r, 2) ? 64 : vd_dtype_size(op.type));
    op.v = h_input(run, v, op.type, op.s, width, op.v_stride, h_chance(r, 2) ? 64 : vd_dtype_size(op.type));
    snprintf(run->what, sizeof run->what, "%s m %lld s %lld heads %lld d %lld, q %s k %s v %s, strides %lld %lld %lld %lld, threads %d", vd_order_id(order),
             (long long)op.m, (long long)op.s, (long long)op.heads, (long long)op.d, h_kind_name(q), h_kind_name(k), h_kind_name(v),
             (long long)op.q_stride, (long long)op.k_stride, (long long)op.v_stride, (long long)op.o_stride, threads);
    const int64_t span = h_span(op.type, op.m, width, op.o_stride);
    vd_attention  a = op, b = op;
    a.o = h_output(run, span, vd_dtype_size(op.type));
    b.o = h_output(run, span, vd_dtype_size(op.type));
    vd_exec base = h_exec(run, 2, run->generic->attention_scratch(&a, 2)), exec = h_exec(run, threads, run->level->attention_scratch(&b, threads));
    run->generic->attention(&base, &a);
    run->level->attention(&exec, &b);
    h_same(run, a.o, b.o, span, op.type);
}

void h_attention_k128(h_run *run) { run_attention(run, VD_ATTN_K128); }
void h_attention_pair(h_run *run) { run_attention(run, VD_ATTN_K128_PAIR); }
void h_attention_f32(h_run *run) { run_attention(run, VD_ATTN_K128_F32); }
