/* Preparing operands for the fast kernel: rows of x, and panels straight from row-major weights (any alignment). Integer work only. */
#ifndef VD_REPLAY_PACK_H
#define VD_REPLAY_PACK_H

#include "kernels/cpu/replay/types.h"

/* ---- Rows ---- */

static inline void vd_classify_row(const void *x, int64_t k, vd_row *row)
{
    vd_extremes e = vd_no_extremes();
    vd_find_extremes(x, 1, k, k, &e);
    row->shift = vd_exponent_of(e.largest);
    row->low   = vd_smallest_exponent(e) == VD_NO_EXPONENT ? VD_NO_EXPONENT : vd_smallest_exponent(e) - row->shift;
    row->kind  = VD_ROW_FAST;
    if (e.largest >= 0x7F80)
        row->kind = VD_ROW_SCALAR;
    else if (e.largest == 0)
        row->kind = VD_ROW_ZERO;
    else if ((e.smallest < 0x80 && row->shift < VD_SMALL_SHIFT) || k > VD_LONGEST_SUM)
        row->kind = VD_ROW_CAREFUL;
}

/* Eight numbers (bf16 in the low halves) as fp32 bits times 2^-shift, or 0 below 2^-126; and their codes, each in all four bytes. */
static inline void vd_prepare_eight(__m256i x, __m256i shift_field, uint32_t *a, uint32_t *code)
{
    const __m256i bits   = _mm256_slli_epi32(x, 16);
    const __m256i old    = _mm256_and_si256(bits, _mm256_set1_epi32(0x7F800000)), zero = _mm256_setzero_si256();
    const __m256i field  = _mm256_sub_epi32(old, shift_field);
    const __m256i keep   = _mm256_and_si256(_mm256_cmpgt_epi32(field, zero), _mm256_cmpgt_epi32(old, zero));
    const __m256i scaled = _mm256_and_si256(_mm256_sub_epi32(bits, shift_field), keep);
    __m256i       u      = _mm256_sub_epi32(_mm256_srli_epi32(field, 23), _mm256_set1_epi32(VD_CODE_ORIGIN));
    u                    = _mm256_and_si256(_mm256_max_epi32(u, zero), keep);
    u                    = _mm256_or_si256(u, _mm256_slli_epi32(u, 8));
    u                    = _mm256_or_si256(u, _mm256_slli_epi32(u, 16));
    _mm256_storeu_si256((__m256i *)(void *)a, scaled);
    _mm256_storeu_si256((__m256i *)(void *)code, u);
}

/* One step of a row from k <= 16 numbers. False when the significands are so large that the integer sum could overflow. */
static inline bool vd_prepare_row_step(const void *x, int64_t k, int32_t shift, vd_row_step *out)
{
    uint16_t part[VD_STEP] = {0};
    if (k < VD_STEP) {
        memcpy(part, x, 2 * (size_t)k);
        x = part;
    }
    const __m256i v  = _mm256_loadu_si256((const __m256i *)x);
    const __m256i sf = _mm256_set1_epi32((int32_t)((uint32_t)shift << 23));
    vd_prepare_eight(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)), sf, out->a, out->code);
    vd_prepare_eight(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)), sf, out->a + 8, out->code + 8);
    /* A zero counts 128 here: fifteen times 255 and one zero stay below the limit. */
    const __m256i fractions = _mm256_sad_epu8(_mm256_and_si256(v, _mm256_set1_epi16(0x7F)), _mm256_setzero_si256());
    const __m128i half      = _mm_add_epi64(_mm256_castsi256_si128(fractions), _mm256_extracti128_si256(fractions, 1));
    return _mm_cvtsi128_si64(half) + _mm_extract_epi64(half, 1) + VD_STEP * 128 < VD_SUM_LIMIT;
}

/* ---- Panels ---- */

/* Scales sixteen bf16 by 2^-down, down >= 1: what falls below 2^-126 becomes 0 (and may lose its sign). */
static inline __m256i vd_scale_down(__m256i w, int down)
{
    const __m256i field = _mm256_and_si256(w, _mm256_set1_epi16(0x7F80)), rest = _mm256_and_si256(w, _mm256_set1_epi16((short)0x807F));
    const __m256i less  = _mm256_subs_epu16(field, _mm256_set1_epi16((short)(down << 7)));
    const __m256i gone  = _mm256_cmpeq_epi16(less, _mm256_setzero_si256());
    return _mm256_andnot_si256(gone, _mm256_or_si256(less, rest));
}

