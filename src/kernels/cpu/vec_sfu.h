/* The functions of contract/functions.h over whole vectors: the same integers, the same fp32 roundings, the same bits in every lane.
 * Include vec_avx2.h or vec_avx512.h first. */
#ifndef VD_VEC_SFU_H
#define VD_VEC_SFU_H

#include "contract/functions.h"
#include "kernels/cpu/vec_sfu_rows.h"

/* vd_sfu_square of 17-bit numbers */
static inline vd_vi vd_v_sfu_square(vd_vi x)
{
    /* h: 7 bits, l: 8 bits. Bits 0..3 of h work in the low halves, bits 4..6 in the high ones. */
    const vd_vi h = vd_vi_shr(x, 10), l = vd_vi_and(vd_vi_shr(x, 2), vd_vi_set1(255));
    const vd_vi hh = vd_vi_or(h, vd_vi_and(vd_vi_shl(h, 12), vd_vi_set1(0x00070000))), ll = vd_vi_or(l, vd_vi_shl(l, 20));
    vd_vi       s = vd_vi_and(vd_vi_sar16(vd_vi_shl16(hh, 15), 15), vd_vi_shr16(ll, 6));
    s = vd_vi_add16(s, vd_vi_and(vd_vi_sar16(vd_vi_shl16(hh, 14), 15), vd_vi_shr16(ll, 5)));
    s = vd_vi_add16(s, vd_vi_and(vd_vi_sar16(vd_vi_shl16(hh, 13), 15), vd_vi_shr16(ll, 4)));
    s = vd_vi_add16(s, vd_vi_and(vd_vi_sar16(vd_vi_shl16(hh, 12), 15), vd_vi_shr16(ll, 3)));
    /* low + high + 2·h·h */
    return vd_vi_add(vd_vi_dot16(s, vd_vi_set1(0x00010001)), vd_vi_dot16(h, vd_vi_add(h, h)));
}

/* (C0·2^13 + C1·r + C2·s + rounding) >> 15 within 32 bits: C1 = one·2^15 + E, so that C1·r = one·r·2^15 + E·r and |E·r| < 2^31. */
static inline vd_vi vd_v_law(vd_vi c0, vd_vi e_c2, vd_vi r, vd_vi s, int one, int32_t rounding)
{
    /* C2·s with E in the other half times 0; s < 2^15 */
    vd_vi t = vd_vi_add(vd_vi_mul(vd_vi_sar(e_c2, 16), r), vd_vi_dot16(e_c2, s));
    t = vd_vi_add(t, vd_vi_add(vd_vi_shl(vd_vi_and(c0, vd_vi_set1(3)), 13), vd_vi_set1(rounding)));
    t = vd_vi_add(vd_vi_sar(c0, 2), vd_vi_sar(t, 15));
    return one > 0 ? vd_vi_add(t, r) : vd_vi_sub(t, r);
}

static inline vd_vf vd_v_nan(void) { return vd_vi_float(vd_vi_set1(0x7FFFFFFF)); }
static inline vd_vf vd_v_canonical(vd_vf x) { return vd_vf_select(vd_vf_is_nan(x), vd_v_nan(), x); }
static inline vd_vf vd_v_constant(uint32_t bits) { return vd_vi_float(vd_vi_set1((int32_t)bits)); }

static inline vd_vf vd_v_ex2(vd_vf x)
{
    /* |x| < 128: the cut and the scaling by 2^23 are exact in fp32; other lanes are replaced below */
    const vd_vf inside = vd_vf_max(vd_vf_set1(-127.0f), vd_vf_min(vd_vf_set1(128.0f), x));
    const vd_vi m      = vd_vf_truncate(vd_vf_mul(inside, vd_vf_set1(8388608.0f))); /* 128 gives 0x40000000 */
    /* below zero: -|m| if the fraction is 0, else -|m| - 1 */
    const vd_vm whole  = vd_vi_eq(vd_vi_and(m, vd_vi_set1(0x7FFFFF)), vd_vi_set1(0));
    const vd_vi q      = vd_vi_add(m, vd_vi_select(whole, vd_vi_set1(0), vd_vi_sar(m, 31)));
    const vd_vi f      = vd_vi_and(q, vd_vi_set1(0x7FFFFF)), r = vd_vi_and(f, vd_vi_set1(0x1FFFF));
    vd_vi       c0, e_c2;
    vd_vi_lookup_64(vd_sfu_ex2_rows, vd_vi_shr(f, 17), &c0, &e_c2);
    const vd_vi t      = vd_v_law(c0, e_c2, r, vd_v_sfu_square(r), 1, 30690);
    const vd_vi e      = vd_vi_sar(q, 23);
    vd_vf       y      = vd_vi_float(vd_vi_add(vd_vi_shl(e, 23), vd_vi_add(t, vd_vi_set1(126 << 23))));
    y = vd_vf_select(vd_vi_gt(vd_vi_set1(-126), e), vd_vf_zero(), y);
    y = vd_vf_select(vd_vf_ge(x, vd_vf_set1(128.0f)), vd_v_constant(0x7F800000u), y);
    return vd_vf_select(vd_vf_is_nan(x), vd_v_nan(), y);
}

