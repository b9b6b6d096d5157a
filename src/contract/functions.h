/* Functions of one number, each defined to the bit: conversions, the special-function unit's ex2, rsq and rcp, and exp, tanh, sigmoid,
 * SiLU, softplus, log1p, sin and cos on top of them. Shared by every backend; also compiles as C++ and as CUDA, where the three functions
 * of the unit are its own instructions.
 *
 * Every operation is one IEEE fp32 rounding, to nearest even, subnormals kept; fmaf where it is written and nowhere else. Constants in
 * hexadecimal are fp32 bit patterns. Any NaN result is 0x7FFFFFFF (0x7FFF in bf16), whatever went in.
 */
#ifndef VD_FUNCTIONS_H
#define VD_FUNCTIONS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "contract/double_double.h"
#include "contract/sfu_tables.h"

#define VD_NAN_F32_BITS  0x7FFFFFFFu
#define VD_NAN_BF16_BITS 0x7FFFu

/* ---- Bits and conversions ---- */

VD_FN uint32_t vd_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

VD_FN float vd_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The one NaN. Everything else passes. */
VD_FN float vd_canonical(float x) { return x != x ? vd_float(VD_NAN_F32_BITS) : x; }

VD_FN float vd_from_bf16(uint16_t x) { return vd_float((uint32_t)x << 16); }