/* A step of eight outputs, `bytes` apart, as eight vectors of k-pairs. Returns the or of all numbers. */
__attribute__((always_inline)) static inline __m256i vd_transpose_eight(const char *w, int64_t bytes, __m256i p[8])
{
    __m256i r[8], any;
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_si256((const __m256i *)(const void *)(w + i * bytes));
    any = _mm256_or_si256(_mm256_or_si256(_mm256_or_si256(r[0], r[1]), _mm256_or_si256(r[2], r[3])),
                          _mm256_or_si256(_mm256_or_si256(r[4], r[5]), _mm256_or_si256(r[6], r[7])));
    for (int i = 0; i < 8; i += 4) {
        const __m256i u0 = _mm256_unpacklo_epi32(r[i], r[i + 1]), u1 = _mm256_unpackhi_epi32(r[i], r[i + 1]);
        const __m256i u2 = _mm256_unpacklo_epi32(r[i + 2], r[i + 3]), u3 = _mm256_unpackhi_epi32(r[i + 2], r[i + 3]);
        r[i]     = _mm256_unpacklo_epi64(u0, u2);
        r[i + 1] = _mm256_unpackhi_epi64(u0, u2);
        r[i + 2] = _mm256_unpacklo_epi64(u1, u3);
        r[i + 3] = _mm256_unpackhi_epi64(u1, u3);
    }
    for (int i = 0; i < 4; i++) {
        p[i]     = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
        p[i + 4] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
    }
    return any;
}

/* Eight outputs of a step into out->pairs, scaled by 2^-down. */
static inline __m256i vd_gather_eight(const char *w, int64_t bytes, int down, int at, vd_panel_step *out)
{
    __m256i       p[8];
    const __m256i any = vd_transpose_eight(w, bytes, p);
    for (int j = 0; j < 8; j++)
        _mm256_store_si256((__m256i *)(void *)&out->pairs[j][at], down ? vd_scale_down(p[j], down) : p[j]);
    return any;
}

/* From pairs to fp32 and codes. Codes of lanes 8·part … +7 of the four vectors. */
static inline void vd_expand_pairs(vd_panel_step *out)
{
    const __m256i high = _mm256_set1_epi32((int32_t)0xFFFF0000), even = _mm256_set1_epi32(0x00FF00FF), odd = _mm256_set1_epi32((int32_t)0xFF00FF00);
    const __m256i origin = _mm256_set1_epi8(VD_CODE_ORIGIN);
    for (int j = 0; j < VD_STEP / 2; j++)
        for (int part = 0; part < VD_LANES / 8; part++) {
            __m256i p[4];
            for (int v = 0; v < 4; v++) {
                const int at = v * VD_LANES + 8 * part;
                p[v]         = _mm256_load_si256((const __m256i *)(const void *)&out->pairs[j][at]);
                _mm256_store_ps(&out->b[2 * j][at], _mm256_castsi256_ps(_mm256_slli_epi32(p[v], 16)));
                _mm256_store_ps(&out->b[2 * j + 1][at], _mm256_castsi256_ps(_mm256_and_si256(p[v], high)));
            }
            /* exponents of vectors 0 and 1, 2 and 3: bytes 0 and 1 of k in the low half, of k + 1 in the high half */
            const __m256i e01 = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(p[0], 7), even), _mm256_and_si256(_mm256_slli_epi32(p[1], 1), odd));
            const __m256i e23 = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(p[2], 7), even), _mm256_and_si256(_mm256_slli_epi32(p[3], 1), odd));
            const __m256i k0  = _mm256_blend_epi16(e01, _mm256_slli_epi32(e23, 16), 0xAA);
            const __m256i k1  = _mm256_blend_epi16(_mm256_srli_epi32(e01, 16), e23, 0xAA);
            _mm256_store_si256((__m256i *)(void *)&out->code[2 * j][32 * part], _mm256_subs_epu8(k0, origin));
            _mm256_store_si256((__m256i *)(void *)&out->code[2 * j + 1][32 * part], _mm256_subs_epu8(k1, origin));
        }
}

/* Where a panel's numbers lie: output i, k at w + 2·(i·stride + k). */
typedef struct vd_panel_source {
    const char *w;       /* first output of the panel, k = 0 */
    int64_t     stride;  /* elements between outputs */
    int64_t     outputs; /* 1 … VD_PANEL; the others are filled with ones, which keep their E in the window */
    int         down;    /* scale by 2^-down */
} vd_panel_source;

static inline uint32_t vd_any_bits(__m256i any)
{
    __m128i o = _mm_or_si128(_mm256_castsi256_si128(any), _mm256_extracti128_si256(any, 1));
    o         = _mm_or_si128(o, _mm_unpackhi_epi64(o, o));
    return (uint32_t)_mm_cvtsi128_si32(o) | (uint32_t)_mm_extract_epi32(o, 1);
}

