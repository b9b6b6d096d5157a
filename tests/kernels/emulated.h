/* The AVX-512 replay over emulated intrinsics (emulated_avx512.c). */
#ifndef TESTS_EMULATED_H
#define TESTS_EMULATED_H

#include "kernels/cpu/replay/tally.h"
#include "kernels/table.h"

void    emulated_linear(vd_exec *exec, const vd_linear *op, vd_tally *tally);
int64_t emulated_linear_scratch(const vd_linear *op, int threads);
void    emulated_attention(vd_exec *exec, const vd_attention *op, vd_tally *tally);
int64_t emulated_attention_scratch(const vd_attention *op, int threads);

#endif
