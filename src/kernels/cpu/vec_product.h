/* The micro-kernel of all fma products: a strip of rows times a panel of outputs, lanes over outputs, k ascending. Before this header, a level
 * includes its vec_*.h and defines
 *     static inline vd_vf vd_v_product(vd_vf a, vd_vf b, vd_vf c);  one cell's multiply-add in every lane (vec_pack.h: cells)
 */
#ifndef VD_VEC_PRODUCT_H
#define VD_VEC_PRODUCT_H

#include "kernels/cpu/vec_pack.h"
#include "kernels/cpu/vec_rows.h"

/* Small loops with constant bounds whose sums live in registers: unrolled whole, or they would live in memory. */
#ifdef __clang__
#define VD_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VD_UNROLL _Pragma("GCC unroll 16")
#endif

enum {
    VD_STRIP_ROWS = VD_W == 8 ? 6 : 14, /* rows of a strip: all its sums, two vectors a row, stay in registers */
    VD_PANEL_WIDTH = 2 * VD_W,
    VD_STRIP_STRIDE = VD_FMA_CELLS + 16, /* cells between a strip's rows: not a multiple of a page */
    VD_FEW_ROWS     = 2,                 /* so few rows take several panels at once, or their chains would wait for themselves */
    VD_FEW_PANELS   = 4
};

/* What becomes of the sums [np][rows of the task][VD_PANEL_WIDTH]. */
typedef enum vd_sum_mode {
    VD_SUM_NEW, /* chains start at +0 */
    VD_SUM_ON,  /* chains go on from there */
    VD_SUM_LEAF /* chains start at +0 and are added to what is there */
} vd_sum_mode;

/* strip [mr, cells] times np panels [VD_FMA_CELLS][VD_PANEL_WIDTH] */
static inline __attribute__((always_inline)) void vd_v_kernel(int mr, int np, int64_t cells, const float *a, const float *b, float *c, int64_t c_panel, vd_sum_mode mode)
{
    vd_vf sum[VD_STRIP_ROWS][2 * VD_FEW_PANELS];
    for (int m = 0; m < mr; m++) /* the next strip's sums come from far */
        _mm_prefetch((const char *)(c + (mr + m) * VD_PANEL_WIDTH), _MM_HINT_T0);
    VD_UNROLL
    for (int m = 0; m < mr; m++)
        VD_UNROLL
        for (int v = 0; v < 2 * np; v++)
            sum[m][v] = mode != VD_SUM_ON ? vd_vf_zero() : vd_vf_load(c + v / 2 * c_panel + m * VD_PANEL_WIDTH + v % 2 * VD_W);
    for (int64_t i = 0; i < cells; i++) {
        vd_vf w[2 * VD_FEW_PANELS];
        VD_UNROLL
        for (int v = 0; v < 2 * np; v++)
            w[v] = vd_vf_load(b + v / 2 * (VD_FMA_CELLS * VD_PANEL_WIDTH) + i * VD_PANEL_WIDTH + v % 2 * VD_W);
        VD_UNROLL
        for (int m = 0; m < mr; m++) {
            const vd_vf x = vd_vf_set1(a[m * VD_STRIP_STRIDE + i]);
            VD_UNROLL
            for (int v = 0; v < 2 * np; v++)
                sum[m][v] = vd_v_product(x, w[v], sum[m][v]);
        }
    }
    VD_UNROLL
    for (int m = 0; m < mr; m++)
        VD_UNROLL
        for (int v = 0; v < 2 * np; v++) {
            float *to = c + v / 2 * c_panel + m * VD_PANEL_WIDTH + v % 2 * VD_W;
            vd_vf_store(to, mode == VD_SUM_LEAF ? vd_vf_add(vd_vf_load(to), sum[m][v]) : sum[m][v]);
        }
}

/* A strip times panel after panel. */
static inline __attribute__((always_inline)) void vd_v_kernels(int mr, int64_t panels, int64_t cells, const float *a, const float *b, int64_t b_panel,
                                                               float *c, int64_t c_panel, vd_sum_mode mode)
{
    for (int64_t p = 0; p < panels; p++)
        vd_v_kernel(mr, 1, cells, a, b + p * b_panel, c + p * c_panel, 0, mode);
}

/* The same for any number of rows of a strip: mr in 1 … VD_STRIP_ROWS. */
static inline void vd_v_run_kernels(int mr, int64_t panels, int64_t cells, const float *a, const float *b, int64_t b_panel, float *c, int64_t c_panel,
                                    vd_sum_mode mode)
{
    switch (mr) {
    case 1: vd_v_kernels(1, panels, cells, a, b, b_panel, c, c_panel, mode); return;
    case 2: vd_v_kernels(2, panels, cells, a, b, b_panel, c, c_panel, mode); return;
    case 3: vd_v_kernels(3, panels, cells, a, b, b_panel, c, c_panel, mode); return;
    case 4: vd_v_kernels(4, panels, cells, a, b, b_panel, c, c_panel, mode); return;
    case 5: vd_v_kernels(5, panels, cells, a, b, b_panel, c, c_panel, mode); return;
    case 6: vd_v_kernels(6, panels, cells, a, b, b_panel, c, c_panel, mode); return;
    }
    if (VD_STRIP_ROWS > 6)
        switch (mr) {
        case 7: vd_v_kernels(7 % (VD_STRIP_ROWS + 1), panels, cells, a, b, b_panel, c, c_panel, mode); return;
        case 8: vd_v_kernels(8 % (VD_STRIP_ROWS + 1), panels, cells, a, b, b_panel, c, c_panel, mode); return;
        case 9: vd_v_kernels(9 % (VD_STRIP_ROWS + 1), panels, cells, a, b, b_panel, c, c_panel, mode); return;
        case 10: vd_v_kernels(10 % (VD_STRIP_ROWS + 1), panels, cells, a, b, b_panel, c, c_panel, mode); return;
        case 11: vd_v_kernels(11 % (VD_STRIP_ROWS + 1), panels, cells, a, b, b_panel, c, c_panel, mode); return;
        case 12: vd_v_kernels(12 % (VD_STRIP_ROWS + 1), panels, cells, a, b, b_panel, c, c_panel, mode); return;
        case 13: vd_v_kernels(13 % (VD_STRIP_ROWS + 1), panels, cells, a, b, b_panel, c, c_panel, mode); return;
        case 14: vd_v_kernels(14 % (VD_STRIP_ROWS + 1), panels, cells, a, b, b_panel, c, c_panel, mode); return;
        }
}

/* Few rows times VD_FEW_PANELS panels at once; a second row finds them in the cache. */
static inline void vd_v_run_few(int mr, int64_t cells, const float *a, const float *b, float *c, int64_t c_panel, vd_sum_mode mode)
{
    for (int m = 0; m < mr; m++)
        vd_v_kernel(1, VD_FEW_PANELS, cells, a + m * VD_STRIP_STRIDE, b, c + m * VD_PANEL_WIDTH, c_panel, mode);
}

enum {
    VD_CSR_PLAIN = 0x1F80, /* to nearest even, exceptions masked */
    VD_CSR_FLUSH = 0x9FC0  /* and subnormals are zeros of their sign, in and out: the flushing of fma/pair, which the processor decides from
                            * the result rounded to 24 bits with no smallest exponent, as VDPBF16PS does */
};

#endif
