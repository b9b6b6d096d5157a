/* The careful path: any finite input, in fp64. Runs in VD_MODE_TRUNCATE.
 *
 * Two accumulators per lane, P = 2^(E+27) + max(c, 0) for what is positive and Q = min(c, 0) - 2^(E+27) for what is negative: the last bit
 * of both weighs 2^(E-25), so that one fused multiply-add towards zero cuts its exact product as the contract says, at any exponent. */
#ifndef VD_REPLAY_CAREFUL_H
#define VD_REPLAY_CAREFUL_H

#include "kernels/cpu/replay/types.h"

enum { VD_ZERO_EXPONENT = -8000, VD_ZERO_SUM_EXPONENT = -16000, VD_LEAST_EXPONENT = -270 };

typedef struct vd_careful_step {
    double  plus[VD_STEP][VD_PANEL]; /* max(b, 0) */
    double  minus[VD_STEP][VD_PANEL];
    int32_t e[VD_STEP][VD_PANEL];
} vd_careful_step;

static inline int32_t vd_careful_exponent(uint16_t x)
{
    const uint16_t magnitude = x & 0x7FFF;
    return magnitude ? vd_exponent_of(magnitude) : VD_ZERO_EXPONENT;
}

/* t: [16][VD_PANEL] bf16. Inf and NaN count as zeros: whoever has them overwrites those outputs. */
static inline void vd_prepare_careful(uint16_t (*t)[VD_PANEL], vd_careful_step *out)
{
    for (int k = 0; k < VD_STEP; k++)
        for (int i = 0; i < VD_PANEL; i++) {
            const uint16_t x = (t[k][i] & 0x7F80) == 0x7F80 ? 0 : t[k][i];
            const double   v = (double)vd_from_bf16(x);
            out->plus[k][i]  = v > 0 ? v : 0.0;
            out->minus[k][i] = v < 0 ? v : 0.0;
            out->e[k][i]     = vd_careful_exponent(x);
        }
}

/* One step of one row, a [16] finite, all outputs of the panel. A sum that is Inf or NaN stays. */
__attribute__((noinline)) static void vd_run_careful(const vd_careful_step *p, const uint16_t a[VD_STEP], float *c)
{
    int32_t       ea[VD_STEP];
    double        va[VD_STEP];
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF), largest = _mm256_set1_epi32(0x7F7FFFFF), zero = _mm256_setzero_si256();
    const __m256d zero_d = _mm256_setzero_pd(), limit = _mm256_set1_pd(0x1p128), sign = _mm256_set1_pd(-0.0);
    for (int k = 0; k < VD_STEP; k++) {
        ea[k] = vd_careful_exponent(a[k]);
        va[k] = (double)vd_from_bf16(a[k]);
    }
    for (int i = 0; i < VD_PANEL; i += 8) {
        const __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(c + i)), m = _mm256_and_si256(bits, magnitude);
        /* c's exponent; subnormals keep the smallest one */
        __m256i e = _mm256_sub_epi32(_mm256_max_epi32(_mm256_srli_epi32(m, 23), _mm256_set1_epi32(1)), _mm256_set1_epi32(127));
        e         = _mm256_blendv_epi8(e, _mm256_set1_epi32(VD_ZERO_SUM_EXPONENT), _mm256_cmpeq_epi32(m, zero));
        for (int k = 0; k < VD_STEP; k++) {
            const __m256i eb = _mm256_loadu_si256((const __m256i *)(const void *)&p->e[k][i]);
            e                = _mm256_max_epi32(e, _mm256_add_epi32(_mm256_set1_epi32(ea[k]), eb));
        }
        e = _mm256_max_epi32(e, _mm256_set1_epi32(VD_LEAST_EXPONENT));
        __m128 half[2];
        for (int h = 0; h < 2; h++) {
            const __m256i e64   = _mm256_cvtepi32_epi64(h ? _mm256_extracti128_si256(e, 1) : _mm256_castsi256_si128(e));
            const __m256d guard = _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_add_epi64(e64, _mm256_set1_epi64x(27 + 1023)), 52));
            const __m256d c64   = _mm256_cvtps_pd(_mm_loadu_ps(c + i + 4 * h));
            __m256d       up = _mm256_add_pd(guard, _mm256_max_pd(c64, zero_d)), down = _mm256_sub_pd(_mm256_min_pd(c64, zero_d), guard);
            for (int k = 0; k < VD_STEP; k++) {
                const bool    negative = a[k] >> 15;
                const __m256d x = _mm256_set1_pd(va[k]);
                up   = _mm256_fmadd_pd(x, _mm256_loadu_pd(&(negative ? p->minus : p->plus)[k][i + 4 * h]), up);
                down = _mm256_fmadd_pd(x, _mm256_loadu_pd(&(negative ? p->plus : p->minus)[k][i + 4 * h]), down);
            }
            const __m256d sum  = _mm256_add_pd(up, down); /* exact */
            const __m128  kept = _mm_add_ps(_mm256_cvtpd_ps(sum), _mm_setzero_ps()); /* towards zero; -0 becomes +0 */
            /* 2^128 and more is Inf; the conversion gives the largest finite number */
            const __m256d over  = _mm256_cmp_pd(_mm256_andnot_pd(sign, sum), limit, _CMP_GE_OQ);
            const __m256i low32 = _mm256_permutevar8x32_epi32(_mm256_castpd_si256(over), _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
            const __m128  inf   = _mm_or_ps(_mm_and_ps(kept, _mm_set1_ps(-0.0f)), _mm_castsi128_ps(_mm_set1_epi32(0x7F800000)));
            half[h]             = _mm_blendv_ps(kept, inf, _mm_castsi128_ps(_mm256_castsi256_si128(low32)));
        }
        const __m256 sum  = _mm256_insertf128_ps(_mm256_castps128_ps256(half[0]), half[1], 1);
        const __m256 stay = _mm256_castsi256_ps(_mm256_cmpgt_epi32(m, largest));
        _mm256_storeu_ps(c + i, _mm256_blendv_ps(sum, _mm256_castsi256_ps(bits), stay));
    }
}

#endif
