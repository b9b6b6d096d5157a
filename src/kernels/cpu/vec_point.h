/* Operations on single values, and the transposition, written once over the vectors of vec_*.h. */
#ifndef VD_VEC_POINT_H
#define VD_VEC_POINT_H

#include "kernels/cpu/vec_rows.h"

/* Elements that go through SiTU's parts together. */
enum { VD_SITU_AT_ONCE = 128 };

/* n <= VD_SITU_AT_ONCE elements. Short loops on purpose: see vd_v_exp_first. */
static inline void vd_v_situ_piece(const vd_situ *op, const void *u_row, const void *g_row, void *y, int64_t from, int64_t n)
{
    const vd_dtype round = op->round;
    float          gate[VD_SITU_AT_ONCE], up[VD_SITU_AT_ONCE], power[VD_SITU_AT_ONCE], part[VD_SITU_AT_ONCE], up_part[VD_SITU_AT_ONCE];
    for (int64_t i = 0; i < n; i += VD_W) {
        const vd_vf small = vd_v_round(vd_vf_mul(vd_v_load(g_row, op->x_type, from + i, from + n), vd_vf_set1(0.25f)), round);
        vd_vf_store(gate + i, small);
        vd_vf_store(part + i, vd_v_tanh_first(small));
    }
    for (int64_t i = 0; i < n; i += VD_W) {
        const vd_vf small = vd_v_round(vd_vf_mul(vd_v_load(u_row, op->x_type, from + i, from + n), vd_v_constant(0x3D23D70Au)), round);
        vd_vf_store(up + i, small);
        vd_vf_store(up_part + i, vd_v_tanh_first(small));
    }
    for (int64_t i = 0; i < n; i += VD_W) {
        const vd_vf t = vd_v_round(vd_v_tanh_second(vd_vf_load(gate + i), vd_vf_load(part + i)), round);
        vd_vf_store(gate + i, vd_v_round(vd_vf_mul(vd_vf_set1(4.0f), t), round));
    }
    for (int64_t i = 0; i < n; i += VD_W) {
        const vd_vf t = vd_v_round(vd_v_tanh_second(vd_vf_load(up + i), vd_vf_load(up_part + i)), round);
        vd_vf_store(up + i, vd_v_round(vd_vf_mul(vd_vf_set1(25.0f), t), round));
    }
    for (int64_t i = 0; i < n; i += VD_W) {
        vd_vf p;
        vd_vf_store(part + i, vd_v_exp_first(vd_v_negative(vd_v_load(g_row, op->x_type, from + i, from + n)), &p));
        vd_vf_store(power + i, p);
    }
    for (int64_t i = 0; i < n; i += VD_W) {
        const vd_vf e    = vd_v_exp_second(vd_vf_load(part + i), vd_vf_load(power + i));
        const vd_vf open = vd_v_round(vd_v_canonical(vd_vf_div(vd_vf_set1(1.0f), vd_vf_add(vd_vf_set1(1.0f), e))), round);
        const vd_vf product = vd_v_round(vd_vf_mul(vd_vf_load(gate + i), open), round);
        vd_v_store(y, op->y_type, from + i, from + n, vd_v_round(vd_vf_mul(product, vd_vf_load(up + i)), round));
    }
}

static inline void vd_v_situ_rows(void *arg, int64_t piece, int worker)
{
    const vd_situ *op = arg;
    (void)worker;
    for (int64_t row = vd_v_first_row(piece); row < vd_v_last_row(piece, op->m); row++)
        for (int64_t i = 0; i < op->n; i += VD_SITU_AT_ONCE)
            vd_v_situ_piece(op, vd_v_at(op->u, op->x_type, row * op->x_stride), vd_v_at(op->g, op->x_type, row * op->x_stride),
                            vd_v_to(op->y, op->y_type, row * op->y_stride), i, op->n - i < VD_SITU_AT_ONCE ? op->n - i : VD_SITU_AT_ONCE);
}

static inline void vd_v_situ(vd_exec *exec, const vd_situ *op)
{
    vd_situ task = *op;
    vd_v_over_rows(exec, op->m, vd_v_situ_rows, &task);
}