/* The squarer for two vectors, in halves of one. */
static inline void vd_v_sfu_square_two(vd_vi x0, vd_vi x1, vd_vi *s0, vd_vi *s1)
{
    const vd_vi mask = vd_vi_set1(255);
    const vd_vi h = vd_vi_pack16(vd_vi_shr(x0, 10), vd_vi_shr(x1, 10));
    const vd_vi l = vd_vi_pack16(vd_vi_and(vd_vi_shr(x0, 2), mask), vd_vi_and(vd_vi_shr(x1, 2), mask));
    vd_vi       s = vd_vi_mul16(h, vd_vi_add16(h, h));
    s = vd_vi_add16(s, vd_vi_and(vd_vi_sar16(vd_vi_shl16(h, 15), 15), vd_vi_shr16(l, 6)));
    s = vd_vi_add16(s, vd_vi_and(vd_vi_sar16(vd_vi_shl16(h, 14), 15), vd_vi_shr16(l, 5)));
    s = vd_vi_add16(s, vd_vi_and(vd_vi_sar16(vd_vi_shl16(h, 13), 15), vd_vi_shr16(l, 4)));
    s = vd_vi_add16(s, vd_vi_and(vd_vi_sar16(vd_vi_shl16(h, 12), 15), vd_vi_shr16(l, 3)));
    s = vd_vi_add16(s, vd_vi_and(vd_vi_sar16(vd_vi_shl16(h, 11), 15), vd_vi_shr16(l, 2)));
    s = vd_vi_add16(s, vd_vi_and(vd_vi_sar16(vd_vi_shl16(h, 10), 15), vd_vi_shr16(l, 1)));
    s = vd_vi_add16(s, vd_vi_and(vd_vi_sar16(vd_vi_shl16(h, 9), 15), l));
    *s0 = vd_vi_first16(s);
    *s1 = vd_vi_second16(s);
}

/* q of the law for x <= 0, -Inf or NaN: x·2^23 cut, one less where it is no whole number of 2^23 */
static inline vd_vi vd_v_ex2_fixed(vd_vf x)
{
    const vd_vi m = vd_vf_truncate(vd_vf_mul(vd_vf_max(x, vd_vf_set1(-127.0f)), vd_vf_set1(8388608.0f)));
    return vd_vi_sub(vd_vi_sub(m, vd_vi_set1(1)), vd_vi_eq_bits(vd_vi_shl(m, 9), vd_vi_set1(0)));
}

/* ex2 of n numbers <= 0, -Inf or NaN, in place: the weights of a softmax. A NaN stays some NaN. n: a multiple of 2·VD_W, at most
 * VD_EX2_MOST. In two passes: one chain from input to output is longer than a processor can overlap with the next. */
enum { VD_EX2_MOST = 128 };

static inline void vd_v_ex2_weights(float *x, int64_t n)
{
    int32_t q[VD_EX2_MOST], square[VD_EX2_MOST];
    for (int64_t i = 0; i < n; i += 2 * VD_W) {
        const vd_vi fraction = vd_vi_set1(0x1FFFF);
        const vd_vi q0 = vd_v_ex2_fixed(vd_vf_load(x + i)), q1 = vd_v_ex2_fixed(vd_vf_load(x + i + VD_W));
        vd_vi       s0, s1;
        vd_v_sfu_square_two(vd_vi_and(q0, fraction), vd_vi_and(q1, fraction), &s0, &s1);
        vd_vf_store(q + i, vd_vi_float(q0));
        vd_vf_store(q + i + VD_W, vd_vi_float(q1));
        vd_vf_store(square + i, vd_vi_float(s0));
        vd_vf_store(square + i + VD_W, vd_vi_float(s1));
    }
    for (int64_t i = 0; i < n; i += VD_W) {
        const vd_vf v = vd_vf_load(x + i);
        const vd_vi at = vd_vi_load(q + i);
        vd_vi       c0, e_c2;
        vd_vi_lookup_64(vd_sfu_ex2_rows, vd_vi_and(vd_vi_shr(at, 17), vd_vi_set1(63)), &c0, &e_c2);
        const vd_vi t = vd_v_law(c0, e_c2, vd_vi_and(at, vd_vi_set1(0x1FFFF)), vd_vi_load(square + i), 1, 30690);
        const vd_vi y = vd_vi_add(vd_vi_shl(vd_vi_sar(at, 23), 23), vd_vi_add(t, vd_vi_set1(126 << 23)));
        vd_vf_store(x + i, vd_vf_select(vd_vf_ge(v, vd_vf_set1(-126.0f)), vd_vi_float(y), vd_vf_select(vd_vf_is_nan(v), v, vd_vf_zero())));
    }
}

