/* Rows of fp32 or bf16 over the vectors of vec_*.h: typed loads and stores, and the two orders for sums of squares.
 * Include vec_avx2.h or vec_avx512.h first. */
#ifndef VD_VEC_ROWS_H
#define VD_VEC_ROWS_H

#include <math.h>
#include <stdbool.h>

#include "core/parallel.h"
#include "kernels/cpu/vec_sfu.h"
#include "kernels/table.h"

/* Rows that one task takes. */
#ifdef VD_BAD_LUCK
enum { VD_ROWS_PER_TASK = 1, VD_MAP_PER_TASK = 3 * VD_W };
#else
enum { VD_ROWS_PER_TASK = 16, VD_MAP_PER_TASK = 1 << 15 };
#endif

static inline const void *vd_v_at(const void *base, vd_dtype type, int64_t element)
{
    return (const char *)base + element * (type == VD_BF16 ? 2 : 4);
}

static inline void *vd_v_to(void *base, vd_dtype type, int64_t element) { return (char *)base + element * (type == VD_BF16 ? 2 : 4); }

/* Elements i … of a row of n, widened; beyond the row +0. */
static inline vd_vf vd_v_load(const void *row, vd_dtype type, int64_t i, int64_t n)
{
    const void *p = vd_v_at(row, type, i);
    if (n - i >= VD_W)
        return type == VD_BF16 ? vd_vf_load_bf16(p) : vd_vf_load(p);
    return type == VD_BF16 ? vd_vf_load_bf16_part(p, (int)(n - i)) : vd_vf_load_part(p, (int)(n - i));
}

static inline vd_vf vd_v_round(vd_vf x, vd_dtype type) { return type == VD_BF16 ? vd_v_round_bf16(x) : x; }

/* Rounded to the type, NaN in its one form. */
static inline void vd_v_store(void *row, vd_dtype type, int64_t i, int64_t n, vd_vf x)
{
    void *p = vd_v_to(row, type, i);
    x       = type == VD_BF16 ? vd_v_round_bf16(x) : vd_v_canonical(x);
    if (n - i >= VD_W)
        type == VD_BF16 ? vd_vf_store_high(p, x) : vd_vf_store(p, x);
    else
        type == VD_BF16 ? vd_vf_store_high_part(p, x, (int)(n - i)) : vd_vf_store_part(p, x, (int)(n - i));
}

/* rowsum128: lane l adds the rounded squares of elements l, l + 128, …; then groups of four, then distances 16, 8, 4, 2, 1. */
static inline float vd_v_rowsum128(const void *row, vd_dtype type, int64_t n)
{
    enum { AT_ONCE = 8 };
    float lanes[128], groups[32];
    for (int64_t first = 0; first < 128; first += AT_ONCE * VD_W) {
        vd_vf sum[AT_ONCE];
        for (int v = 0; v < AT_ONCE; v++)
            sum[v] = vd_vf_zero();
        int64_t i = first;
        for (; i + AT_ONCE * VD_W <= n; i += 128)
            for (int v = 0; v < AT_ONCE; v++) {
                const vd_vf x = vd_v_load(row, type, i + v * VD_W, n);
                sum[v]        = vd_vf_add(sum[v], vd_vf_mul(x, x));
            }
        for (int v = 0; v < AT_ONCE && i + v * VD_W < n; v++) {
            const vd_vf x = vd_v_load(row, type, i + v * VD_W, n);
            sum[v]        = vd_vf_add(sum[v], vd_vf_mul(x, x)); /* beyond the row +0 is added to a sum of squares: no change */
        }
        for (int v = 0; v < AT_ONCE; v++)
            vd_vf_store(lanes + first + v * VD_W, sum[v]);
    }
    for (int g = 0; g < 32; g++)
        groups[g] = ((lanes[4 * g] + lanes[4 * g + 1]) + lanes[4 * g + 2]) + lanes[4 * g + 3];
    for (int distance = 16; distance; distance /= 2)
        for (int g = 0; g < distance; g++)
            groups[g] += groups[g + distance];
    return groups[0];
}

/* rowsum512: lane t takes elements 4(t + 128 i) … + 3, one FMA each; groups of 32 lanes fold at 16, 8, 4, 2, 1; then (g0+g2)+(g1+g3).
 * Lanes side by side in a vector hold elements four apart, so a small tile is turned through memory. */
static inline float vd_v_rowsum512(const void *row, vd_dtype type, int64_t n)
{
    float lanes[128] = {0};
    for (int64_t first = 0; first < 128 && 4 * first < n; first += VD_W) {
        vd_vf sum = vd_vf_zero();
        for (int64_t base = 4 * first; base < n; base += 512) {
            float tile[4 * VD_W], turned[4][VD_W];
            for (int v = 0; v < 4; v++)
                vd_vf_store(tile + v * VD_W, base + v * VD_W < n ? vd_v_load(row, type, base + v * VD_W, n) : vd_vf_zero());
            for (int t = 0; t < VD_W; t++)
                for (int e = 0; e < 4; e++)
                    turned[e][t] = tile[4 * t + e];
            for (int e = 0; e < 4; e++) {
                const vd_vf x = vd_vf_load(turned[e]);
                sum           = vd_vf_fma(x, x, sum);
            }
        }
        vd_vf_store(lanes + first, sum);
    }
    for (int distance = 16; distance; distance /= 2)
        for (int t = 0; t < 128; t++)
            if (t % 32 < distance)
                lanes[t] += lanes[t + distance];
    return (lanes[0] + lanes[64]) + (lanes[32] + lanes[96]);
}

static inline float vd_v_rstd(vd_order order, const void *row, vd_dtype type, int64_t n, float eps)
{
    const float mean = order == VD_ROWSUM512 ? vd_v_rowsum512(row, type, n) / (float)n : vd_v_rowsum128(row, type, n) * (1.0f / (float)n);
    return vd_rsq(mean + eps);
}

/* Runs `task` over m rows in pieces of VD_ROWS_PER_TASK. */
static inline void vd_v_over_rows(const vd_exec *exec, int64_t m, vd_task *task, void *arg)
{
    vd_parallel(exec->threads, (m + VD_ROWS_PER_TASK - 1) / VD_ROWS_PER_TASK, task, arg);
}

static inline int64_t vd_v_first_row(int64_t piece) { return piece * VD_ROWS_PER_TASK; }
static inline int64_t vd_v_last_row(int64_t piece, int64_t m) { return m - piece * VD_ROWS_PER_TASK < VD_ROWS_PER_TASK ? m : (piece + 1) * VD_ROWS_PER_TASK; }

#endif
