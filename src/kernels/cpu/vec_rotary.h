/* Rotary position, with and without the head's norm before it, written once over the vectors of vec_*.h. */
#ifndef VD_VEC_ROTARY_H
#define VD_VEC_ROTARY_H

#include "kernels/cpu/vec_rows.h"

/* One head. With `norm` the elements are first round(round_cast(x·rstd)·w). Both halves are read before either is written. */
static inline void vd_v_rotate_head(const vd_rotary *op, const vd_head_norm_rotary *norm, const void *x, const void *cosines,
                                    const void *sines, void *y)
{
    const int64_t half = op->d / 2;
    const vd_vf   r    = vd_vf_set1(norm ? vd_v_rstd(VD_ROWSUM128, x, op->x_type, op->d, norm->eps) : 1.0f);
    const void   *xh = vd_v_at(x, op->x_type, half), *wh = norm ? vd_v_at(norm->w, norm->w_type, half) : NULL;
    const void   *ch = vd_v_at(cosines, op->table_type, half), *sh = vd_v_at(sines, op->table_type, half);
    void         *yh = vd_v_to(y, op->y_type, half);
    for (int64_t p = 0; p < half; p += VD_W) {
        vd_vf low = vd_v_load(x, op->x_type, p, half), high = vd_v_load(xh, op->x_type, p, half);
        if (norm) {
            low  = vd_v_round(vd_vf_mul(vd_v_round(vd_vf_mul(low, r), norm->cast), vd_v_load(norm->w, norm->w_type, p, half)), op->round);
            high = vd_v_round(vd_vf_mul(vd_v_round(vd_vf_mul(high, r), norm->cast), vd_v_load(wh, norm->w_type, p, half)), op->round);
        }
        const vd_vf low_cos  = vd_v_round(vd_vf_mul(low, vd_v_load(cosines, op->table_type, p, half)), op->round);
        const vd_vf high_sin = vd_v_round(vd_vf_mul(high, vd_v_load(sines, op->table_type, p, half)), op->round);
        const vd_vf high_cos = vd_v_round(vd_vf_mul(high, vd_v_load(ch, op->table_type, p, half)), op->round);
        const vd_vf low_sin  = vd_v_round(vd_vf_mul(low, vd_v_load(sh, op->table_type, p, half)), op->round);
        vd_v_store(y, op->y_type, p, half, vd_v_round(vd_vf_sub(low_cos, high_sin), op->round));
        vd_v_store(yh, op->y_type, p, half, vd_v_round(vd_vf_add(high_cos, low_sin), op->round));
    }
}

static inline void vd_v_rotate_rows(const vd_rotary *op, const vd_head_norm_rotary *norm, int64_t piece)
{
    for (int64_t row = vd_v_first_row(piece); row < vd_v_last_row(piece, op->m); row++) {
        const void *cosines = vd_v_at(op->cos, op->table_type, row * op->d), *sines = vd_v_at(op->sin, op->table_type, row * op->d);
        for (int64_t head = 0; head < op->heads; head++)
            vd_v_rotate_head(op, norm, vd_v_at(op->x, op->x_type, row * op->x_stride + head * op->d), cosines, sines,
                             vd_v_to(op->y, op->y_type, row * op->y_stride + head * op->d));
    }
}

static inline void vd_v_rotary_rows(void *arg, int64_t piece, int worker)
{
    (void)worker;
    vd_v_rotate_rows(arg, NULL, piece);
}

static inline void vd_v_head_norm_rotary_rows(void *arg, int64_t piece, int worker)
{
    const vd_head_norm_rotary *op = arg;
    (void)worker;
    vd_v_rotate_rows(&op->rotary, op, piece);
}

static inline void vd_v_rotary(vd_exec *exec, const vd_rotary *op)
{
    vd_rotary task = *op;
    vd_v_over_rows(exec, op->m, vd_v_rotary_rows, &task);
}

static inline void vd_v_head_norm_rotary(vd_exec *exec, const vd_head_norm_rotary *op)
{
    vd_head_norm_rotary task = *op;
    vd_v_over_rows(exec, op->rotary.m, vd_v_head_norm_rotary_rows, &task);
}

#endif
