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

/* 4 k-pairs of 8 outputs: half (0 or 1) of a step. r: the eight outputs' numbers. Returns the or of them all, before the scaling. */
static inline __m256i vd_transpose_pairs(const char *const r[8], int half, int down, uint32_t *pairs)
{
    const __m256i a0 = _mm256_loadu2_m128i((const __m128i *)(const void *)r[4] + half, (const __m128i *)(const void *)r[0] + half);
    const __m256i a1 = _mm256_loadu2_m128i((const __m128i *)(const void *)r[5] + half, (const __m128i *)(const void *)r[1] + half);
    const __m256i a2 = _mm256_loadu2_m128i((const __m128i *)(const void *)r[6] + half, (const __m128i *)(const void *)r[2] + half);
    const __m256i a3 = _mm256_loadu2_m128i((const __m128i *)(const void *)r[7] + half, (const __m128i *)(const void *)r[3] + half);
    const __m256i u0 = _mm256_unpacklo_epi32(a0, a1), u1 = _mm256_unpackhi_epi32(a0, a1);
    const __m256i u2 = _mm256_unpacklo_epi32(a2, a3), u3 = _mm256_unpackhi_epi32(a2, a3);
    __m256i       p0 = _mm256_unpacklo_epi64(u0, u2), p1 = _mm256_unpackhi_epi64(u0, u2);
    __m256i       p2 = _mm256_unpacklo_epi64(u1, u3), p3 = _mm256_unpackhi_epi64(u1, u3);
    const __m256i all = _mm256_or_si256(_mm256_or_si256(a0, a1), _mm256_or_si256(a2, a3));
    if (down) {
        p0 = vd_scale_down(p0, down);
        p1 = vd_scale_down(p1, down);
        p2 = vd_scale_down(p2, down);
        p3 = vd_scale_down(p3, down);
    }
    _mm256_store_si256((__m256i *)(void *)pairs, p0);
    _mm256_store_si256((__m256i *)(void *)(pairs + VD_PANEL), p1);
    _mm256_store_si256((__m256i *)(void *)(pairs + 2 * VD_PANEL), p2);
    _mm256_store_si256((__m256i *)(void *)(pairs + 3 * VD_PANEL), p3);
    return all;
}

/* From pairs to fp32 and codes. Codes of lanes 8·part … +7 of the four vectors. */
static inline void vd_expand_pairs(vd_panel_step *out)
{
    const __m256i high = _mm256_set1_epi32((int32_t)0xFFFF0000), even = _mm256_set1_epi32(0x00FF00FF), odd = _mm256_set1_epi32((int32_t)0xFF00FF00);
    const __m256i origin = _mm256_set1_epi8(VD_CODE_ORIGIN);
    for (int j = 0; j < VD_STEP / 2; j++)
        for (int part = 0; part < VD_W / 8; part++) {
            __m256i p[4];
            for (int v = 0; v < 4; v++) {
                const int at = v * VD_W + 8 * part;
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

/* Fills out->pairs with the `count` <= 16 numbers from k on of each output. Returns the or of all numbers: bit 14 set in either half says
 * that some magnitude is 2 or more. */
static inline uint32_t vd_gather_panel_step(const vd_panel_source *s, int64_t k, int64_t count, vd_panel_step *out)
{
    __m256i any = _mm256_setzero_si256();
    if (s->outputs == VD_PANEL && count == VD_STEP) {
        const char   *w     = s->w + 2 * k;
        const int64_t bytes = 2 * s->stride;
        for (int i = 0; i < VD_PANEL; i += 8, w += 8 * bytes) {
            const char *const r[8] = {w, w + bytes, w + 2 * bytes, w + 3 * bytes, w + 4 * bytes, w + 5 * bytes, w + 6 * bytes, w + 7 * bytes};
            any = _mm256_or_si256(any, vd_transpose_pairs(r, 0, s->down, &out->pairs[0][i]));
            any = _mm256_or_si256(any, vd_transpose_pairs(r, 1, s->down, &out->pairs[4][i]));
        }
    } else {
        uint16_t t[VD_PANEL][VD_STEP];
        for (int i = 0; i < VD_PANEL; i++)
            for (int j = 0; j < VD_STEP; j++)
                t[i][j] = i < s->outputs ? 0 : (uint16_t)((127 + s->down) << 7);
        for (int i = 0; i < s->outputs; i++)
            memcpy(t[i], s->w + 2 * (i * s->stride + k), 2 * (size_t)count);
        for (int i = 0; i < VD_PANEL; i += 8) {
            const char *r[8];
            for (int j = 0; j < 8; j++)
                r[j] = (const char *)t[i + j];
            any = _mm256_or_si256(any, vd_transpose_pairs(r, 0, s->down, &out->pairs[0][i]));
            any = _mm256_or_si256(any, vd_transpose_pairs(r, 1, s->down, &out->pairs[4][i]));
        }
    }
    vd_expand_pairs(out);
    __m128i o = _mm_or_si128(_mm256_castsi256_si128(any), _mm256_extracti128_si256(any, 1));
    o         = _mm_or_si128(o, _mm_unpackhi_epi64(o, o));
    return (uint32_t)_mm_cvtsi128_si32(o) | (uint32_t)_mm_extract_epi32(o, 1);
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
        for (int part = 0; part < VD_W / 8; part++) {
            __m256i p[4];
            for (int v = 0; v < 4; v++) {
                const int at = v * VD_W + 8 * part;
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

/* Has the lines that step k of a panel lies in brought near. Two steps share a line: each asks for half of the outputs. */
static inline void vd_prefetch_panel_step(const vd_panel_source *s, int64_t k)
{
    const int first = (k & VD_STEP) ? VD_PANEL / 2 : 0;
    for (int i = first; i < first + VD_PANEL / 2; i++)
        _mm_prefetch(s->w + 2 * (i * s->stride + k), _MM_HINT_T1);
}

#endif
