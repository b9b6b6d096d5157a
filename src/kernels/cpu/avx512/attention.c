/* One entry for all orders: the order says which arithmetic. */
#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/avx512/tc16.h"

void vd_avx512_attention(vd_exec *exec, const vd_attention *op)
{
    if (op->order == VD_ATTN_K128)
        vd_avx512_tc16_attention(exec, op, NULL);
    else
        vd_avx512_fma_attention(exec, op);
}

int64_t vd_avx512_attention_scratch(const vd_attention *op, int threads)
{
    return op->order == VD_ATTN_K128 ? vd_avx512_tc16_attention_scratch(op, threads) : vd_avx512_fma_attention_scratch(op, threads);
}
