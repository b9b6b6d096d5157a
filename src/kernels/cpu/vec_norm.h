/* RMS norms over rows, written once over the vectors of vec_*.h. */
#ifndef VD_VEC_NORM_H
#define VD_VEC_NORM_H

#include "kernels/cpu/vec_rows.h"

static inline void vd_v_rms_norm_rows(void *arg, int64_t piece, int worker)
{
    const vd_rms_norm *op   = arg;
    const vd_dtype     cast = op->order == VD_ROWSUM512 ? VD_F32 : op->cast;
    (void)worker;
    for (int64_t row = vd_v_first_row(piece); row < vd_v_last_row(piece, op->m); row++) {
        const void *x = vd_v_at(op->x, op->x_type, row * op->x_stride);
        void       *y = vd_v_to(op->y, op->y_type, row * op->y_stride);
        const vd_vf r = vd_vf_set1(vd_v_rstd(op->order, x, op->x_type, op->n, op->eps));
        for (int64_t i = 0; i < op->n; i += VD_W) {
            const vd_vf normed = vd_v_round(vd_vf_mul(vd_v_load(x, op->x_type, i, op->n), r), cast);
            vd_v_store(y, op->y_type, i, op->n, vd_vf_mul(normed, vd_v_load(op->w, op->w_type, i, op->n)));
        }
    }
}

static inline void vd_v_rms_norm(vd_exec *exec, const vd_rms_norm *op)
{
    vd_rms_norm task = *op;
    vd_v_over_rows(exec, op->m, vd_v_rms_norm_rows, &task);
}

static inline void vd_v_norm_modulate_rows(void *arg, int64_t piece, int worker)
{
    const vd_norm_modulate *op = arg;
    (void)worker;
    for (int64_t row = vd_v_first_row(piece); row < vd_v_last_row(piece, op->m); row++) {
        const void *x = vd_v_at(op->x, op->x_type, row * op->x_stride);
        void       *y = vd_v_to(op->y, op->y_type, row * op->y_stride);
        const vd_vf r = vd_vf_set1(vd_v_rstd(VD_ROWSUM128, x, op->x_type, op->n, op->eps));
        for (int64_t i = 0; i < op->n; i += VD_W) {
            vd_vf       v      = vd_v_round(vd_vf_mul(vd_v_load(x, op->x_type, i, op->n), r), op->round);
            const vd_vf factor = vd_v_round(vd_vf_add(vd_vf_set1(1.0f), vd_v_load(op->scale, op->mod_type, i, op->n)), op->round);
            v                  = vd_v_round(vd_vf_mul(v, vd_v_load(op->w, op->w_type, i, op->n)), op->round);
            v                  = vd_v_round(vd_vf_mul(v, factor), op->round);
            vd_v_store(y, op->y_type, i, op->n, vd_vf_add(v, vd_v_load(op->shift, op->mod_type, i, op->n)));
        }
    }
}

static inline void vd_v_norm_modulate(vd_exec *exec, const vd_norm_modulate *op)
{
    vd_norm_modulate task = *op;
    vd_v_over_rows(exec, op->m, vd_v_norm_modulate_rows, &task);
}

#endif
