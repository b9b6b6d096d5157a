/* Vectors of 8 fp32, for AVX2 with FMA. The names are those of vec_avx512.h, so that a kernel written once over them (vec_*.h) is compiled
 * for both levels. Nothing here rounds but the operation that the name says. Loads and stores take any alignment. */
#ifndef VD_VEC_AVX2_H
#define VD_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { VD_W = 8 };

typedef __m256  vd_vf; /* floats */
typedef __m256i vd_vi; /* 32-bit integers */
typedef __m256  vd_vm; /* a mask: all bits of a lane, or none */

static inline vd_vf vd_vf_set1(float x) { return _mm256_set1_ps(x); }
static inline vd_vf vd_vf_zero(void) { return _mm256_setzero_ps(); }
static inline vd_vf vd_vf_add(vd_vf a, vd_vf b) { return _mm256_add_ps(a, b); }
static inline vd_vf vd_vf_sub(vd_vf a, vd_vf b) { return _mm256_sub_ps(a, b); }
static inline vd_vf vd_vf_mul(vd_vf a, vd_vf b) { return _mm256_mul_ps(a, b); }
static inline vd_vf vd_vf_div(vd_vf a, vd_vf b) { return _mm256_div_ps(a, b); }
static inline vd_vf vd_vf_fma(vd_vf a, vd_vf b, vd_vf c) { return _mm256_fmadd_ps(a, b, c); }
/* b where either is NaN: with a running maximum as b, NaN is ignored */
static inline vd_vf vd_vf_max(vd_vf a, vd_vf b) { return _mm256_max_ps(a, b); }
static inline vd_vf vd_vf_min(vd_vf a, vd_vf b) { return _mm256_min_ps(a, b); }

static inline vd_vi vd_vi_set1(int32_t x) { return _mm256_set1_epi32(x); }
static inline vd_vi vd_vi_add(vd_vi a, vd_vi b) { return _mm256_add_epi32(a, b); }
static inline vd_vi vd_vi_sub(vd_vi a, vd_vi b) { return _mm256_sub_epi32(a, b); }
static inline vd_vi vd_vi_mul(vd_vi a, vd_vi b) { return _mm256_mullo_epi32(a, b); }
static inline vd_vi vd_vi_and(vd_vi a, vd_vi b) { return _mm256_and_si256(a, b); }
static inline vd_vi vd_vi_or(vd_vi a, vd_vi b) { return _mm256_or_si256(a, b); }
static inline vd_vi vd_vi_xor(vd_vi a, vd_vi b) { return _mm256_xor_si256(a, b); }
static inline vd_vi vd_vi_shl(vd_vi a, int n) { return _mm256_slli_epi32(a, n); }
static inline vd_vi vd_vi_shr(vd_vi a, int n) { return _mm256_srli_epi32(a, n); }
static inline vd_vi vd_vi_sar(vd_vi a, int n) { return _mm256_srai_epi32(a, n); }
/* the same in halves of 16 bits */
static inline vd_vi vd_vi_shl16(vd_vi a, int n) { return _mm256_slli_epi16(a, n); }
static inline vd_vi vd_vi_shr16(vd_vi a, int n) { return _mm256_srli_epi16(a, n); }
static inline vd_vi vd_vi_sar16(vd_vi a, int n) { return _mm256_srai_epi16(a, n); }
/* two vectors of numbers below 2^16 as one of halves, and back */
static inline vd_vi vd_vi_pack16(vd_vi a, vd_vi b) { return _mm256_packus_epi32(a, b); }
static inline vd_vi vd_vi_first16(vd_vi a) { return _mm256_unpacklo_epi16(a, _mm256_setzero_si256()); }
static inline vd_vi vd_vi_second16(vd_vi a) { return _mm256_unpackhi_epi16(a, _mm256_setzero_si256()); }
static inline vd_vi vd_vi_mul16(vd_vi a, vd_vi b) { return _mm256_mullo_epi16(a, b); }
static inline vd_vi vd_vi_add16(vd_vi a, vd_vi b) { return _mm256_add_epi16(a, b); }
/* low·low + high·high of signed halves */
static inline vd_vi vd_vi_dot16(vd_vi a, vd_vi b) { return _mm256_madd_epi16(a, b); }

