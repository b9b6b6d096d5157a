#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/vec_sfu.h"

#include "kernels/cpu/replay/single_avx512.h"

#include "kernels/cpu/replay/linear.h"

#include "kernels/cpu/avx512/tc16.h"

void vd_avx512_tc16_linear(vd_exec *exec, const vd_linear *op, vd_tally *tally)
{
    vd_run_linear(exec, op, tally);
}

int64_t vd_avx512_tc16_linear_scratch(const vd_linear *op, int threads)
{
    return threads * vd_plan_linear(op, threads).worker_bytes;
}
