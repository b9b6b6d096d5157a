#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/vec_sfu.h"

#include "kernels/cpu/replay/step_avx2.h"

#include "kernels/cpu/replay/attention.h"

#include "kernels/cpu/avx2/tc16.h"

void vd_avx2_tc16_attention(vd_exec *exec, const vd_attention *op, vd_tally *tally)
{
    vd_run_attention(exec, op, tally);
}

int64_t vd_avx2_tc16_attention_scratch(const vd_attention *op, int threads)
{
    return threads * vd_plan_attention(op).worker_bytes;
}
