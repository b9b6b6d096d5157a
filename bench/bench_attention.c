/* Attention of this library alone, one thread: times for bench_attention_torch.py, which compares them with torch's.
 * usage: bench_attention [--json] [--cpu LEVEL] [--order ID] [--rows N] [--turns N] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

int main(int argc, char **argv)
{
    vd_cpu_level level = vd_cpu_best_level();
    vd_order     order = VD_ATTN_K128_F32;
    int64_t      rows = 1088, turns = 3, heads = 24, d = 128;
    bool         json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
            continue;
        }
        const char *option = argv[i], *value = i + 1 < argc ? argv[++i] : "";
        const bool  good = strcmp(option, "--cpu") == 0 ? vd_cpu_find_level(value, &level) && level <= vd_cpu_best_level()
                           : strcmp(option, "--order") == 0 ? (order = vd_order_find(value)) >= VD_ATTN_K128
                           : strcmp(option, "--rows") == 0 ? (rows = atoll(value)) > 0
                           : strcmp(option, "--turns") == 0 ? (turns = atoll(value)) > 0
                                                            : false;
        if (!good) {
            fprintf(stderr, "bench_attention: %s %s: not an option, not a value of it, or a level that this CPU has not\n", option, value);
            return 2;
        }
    }
    vd_kernels kernels;
    vd_kernels_init_cpu(&kernels, level);
    const vd_dtype type   = order == VD_ATTN_K128_F32 ? VD_F32 : VD_BF16;
    const int64_t  stride = heads * d, size = rows * stride * vd_dtype_size(type);
    void          *t[4];
    for (int i = 0; i < 4; i++) {
        t[i] = bench_alloc(size);
        bench_fill(t[i], type, rows * stride, 1.0f, (uint64_t)i + 1);
    }
    const vd_attention op   = {order, rows, rows, heads, d, type, t[0], stride, t[1], stride, t[2], stride, t[3], stride};
    vd_exec            exec = {1, NULL, 0, VD_OK};
    exec.scratch_bytes      = kernels.attention_scratch(&op, 1);
    exec.scratch            = bench_alloc(exec.scratch_bytes);
    kernels.attention(&exec, &op);
    const double gflop = 4e-9 * (double)rows * (double)rows * (double)(heads * d);
    if (json)
        printf("{\"bench\": \"attention\", \"order\": \"%s\", \"level\": \"%s\", \"threads\": 1, \"rows\": %lld, \"heads\": %lld, \"d\": %lld, \"gflop\": %.3f, \"seconds\": [",
               vd_order_id(order), kernels.level, (long long)rows, (long long)heads, (long long)d, gflop);
    for (int64_t i = 0; i < turns; i++) {
        const double start = bench_now();
        kernels.attention(&exec, &op);
        const double seconds = bench_now() - start;
        if (json)
            printf("%s%.6f", i ? ", " : "", seconds);
        else
            printf("%s, level %s, %lld rows, one thread: %.3f s, %.1f GFLOP/s\n", vd_order_id(order), kernels.level, (long long)rows, seconds, gflop / seconds);
    }
    if (json)
        printf("]}\n");
    for (int i = 0; i < 4; i++)
        free(t[i]);
    free(exec.scratch);
    return 0;
}
