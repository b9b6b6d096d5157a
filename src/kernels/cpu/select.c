#include "core/core.h"
#include "kernels/table.h"

vd_status vd_kernels_select(vd_context *ctx, vd_kernels *table)
{
    const vd_cpu_level best  = vd_cpu_best_level();
    vd_cpu_level       level = best;
    if (ctx->options.cpu && !vd_cpu_find_level(ctx->options.cpu, &level))
        return vd_fail(ctx, VD_BAD_ARGUMENT, "cpu", "no vector level \"%s\": levels are generic, avx2, avx512, avx512bf16", ctx->options.cpu);
    if (level > best)
        return vd_fail(ctx, VD_UNSUPPORTED, "cpu", "this CPU has no %s: its best level is %s", vd_cpu_level_name(level), vd_cpu_level_name(best));
    vd_kernels_init_cpu(table, level);
    return VD_OK;
}
