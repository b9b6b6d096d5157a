/* The AVX-512 replay, compiled over emulated intrinsics: panels of 64 outputs on a machine that has only AVX2. */
#include "kernels/emulated_avx512.h"

#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/vec_sfu.h"

#include "kernels/cpu/replay/single_avx512.h"

#include "kernels/cpu/replay/attention.h"
#include "kernels/cpu/replay/linear.h"

#include "kernels/emulated.h"

void emulated_linear(vd_exec *exec, const vd_linear *op, vd_tally *tally) { vd_run_linear(exec, op, tally); }
int64_t emulated_linear_scratch(const vd_linear *op, int threads) { return threads * vd_plan_linear(op, threads).worker_bytes; }
void emulated_attention(vd_exec *exec, const vd_attention *op, vd_tally *tally) { vd_run_attention(exec, op, tally); }
int64_t emulated_attention_scratch(const vd_attention *op, int threads) { return threads * vd_plan_attention(op).worker_bytes; }
