#include "kernels/cpu/generic/generic.h"

void vd_kernels_init_generic(vd_kernels *table)
{
    table->level             = vd_cpu_level_name(VD_CPU_GENERIC);
    table->linear            = vd_generic_linear;
    table->rms_norm          = vd_generic_rms_norm;
    table->norm_modulate     = vd_generic_norm_modulate;
    table->rotary            = vd_generic_rotary;
    table->head_norm_rotary  = vd_generic_head_norm_rotary;
    table->attention         = vd_generic_attention;
    table->situ              = vd_generic_situ;
    table->gated_residual    = vd_generic_gated_residual;
    table->map               = vd_generic_map;
    table->transpose         = vd_generic_transpose;
    table->gather            = vd_generic_gather;
    table->linear_scratch    = vd_generic_linear_scratch;
    table->attention_scratch = vd_generic_attention_scratch;
}
