/* The fast kernel for AVX2: one step of one panel for `count` rows. Runs in VD_MODE_FLUSH.
 *
 * c [count][VD_PANEL]: the chains so far, in the scale of row and panel; low [count][VD_LANES]: smallest exponent field E + 127 (in place) that
 * each lane has met. One row past the last is read (its codes), never used. */
#ifndef VD_REPLAY_STEP_AVX2_H
#define VD_REPLAY_STEP_AVX2_H

enum { VD_LANES = 8 };

#include "kernels/cpu/replay/types.h"

static inline __m256i vd_max_codes(__m256i most, uint32_t row_code, const uint8_t *panel_codes)
{
    const __m256i codes = _mm256_load_si256((const __m256i *)(const void *)panel_codes);
    return _mm256_max_epu8(most, _mm256_add_epi8(_mm256_set1_epi32((int32_t)row_code), codes));
}

/* trunc(a·2^(25-E)·b): the scaling is an add on a's exponent field */
static inline __m256i vd_cut_product(__m256i a, __m256i scale, const float *b)
{
    return _mm256_cvttps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(_mm256_add_epi32(a, scale)), _mm256_load_ps(b)));
}

static inline __m256i vd_cut(__m256i c, __m256i scale) { return _mm256_cvttps_epi32(_mm256_castsi256_ps(_mm256_add_epi32(c, scale))); }

/* The integer sum back as fp32, towards zero (the mode), times 2^(E-25) */
static inline void vd_keep_sum(float *c, __m256i sum, __m256i scale)
{
    const __m256i back = _mm256_sub_epi32(_mm256_set1_epi32(127 << 23), scale);
    _mm256_store_ps(c, _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_castsi256_ps(back)));
}

__attribute__((noinline)) static void vd_run_step(const vd_panel_step *panel, const vd_row_step *row, float *c, int32_t *low, int64_t count)
{
    const __m256i floor_code = _mm256_set1_epi8(VD_CODE_FLOOR), to_field = _mm256_set1_epi8(VD_CODE_FIELD);
    const __m256i field = _mm256_set1_epi32(0x7F800000), unit = _mm256_set1_epi32(VD_FIELD_SCALE << 23);
    __m256i       most = floor_code;
    for (int k = 0; k < VD_STEP; k++)
        most = vd_max_codes(most, row->code[k], panel->code[k]);
    for (int64_t i = 0; i < count; i++, row++, c += VD_PANEL, low += VD_LANES) {
        most             = _mm256_sub_epi8(most, to_field);
        const __m256i c0 = _mm256_load_si256((const __m256i *)(const void *)c);
        const __m256i c1 = _mm256_load_si256((const __m256i *)(const void *)(c + 8));
        const __m256i c2 = _mm256_load_si256((const __m256i *)(const void *)(c + 16));
        const __m256i c3 = _mm256_load_si256((const __m256i *)(const void *)(c + 24));
        const __m256i e0 = _mm256_max_epi32(_mm256_and_si256(_mm256_slli_epi32(most, 23), field), _mm256_and_si256(c0, field));
        const __m256i e1 = _mm256_max_epi32(_mm256_and_si256(_mm256_slli_epi32(most, 15), field), _mm256_and_si256(c1, field));
        const __m256i e2 = _mm256_max_epi32(_mm256_and_si256(_mm256_slli_epi32(most, 7), field), _mm256_and_si256(c2, field));
        const __m256i e3 = _mm256_max_epi32(_mm256_and_si256(_mm256_srli_epi32(most, 1), field), _mm256_and_si256(c3, field));
        const __m256i l  = _mm256_min_epi32(_mm256_min_epi32(e0, e1), _mm256_min_epi32(e2, e3));
        __m256i      *at = (__m256i *)(void *)low;
        _mm256_store_si256(at, _mm256_min_epi32(l, _mm256_load_si256(at)));
        const __m256i s0 = _mm256_sub_epi32(unit, e0), s1 = _mm256_sub_epi32(unit, e1);
        const __m256i s2 = _mm256_sub_epi32(unit, e2), s3 = _mm256_sub_epi32(unit, e3);
        __m256i       t0 = vd_cut(c0, s0), t1 = vd_cut(c1, s1), t2 = vd_cut(c2, s2), t3 = vd_cut(c3, s3);
        most = floor_code;
#pragma GCC unroll 16
        for (int k = 0; k < VD_STEP; k++) {
            const __m256i a = _mm256_set1_epi32((int32_t)row->a[k]);
            const float  *b = panel->b[k];
            t0   = _mm256_add_epi32(t0, vd_cut_product(a, s0, b));
            t1   = _mm256_add_epi32(t1, vd_cut_product(a, s1, b + 8));
            t2   = _mm256_add_epi32(t2, vd_cut_product(a, s2, b + 16));
            t3   = _mm256_add_epi32(t3, vd_cut_product(a, s3, b + 24));
            most = vd_max_codes(most, row[1].code[k], panel->code[k]); /* the next row's maximum fills idle ports */
        }
        vd_keep_sum(c, t0, s0);
        vd_keep_sum(c + 8, t1, s1);
        vd_keep_sum(c + 16, t2, s2);
        vd_keep_sum(c + 24, t3, s3);
    }
}

#endif
