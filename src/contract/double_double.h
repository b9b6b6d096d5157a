/* Functions evaluated in pairs of doubles (hi + lo, |lo| <= ulp(hi)/2), so that one last rounding to fp32 or to double is the correct one.
 *
 * Every function here is within about 2^-90 of its value, relative. A function of one fp32 argument comes no nearer to the middle between
 * two fp32 numbers than about 2^-60 relative, save where it is exact, because there are only 2^32 arguments: the rounding of the pair is the
 * rounding of the value. Where the argument is a double (the timestep's sinusoid) the same holds but for a chance of 2^-60 a value.
 * Only +, -, *, / and fma in double: no mathematics library takes part, so the bytes are the same on every machine. (log is asked for a
 * first guess, which one Newton step makes immaterial.)
 */
#ifndef VD_DOUBLE_DOUBLE_H
#define VD_DOUBLE_DOUBLE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define VD_FN static inline __host__ __device__
#else
#define VD_FN static inline
#endif

typedef struct vd_dd {
    double hi, lo;
} vd_dd;

VD_FN vd_dd vd_dd_make(double hi, double lo)
{
    vd_dd r;
    r.hi = hi;
    r.lo = lo;
    return r;
}

/* a + b exactly, |a| >= |b| or a = 0 */
VD_FN vd_dd vd_dd_quick(double a, double b)
{
    const double s = a + b;
    return vd_dd_make(s, b - (s - a));
}

/* a + b exactly */
VD_FN vd_dd vd_dd_sum(double a, double b)
{
    const double s = a + b, t = s - a;
    return vd_dd_make(s, (a - (s - t)) + (b - t));
}

/* a · b exactly, where it neither overflows nor comes near the smallest numbers */
VD_FN vd_dd vd_dd_product(double a, double b)
{
    const double p = a * b;
    return vd_dd_make(p, fma(a, b, -p));
}

VD_FN vd_dd vd_dd_add(vd_dd a, vd_dd b)
{
    vd_dd s = vd_dd_sum(a.hi, b.hi), t = vd_dd_sum(a.lo, b.lo);
    s = vd_dd_quick(s.hi, s.lo + t.hi);
    return vd_dd_quick(s.hi, s.lo + t.lo);
}

VD_FN vd_dd vd_dd_mul(vd_dd a, vd_dd b)
{
    const vd_dd p = vd_dd_product(a.hi, b.hi);
    return vd_dd_quick(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

VD_FN vd_dd vd_dd_scale(vd_dd a, double b) { return vd_dd_mul(a, vd_dd_make(b, 0.0)); }

VD_FN vd_dd vd_dd_div(vd_dd a, double b)
{
    const double q = a.hi / b;
    const vd_dd  r = vd_dd_add(a, vd_dd_scale(vd_dd_make(-q, 0.0), b));
    return vd_dd_quick(q, r.hi / b);
}

/* e^a, |a| <= 700 */
VD_FN vd_dd vd_dd_exp(vd_dd a)
{
    const double k = rint(a.hi * 0x1.71547652b82fep+0);
    /* ln 2 in three parts; k times the first is exact as a pair */
    vd_dd r = vd_dd_add(a, vd_dd_product(-k, 0x1.62e42fefa39efp-1));
    r       = vd_dd_add(r, vd_dd_product(-k, 0x1.abc9e3b39803fp-56));
    r       = vd_dd_add(r, vd_dd_make(-k * 0x1.7b57a079a1934p-111, 0.0));
    /* e^r - 1 by its series at r/64, doubled back by (1 + y)² - 1 = 2y + y², which keeps the relative error */
    r        = vd_dd_scale(r, 0x1p-6);
    vd_dd y = vd_dd_make(0.0, 0.0);
    for (int n = 14; n >= 1; n--) /* (r/n)(1 + y), from the inside */
        y = vd_dd_mul(vd_dd_div(r, (double)n), vd_dd_add(vd_dd_make(1.0, 0.0), y));
    for (int i = 0; i < 6; i++)
        y = vd_dd_add(vd_dd_scale(y, 2.0), vd_dd_mul(y, y));
    y = vd_dd_add(vd_dd_make(1.0, 0.0), y);
    return vd_dd_make(ldexp(y.hi, (int)k), ldexp(y.lo, (int)k));
}

/* ln a for a pair a > 0, away from 1 */
VD_FN vd_dd vd_dd_log(vd_dd a)
{
    const double guess = log(a.hi);
    /* a·e^-guess = 1 + d with d about 2^-52, so ln a = guess + d - d²/2 */
    const vd_dd d = vd_dd_add(vd_dd_mul(a, vd_dd_exp(vd_dd_make(-guess, 0.0))), vd_dd_make(-1.0, 0.0));
    return vd_dd_add(vd_dd_make(guess, 0.0), vd_dd_add(d, vd_dd_make(-0.5 * d.hi * d.hi, 0.0)));
}

/* ln(1 + x) for an fp32 number x > -1, not 0 */
VD_FN vd_dd vd_dd_log1p(double x)
{
    if (fabs(x) >= 0x1p-6)
        return vd_dd_log(vd_dd_sum(1.0, x));
    /* the series, so that the error stays relative: x(1 - x(1/2 - x(1/3 - …))) */
    vd_dd y = vd_dd_make(0.0, 0.0);
    for (int n = 18; n >= 1; n--)
        y = vd_dd_add(vd_dd_div(vd_dd_make(1.0, 0.0), (double)n), vd_dd_scale(y, -x));
    return vd_dd_scale(y, x);
}

/* sin a for quarter 0, cos a for quarter 1; |a| < 2^30 */
VD_FN vd_dd vd_dd_trig(double a, int quarter)
{
    const double k = rint(a * 0x1.45f306dc9c883p-1);
    vd_dd        r = vd_dd_add(vd_dd_make(a, 0.0), vd_dd_product(-k, 0x1.921fb54442d18p+0)); /* pi/2 in three parts */
    r              = vd_dd_add(r, vd_dd_product(-k, 0x1.1a62633145c07p-54));
    r              = vd_dd_add(r, vd_dd_make(-k * -0x1.f1976b7ed8fbcp-110, 0.0));
    const int64_t n = (int64_t)k + quarter;
    const vd_dd   q = vd_dd_scale(vd_dd_mul(r, r), -1.0);
    vd_dd         y = vd_dd_make(0.0, 0.0);
    /* 1 - r²/(1·2)(1 - r²/(3·4)(…)) for cos, r(1 - r²/(2·3)(…)) for sin */
    const int first = n & 1 ? 1 : 2;
    for (int i = 28 + first; i >= first; i -= 2)
        y = vd_dd_mul(vd_dd_div(q, (double)i * (i + 1)), vd_dd_add(vd_dd_make(1.0, 0.0), y));
    y = vd_dd_add(vd_dd_make(1.0, 0.0), y);
    if (!(n & 1))
        y = vd_dd_mul(y, r);
    return n & 2 ? vd_dd_scale(y, -1.0) : y;
}

/* One rounding to fp32. The pair is first rounded to odd at 53 bits, so the second rounding cannot be misled by the first. */
VD_FN float vd_dd_to_float(vd_dd a)
{
    uint64_t u;
    memcpy(&u, &a.hi, sizeof u);
    if (a.lo != 0.0 && !(u & 1))
        u += (a.lo > 0.0) == (a.hi > 0.0) ? 1 : (uint64_t)-1;
    memcpy(&a.hi, &u, sizeof u);
    return (float)a.hi;
}

#endif
