/* One entry for both arithmetics: the order says which. */
#include "kernels/cpu/avx2/tc16.h"
#include "kernels/cpu/avx2/avx2.h"

static bool is_tc16(vd_order order)
{
    return order == VD_TC16_CHAIN || order == VD_TC16_SPLIT || order == VD_TC16_FOLD512 || order == VD_TC16_TREE8;
}

void vd_avx2_linear(vd_exec *exec, const vd_linear *op)
{
    if (is_tc16(op->order))
        vd_avx2_tc16_linear(exec, op, NULL);
    else
        vd_avx2_fma_linear(exec, op);
}

int64_t vd_avx2_linear_scratch(const vd_linear *op, int threads)
{
    return is_tc16(op->order) ? vd_avx2_tc16_linear_scratch(op, threads) : vd_avx2_fma_linear_scratch(op, threads);
}