static inline void vd_v_gated_residual_rows(void *arg, int64_t piece, int worker)
{
    const vd_gated_residual *op = arg;
    (void)worker;
    for (int64_t row = vd_v_first_row(piece); row < vd_v_last_row(piece, op->m); row++) {
        const void *x = vd_v_at(op->x, op->x_type, row * op->x_stride), *y = vd_v_at(op->y, op->y_type, row * op->y_stride);
        void       *o = vd_v_to(op->o, op->x_type, row * op->o_stride);
        for (int64_t i = 0; i < op->n; i += VD_W) {
            vd_vf added = vd_v_load(y, op->y_type, i, op->n);
            if (op->gate)
                added = vd_v_round(vd_vf_mul(added, vd_v_load(op->gate, op->gate_type, i, op->n)), op->x_type);
            vd_v_store(o, op->x_type, i, op->n, vd_vf_add(vd_v_load(x, op->x_type, i, op->n), added));
        }
    }
}

static inline void vd_v_gated_residual(vd_exec *exec, const vd_gated_residual *op)
{
    vd_gated_residual task = *op;
    vd_v_over_rows(exec, op->m, vd_v_gated_residual_rows, &task);
}

/* softplus needs a correctly rounded logarithm, which is no vector's work */
static inline vd_vf vd_v_softplus(vd_vf x)
{
    float lanes[VD_W];
    vd_vf_store(lanes, x);
    for (int i = 0; i < VD_W; i++)
        lanes[i] = vd_softplus(lanes[i]);
    return vd_vf_load(lanes);
}

static inline vd_vf vd_v_apply(vd_function f, vd_vf x)
{
    switch (f) {
    case VD_SILU: return vd_v_silu(x);
    case VD_TANH: return vd_v_tanh(x);
    case VD_SIGMOID: return vd_v_sigmoid(x);
    case VD_EXP: return vd_v_exp(x);
    case VD_SOFTPLUS: return vd_v_softplus(x);
    case VD_EX2: return vd_v_ex2(x);
    case VD_RSQ: return vd_v_rsq(x);
    case VD_RCP: return vd_v_rcp(x);
    case VD_SIN: return vd_v_trig(x, 0);
    case VD_COS: return vd_v_trig(x, 1);
    default: return x;
    }
}

static inline void vd_v_map_piece(void *arg, int64_t piece, int worker)
{
    const vd_map *op   = arg;
    const int64_t last = op->n - piece * VD_MAP_PER_TASK < VD_MAP_PER_TASK ? op->n : (piece + 1) * VD_MAP_PER_TASK;
    (void)worker;
    for (int64_t i = piece * VD_MAP_PER_TASK; i < last; i += VD_W)
        vd_v_store(op->y, op->y_type, i, last, vd_v_apply(op->f, vd_v_load(op->x, op->x_type, i, last)));
}

static inline void vd_v_map(vd_exec *exec, const vd_map *op)
{
    vd_map task = *op;
    vd_parallel(exec->threads, (op->n + VD_MAP_PER_TASK - 1) / VD_MAP_PER_TASK, vd_v_map_piece, &task);
}

/* A task is a band of VD_W columns of x, which are rows of y; tiles are turned through memory. */
static inline void vd_v_transpose_band(void *arg, int64_t band, int worker)
{
    const vd_transpose *op    = arg;
    const int64_t       first = band * VD_W, width = op->n - first < VD_W ? op->n - first : VD_W;
    (void)worker;
    for (int64_t i = 0; i < op->m; i += VD_W) {
        const int64_t height = op->m - i < VD_W ? op->m - i : VD_W;
        float         tile[VD_W][VD_W], turned[VD_W][VD_W];
        for (int64_t r = 0; r < VD_W; r++)
            vd_vf_store(tile[r], r < height ? vd_v_load(op->x, op->x_type, (i + r) * op->x_stride + first, (i + r) * op->x_stride + first + width)
                                            : vd_vf_zero());
        for (int64_t c = 0; c < VD_W; c++)
            for (int64_t r = 0; r < VD_W; r++)
                turned[c][r] = tile[r][c];
        for (int64_t c = 0; c < width; c++) {
            const int64_t at = (first + c) * op->y_stride + i;
            vd_v_store(op->y, op->y_type, at, at + height, vd_vf_load(turned[c]));
        }
    }
}

static inline void vd_v_transpose(vd_exec *exec, const vd_transpose *op)
{
    vd_transpose task = *op;
    vd_parallel(exec->threads, (op->n + VD_W - 1) / VD_W, vd_v_transpose_band, &task);
}

#endif
