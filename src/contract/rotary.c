/* Rotary position: the rotation of a head, with or without the head's norm before it, and the tables. */
#include "contract/contract.h"

static void rotate_pair(float low, float high, int64_t p, int64_t h, vd_dtype round, const void *cosines, const void *sines, vd_dtype table_type,
                        void *y, vd_dtype y_type)
{
    const float low_cos  = vd_round(low * vd_load(cosines, table_type, p), round);
    const float high_sin = vd_round(-high * vd_load(sines, table_type, p), round);
    const float high_cos = vd_round(high * vd_load(cosines, table_type, h), round);
    const float low_sin  = vd_round(low * vd_load(sines, table_type, h), round);
    vd_store(y, y_type, p, vd_round(low_cos + high_sin, round));
    vd_store(y, y_type, h, vd_round(high_cos + low_sin, round));
}

void vd_rotary_head(int64_t d, vd_dtype round, const void *x, vd_dtype x_type, const void *cosines, const void *sines, vd_dtype table_type,
                    void *y, vd_dtype y_type)
{
    for (int64_t p = 0; p < d / 2; p++)
        rotate_pair(vd_load(x, x_type, p), vd_load(x, x_type, p + d / 2), p, p + d / 2, round, cosines, sines, table_type, y, y_type);
}

void vd_head_norm_rotary_head(int64_t d, float eps, vd_dtype cast, vd_dtype round, const void *x, vd_dtype x_type, const void *w,
                              vd_dtype w_type, const void *cosines, const void *sines, vd_dtype table_type, void *y, vd_dtype y_type)
{
    const float r = vd_rms_rstd(VD_ROWSUM128, x, x_type, d, eps);
    for (int64_t p = 0; p < d / 2; p++) {
        const int64_t h    = p + d / 2;
        const float   low  = vd_round(vd_round(vd_load(x, x_type, p) * r, cast) * vd_load(w, w_type, p), round);
        const float   high = vd_round(vd_round(vd_load(x, x_type, h) * r, cast) * vd_load(w, w_type, h), round);
        rotate_pair(low, high, p, h, round, cosines, sines, table_type, y, y_type);
    }
}

float vd_rope_band(double base, int64_t j, int64_t count)
{
    if (!(base > 0.0) || isinf(base))
        return vd_float(VD_NAN_F32_BITS);
    const float e = (float)j / (float)count;
    const float p = j == 0 ? 1.0f : vd_dd_to_float(vd_dd_exp(vd_dd_scale(vd_dd_log(vd_dd_make(base, 0.0)), (double)e)));
    return 1.0f / p;
}

void vd_rope_bands(double base, int64_t count, float *bands)
{
    for (int64_t j = 0; j < count; j++)
        bands[j] = vd_rope_band(base, j, count);
}

bool vd_rotary_table_row(const float *positions, int64_t axes, const float *bands, int64_t count, vd_dtype type, void *cosines, void *sines)
{
    const int64_t half  = axes * count;
    bool          in_range = true;
    for (int64_t p = 0; p < half; p++) {
        const float phase = positions[p / count] * bands[p % count];
        const float c = vd_cos(phase), s = vd_sin(phase);
        in_range = in_range && vd_trig_in_range(phase);
        vd_store(cosines, type, p, c);
        vd_store(cosines, type, p + half, c);
        vd_store(sines, type, p, s);
        vd_store(sines, type, p + half, s);
    }
    return in_range;
}
