/* Vectors of 16 fp32, for AVX-512 (F, BW, DQ, VL). The names and their meaning are those of vec_avx2.h. */
#ifndef VD_VEC_AVX512_H
#define VD_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

enum { VD_W = 16 };

typedef __m512    vd_vf;
typedef __m512i   vd_vi;
typedef __mmask16 vd_vm;

/* for shifts by a count that becomes constant when inlined */
typedef uint32_t vd_u32x16 __attribute__((vector_size(64)));
typedef int32_t  vd_i32x16 __attribute__((vector_size(64)));
typedef uint16_t vd_u16x32 __attribute__((vector_size(64)));
typedef int16_t  vd_i16x32 __attribute__((vector_size(64)));

static inline vd_vf vd_vf_set1(float x) { return _mm512_set1_ps(x); }
static inline vd_vf vd_vf_zero(void) { return _mm512_setzero_ps(); }
static inline vd_vf vd_vf_add(vd_vf a, vd_vf b) { return _mm512_add_ps(a, b); }
static inline vd_vf vd_vf_sub(vd_vf a, vd_vf b) { return _mm512_sub_ps(a, b); }
static inline vd_vf vd_vf_mul(vd_vf a, vd_vf b) { return _mm512_mul_ps(a, b); }
static inline vd_vf vd_vf_div(vd_vf a, vd_vf b) { return _mm512_div_ps(a, b); }
static inline vd_vf vd_vf_fma(vd_vf a, vd_vf b, vd_vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vd_vf vd_vf_max(vd_vf a, vd_vf b) { return _mm512_max_ps(a, b); }
static inline vd_vf vd_vf_min(vd_vf a, vd_vf b) { return _mm512_min_ps(a, b); }

static inline vd_vi vd_vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
static inline vd_vi vd_vi_add(vd_vi a, vd_vi b) { return _mm512_add_epi32(a, b); }
static inline vd_vi vd_vi_sub(vd_vi a, vd_vi b) { return _mm512_sub_epi32(a, b); }
static inline vd_vi vd_vi_mul(vd_vi a, vd_vi b) { return _mm512_mullo_epi32(a, b); }
static inline vd_vi vd_vi_and(vd_vi a, vd_vi b) { return _mm512_and_si512(a, b); }
static inline vd_vi vd_vi_or(vd_vi a, vd_vi b) { return _mm512_or_si512(a, b); }
static inline vd_vi vd_vi_xor(vd_vi a, vd_vi b) { return _mm512_xor_si512(a, b); }
static inline vd_vi vd_vi_shl(vd_vi a, int n) { return (vd_vi)((vd_u32x16)a << n); }
static inline vd_vi vd_vi_shr(vd_vi a, int n) { return (vd_vi)((vd_u32x16)a >> n); }
static inline vd_vi vd_vi_sar(vd_vi a, int n) { return (vd_vi)((vd_i32x16)a >> n); }
static inline vd_vi vd_vi_shl16(vd_vi a, int n) { return (vd_vi)((vd_u16x32)a << n); }
static inline vd_vi vd_vi_shr16(vd_vi a, int n) { return (vd_vi)((vd_u16x32)a >> n); }
static inline vd_vi vd_vi_sar16(vd_vi a, int n) { return (vd_vi)((vd_i16x32)a >> n); }
/* two vectors of numbers below 2^16 as one of halves, and back */
static inline vd_vi vd_vi_pack16(vd_vi a, vd_vi b) { return _mm512_packus_epi32(a, b); }
static inline vd_vi vd_vi_first16(vd_vi a) { return _mm512_unpacklo_epi16(a, _mm512_setzero_si512()); }
static inline vd_vi vd_vi_second16(vd_vi a) { return _mm512_unpackhi_epi16(a, _mm512_setzero_si512()); }
static inline vd_vi vd_vi_mul16(vd_vi a, vd_vi b) { return _mm512_mullo_epi16(a, b); }
static inline vd_vi vd_vi_add16(vd_vi a, vd_vi b) { return _mm512_add_epi16(a, b); }
static inline vd_vi vd_vi_dot16(vd_vi a, vd_vi b) { return _mm512_madd_epi16(a, b); }

static inline vd_vi vd_vf_bits(vd_vf a) { return _mm512_castps_si512(a); }
static inline vd_vf vd_vi_float(vd_vi a) { return _mm512_castsi512_ps(a); }
static inline vd_vi vd_vf_truncate(vd_vf a) { return _mm512_cvttps_epi32(a); }
static inline vd_vf vd_vf_rint(vd_vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

static inline vd_vm vd_vf_lt(vd_vf a, vd_vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vd_vm vd_vf_ge(vd_vf a, vd_vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
static inline vd_vm vd_vf_is_nan(vd_vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
static inline vd_vm vd_vi_gt(vd_vi a, vd_vi b) { return _mm512_cmpgt_epi32_mask(a, b); }
static inline vd_vm vd_vi_eq(vd_vi a, vd_vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
static inline vd_vi vd_vi_eq_bits(vd_vi a, vd_vi b) { return _mm512_movm_epi32(_mm512_cmpeq_epi32_mask(a, b)); }
static inline vd_vf vd_vf_select(vd_vm m, vd_vf yes, vd_vf no) { return _mm512_mask_blend_ps(m, no, yes); }
static inline vd_vi vd_vi_select(vd_vm m, vd_vi yes, vd_vi no) { return _mm512_mask_blend_epi32(m, no, yes); }

static inline vd_vm vd_vm_below(int n) { return (vd_vm)((1u << n) - 1); } /* n <= 16 */

static inline vd_vi vd_vi_lookup(const int32_t *table, vd_vi index) { return _mm512_i32gather_epi32(index, table, 4); }

static inline void vd_vi_lookup_rows(const uint64_t *table, vd_vi index, vd_vi *low, vd_vi *high)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512i a    = _mm512_i32gather_epi64(_mm512_castsi512_si256(index), table, 8);
    const __m512i b    = _mm512_i32gather_epi64(_mm512_extracti64x4_epi64(index, 1), table, 8);
    *low               = _mm512_permutex2var_epi32(a, even, b);
    *high              = _mm512_permutex2var_epi32(a, odd, b);
}

/* 64 rows fit in registers: the loads and the parting of their words are loop-invariant. */
static inline void vd_vi_lookup_64(const uint64_t *table, vd_vi index, vd_vi *low, vd_vi *high)
{
    const __m512i   even  = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __mmask16 upper = _mm512_test_epi32_mask(index, _mm512_set1_epi32(32));
    __m512i         l[4], h[4];
    for (int i = 0; i < 4; i++) {
        const __m512i a = _mm512_loadu_si512(table + 16 * i), b = _mm512_loadu_si512(table + 16 * i + 8);
        l[i] = _mm512_permutex2var_epi32(a, even, b);
        h[i] = _mm512_permutex2var_epi32(a, odd, b);
    }
    *low  = _mm512_mask_blend_epi32(upper, _mm512_permutex2var_epi32(l[0], index, l[1]), _mm512_permutex2var_epi32(l[2], index, l[3]));
    *high = _mm512_mask_blend_epi32(upper, _mm512_permutex2var_epi32(h[0], index, h[1]), _mm512_permutex2var_epi32(h[2], index, h[3]));
}

static inline vd_vf vd_vf_load(const void *p) { return _mm512_loadu_ps(p); }
static inline vd_vi vd_vi_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void  vd_vf_store(void *p, vd_vf a) { _mm512_storeu_ps(p, a); }
static inline vd_vf vd_vf_load_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
static inline void vd_vf_store_high(void *p, vd_vf a)
{
    _mm256_storeu_si256(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(a), 16)));
}

static inline vd_vf     vd_vf_load_part(const void *p, int n) { return _mm512_maskz_loadu_ps(vd_vm_below(n), p); }
static inline vd_vf     vd_vf_load_bf16_part(const void *p, int n)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(vd_vm_below(n), p)), 16));
}
static inline void vd_vf_store_part(void *p, vd_vf a, int n) { _mm512_mask_storeu_ps(p, vd_vm_below(n), a); }
static inline void vd_vf_store_high_part(void *p, vd_vf a, int n)
{
    _mm256_mask_storeu_epi16(p, vd_vm_below(n), _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(a), 16)));
}

