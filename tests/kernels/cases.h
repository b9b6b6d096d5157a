/* The cases of each entry of the table; drawn by run->random. */
#ifndef TESTS_KERNELS_CASES_H
#define TESTS_KERNELS_CASES_H

#include "kernels/harness.h"

h_case h_linear_tc16, h_linear_fma, h_linear_pair, h_linear_overflow, h_linear_sliver;
h_case h_attention_k128, h_attention_pair, h_attention_f32;
h_case h_rms_norm_case, h_norm_modulate_case, h_rotary_case, h_head_norm_rotary_case, h_situ_case, h_gated_residual_case, h_map_case, h_transpose_case;

#endif
