/* One entry for all orders. */
#include "kernels/cpu/avx512bf16/avx512bf16.h"

void vd_avx512bf16_attention(vd_exec *exec, const vd_attention *op)
{
    if (op->order == VD_ATTN_K128_PAIR)
        vd_avx512bf16_pair_attention(exec, op);
    else
        vd_avx512_attention(exec, op);
}

int64_t vd_avx512bf16_attention_scratch(const vd_attention *op, int threads)
{
    return op->order == VD_ATTN_K128_PAIR ? vd_avx512bf16_pair_attention_scratch(op, threads) : vd_avx512_attention_scratch(op, threads);
}
