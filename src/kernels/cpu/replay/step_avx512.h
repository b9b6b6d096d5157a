/* The fast kernel for AVX-512: as step_avx2.h, with panels of 64 outputs. Runs in VD_MODE_FLUSH. */
#ifndef VD_REPLAY_STEP_AVX512_H
#define VD_REPLAY_STEP_AVX512_H

enum { VD_LANES = 16 };

#include "kernels/cpu/replay/types.h"

static inline __m512i vd_max_codes(__m512i most, uint32_t row_code, const uint8_t *panel_codes)
{
    return _mm512_max_epu8(most, _mm512_add_epi8(_mm512_set1_epi32((int32_t)row_code), _mm512_load_si512(panel_codes)));
}

/* trunc(a·2^(25-E)·b): the scaling is an add on a's exponent field */
static inline __m512i vd_cut_product(__m512i a, __m512i scale, const float *b)
{
    return _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(_mm512_add_epi32(a, scale)), _mm512_load_ps(b)));
}

static inline __m512i vd_cut(__m512i c, __m512i scale) { return _mm512_cvttps_epi32(_mm512_castsi512_ps(_mm512_add_epi32(c, scale))); }

/* The integer sum back as fp32, towards zero (the mode), times 2^(E-25) */
static inline void vd_keep_sum(float *c, __m512i sum, __m512i scale)
{
    const __m512i back = _mm512_sub_epi32(_mm512_set1_epi32(127 << 23), scale);
    _mm512_store_ps(c, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_castsi512_ps(back)));
}

/* The larger exponent field of two floats: the larger magnitude of the two (0x0B: absolute maximum, sign cleared), less its fraction */
static inline __m512i vd_max_field(__m512i x, __m512i c)
{
    const __m512 larger = _mm512_range_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(c), 0x0B);
    return _mm512_and_si512(_mm512_castps_si512(larger), _mm512_set1_epi32(0x7F800000));
}

__attribute__((noinline)) static void vd_run_step(const vd_panel_step *panel, const vd_row_step *row, float *c, int32_t *low, int64_t count)
{
    const __m512i floor_code = _mm512_set1_epi32(VD_CODE_FLOOR * 0x01010101), to_field = _mm512_set1_epi32(VD_CODE_FIELD * 0x01010101);
    const __m512i unit = _mm512_set1_epi32(VD_FIELD_SCALE << 23);
    __m512i       most = floor_code;
    for (int k = 0; k < VD_STEP; k++)
        most = vd_max_codes(most, row->code[k], panel->code[k]);
    for (int64_t i = 0; i < count; i++, row++, c += VD_PANEL, low += VD_LANES) {
        most             = _mm512_sub_epi8(most, to_field);
        const __m512i c0 = _mm512_load_si512(c), c1 = _mm512_load_si512(c + 16);
        const __m512i c2 = _mm512_load_si512(c + 32), c3 = _mm512_load_si512(c + 48);
        const __m512i e0 = vd_max_field(_mm512_slli_epi32(most, 23), c0), e1 = vd_max_field(_mm512_slli_epi32(most, 15), c1);
        const __m512i e2 = vd_max_field(_mm512_slli_epi32(most, 7), c2), e3 = vd_max_field(_mm512_srli_epi32(most, 1), c3);
        const __m512i l  = _mm512_min_epi32(_mm512_min_epi32(e0, e1), _mm512_min_epi32(e2, e3));
        _mm512_store_si512(low, _mm512_min_epi32(l, _mm512_load_si512(low)));
        const __m512i s0 = _mm512_sub_epi32(unit, e0), s1 = _mm512_sub_epi32(unit, e1);
        const __m512i s2 = _mm512_sub_epi32(unit, e2), s3 = _mm512_sub_epi32(unit, e3);
        __m512i       t0 = vd_cut(c0, s0), t1 = vd_cut(c1, s1), t2 = vd_cut(c2, s2), t3 = vd_cut(c3, s3);
        most = floor_code;
#pragma GCC unroll 16
        for (int k = 0; k < VD_STEP; k++) {
            const __m512i a = _mm512_set1_epi32((int32_t)row->a[k]);
            const float  *b = panel->b[k];
            t0   = _mm512_add_epi32(t0, vd_cut_product(a, s0, b));
            t1   = _mm512_add_epi32(t1, vd_cut_product(a, s1, b + 16));
            t2   = _mm512_add_epi32(t2, vd_cut_product(a, s2, b + 32));
            t3   = _mm512_add_epi32(t3, vd_cut_product(a, s3, b + 48));
            most = vd_max_codes(most, row[1].code[k], panel->code[k]); /* the next row's maximum fills idle ports */
        }
        vd_keep_sum(c, t0, s0);
        vd_keep_sum(c + 16, t1, s1);
        vd_keep_sum(c + 32, t2, s2);
        vd_keep_sum(c + 48, t3, s3);
    }
}

#endif
