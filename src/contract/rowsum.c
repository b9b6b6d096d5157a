/* Sums of squares over a row, in torch's two orders on a GPU, and the reciprocal root of their mean. */
#include "contract/contract.h"

#define LANES 128

/* ATen's order for fp32 means: squares rounded first, element i in lane i mod 128; fours of lanes left to right, then halves folded. */
float vd_rowsum128(const void *x, vd_dtype type, int64_t n)
{
    float lane[LANES] = {0}, s[LANES / 4];
    for (int64_t i = 0; i < n; i++) {
        const float v = vd_load(x, type, i), square = v * v;
        lane[i % LANES] += square;
    }
    for (int g = 0; g < LANES / 4; g++)
        s[g] = ((lane[4 * g] + lane[4 * g + 1]) + lane[4 * g + 2]) + lane[4 * g + 3];
    for (int distance = 16; distance >= 1; distance /= 2)
        for (int g = 0; g < distance; g++)
            s[g] += s[g + distance];
    return vd_canonical(s[0]);
}

/* The fused norm's order: lane t takes four neighbours at 4(t + 128 i), one fused multiply-add each; folded by 32 lanes, then by fours. */
float vd_rowsum512(const void *x, vd_dtype type, int64_t n)
{
    float lane[LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        const float v = vd_load(x, type, i);
        lane[i / 4 % LANES] = fmaf(v, v, lane[i / 4 % LANES]);
    }
    for (int group = 0; group < LANES; group += 32)
        for (int distance = 16; distance >= 1; distance /= 2)
            for (int t = group; t < group + distance; t++)
                lane[t] += lane[t + distance];
    return vd_canonical((lane[0] + lane[64]) + (lane[32] + lane[96]));
}

float vd_rms_rstd(vd_order order, const void *x, vd_dtype type, int64_t n, float eps)
{
    const float mean = order == VD_ROWSUM512 ? vd_rowsum512(x, type, n) / (float)n : vd_rowsum128(x, type, n) * (1.0f / (float)n);
    return vd_rsq(mean + eps);
}
