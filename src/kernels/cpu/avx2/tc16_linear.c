#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/vec_sfu.h"

#include "kernels/cpu/replay/single_avx2.h"

#include "kernels/cpu/replay/linear.h"

#include "kernels/cpu/avx2/tc16.h"

void vd_avx2_tc16_linear(vd_exec *exec, const vd_linear *op, vd_tally *tally)
{
    vd_run_linear(exec, op, tally);
}

int64_t vd_avx2_tc16_linear_scratch(const vd_linear *op, int threads)
{
    return threads * vd_plan_linear(op, threads).worker_bytes;
}