static inline vd_vf vd_v_rcp(vd_vf x)
{
    const vd_vi u = vd_vf_bits(x), sign = vd_vi_and(u, vd_vi_set1(INT32_MIN)), magnitude = vd_vi_and(u, vd_vi_set1(0x7FFFFFFF));
    const vd_vi f = vd_vi_and(u, vd_vi_set1(0x7FFFFF)), r = vd_vi_and(f, vd_vi_set1(0xFFFF));
    vd_vi       c0, e_c2;
    vd_vi_lookup_rows(vd_sfu_rcp_rows, vd_vi_shr(f, 16), &c0, &e_c2);
    const vd_vi t = vd_v_law(c0, e_c2, r, vd_v_sfu_square(vd_vi_add(r, r)), -1, 18407);
    vd_vi       y = vd_vi_add(vd_vi_sub(vd_vi_set1((126 - 1 + 127) << 23), vd_vi_and(magnitude, vd_vi_set1(0x7F800000))), t);
    /* an exponent of 253 gives biased 0 or, with the carry, 1; 254 gives less, and Inf or NaN (255) less still */
    y = vd_vi_select(vd_vi_gt(vd_vi_set1(0x00800000), y), vd_vi_set1(0), y);
    y = vd_vi_select(vd_vi_gt(vd_vi_set1(0x00800000), magnitude), vd_vi_set1(0x7F800000), y);
    return vd_vf_select(vd_vf_is_nan(x), vd_v_nan(), vd_vi_float(vd_vi_or(y, sign)));
}

static inline vd_vf vd_v_rsq(vd_vf x)
{
    const vd_vi u = vd_vf_bits(x), magnitude = vd_vi_and(u, vd_vi_set1(0x7FFFFFFF)), one = vd_vi_set1(1);
    const vd_vi parity = vd_vi_xor(vd_vi_and(vd_vi_shr(u, 23), one), one); /* of the exponent without its bias, 127 */
    const vd_vi f = vd_vi_and(u, vd_vi_set1(0x7FFFFF)), r = vd_vi_and(f, vd_vi_set1(0x1FFFF)), s = vd_v_sfu_square(r);
    const vd_vi row = vd_vi_add(vd_vi_shl(parity, 6), vd_vi_shr(f, 17)), at = vd_vi_add(row, vd_vi_add(row, row));
    const vd_vi c0 = vd_vi_lookup(&vd_sfu_rsq[0][0], at), c1 = vd_vi_lookup(&vd_sfu_rsq[0][1], at), c2 = vd_vi_lookup(&vd_sfu_rsq[0][2], at);
    /* (C0·2^14 + C1·r + 4·C2·s + 32767) >> 16 with r = 2·h + v, halved inside so that 32 bits hold it */
    const vd_vi h = vd_vi_shr(r, 1), v = vd_vi_and(r, one), e = vd_vi_add(c1, vd_vi_set1(32768));
    vd_vi       t = vd_vi_add(vd_vi_mul(e, h), vd_vi_dot16(vd_vi_add(c2, c2), s));
    t = vd_vi_add(t, vd_vi_shl(vd_vi_and(c0, vd_vi_set1(3)), 13));
    t = vd_vi_add(t, vd_vi_sar(vd_vi_add(vd_vi_set1(32767), vd_vi_mul(c1, v)), 1));
    t = vd_vi_sub(vd_vi_add(vd_vi_sar(c0, 2), vd_vi_sar(t, 15)), h);
    t = vd_vi_select(vd_vi_eq(vd_vi_or(parity, f), vd_vi_set1(0)), vd_vi_set1(1 << 24), t);
    /* biased result exponent: (127 - (e - parity)/2) - 2, e = field - 127 */
    const vd_vi half = vd_vi_sar(vd_vi_sub(vd_vi_sub(vd_vi_shr(magnitude, 23), vd_vi_set1(127)), parity), 1);
    vd_vf       y    = vd_vi_float(vd_vi_add(vd_vi_shl(vd_vi_sub(vd_vi_set1(125), half), 23), t));
    y = vd_vf_select(vd_vi_eq(u, vd_vi_set1(0x7F800000)), vd_vf_zero(), y);
    y = vd_vf_select(vd_vi_gt(vd_vi_set1(0), u), vd_v_nan(), y);
    const vd_vi sign_inf = vd_vi_or(vd_vi_and(u, vd_vi_set1(INT32_MIN)), vd_vi_set1(0x7F800000));
    y = vd_vf_select(vd_vi_gt(vd_vi_set1(0x00800000), magnitude), vd_vi_float(sign_inf), y);
    return vd_vf_select(vd_vf_is_nan(x), vd_v_nan(), y);
}

