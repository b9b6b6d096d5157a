/* What the parts of the replay share. Everything here is compiled once per level. Include vec_*.h and step_*.h first: a panel is four of the
 * vectors of the level's kernel, of VD_LANES lanes; VD_W is the width of vec_*.h.
 *
 * The algorithm, with proofs of its ranges, is in docs/replay.md. In short: one step of `tc16` adds 16 products, each cut to a multiple of
 * 2^(E-25). Lanes run over outputs. The cut is the processor's own conversion to integer towards zero, after a scaling by 2^(25-E) that is an
 * integer add on the exponent field; the sum is an integer sum; E comes from a maximum over one-byte exponent codes. That is exact for
 * numbers in a window of exponents, which is checked; rows and panels outside it take the careful path (fp64), NaN and Inf the contract itself.
 */
#ifndef VD_REPLAY_TYPES_H
#define VD_REPLAY_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "contract/contract.h"
#include "kernels/cpu/replay/tally.h"

enum {
    VD_STEP        = 16,       /* products of one step: the contract's */
    VD_PANEL       = 4 * VD_LANES, /* outputs of one panel: four vectors */
    VD_CODE_ORIGIN = 55,       /* a code is the biased exponent less this, 0 for zero and whatever lies below */
    VD_CODE_FLOOR  = 72,       /* the smallest sum of codes that counts: E = -72, one below the window, shows that nothing did */
    VD_CODE_FIELD  = 17,       /* sum of codes less this: E + 127 */
    VD_FIELD_LOW   = 56,       /* E + 127 at the window's floor, E = -71 */
    VD_FIELD_SCALE = 152,      /* 127 + 25: the field of 2^(25-E) is this less E's own, plus 127 */
    VD_SUM_LIMIT   = 3984,     /* significands of 16 elements that add to this could overflow the integer sum */
    VD_LOWEST_SUM  = -82,      /* smallest exponents that add to this or more: nothing is cut at the floor, window or not */
    VD_SMALL_SHIFT = -13,      /* below this, a subnormal counts */
    VD_SCALE_MIN   = -53,      /* a row's shift plus its panel's: within these every sum is an fp32 number, scaled or not */
    VD_SCALE_MAX   = 100,
    VD_NO_EXPONENT = 1 << 20   /* "smallest exponent" where there is no nonzero element */
};

static const int64_t VD_LONGEST_SUM = 1 << 22; /* 4k < 2^24 */

/* One step of one row: 16 numbers as fp32 bits, normalised by the row's shift, and their codes four times in a dword. */
typedef struct vd_row_step {
    uint32_t a[VD_STEP];
    uint32_t code[VD_STEP];
} vd_row_step;

/* One step of a panel. Byte 4j + v of a row of codes belongs to vector v, lane j, so that one shift brings it to the exponent field. */
typedef struct vd_panel_step {
    float    b[VD_STEP][VD_PANEL];
    uint8_t  code[VD_STEP][VD_PANEL];
    uint32_t pairs[VD_STEP / 2][VD_PANEL]; /* k and k + 1 of each output, on the way */
} vd_panel_step;

typedef enum vd_row_kind {
    VD_ROW_FAST,
    VD_ROW_ZERO,    /* all zeros: +0 against any finite panel */
    VD_ROW_CAREFUL, /* finite, but outside the fast kernel's ranges */
    VD_ROW_SCALAR   /* holds NaN or Inf */
} vd_row_kind;

typedef struct vd_row {
    int32_t     shift; /* largest exponent: the row is scaled by 2^-shift */
    int32_t     low;   /* smallest exponent of a nonzero element, after the shift */
    vd_row_kind kind;
} vd_row;

/* What lies in numbers as bf16 bits without their sign: the largest, and the smallest but zero (0xFFFF where all are zero). */
typedef struct vd_extremes {
    uint16_t largest, smallest;
} vd_extremes;

static inline int32_t vd_exponent_of(uint16_t magnitude)
{
    return magnitude >> 7 ? (magnitude >> 7) - 127 : -126;
}

static inline int32_t vd_smallest_exponent(vd_extremes e)
{
    return e.smallest == 0xFFFF ? VD_NO_EXPONENT : vd_exponent_of(e.smallest);
}

static inline vd_extremes vd_no_extremes(void) { return (vd_extremes){0, 0xFFFF}; }

/* Takes rows x n numbers into account, rows `stride` elements apart. */
static inline void vd_find_extremes(const void *x, int64_t rows, int64_t n, int64_t stride, vd_extremes *e)
{
    const __m256i magnitude = _mm256_set1_epi16(0x7FFF), one = _mm256_set1_epi16(1);
    __m256i       largest = _mm256_set1_epi16((short)e->largest), smallest = _mm256_set1_epi16((short)(e->smallest - 1));
    for (int64_t r = 0; r < rows; r++) {
        const char *p = (const char *)x + 2 * r * stride;
        for (int64_t i = 0; i < n / 16; i++) {
            const __m256i v = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)(p + 32 * i)), magnitude);
            largest         = _mm256_max_epu16(largest, v);
            smallest        = _mm256_min_epu16(smallest, _mm256_sub_epi16(v, one)); /* zero wraps to the top */
        }
        for (int64_t i = n / 16 * 16; i < n; i++) {
            uint16_t v;
            memcpy(&v, p + 2 * i, sizeof v);
            v &= 0x7FFF;
            e->largest = v > e->largest ? v : e->largest;
            if (v && v < e->smallest)
                e->smallest = v;
        }
    }
    uint16_t l[16], s[16];
    _mm256_storeu_si256((__m256i *)(void *)l, largest);
    _mm256_storeu_si256((__m256i *)(void *)s, smallest);
    for (int j = 0; j < 16; j++) {
        e->largest = l[j] > e->largest ? l[j] : e->largest;
        if (s[j] < 0xFFFE && s[j] + 1 < e->smallest)
            e->smallest = (uint16_t)(s[j] + 1);
    }
}

#endif