/* Nearest, ties to even; subnormals kept; overflow to Inf. */
VD_FN uint16_t vd_to_bf16(float x)
{
    const uint32_t u = vd_bits(x);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u)
        return VD_NAN_BF16_BITS;
    return (uint16_t)((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

VD_FN float vd_round_bf16(float x) { return vd_canonical(vd_from_bf16(vd_to_bf16(x))); }

/* ---- The special-function unit ---- */

/* The unit's truncated squarer: about x²/2^19 for a 17-bit x; the columns it drops are what makes its bits its own. */
VD_FN int32_t vd_sfu_square(int32_t x)
{
    const int32_t h = x >> 10, l = (x >> 2) & 255;
    int32_t       s = 2 * h * h;
    for (int m = 0; m < 7; m++)
        s += ((h >> m) & 1) * (l >> (6 - m));
    return s;
}

/* 2^x. Subnormal x counts as zero; x >= 128 gives Inf; a result below 2^-126 gives +0. */
VD_FN float vd_ex2(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    if (x != x)
        return vd_float(VD_NAN_F32_BITS);
    if (x >= 128.0f)
        return vd_float(0x7F800000u);
    if (x < -126.0f)
        return 0.0f;
    const int64_t  m   = (int64_t)(fabs((double)x) * 8388608.0); /* the cut is the law's */
    const int64_t  q   = x >= 0 ? m : (m & 0x7FFFFF) == 0 ? -m : -m - 1;
    const int32_t  f   = (int32_t)(q & 0x7FFFFF);
    const int32_t *row = vd_sfu_ex2[f >> 17];
    const int32_t  r   = f & 0x1FFFF;
    const int64_t  t   = (((int64_t)row[0] << 13) + (int64_t)row[1] * r + (int64_t)row[2] * vd_sfu_square(r) + 30690) >> 15;
    const int64_t  e   = (q - f) / 8388608; /* exact: the floor of q / 2^23 */
    return e < -126 ? 0.0f : vd_float((uint32_t)((e + 127) << 23) + (uint32_t)(t - 0x800000)); /* t in [2^23, 2^24) */
#endif
}

/* 1/sqrt(x). Subnormals count as zeros; ±0 gives ±Inf; other negatives give NaN; Inf gives +0. */
VD_FN float vd_rsq(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    const uint32_t u = vd_bits(x), magnitude = u & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
        return vd_float(VD_NAN_F32_BITS);
    if (magnitude < 0x00800000u)
        return vd_float((u & 0x80000000u) | 0x7F800000u);
    if (u >> 31)
        return vd_float(VD_NAN_F32_BITS);
    if (magnitude == 0x7F800000u)
        return 0.0f;
    const int32_t  e = (int32_t)(u >> 23) - 127, parity = e & 1, f = (int32_t)(u & 0x7FFFFF);
    const int32_t *row = vd_sfu_rsq[parity * 64 + (f >> 17)];
    const int32_t  r   = f & 0x1FFFF;
    int64_t        t   = (((int64_t)row[0] << 14) + (int64_t)row[1] * r + 4 * (int64_t)row[2] * vd_sfu_square(r) + 32767) >> 16;
    if (parity == 0 && f == 0)
        t = 1 << 24; /* powers of 4 are exact */
    /* t/2^24 · 2^-((e - parity)/2), t in [2^23, 2^24]: the implicit bit, or the carry at 2^24, adds itself to the exponent. */
    return vd_float((uint32_t)((-(e - parity) / 2 - 1 + 126) << 23) + (uint32_t)t);
#endif
}

/* 1/x. Subnormals count as zeros; ±0 gives ±Inf; ±Inf gives ±0; a result below 2^-126 gives a zero of its sign. */
VD_FN float vd_rcp(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    const uint32_t u = vd_bits(x), sign = u & 0x80000000u, magnitude = u & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
        return vd_float(VD_NAN_F32_BITS);
    if (magnitude < 0x00800000u)
        return vd_float(sign | 0x7F800000u);
    if (magnitude == 0x7F800000u)
        return vd_float(sign);
    const int32_t  e = (int32_t)(magnitude >> 23) - 127, f = (int32_t)(u & 0x7FFFFF);
    const int32_t *row = vd_sfu_rcp[f >> 16];
    const int32_t  r   = f & 0xFFFF;
    const int64_t  t   = (((int64_t)row[0] << 13) + (int64_t)row[1] * r + (int64_t)row[2] * vd_sfu_square(2 * r) + 18407) >> 15;
    const int64_t  bits = ((int64_t)(126 - e - 1) * 0x800000) + t; /* as in rsq */
    return bits < 0x00800000 ? vd_float(sign) : vd_float(sign | (uint32_t)bits);
#endif
}

/* ---- Functions on top ---- */

/* e^x as torch's CUDA build computes it: 2^k by the exponent field, the rest by ex2. */
VD_FN float vd_exp(float x)
{
    float u = fmaf(x, vd_float(0x3BBB989Du), 0.5f);
    u       = u > 0.0f ? (u < 1.0f ? u : 1.0f) : 0.0f; /* a NaN becomes 0 */
    /* j = u·252 + 12582913 in one rounding towards -infinity: between 2^23 and 2^24 that is the floor, and u·252 is exact in double. */
    const int32_t n = (int32_t)((double)u * 252.0);
    const float   k = (float)(n - 126);
    float         t = fmaf(x, vd_float(0x3FB8AA3Bu), -k);
    t               = fmaf(x, vd_float(0x32A57060u), t);
    return vd_canonical(vd_ex2(t) * vd_float((uint32_t)(n + 1) << 23));
}

VD_FN float vd_tanh(float x)
{
    const float a = fabsf(x);
    if (a >= vd_float(0x3F19999Au)) {
        float y = 1.0f;
        if (a < vd_float(0x41102CB4u))
            y = fmaf(vd_rcp(vd_ex2(a * vd_float(0x4038AA3Bu)) + 1.0f), -2.0f, 1.0f);
        return copysignf(y, x);
    }
    const float q = x * x;
    float       p = fmaf(vd_float(0x3C80F082u), q, vd_float(0xBD563CAEu));
    p             = fmaf(p, q, vd_float(0x3E085941u));
    p             = fmaf(p, q, vd_float(0xBEAAA9EDu));
    p             = fmaf(p, q, 0.0f);
    return vd_canonical(fmaf(p, x, x));
}

VD_FN float vd_sigmoid(float x) { return vd_canonical(1.0f / (1.0f + vd_exp(-x))); }
VD_FN float vd_silu(float x) { return vd_canonical(x / (1.0f + vd_exp(-x))); }

/* Correctly rounded logarithm of 1 + x: evaluated to about 2^-90 relative and rounded once; see double_double.h for why that is enough. */
VD_FN float vd_log1p(float x)
{
    if (x != x || x < -1.0f)
        return vd_float(VD_NAN_F32_BITS);
    if (x == -1.0f)
        return vd_float(0xFF800000u);
    if (x == 0.0f || vd_bits(x) == 0x7F800000u)
        return x;
    return vd_dd_to_float(vd_dd_log1p((double)x));
}

VD_FN float vd_softplus(float x) { return x > 20.0f ? x : vd_log1p(vd_exp(x)); }

/* x/4 and x/25 are products with the fp32 reciprocal, as on a GPU; for bf16 inputs rounded to bf16 they are the quotients too. */
VD_FN float vd_div4(float x) { return vd_canonical(x * 0.25f); }
VD_FN float vd_div25(float x) { return vd_canonical(x * vd_float(0x3D23D70Au)); }

/* sin and cos are defined for |x| < 105615: beyond, callers refuse, and the functions themselves give NaN. */
VD_FN bool vd_trig_in_range(float x) { return fabsf(x) < 105615.0f; }

/* sin for quadrant 0, cos for quadrant 1 */
VD_FN float vd_trig(float x, int32_t quadrant)
{
    if (!vd_trig_in_range(x))
        return vd_float(VD_NAN_F32_BITS);
    const float   r0 = rintf(x * vd_float(0x3F22F983u)) + 0.0f; /* an integer: its zero is +0, so sin(-0) is -0 */
    const int32_t n  = (int32_t)r0 + quadrant;
    float         t  = fmaf(r0, vd_float(0xBFC90FDAu), x);
    t                = fmaf(r0, vd_float(0xB3A22168u), t);
    t                = fmaf(r0, vd_float(0xA7C234C5u), t);
    const float q    = t * t;
    float       base, p;
    if (n & 1) {
        base = 1.0f;
        p    = fmaf(vd_float(0x37CBAC00u), q, vd_float(0xBAB607EDu));
        p    = fmaf(p, q, vd_float(0x3D2AAABBu));
        p    = fmaf(p, q, vd_float(0xBEFFFFFFu));
    } else {
        base = t;
        p    = vd_float(0xB94D4153u);
        p    = fmaf(p, q, vd_float(0x3C0885E4u));
        p    = fmaf(p, q, vd_float(0xBE2AAAA8u));
    }
    const float r = fmaf(p, fmaf(q, base, 0.0f), base);
    return n & 2 ? fmaf(r, -1.0f, 0.0f) : r;
}

VD_FN float vd_sin(float x) { return vd_trig(x, 0); }
VD_FN float vd_cos(float x) { return vd_trig(x, 1); }

#endif