static inline vd_vf vd_v_negative(vd_vf x) { return vd_vi_float(vd_vi_xor(vd_vf_bits(x), vd_vi_set1(INT32_MIN))); }

/* exp in two parts: the argument of ex2 and the power of two, then the rest. Parts exist because one vector's chain through a whole function is
 * longer than a processor can overlap with the next one's: callers with many vectors run part after part. */
static inline vd_vf vd_v_exp_first(vd_vf x, vd_vf *power)
{
    vd_vf u = vd_vf_fma(x, vd_v_constant(0x3BBB989Du), vd_vf_set1(0.5f));
    u       = vd_vf_min(vd_vf_max(u, vd_vf_zero()), vd_vf_set1(1.0f)); /* max returns its second operand for a NaN: 0 */
    /* floor(u·252): the cut of the rounded product, one less where the product was rounded up to an integer */
    const vd_vf product = vd_vf_mul(u, vd_vf_set1(252.0f)), lost = vd_vf_fma(u, vd_vf_set1(252.0f), vd_v_negative(product));
    const vd_vi cut     = vd_vf_truncate(product);
    /* cut as a float through the bits of 2^23 + cut */
    const vd_vf whole   = vd_vf_sub(vd_vi_float(vd_vi_add(cut, vd_vi_set1(0x4B000000))), vd_vf_set1(8388608.0f));
    const vd_vm integer = vd_vf_ge(whole, product), over = vd_vf_lt(lost, vd_vf_zero());
    const vd_vi n       = vd_vi_select(integer, vd_vi_select(over, vd_vi_sub(cut, vd_vi_set1(1)), cut), cut);
    const vd_vf k       = vd_vf_sub(vd_vi_float(vd_vi_add(n, vd_vi_set1(0x4B000000))), vd_vf_set1(8388608.0f + 126.0f));
    *power              = vd_vi_float(vd_vi_shl(vd_vi_add(n, vd_vi_set1(1)), 23));
    return vd_vf_fma(x, vd_v_constant(0x32A57060u), vd_vf_fma(x, vd_v_constant(0x3FB8AA3Bu), vd_v_negative(k)));
}

static inline vd_vf vd_v_exp_second(vd_vf t, vd_vf power) { return vd_v_canonical(vd_vf_mul(vd_v_ex2(t), power)); }

static inline vd_vf vd_v_exp(vd_vf x)
{
    vd_vf       power;
    const vd_vf t = vd_v_exp_first(x, &power);
    return vd_v_exp_second(t, power);
}

/* tanh in two parts: ex2(2·log2(e)·|x|) + 1, then the rest. */
static inline vd_vf vd_v_tanh_first(vd_vf x)
{
    const vd_vf a = vd_vi_float(vd_vi_and(vd_vf_bits(x), vd_vi_set1(INT32_MAX)));
    return vd_vf_add(vd_v_ex2(vd_vf_mul(a, vd_v_constant(0x4038AA3Bu))), vd_vf_set1(1.0f));
}