static inline vd_vf vd_vf_swap_pairs(vd_vf a) { return _mm512_permute_ps(a, 0xB1); }

static inline void vd_vf_turn(vd_vf v[16])
{
    __m512 pair[16], four[16], eight[16];
    for (int i = 0; i < 16; i += 2) {
        pair[i]     = _mm512_unpacklo_ps(v[i], v[i + 1]);
        pair[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
    /* four[i + c], i = 0, 4, 8, 12: columns c, c + 4, c + 8, c + 12 of rows i … i + 3, one in each quarter */
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            four[i + 2 * j]     = _mm512_shuffle_ps(pair[i + j], pair[i + j + 2], 0x44);
            four[i + 2 * j + 1] = _mm512_shuffle_ps(pair[i + j], pair[i + j + 2], 0xEE);
        }
    for (int i = 0; i < 8; i++) {
        const __m512 a = four[i % 4 + 8 * (i / 4)], b = four[i % 4 + 8 * (i / 4) + 4];
        eight[2 * i]     = _mm512_shuffle_f32x4(a, b, 0x88); /* quarters 0 and 2 of each */
        eight[2 * i + 1] = _mm512_shuffle_f32x4(a, b, 0xDD);
    }
    for (int c = 0; c < 4; c++) {
        v[c]      = _mm512_shuffle_f32x4(eight[2 * c], eight[2 * c + 8], 0x88);
        v[c + 8]  = _mm512_shuffle_f32x4(eight[2 * c], eight[2 * c + 8], 0xDD);
        v[c + 4]  = _mm512_shuffle_f32x4(eight[2 * c + 1], eight[2 * c + 9], 0x88);
        v[c + 12] = _mm512_shuffle_f32x4(eight[2 * c + 1], eight[2 * c + 9], 0xDD);
    }
}

/* No lane may be NaN. */
static inline float vd_vf_max_lane(vd_vf a) { return _mm512_reduce_max_ps(a); }

#endif
