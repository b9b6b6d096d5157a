#include "kernels/table.h"

void vd_kernels_init_avx2(vd_kernels *table)
{
    table->level = vd_cpu_level_name(VD_CPU_AVX2);
}