static inline vd_vf vd_v_tanh_second(vd_vf x, vd_vf sum)
{
    const vd_vi sign = vd_vi_and(vd_vf_bits(x), vd_vi_set1(INT32_MIN));
    const vd_vf a    = vd_vi_float(vd_vi_xor(vd_vf_bits(x), sign));
    vd_vf       big  = vd_vf_fma(vd_v_rcp(sum), vd_vf_set1(-2.0f), vd_vf_set1(1.0f));
    big = vd_vf_select(vd_vf_lt(a, vd_v_constant(0x41102CB4u)), big, vd_vf_set1(1.0f));
    big = vd_vi_float(vd_vi_or(vd_vf_bits(big), sign));
    const vd_vf q = vd_vf_mul(x, x);
    vd_vf       p = vd_vf_fma(vd_v_constant(0x3C80F082u), q, vd_v_constant(0xBD563CAEu));
    p             = vd_vf_fma(p, q, vd_v_constant(0x3E085941u));
    p             = vd_vf_fma(p, q, vd_v_constant(0xBEAAA9EDu));
    p             = vd_vf_fma(p, q, vd_vf_zero());
    return vd_v_canonical(vd_vf_select(vd_vf_ge(a, vd_v_constant(0x3F19999Au)), big, vd_vf_fma(p, x, x)));
}

static inline vd_vf vd_v_tanh(vd_vf x) { return vd_v_tanh_second(x, vd_v_tanh_first(x)); }

static inline vd_vf vd_v_denominator(vd_vf x) { return vd_vf_add(vd_vf_set1(1.0f), vd_v_exp(vd_v_negative(x))); }
static inline vd_vf vd_v_sigmoid(vd_vf x) { return vd_v_canonical(vd_vf_div(vd_vf_set1(1.0f), vd_v_denominator(x))); }
static inline vd_vf vd_v_silu(vd_vf x) { return vd_v_canonical(vd_vf_div(x, vd_v_denominator(x))); }

/* sin for quadrant 0, cos for quadrant 1; NaN out of range, as vd_trig */
static inline vd_vf vd_v_trig(vd_vf x, int quadrant)
{
    const vd_vf magnitude = vd_vi_float(vd_vi_and(vd_vf_bits(x), vd_vi_set1(0x7FFFFFFF)));
    const vd_vf r0        = vd_vf_add(vd_vf_rint(vd_vf_mul(x, vd_v_constant(0x3F22F983u))), vd_vf_zero()); /* -0 becomes +0 */
    const vd_vi n         = vd_vi_add(vd_vf_truncate(r0), vd_vi_set1(quadrant));
    vd_vf       t         = vd_vf_fma(r0, vd_v_constant(0xBFC90FDAu), x);
    t                     = vd_vf_fma(r0, vd_v_constant(0xB3A22168u), t);
    t                     = vd_vf_fma(r0, vd_v_constant(0xA7C234C5u), t);
    const vd_vf q         = vd_vf_mul(t, t);
    vd_vf       even      = vd_vf_fma(vd_v_constant(0x37CBAC00u), q, vd_v_constant(0xBAB607EDu));
    even                  = vd_vf_fma(even, q, vd_v_constant(0x3D2AAABBu));
    even                  = vd_vf_fma(even, q, vd_v_constant(0xBEFFFFFFu));
    vd_vf odd             = vd_vf_fma(vd_v_constant(0xB94D4153u), q, vd_v_constant(0x3C0885E4u));
    odd                   = vd_vf_fma(odd, q, vd_v_constant(0xBE2AAAA8u));
    const vd_vm is_even   = vd_vi_eq(vd_vi_and(n, vd_vi_set1(1)), vd_vi_set1(1)); /* the even polynomial: cosine's */
    const vd_vf base      = vd_vf_select(is_even, vd_vf_set1(1.0f), t);
    const vd_vf r         = vd_vf_fma(vd_vf_select(is_even, even, odd), vd_vf_fma(q, base, vd_vf_zero()), base);
    const vd_vm turned    = vd_vi_eq(vd_vi_and(n, vd_vi_set1(2)), vd_vi_set1(2));
    const vd_vf y         = vd_vf_select(turned, vd_vf_fma(r, vd_vf_set1(-1.0f), vd_vf_zero()), r);
    return vd_vf_select(vd_vf_lt(magnitude, vd_vf_set1(105615.0f)), y, vd_v_nan());
}

/* Rounded to bf16, to nearest even, and widened again; a NaN is 0x7FFF. */
static inline vd_vf vd_v_round_bf16(vd_vf x)
{
    const vd_vi u = vd_vf_bits(x);
    vd_vi       r = vd_vi_add(u, vd_vi_add(vd_vi_set1(0x7FFF), vd_vi_and(vd_vi_shr(u, 16), vd_vi_set1(1))));
    r             = vd_vi_and(r, vd_vi_set1((int32_t)0xFFFF0000));
    return vd_vf_select(vd_vf_is_nan(x), vd_vi_float(vd_vi_set1(0x7FFF0000)), vd_vi_float(r));
}

#endif
