#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/vec_sfu.h"

#include "kernels/cpu/replay/step_avx512.h"

#include "kernels/cpu/replay/attention.h"

#include "kernels/cpu/avx512/tc16.h"

void vd_avx512_tc16_attention(vd_exec *exec, const vd_attention *op, vd_tally *tally)
{
    vd_run_attention(exec, op, tally);
}

int64_t vd_avx512_tc16_attention_scratch(const vd_attention *op, int threads)
{
    return threads * vd_plan_attention(op).worker_bytes;
}
