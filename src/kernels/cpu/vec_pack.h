/* Operands of the fma products laid out as the micro-kernels read them. A *cell* is what one multiply-add of a lane takes: one fp32 number,
 * or, with the native bf16 instruction, a pair of bf16. Include vec_avx2.h or vec_avx512.h first.
 *
 * fma/pair without the instruction: the pair's odd element comes first, so bf16 is widened and each pair swapped; then it is a plain chain,
 * with subnormals flushed by the processor (vec_flush.h).
 */
#ifndef VD_VEC_PACK_H
#define VD_VEC_PACK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/core.h"
#include "kernels/cpu/tiles.h"

typedef enum vd_cells {
    VD_CELLS_F32,     /* fp32 as it is */
    VD_CELLS_WIDEN,   /* bf16 widened */
    VD_CELLS_SWAPPED, /* bf16 widened, the elements of each pair exchanged */
    VD_CELLS_PAIRS    /* two bf16 a cell, as they lie */
} vd_cells;

static inline int64_t vd_cells_elements(vd_cells kind) { return kind == VD_CELLS_PAIRS ? 2 : 1; } /* of one cell */
static inline int64_t vd_cells_bytes(vd_cells kind) { return kind == VD_CELLS_F32 || kind == VD_CELLS_PAIRS ? 4 : 2; } /* of one cell in memory */
static inline int64_t vd_cells_count(vd_cells kind, int64_t k) /* that k elements fill; zeros complete the last pair */
{
    return kind == VD_CELLS_PAIRS ? (k + 1) / 2 : kind == VD_CELLS_SWAPPED ? (k + 1) / 2 * 2 : k;
}

static inline vd_vf vd_cells_load(const void *p, vd_cells kind)
{
    switch (kind) {
    case VD_CELLS_WIDEN: return vd_vf_load_bf16(p);
    case VD_CELLS_SWAPPED: return vd_vf_swap_pairs(vd_vf_load_bf16(p));
    default: return vd_vf_load(p);
    }
}

/* Cells from `bytes` < a whole vector's bytes: +0 beyond. */
static inline vd_vf vd_cells_load_part(const void *p, vd_cells kind, int64_t bytes)
{
    char whole[4 * VD_W] = {0};
    memcpy(whole, p, (size_t)bytes);
    return vd_cells_load(whole, kind);
}

/* One row of k elements into cells; +0 up to a whole vector. */
static inline void vd_pack_row(float *to, const void *from, vd_cells kind, int64_t k)
{
    const char   *p     = from;
    const int64_t bytes = vd_cells_bytes(kind), size = kind == VD_CELLS_F32 ? 4 : 2, cells = vd_cells_count(kind, k);
    int64_t       i     = 0;
    for (; (i + VD_W) * bytes <= k * size; i += VD_W)
        vd_vf_store(to + i, vd_cells_load(p + i * bytes, kind));
    if (i < cells)
        vd_vf_store(to + i, vd_cells_load_part(p + i * bytes, kind, k * size - i * bytes));
}

/* One cache line of each of VD_W rows, copied before it is turned: rows of weights are often pages apart, where their lines fall on one set of
 * the first-level cache and would be evicted between two reads. `left`: bytes of the rows from here on; rows from `rows` on are zeros. */
typedef struct vd_lines {
    char row[VD_W][64];
} vd_lines;

static inline void vd_fetch_lines(vd_lines *to, const char *from, int64_t stride, int64_t rows, int64_t left)
{
    if (rows >= VD_W && left >= 64) {
        for (int r = 0; r < VD_W; r++)
            for (int i = 0; i < 64; i += 4 * VD_W)
                vd_vf_store(to->row[r] + i, vd_vf_load(from + r * stride + i));
        return;
    }
    memset(to, 0, sizeof *to);
    for (int64_t r = 0; r < vd_min(rows, VD_W); r++)
        memcpy(to->row[r], from + r * stride, (size_t)vd_min(64, left));
}

/* Cells i … i + VD_W - 1 of the lines, turned: v[cell], lanes over rows. */
static inline void vd_turn_cells(const vd_lines *lines, vd_cells kind, int64_t i, vd_vf v[VD_W])
{
    for (int r = 0; r < VD_W; r++)
        v[r] = vd_cells_load(lines->row[r] + i * vd_cells_bytes(kind), kind);
    vd_vf_turn(v);
}

/* A panel of `width` (a multiple of VD_W) rows turned: to[cell·width + row]; rows from `rows` on are zeros. `stride`: bytes between rows.
 * Cells up to a whole vector are written. */
static inline void vd_pack_panel(float *to, int64_t width, const void *from, int64_t stride, int64_t rows, vd_cells kind, int64_t k)
{
    const int64_t bytes = vd_cells_bytes(kind), left = k * (kind == VD_CELLS_F32 ? 4 : 2), cells = vd_cells_count(kind, k), step = 64 / bytes;
    for (int64_t first = 0; first < width; first += VD_W) {
        for (int64_t i = 0; i < cells; i += step) {
            if (step == VD_W && rows - first >= VD_W && left - i * bytes >= 64) { /* a line is a vector */
                vd_vf v[VD_W];
                for (int r = 0; r < VD_W; r++)
                    v[r] = vd_cells_load((const char *)from + (first + r) * stride + i * bytes, kind);
                vd_vf_turn(v);
                for (int c = 0; c < VD_W; c++)
                    vd_vf_store(to + (i + c) * width + first, v[c]);
                continue;
            }
            vd_lines lines;
            vd_fetch_lines(&lines, (const char *)from + first * stride + i * bytes, stride, rows - first, left - i * bytes);
            for (int64_t j = 0; j < step && i + j < cells; j += VD_W) {
                vd_vf v[VD_W];
                vd_turn_cells(&lines, kind, j, v);
                for (int c = 0; c < VD_W; c++)
                    vd_vf_store(to + (i + j + c) * width + first, v[c]);
            }
        }
    }
}

#endif
