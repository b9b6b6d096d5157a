/* One row alone, for AVX-512: as single_avx2.h, sixteen outputs at a time. Runs in VD_MODE_FLUSH. */
#ifndef VD_REPLAY_SINGLE_AVX512_H
#define VD_REPLAY_SINGLE_AVX512_H

#include "kernels/cpu/replay/step_avx512.h"

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

/* A step of sixteen outputs as eight vectors of k-pairs. Returns the or of all numbers. */
__attribute__((always_inline)) static inline __m256i vd_transpose_sixteen(const char *w, int64_t bytes, __m512i p[8])
{
    __m256i       low[8], high[8];
    const __m256i any = vd_transpose_eight(w, bytes, low), more = vd_transpose_eight(w + 8 * bytes, bytes, high);
    for (int j = 0; j < 8; j++)
        p[j] = _mm512_inserti64x4(_mm512_castsi256_si512(low[j]), high[j], 1);
    return _mm256_or_si256(any, more);
}

/* One step of sixteen outputs, whose numbers lie in pairs in p. */
__attribute__((always_inline)) static inline void vd_step_sixteen(const __m512i p[8], const vd_row_step *row, const uint32_t fields[8], float *c,
                                                                  __m512i *low)
{
    const __m512i exponents = _mm512_set1_epi32(0x7F807F80), high = _mm512_set1_epi32((int32_t)0xFFFF0000);
    __m512i       most = _mm512_set1_epi32(VD_PAIR_FLOOR * 0x00010001);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        most = _mm512_max_epu16(most, _mm512_add_epi16(_mm512_and_si512(p[j], exponents), _mm512_set1_epi32((int32_t)fields[j])));
    most              = _mm512_slli_epi32(_mm512_max_epu16(most, _mm512_srli_epi32(most, 16)), 16);
    const __m512i sum = _mm512_load_si512(c);
    const __m512i e   = vd_max_field(_mm512_sub_epi32(most, _mm512_set1_epi32(127 << 23)), sum);
    const __m512i s   = _mm512_sub_epi32(_mm512_set1_epi32(VD_FIELD_SCALE << 23), e);
    __m512i       t   = vd_cut(sum, s), u = _mm512_setzero_si512();
    *low              = _mm512_min_epi32(*low, e);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const __m512 a0 = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_set1_epi32((int32_t)row->a[2 * j]), s));
        const __m512 a1 = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_set1_epi32((int32_t)row->a[2 * j + 1]), s));
        t = _mm512_add_epi32(t, _mm512_cvttps_epi32(_mm512_mul_ps(a0, _mm512_castsi512_ps(_mm512_slli_epi32(p[j], 16)))));
        u = _mm512_add_epi32(u, _mm512_cvttps_epi32(_mm512_mul_ps(a1, _mm512_castsi512_ps(_mm512_and_si512(p[j], high)))));
    }
    vd_keep_sum(c, _mm512_add_epi32(t, u), s);
}

/* `steps` whole steps from k on of a whole panel that is not scaled. c [VD_PANEL], low [VD_LANES]. Returns the or of all numbers. Two steps at a
 * time: a line of weights is used whole when it comes, and the other loads go on while these outputs are computed. */
__attribute__((noinline)) static uint32_t vd_run_single(const vd_panel_source *s, int64_t k, int64_t steps, const vd_row_step *row, float *c, int32_t *low)
{
    const int64_t bytes = 2 * s->stride;
    const char   *w     = s->w + 2 * k;
    __m256i       any   = _mm256_setzero_si256();
    __m512i       least = _mm512_load_si512(low), p[16];
    uint32_t      fields[16];
    for (; steps > 1; steps -= 2, row += 2, w += 4 * VD_STEP) {
        vd_pair_fields(row, fields);
        vd_pair_fields(row + 1, fields + 8);
        for (int i = 0; i < VD_PANEL; i += 16) {
            any = _mm256_or_si256(any, vd_transpose_sixteen(w + i * bytes, bytes, p));
            any = _mm256_or_si256(any, vd_transpose_sixteen(w + i * bytes + 2 * VD_STEP, bytes, p + 8));
            vd_step_sixteen(p, row, fields, c + i, &least);
            vd_step_sixteen(p + 8, row + 1, fields + 8, c + i, &least);
        }
    }
    if (steps > 0) {
        vd_pair_fields(row, fields);
        for (int i = 0; i < VD_PANEL; i += 16) {
            any = _mm256_or_si256(any, vd_transpose_sixteen(w + i * bytes, bytes, p));
            vd_step_sixteen(p, row, fields, c + i, &least);
        }
    }
    _mm512_store_si512(low, least);
    return vd_any_bits(any);
}

#endif
