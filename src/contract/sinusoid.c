/* Sinusoids of the timestep: cosines first, then sines. */
#include "contract/contract.h"

void vd_sinusoid_moss(float t, int64_t dim, float *e)
{
    const int64_t half      = dim / 2;
    const vd_dd   log_10000 = vd_dd_log(vd_dd_make(10000.0, 0.0));
    for (int64_t k = 0; k < half; k++) {
        /* -k/half · ln 10000, as pairs; the frequency is its exponential correctly rounded to double (the high part of the pair) */
        const vd_dd  exponent  = vd_dd_mul(vd_dd_div(vd_dd_make(-(double)k, 0.0), (double)half), log_10000);
        const double frequency = vd_dd_exp(exponent).hi;
        const double phase     = (double)t * frequency;
        if (!(fabs(phase) < 0x1p29)) { /* out of range, or NaN */
            e[k] = e[half + k] = vd_float(VD_NAN_F32_BITS);
            continue;
        }
        e[k]        = phase == 0.0 ? 1.0f : vd_dd_to_float(vd_dd_trig(phase, 1));
        e[half + k] = phase == 0.0 ? 0.0f : vd_dd_to_float(vd_dd_trig(phase, 0));
    }
}

void vd_sinusoid_h3(float t, int64_t dim, float *e)
{
    const int64_t half       = dim / 2;
    const float   reciprocal = 1.0f / (float)half;
    for (int64_t k = 0; k < half; k++) {
        const float scaled = vd_float(0xC1135D8Eu) * (float)k; /* fp32(-ln 10000) */
        const float phase  = t * vd_exp(scaled * reciprocal);
        e[k]               = vd_cos(phase);
        e[half + k]        = vd_sin(phase);
    }
}
