/* One row alone: the weights are used once, so they go from memory through registers into the products, without a prepared panel.
 * Runs in VD_MODE_FLUSH. */
#ifndef VD_REPLAY_SINGLE_AVX2_H
#define VD_REPLAY_SINGLE_AVX2_H

#include "kernels/cpu/replay/step_avx2.h"

#include "kernels/cpu/replay/pack.h"

enum {
    VD_PAIR_FLOOR = (VD_CODE_FLOOR + 2 * VD_CODE_ORIGIN) << 7 /* the floor of E as a sum of two biased fields, at bit 7 */
};

/* Exponent fields of a step's a, in pairs at bits 7 and 23. */
static inline void vd_pair_fields(const vd_row_step *row, uint32_t fields[8])
{
    const __m256i low  = _mm256_srli_epi32(_mm256_load_si256((const __m256i *)(const void *)row->a), 16);
    const __m256i high = _mm256_srli_epi32(_mm256_load_si256((const __m256i *)(const void *)(row->a + 8)), 16);
    const __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8);
    _mm256_storeu_si256((__m256i *)(void *)fields, _mm256_and_si256(both, _mm256_set1_epi16(0x7F80)));
}

/* One step of eight outputs, whose numbers lie in pairs in p. */
__attribute__((always_inline)) static inline void vd_step_eight(const __m256i p[8], const vd_row_step *row, const uint32_t fields[8], float *c, __m256i *low)
{
    const __m256i exponents = _mm256_set1_epi16(0x7F80), field = _mm256_set1_epi32(0x7F800000), high = _mm256_set1_epi32((int32_t)0xFFFF0000);
    __m256i       most = _mm256_set1_epi16(VD_PAIR_FLOOR);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        most = _mm256_max_epu16(most, _mm256_add_epi16(_mm256_and_si256(p[j], exponents), _mm256_set1_epi32((int32_t)fields[j])));
    most               = _mm256_slli_epi32(_mm256_max_epu16(most, _mm256_srli_epi32(most, 16)), 16);
    const __m256i sum  = _mm256_load_si256((const __m256i *)(const void *)c);
    const __m256i e    = _mm256_max_epi32(_mm256_sub_epi32(most, _mm256_set1_epi32(127 << 23)), _mm256_and_si256(sum, field));
    const __m256i s    = _mm256_sub_epi32(_mm256_set1_epi32(VD_FIELD_SCALE << 23), e);
    __m256i       t    = vd_cut(sum, s), u = _mm256_setzero_si256();
    *low               = _mm256_min_epi32(*low, e);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const __m256 a0 = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_set1_epi32((int32_t)row->a[2 * j]), s));
        const __m256 a1 = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_set1_epi32((int32_t)row->a[2 * j + 1]), s));
        t = _mm256_add_epi32(t, _mm256_cvttps_epi32(_mm256_mul_ps(a0, _mm256_castsi256_ps(_mm256_slli_epi32(p[j], 16)))));
        u = _mm256_add_epi32(u, _mm256_cvttps_epi32(_mm256_mul_ps(a1, _mm256_castsi256_ps(_mm256_and_si256(p[j], high)))));
    }
    vd_keep_sum(c, _mm256_add_epi32(t, u), s);
}

/* `steps` whole steps from k on of a whole panel that is not scaled. c [VD_PANEL], low [VD_LANES]. Returns the or of all numbers. Two steps at a
 * time: a line of weights is used whole when it comes, and the other loads go on while these eight outputs are computed. */
__attribute__((noinline)) static uint32_t vd_run_single(const vd_panel_source *s, int64_t k, int64_t steps, const vd_row_step *row, float *c, int32_t *low)
{
    const int64_t bytes = 2 * s->stride;
    const char   *w     = s->w + 2 * k;
    __m256i       any = _mm256_setzero_si256(), least = _mm256_load_si256((const __m256i *)(const void *)low), p[16];
    uint32_t      fields[16];
    for (; steps > 1; steps -= 2, row += 2, w += 4 * VD_STEP) {
        vd_pair_fields(row, fields);
        vd_pair_fields(row + 1, fields + 8);
        for (int i = 0; i < VD_PANEL; i += 8) {
            any = _mm256_or_si256(any, vd_transpose_eight(w + i * bytes, bytes, p));
            any = _mm256_or_si256(any, vd_transpose_eight(w + i * bytes + 2 * VD_STEP, bytes, p + 8));
            vd_step_eight(p, row, fields, c + i, &least);
            vd_step_eight(p + 8, row + 1, fields + 8, c + i, &least);
        }
    }
    if (steps > 0) {
        vd_pair_fields(row, fields);
        for (int i = 0; i < VD_PANEL; i += 8) {
            any = _mm256_or_si256(any, vd_transpose_eight(w + i * bytes, bytes, p));
            vd_step_eight(p, row, fields, c + i, &least);
        }
    }
    _mm256_store_si256((__m256i *)(void *)low, least);
    return vd_any_bits(any);
}

#endif
