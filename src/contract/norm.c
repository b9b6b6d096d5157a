/* RMS norm in its two forms, and the modulated norm. */
#include "contract/contract.h"

void vd_rms_norm_row(vd_order order, float eps, int64_t n, vd_dtype cast, const void *x, vd_dtype x_type, const void *w, vd_dtype w_type,
                     void *y, vd_dtype y_type)
{
    const float    r    = vd_rms_rstd(order, x, x_type, n, eps);
    const vd_dtype step = order == VD_ROWSUM512 ? VD_F32 : cast;
    for (int64_t i = 0; i < n; i++)
        vd_store(y, y_type, i, vd_round(vd_load(x, x_type, i) * r, step) * vd_load(w, w_type, i));
}

void vd_norm_modulate_row(float eps, int64_t n, vd_dtype round, const void *x, vd_dtype x_type, const void *w, vd_dtype w_type,
                          const void *scale, const void *shift, vd_dtype mod_type, void *y, vd_dtype y_type)
{
    const float r = vd_rms_rstd(VD_ROWSUM128, x, x_type, n, eps);
    for (int64_t i = 0; i < n; i++) {
        const float normed = vd_round(vd_round(vd_load(x, x_type, i) * r, round) * vd_load(w, w_type, i), round);
        const float factor = vd_round(1.0f + vd_load(scale, mod_type, i), round);
        const float scaled = vd_round(normed * factor, round);
        vd_store(y, y_type, i, scaled + vd_load(shift, mod_type, i));
    }
}
