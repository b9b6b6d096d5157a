/* One entry for both arithmetics: the order says which. */
#include "kernels/cpu/avx512/tc16.h"
#include "kernels/cpu/avx512/avx512.h"

static bool is_tc16(vd_order order)
{
    return order == VD_TC16_CHAIN || order == VD_TC16_SPLIT || order == VD_TC16_FOLD512 || order == VD_TC16_TREE8;
}

void vd_avx512_linear(vd_exec *exec, const vd_linear *op)
{
    if (is_tc16(op->order))
        vd_avx512_tc16_linear(exec, op, NULL);
    else
        vd_avx512_fma_linear(exec, op);
}

int64_t vd_avx512_linear_scratch(const vd_linear *op, int threads)
{
    return is_tc16(op->order) ? vd_avx512_tc16_linear_scratch(op, threads) : vd_avx512_fma_linear_scratch(op, threads);
}