static inline vd_vi vd_vf_bits(vd_vf a) { return _mm256_castps_si256(a); }
static inline vd_vf vd_vi_float(vd_vi a) { return _mm256_castsi256_ps(a); } /* the float with these bits */
static inline vd_vi vd_vf_truncate(vd_vf a) { return _mm256_cvttps_epi32(a); }
static inline vd_vf vd_vf_rint(vd_vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

static inline vd_vm vd_vf_lt(vd_vf a, vd_vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline vd_vm vd_vf_ge(vd_vf a, vd_vf b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
static inline vd_vm vd_vf_is_nan(vd_vf a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
static inline vd_vm vd_vi_gt(vd_vi a, vd_vi b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)); }
static inline vd_vm vd_vi_eq(vd_vi a, vd_vi b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
/* -1 where equal, else 0, as integers */
static inline vd_vi vd_vi_eq_bits(vd_vi a, vd_vi b) { return _mm256_cmpeq_epi32(a, b); }
static inline vd_vf vd_vf_select(vd_vm m, vd_vf yes, vd_vf no) { return _mm256_blendv_ps(no, yes, m); }
static inline vd_vi vd_vi_select(vd_vm m, vd_vi yes, vd_vi no)
{
    return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(m));
}

/* lanes 0 … n - 1 */
static inline vd_vm vd_vm_below(int n) { return vd_vi_gt(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }

static inline vd_vi vd_vi_lookup(const int32_t *table, vd_vi index) { return _mm256_i32gather_epi32(table, index, 4); }

/* The words of table rows. Plain loads: a gather takes three times as long on Zen 3. */
static inline void vd_vi_lookup_rows(const uint64_t *table, vd_vi index, vd_vi *low, vd_vi *high)
{
    uint32_t i[8];
    _mm256_storeu_si256((__m256i *)(void *)i, index);
    __asm__("" : "+m"(i)); /* through memory: lane by lane out of the register costs twice as much */
    const double *t  = (const double *)(const void *)table; /* moved, never computed with */
    const __m128d r01 = _mm_loadh_pd(_mm_load_sd(t + i[0]), t + i[1]), r23 = _mm_loadh_pd(_mm_load_sd(t + i[2]), t + i[3]);
    const __m128d r45 = _mm_loadh_pd(_mm_load_sd(t + i[4]), t + i[5]), r67 = _mm_loadh_pd(_mm_load_sd(t + i[6]), t + i[7]);
    const __m256  a = _mm256_castpd_ps(_mm256_set_m128d(r45, r01)), b = _mm256_castpd_ps(_mm256_set_m128d(r67, r23));
    *low  = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    *high = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD));
}

/* the same for a table of 64 rows */
static inline void vd_vi_lookup_64(const uint64_t *table, vd_vi index, vd_vi *low, vd_vi *high) { vd_vi_lookup_rows(table, index, low, high); }

static inline vd_vf vd_vf_load(const void *p) { return _mm256_loadu_ps(p); }
static inline vd_vi vd_vi_load(const void *p) { return _mm256_loadu_si256(p); }
static inline void  vd_vf_store(void *p, vd_vf a) { _mm256_storeu_ps(p, a); }
static inline vd_vf vd_vf_load_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
/* the high halves: the bits must be a bf16's already */
static inline void vd_vf_store_high(void *p, vd_vf a)
{
    const __m256i h = _mm256_srli_epi32(_mm256_castps_si256(a), 16);
    _mm_storeu_si128(p, _mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1)));
}

/* The first n < VD_W elements; the others load as +0 and are not stored. */
static inline vd_vf vd_vf_load_part(const void *p, int n)
{
    float t[8] = {0};
    memcpy(t, p, (size_t)n * 4);
    return vd_vf_load(t);
}
static inline vd_vf vd_vf_load_bf16_part(const void *p, int n)
{
    uint16_t t[8] = {0};
    memcpy(t, p, (size_t)n * 2);
    return vd_vf_load_bf16(t);
}
static inline void vd_vf_store_part(void *p, vd_vf a, int n)
{
    float t[8];
    vd_vf_store(t, a);
    memcpy(p, t, (size_t)n * 4);
}
static inline void vd_vf_store_high_part(void *p, vd_vf a, int n)
{
    uint16_t t[8];
    vd_vf_store_high(t, a);
    memcpy(p, t, (size_t)n * 2);
}

/* Exchanges the elements of each pair: 1 0 3 2 … */
static inline vd_vf vd_vf_swap_pairs(vd_vf a) { return _mm256_permute_ps(a, 0xB1); }

/* Turns a tile of VD_W rows of VD_W: row i, lane j becomes row j, lane i. */
static inline void vd_vf_turn(vd_vf v[8])
{
    __m256 pair[8], four[8];
    for (int i = 0; i < 8; i += 2) {
        pair[i]     = _mm256_unpacklo_ps(v[i], v[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            four[i + 2 * j]     = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0x44);
            four[i + 2 * j + 1] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0xEE);
        }
    for (int i = 0; i < 4; i++) {
        v[i]     = _mm256_permute2f128_ps(four[i], four[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(four[i], four[i + 4], 0x31);
    }
}

static inline float vd_vf_max_lane(vd_vf a)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    m        = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

#endif
