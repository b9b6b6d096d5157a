/* Chains of fused multiply-adds: fp32 operands in k order, bf16 operands in the order of the instruction VDPBF16PS. */
#include "contract/contract.h"

float vd_fma_chain(float c, const void *a, const void *b, vd_dtype b_type, int64_t k)
{
    for (int64_t i = 0; i < k; i++)
        c = fmaf(vd_load(a, VD_F32, i), vd_load(b, b_type, i), c);
    return vd_canonical(c);
}

float vd_fma_fold512(const void *a, const void *b, vd_dtype b_type, int64_t k)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < k; i += 512)
        sum += vd_fma_chain(0.0f, (const char *)a + 4 * i, (const char *)b + vd_dtype_size(b_type) * i, b_type, k - i < 512 ? k - i : 512);
    return vd_canonical(sum);
}

static float flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

float vd_fma_flush(float a, float b, float c)
{
    a = flush(a);
    b = flush(b);
    c = flush(c);
    const float r = fmaf(a, b, c);
    /* The rounding that decides is that to 24 bits with no smallest exponent. It can differ from fmaf's only where fmaf gives 2^-126
     * itself; there all is scaled up by an exact 2^48 (nothing overflows: an exponent far above cannot cancel down to 2^-126). */
    if (fabsf(r) == 0x1p-126f && fabsf(fmaf(a * 0x1p24f, b * 0x1p24f, c * 0x1p48f)) < 0x1p-78f)
        return copysignf(0.0f, r);
    return flush(r);
}

float vd_fma_pair(float c, const void *a, const void *b, int64_t k)
{
    for (int64_t i = 0; i < k; i += 2) {
        const bool whole = i + 1 < k; /* K odd: zeros complete the last pair */
        c = vd_fma_flush(whole ? vd_load(a, VD_BF16, i + 1) : 0.0f, whole ? vd_load(b, VD_BF16, i + 1) : 0.0f, c);
        c = vd_fma_flush(vd_load(a, VD_BF16, i), vd_load(b, VD_BF16, i), c);
    }
    return vd_canonical(c);
}
