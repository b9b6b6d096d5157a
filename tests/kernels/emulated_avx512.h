/* The few AVX-512 intrinsics of the replay's fast kernels, emulated with AVX2, so that those sources are tested where there is no AVX-512.
 * One kernel source at a time; what they need and no more. Each follows the meaning in the processor's manual. */
#ifndef TESTS_EMULATED_AVX512_H
#define TESTS_EMULATED_AVX512_H

#include <immintrin.h>

typedef struct emulated_i {
    __m256i a, b;
} emulated_i;

typedef struct emulated_f {
    __m256 a, b;
} emulated_f;

#define __m512i emulated_i
#define __m512  emulated_f

#define EMULATE_2(name, half)                                                   \
    static inline emulated_i emulated_##name(emulated_i x, emulated_i y)        \
    {                                                                           \
        return (emulated_i){half(x.a, y.a), half(x.b, y.b)};                    \
    }
EMULATE_2(add_epi32, _mm256_add_epi32)
EMULATE_2(sub_epi32, _mm256_sub_epi32)
EMULATE_2(add_epi16, _mm256_add_epi16)
EMULATE_2(add_epi8, _mm256_add_epi8)
EMULATE_2(sub_epi8, _mm256_sub_epi8)
EMULATE_2(max_epu8, _mm256_max_epu8)
EMULATE_2(max_epu16, _mm256_max_epu16)
EMULATE_2(min_epi32, _mm256_min_epi32)
EMULATE_2(and_si512, _mm256_and_si256)
#undef EMULATE_2

static inline emulated_i emulated_load(const void *p)
{
    const __m256i *q = p;
    return (emulated_i){_mm256_load_si256(q), _mm256_load_si256(q + 1)};
}
static inline void emulated_store(void *p, emulated_i x)
{
    __m256i *q = p;
    _mm256_store_si256(q, x.a);
    _mm256_store_si256(q + 1, x.b);
}
static inline emulated_f emulated_load_ps(const float *p) { return (emulated_f){_mm256_load_ps(p), _mm256_load_ps(p + 8)}; }
static inline void       emulated_store_ps(float *p, emulated_f x)
{
    _mm256_store_ps(p, x.a);
    _mm256_store_ps(p + 8, x.b);
}
static inline emulated_i emulated_set1(int x) { return (emulated_i){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
static inline emulated_i emulated_zero(void) { return emulated_set1(0); }
static inline emulated_i emulated_slli(emulated_i x, unsigned n) { return (emulated_i){_mm256_slli_epi32(x.a, (int)n), _mm256_slli_epi32(x.b, (int)n)}; }
static inline emulated_i emulated_srli(emulated_i x, unsigned n) { return (emulated_i){_mm256_srli_epi32(x.a, (int)n), _mm256_srli_epi32(x.b, (int)n)}; }
static inline emulated_f emulated_float(emulated_i x) { return (emulated_f){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
static inline emulated_i emulated_bits(emulated_f x) { return (emulated_i){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
static inline emulated_f emulated_mul(emulated_f x, emulated_f y) { return (emulated_f){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
static inline emulated_i emulated_cvtt(emulated_f x) { return (emulated_i){_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)}; }
static inline emulated_f emulated_cvt(emulated_i x) { return (emulated_f){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
static inline emulated_i emulated_cast(__m256i x) { return (emulated_i){x, _mm256_set1_epi32(0x55555555)}; } /* the upper half is not defined */
static inline emulated_i emulated_insert(emulated_i x, __m256i y, int which) { return which ? (emulated_i){x.a, y} : (emulated_i){y, x.b}; }

/* vrangeps with 0x0B, finite operands of which one is normal: the larger magnitude, sign cleared */
static inline __m256 emulated_range_half(__m256 x, __m256 y)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    const __m256i larger    = _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(x), magnitude), _mm256_and_si256(_mm256_castps_si256(y), magnitude));
    return _mm256_castsi256_ps(larger);
}
static inline emulated_f emulated_range(emulated_f x, emulated_f y, int how)
{
    (void)how;
    return (emulated_f){emulated_range_half(x.a, y.a), emulated_range_half(x.b, y.b)};
}

#define _mm512_add_epi32       emulated_add_epi32
#define _mm512_sub_epi32       emulated_sub_epi32
#define _mm512_add_epi16       emulated_add_epi16
#define _mm512_add_epi8        emulated_add_epi8
#define _mm512_sub_epi8        emulated_sub_epi8
#define _mm512_max_epu8        emulated_max_epu8
#define _mm512_max_epu16       emulated_max_epu16
#define _mm512_min_epi32       emulated_min_epi32
#define _mm512_and_si512       emulated_and_si512
#define _mm512_load_si512      emulated_load
#define _mm512_store_si512     emulated_store
#define _mm512_load_ps         emulated_load_ps
#define _mm512_store_ps        emulated_store_ps
#define _mm512_set1_epi32      emulated_set1
#define _mm512_setzero_si512   emulated_zero
#undef _mm512_slli_epi32
#undef _mm512_srli_epi32
#undef _mm512_range_ps
#undef _mm512_inserti64x4
#define _mm512_slli_epi32      emulated_slli
#define _mm512_srli_epi32      emulated_srli
#define _mm512_castsi512_ps    emulated_float
#define _mm512_castps_si512    emulated_bits
#define _mm512_mul_ps          emulated_mul
#define _mm512_cvttps_epi32    emulated_cvtt
#define _mm512_cvtepi32_ps     emulated_cvt
#define _mm512_castsi256_si512 emulated_cast
#define _mm512_inserti64x4     emulated_insert
#define _mm512_range_ps        emulated_range

#endif