/* A whole panel's next two steps of 16, from k on: both halves of each line while it is near, since the rows of a matrix whose width is a
 * large power of two all fall into a few sets of the first-level cache. Returns the or of all numbers: bit 14 set in either half says that
 * some magnitude is 2 or more. */
static inline uint32_t vd_gather_two_steps(const vd_panel_source *s, int64_t k, vd_panel_step out[2])
{
    const int64_t bytes = 2 * s->stride;
    const char   *w     = s->w + 2 * k;
    __m256i       any   = _mm256_setzero_si256();
    for (int i = 0; i < VD_PANEL; i += 8, w += 8 * bytes) {
        any = _mm256_or_si256(any, vd_gather_eight(w, bytes, s->down, i, out));
        any = _mm256_or_si256(any, vd_gather_eight(w + 2 * VD_STEP, bytes, s->down, i, out + 1));
    }
    vd_expand_pairs(out);
    vd_expand_pairs(out + 1);
    return vd_any_bits(any);
}

/* One step, of `count` <= 16 numbers of each output, of a panel that may be short. Returns the same. */
static inline uint32_t vd_gather_panel_step(const vd_panel_source *s, int64_t k, int64_t count, vd_panel_step *out)
{
    uint16_t    t[VD_PANEL][VD_STEP];
    const char *w     = s->w + 2 * k;
    int64_t     bytes = 2 * s->stride;
    __m256i     any   = _mm256_setzero_si256();
    if (s->outputs < VD_PANEL || count < VD_STEP) {
        for (int i = 0; i < VD_PANEL; i++)
            for (int j = 0; j < VD_STEP; j++)
                t[i][j] = i < s->outputs ? 0 : (uint16_t)((127 + s->down) << 7);
        for (int i = 0; i < s->outputs; i++)
            memcpy(t[i], w + i * bytes, 2 * (size_t)count);
        w     = (const char *)t;
        bytes = sizeof t[0];
    }
    for (int i = 0; i < VD_PANEL; i += 8, w += 8 * bytes)
        any = _mm256_or_si256(any, vd_gather_eight(w, bytes, s->down, i, out));
    vd_expand_pairs(out);
    return vd_any_bits(any);
}

/* A panel whose numbers lie key by key (values of attention): number k of output i at w + 2·(k·stride + i). Outputs beyond s->outputs are
 * ones, as above; keys beyond `count` are zeros. */
static inline void vd_gather_values_step(const vd_panel_source *s, int64_t k, int64_t count, vd_panel_step *out)
{
    const __m256i origin = _mm256_set1_epi8(VD_CODE_ORIGIN), byte = _mm256_set1_epi32(0xFF);
    uint16_t      row[VD_PANEL];
    for (int j = 0; j < VD_STEP; j++) {
        const char *w = s->w + 2 * (k + j) * s->stride;
        if (j >= count || s->outputs < VD_PANEL) {
            for (int i = 0; i < VD_PANEL; i++)
                row[i] = i < s->outputs ? 0 : (uint16_t)((127 + s->down) << 7);
            if (j < count)
                memcpy(row, w, 2 * (size_t)s->outputs);
            w = (const char *)row;
        }
        for (int part = 0; part < VD_LANES / 8; part++) {
            __m256i p[4];
            for (int v = 0; v < 4; v++) {
                const int at = v * VD_LANES + 8 * part;
                p[v]         = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(w + 2 * at)));
                if (s->down)
                    p[v] = vd_scale_down(p[v], s->down);
                _mm256_store_ps(&out->b[j][at], _mm256_castsi256_ps(_mm256_slli_epi32(p[v], 16)));
            }
            const __m256i e0 = _mm256_and_si256(_mm256_srli_epi32(p[0], 7), byte), e1 = _mm256_and_si256(_mm256_srli_epi32(p[1], 7), byte);
            const __m256i e2 = _mm256_and_si256(_mm256_srli_epi32(p[2], 7), byte), e3 = _mm256_and_si256(_mm256_srli_epi32(p[3], 7), byte);
            const __m256i e  = _mm256_or_si256(_mm256_or_si256(e0, _mm256_slli_epi32(e1, 8)),
                                               _mm256_or_si256(_mm256_slli_epi32(e2, 16), _mm256_slli_epi32(e3, 24)));
            _mm256_store_si256((__m256i *)(void *)&out->code[j][32 * part], _mm256_subs_epu8(e, origin));
        }
    }
}

enum { VD_TWO_OR_MORE = 0x40004000 };

/* Has the lines that two steps of a panel lie in brought near. */
static inline void vd_prefetch_two_steps(const vd_panel_source *s, int64_t k)
{
    for (int i = 0; i < s->outputs; i++)
        _mm_prefetch(s->w + 2 * (i * s->stride + k), _MM_HINT_T1);
}

#endif
