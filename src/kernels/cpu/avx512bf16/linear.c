/* One entry for all orders, in two forms: the instruction for every fma/pair, or for few rows alone. */
#include "core/core.h"
#include "kernels/cpu/avx512bf16/avx512bf16.h"

void vd_avx512bf16_linear(vd_exec *exec, const vd_linear *op)
{
    if (op->order == VD_FMA_PAIR)
        vd_avx512bf16_pair_linear(exec, op);
    else
        vd_avx512_linear(exec, op);
}

void vd_avx512bf16_linear_few(vd_exec *exec, const vd_linear *op)
{
    enum { FEW = 2 }; /* where reading the weights takes the time */
    if (op->order == VD_FMA_PAIR && op->m <= FEW)
        vd_avx512bf16_pair_linear(exec, op);
    else
        vd_avx512_linear(exec, op);
}

/* Enough for either. */
int64_t vd_avx512bf16_linear_scratch(const vd_linear *op, int threads)
{
    const int64_t plain = vd_avx512_linear_scratch(op, threads);
    return op->order == VD_FMA_PAIR ? vd_max(plain, vd_avx512bf16_pair_linear_scratch(op, threads)) : plain;
}
