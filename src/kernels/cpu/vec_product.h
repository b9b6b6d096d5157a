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
    VD_FEW_ROWS     = 2                  /* for so few, laying weights out in panels does not pay */
};

/* What becomes of the sums. */
typedef enum vd_sum_mode {
    VD_SUM_NEW, /* chains start at +0 */
    VD_SUM_ON,  /* chains go on from there */
    VD_SUM_LEAF /* chains start at +0 and are added to what is there */
} vd_sum_mode;

/* Strip [mr][cells] times panel [cells][VD_PANEL_WIDTH], into sums [mr][VD_PANEL_WIDTH]. */
static inline __attribute__((always_inline)) void vd_v_kernel(int mr, int64_t cells, const float *a, const float *b, float *c, vd_sum_mode mode)
{
    vd_vf sum[VD_STRIP_ROWS][2];
    for (int m = 0; m < mr; m++) /* the next strip's sums come from far */
        _mm_prefetch((const char *)(c + (mr + m) * VD_PANEL_WIDTH), _MM_HINT_T0);
    VD_UNROLL
    for (int m = 0; m < mr; m++)
        VD_UNROLL
        for (int v = 0; v < 2; v++)
            sum[m][v] = mode != VD_SUM_ON ? vd_vf_zero() : vd_vf_load(c + m * VD_PANEL_WIDTH + v * VD_W);
    for (int64_t i = 0; i < cells; i++) {
        const vd_vf w0 = vd_vf_load(b + i * VD_PANEL_WIDTH), w1 = vd_vf_load(b + i * VD_PANEL_WIDTH + VD_W);
        VD_UNROLL
        for (int m = 0; m < mr; m++) {
            const vd_vf x = vd_vf_set1(a[m * VD_STRIP_STRIDE + i]);
            sum[m][0]     = vd_v_product(x, w0, sum[m][0]);
            sum[m][1]     = vd_v_product(x, w1, sum[m][1]);
        }
    }
    VD_UNROLL
    for (int m = 0; m < mr; m++)
        VD_UNROLL
        for (int v = 0; v < 2; v++) {
            float *to = c + m * VD_PANEL_WIDTH + v * VD_W;
            vd_vf_store(to, mode == VD_SUM_LEAF ? vd_vf_add(vd_vf_load(to), sum[m][v]) : sum[m][v]);
        }
}

/* A strip times panel after panel. */
static inline __attribute__((always_inline)) void vd_v_kernels(int mr, int64_t panels, int64_t cells, const float *a, const float *b, int64_t b_panel,
                                                               float *c, int64_t c_panel, vd_sum_mode mode)
{
    for (int64_t p = 0; p < panels; p++)
        vd_v_kernel(mr, cells, a, b + p * b_panel, c + p * c_panel, mode);
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

enum {
    VD_CSR_PLAIN = 0x1F80, /* to nearest even, exceptions masked */
    VD_CSR_FLUSH = 0x9FC0  /* and subnormals are zeros of their sign, in and out: the flushing of fma/pair, which the processor decides from
                            * the result rounded to 24 bits with no smallest exponent, as VDPBF16PS does */
};

#endif
