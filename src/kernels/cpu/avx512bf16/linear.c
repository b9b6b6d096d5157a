/* One entry for all orders. */
#include "kernels/cpu/avx512bf16/avx512bf16.h"

void vd_avx512bf16_linear(vd_exec *exec, const vd_linear *op)
{
    if (op->order == VD_FMA_PAIR)
        vd_avx512bf16_pair_linear(exec, op);
    else
        vd_avx512_linear(exec, op);
}

int64_t vd_avx512bf16_linear_scratch(const vd_linear *op, int threads)
{
    return op->order == VD_FMA_PAIR ? vd_avx512bf16_pair_linear_scratch(op, threads) : vd_avx512_linear_scratch(op, threads);
}
