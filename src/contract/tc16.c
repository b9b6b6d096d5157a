/* The tensor core of a Hopper GPU for bf16 products, exactly, and the orders over K built on it. */
#include "contract/contract.h"

/* (-1)^negative · significand · 2^(exponent - bits), bits = 7 for bf16 and 23 for fp32; subnormals keep the smallest exponent. */
typedef struct number {
    uint32_t significand;
    int32_t  exponent;
    bool     negative, special; /* special: Inf (fraction 0) or NaN */
} number;

static number decode(uint32_t bits)
{
    const uint32_t field = bits >> 23 & 0xFF, fraction = bits & 0x7FFFFF;
    return (number){
        .significand = fraction | (field ? 0x800000u : 0),
        .exponent    = (field ? (int32_t)field : 1) - 127,
        .negative    = bits >> 31,
        .special     = field == 0xFF,
    };
}

/* A step in which some operand is Inf or NaN. */
static float add_specials(float c, const uint16_t a[16], const uint16_t b[16])
{
    bool plus = false, minus = false;
    if (c != c)
        return vd_float(VD_NAN_F32_BITS);
    if (isinf(c))
        *(c > 0 ? &plus : &minus) = true;
    for (int i = 0; i < 16; i++) {
        const float x = vd_from_bf16(a[i]), y = vd_from_bf16(b[i]);
        if (!isinf(x) && !isinf(y) && x == x && y == y)
            continue; /* a finite product; it may overflow fp32 but is no Inf */
        const float p = x * y;
        if (p != p)
            return vd_float(VD_NAN_F32_BITS);
        *(p > 0 ? &plus : &minus) = true;
    }
    if (plus && minus)
        return vd_float(VD_NAN_F32_BITS);
    return vd_float(plus ? 0x7F800000u : 0xFF800000u);
}

/* sum · 2^(e - 25), truncated towards zero to fp32; +0 for zero. */
static float truncate_sum(int64_t sum, int32_t e)
{
    const uint32_t sign = sum < 0 ? 0x80000000u : 0;
    const uint64_t m    = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    if (m == 0)
        return 0.0f;
    const int     top      = 63 - __builtin_clzll(m);
    const int32_t exponent = top + e - 25;
    if (exponent >= 128)
        return vd_float(sign | 0x7F800000u);
    /* weight of the last bit that is kept: 2^(exponent - 23), or 2^-149 for subnormals */
    const int32_t last = exponent < -126 ? -149 : exponent - 23, drop = last - (e - 25);
    const uint64_t kept = drop >= 64 ? 0 : drop >= 0 ? m >> drop : m << -drop;
    if (kept == 0)
        return 0.0f;
    if (exponent < -126)
        return vd_float(sign | (uint32_t)kept);
    return vd_float(sign | (uint32_t)(exponent + 127) << 23 | ((uint32_t)kept & 0x7FFFFF));
}

float vd_tc16_step(float c, const uint16_t a[16], const uint16_t b[16])
{
    const number addend = decode(vd_bits(c));
    uint32_t     product[16];
    int32_t      exponent[16], e = INT32_MIN;
    bool         negative[16], special = addend.special;
    for (int i = 0; i < 16; i++) {
        const number x = decode((uint32_t)a[i] << 16), y = decode((uint32_t)b[i] << 16);
        product[i]  = (x.significand >> 16) * (y.significand >> 16); /* exact: 8 bits by 8 bits, weight 2^(exponent - 14) */
        exponent[i] = x.exponent + y.exponent;
        negative[i] = x.negative != y.negative;
        special |= x.special || y.special;
        if (product[i] && exponent[i] > e)
            e = exponent[i];
    }
    if (special)
        return add_specials(c, a, b);
    if (addend.significand && addend.exponent > e)
        e = addend.exponent;
    if (e == INT32_MIN)
        return 0.0f; /* no nonzero term */
    /* Every term in units of 2^(e - 25), truncated towards zero, then added exactly. */
    int64_t sum = 0;
    for (int i = 0; i < 16; i++) {
        if (!product[i])
            continue;
        const int32_t down = e - exponent[i];
        const int64_t term = down < 32 ? (int64_t)(((uint64_t)product[i] << 11) >> down) : 0;
        sum += negative[i] ? -term : term;
    }
    if (addend.significand) {
        const int32_t down = e - addend.exponent;
        const int64_t term = down < 32 ? (int64_t)(((uint64_t)addend.significand << 2) >> down) : 0;
        sum += addend.negative ? -term : term;
    }
    return truncate_sum(sum, e);
}

float vd_tc16_chain(float c, const void *a, const void *b, int64_t k)
{
    for (int64_t i = 0; i < k; i += 16) {
        const size_t size = 2 * (size_t)(k - i < 16 ? k - i : 16);
        uint16_t     x[16] = {0}, y[16] = {0};
        memcpy(x, (const char *)a + 2 * i, size);
        memcpy(y, (const char *)b + 2 * i, size);
        c = vd_tc16_step(c, x, y);
    }
    return c;
}

/* Leaves of `leaf` elements, the last may be shorter, each a chain from +0, added ascending from +0. */
static float fold(const void *a, const void *b, int64_t k, int64_t leaf)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < k; i += leaf)
        sum += vd_tc16_chain(0.0f, (const char *)a + 2 * i, (const char *)b + 2 * i, k - i < leaf ? k - i : leaf);
    return vd_canonical(sum);
}

float vd_tc16_split(const void *a, const void *b, int64_t k, int splits)
{
    return fold(a, b, k, k > splits ? k / splits : 1); /* a slice is a leaf of k/splits */
}

float vd_tc16_fold512(const void *a, const void *b, int64_t k) { return fold(a, b, k, 512); }

bool vd_tc16_tree8_fits(int64_t k) { return k > 0 && k % 128 == 0; }

float vd_tc16_tree8(const void *a, const void *b, int64_t k)
{
    const int64_t part = k / 8;
    int64_t       leaf = 512;
    while (leaf > 16 && part % leaf != 0)
        leaf -= 16; /* the largest multiple of 16 that divides the part and is at most 512 */
    float s[8];
    for (int i = 0; i < 8; i++)
        s[i] = fold((const char *)a + 2 * i * part, (const char *)b + 2 * i * part, part, leaf);
    return vd_canonical(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
}
