/* One output of a linear layer: the sum in a named order. The caller adds the bias once, in fp32, and rounds once. */
#include "contract/contract.h"

float vd_linear_sum(vd_order order, int splits, const void *a, const void *b, vd_dtype b_type, int64_t k)
{
    switch (order) {
    case VD_TC16_CHAIN: return vd_tc16_chain(0.0f, a, b, k);
    case VD_TC16_SPLIT: return vd_tc16_split(a, b, k, splits);
    case VD_TC16_FOLD512: return vd_tc16_fold512(a, b, k);
    case VD_TC16_TREE8: return vd_tc16_tree8(a, b, k);
    case VD_FMA_CHAIN: return vd_fma_chain(0.0f, a, b, b_type, k);
    case VD_FMA_FOLD512: return vd_fma_fold512(a, b, b_type, k);
    case VD_FMA_PAIR: return vd_fma_pair(0.0f, a, b, k);
    default: return vd_float(VD_NAN_F32_BITS); /* not a linear's order */
    }
}

bool vd_linear_takes(vd_order order, vd_dtype x_type, vd_dtype w_type)
{
    switch (order) {
    case VD_TC16_CHAIN:
    case VD_TC16_SPLIT:
    case VD_TC16_FOLD512:
    case VD_TC16_TREE8:
    case VD_FMA_PAIR: return x_type == VD_BF16 && w_type == VD_BF16;
    case VD_FMA_CHAIN:
    case VD_FMA_FOLD512: return x_type == VD_F32 && (w_type == VD_F32 || w_type == VD_BF16);
    default: return false;
    }
}
