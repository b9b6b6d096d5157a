/* Linear layers in the fma orders, written once over the vectors of vec_*.h. Before this header, a level includes its vec_*.h and defines
 *     static inline vd_vf vd_v_product(vd_vf a, vd_vf b, vd_vf c);  one cell's multiply-add in every lane (vec_pack.h: cells)
 *
 * Lanes run over outputs, never over k. A task is a block of outputs and of rows: block of k after block of k, the weights are turned into
 * panels (once for all rows), a strip of rows is widened, and the micro-kernel adds the strip times each panel to the sums. Sums go from
 * block to block through memory as fp32, which a chain does not notice; fold512's leaf is one block, added to the sum at its end.
 */
#ifndef VD_VEC_LINEAR_H
#define VD_VEC_LINEAR_H

#include "core/parallel.h"
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

/* strip [mr, cells] times np panels, added to the sums [np][rows of the task][VD_PANEL_WIDTH]. fold: the block is a chain of its own. */
static inline __attribute__((always_inline)) void vd_v_kernel(int mr, int np, int64_t cells, const float *a, const float *b, float *c, int64_t c_panel, bool fold)
{
    vd_vf sum[VD_STRIP_ROWS][2 * VD_FEW_PANELS];
    VD_UNROLL
    for (int m = 0; m < mr; m++)
        VD_UNROLL
        for (int v = 0; v < 2 * np; v++)
            sum[m][v] = fold ? vd_vf_zero() : vd_vf_load(c + v / 2 * c_panel + m * VD_PANEL_WIDTH + v % 2 * VD_W);
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
            vd_vf_store(to, fold ? vd_vf_add(vd_vf_load(to), sum[m][v]) : sum[m][v]);
        }
}

static inline void vd_v_run_kernel(int mr, int np, int64_t cells, const float *a, const float *b, float *c, int64_t c_panel, bool fold)
{
    if (np == VD_FEW_PANELS) {
        if (mr == 1)
            vd_v_kernel(1, VD_FEW_PANELS, cells, a, b, c, c_panel, fold);
        else
            for (int m = 0; m < 2; m++) /* the second row finds the panels in the cache */
                vd_v_kernel(1, VD_FEW_PANELS, cells, a + m * VD_STRIP_STRIDE, b, c + m * VD_PANEL_WIDTH, c_panel, fold);
        return;
    }
    switch (mr) {
    case 1: vd_v_kernel(1, 1, cells, a, b, c, c_panel, fold); return;
    case 2: vd_v_kernel(2, 1, cells, a, b, c, c_panel, fold); return;
    case 3: vd_v_kernel(3, 1, cells, a, b, c, c_panel, fold); return;
    case 4: vd_v_kernel(4, 1, cells, a, b, c, c_panel, fold); return;
    case 5: vd_v_kernel(5, 1, cells, a, b, c, c_panel, fold); return;
    case 6: vd_v_kernel(6, 1, cells, a, b, c, c_panel, fold); return;
    }
    if (VD_STRIP_ROWS > 6)
        switch (mr) {
        case 7: vd_v_kernel(7 % (VD_STRIP_ROWS + 1), 1, cells, a, b, c, c_panel, fold); return;
        case 8: vd_v_kernel(8 % (VD_STRIP_ROWS + 1), 1, cells, a, b, c, c_panel, fold); return;
        case 9: vd_v_kernel(9 % (VD_STRIP_ROWS + 1), 1, cells, a, b, c, c_panel, fold); return;
        case 10: vd_v_kernel(10 % (VD_STRIP_ROWS + 1), 1, cells, a, b, c, c_panel, fold); return;
        case 11: vd_v_kernel(11 % (VD_STRIP_ROWS + 1), 1, cells, a, b, c, c_panel, fold); return;
        case 12: vd_v_kernel(12 % (VD_STRIP_ROWS + 1), 1, cells, a, b, c, c_panel, fold); return;
        case 13: vd_v_kernel(13 % (VD_STRIP_ROWS + 1), 1, cells, a, b, c, c_panel, fold); return;
        case 14: vd_v_kernel(14 % (VD_STRIP_ROWS + 1), 1, cells, a, b, c, c_panel, fold); return;
        }
}

typedef struct vd_fma_job {
    const vd_linear *op;
    vd_cells         x_cells, w_cells;
    bool             flush;   /* subnormals are zeros in the products */
    int64_t          block;   /* elements of k at once */
    int64_t          columns; /* outputs of a task */
    int64_t          rows;    /* rows of a task */
    int64_t          bytes;   /* scratch of one worker */
    char            *scratch;
} vd_fma_job;

/* One block of k for one task. Not inlined: the caller may have changed how the processor treats subnormals. */
static __attribute__((noinline)) void vd_v_run_strips(const vd_fma_job *job, int64_t first_row, int64_t rows, int64_t panels, int64_t k0, int64_t k,
                                                      float *strip, const float *weights, float *sums)
{
    const vd_linear *op = job->op;
    const int64_t    strips = (rows + VD_STRIP_ROWS - 1) / VD_STRIP_ROWS, cells = vd_cells_count(job->x_cells, k), c_panel = rows * VD_PANEL_WIDTH;
    const bool       fold = op->order == VD_FMA_FOLD512;
    for (int64_t s = 0; s < strips; s++) {
        const int64_t row = rows * s / strips, mr = rows * (s + 1) / strips - row;
        for (int64_t m = 0; m < mr; m++)
            vd_pack_row(strip + m * VD_STRIP_STRIDE, vd_v_at(op->x, op->x_type, (first_row + row + m) * op->x_stride + k0), job->x_cells, k);
        for (int64_t p = 0; p < panels;) {
            const int np = mr <= VD_FEW_ROWS && panels - p >= VD_FEW_PANELS ? VD_FEW_PANELS : 1;
            vd_v_run_kernel((int)mr, np, cells, strip, weights + p * VD_FMA_CELLS * VD_PANEL_WIDTH, sums + p * c_panel + row * VD_PANEL_WIDTH, c_panel, fold);
            p += np;
        }
    }
}

static inline void vd_v_finish(const vd_linear *op, int64_t first_row, int64_t rows, int64_t first, int64_t columns, const float *sums)
{
    for (int64_t m = 0; m < rows; m++) {
        void *y = vd_v_to(op->y, op->y_type, (first_row + m) * op->y_stride + first);
        for (int64_t n = 0; n < columns; n += VD_W) {
            vd_vf sum = vd_vf_load(sums + n / VD_PANEL_WIDTH * rows * VD_PANEL_WIDTH + m * VD_PANEL_WIDTH + n % VD_PANEL_WIDTH);
            if (op->b)
                sum = vd_vf_add(sum, vd_v_load(op->b, op->b_type, first + n, first + columns));
            vd_v_store(y, op->y_type, n, columns, sum);
        }
    }
}

static inline void vd_v_linear_task(void *arg, int64_t index, int worker)
{
    const vd_fma_job *job = arg;
    const vd_linear  *op  = job->op;
    const int64_t     across = (op->n + job->columns - 1) / job->columns;
    const int64_t     first = index % across * job->columns, columns = vd_min(job->columns, op->n - first);
    const int64_t     first_row = index / across * job->rows, rows = vd_min(job->rows, op->m - first_row);
    const int64_t     panels = (columns + VD_PANEL_WIDTH - 1) / VD_PANEL_WIDTH, stride = op->k * vd_dtype_size(op->w_type);
    float            *strip   = (float *)(void *)(job->scratch + worker * job->bytes);
    float            *weights = strip + VD_STRIP_ROWS * VD_STRIP_STRIDE;
    float            *sums    = weights + job->columns * VD_FMA_CELLS;
    memset(sums, 0, (size_t)(panels * rows * VD_PANEL_WIDTH) * sizeof *sums);
    for (int64_t k0 = 0; k0 < op->k; k0 += job->block) {
        const int64_t k = vd_min(job->block, op->k - k0);
        for (int64_t p = 0; p < panels; p++)
            vd_pack_panel(weights + p * VD_FMA_CELLS * VD_PANEL_WIDTH, VD_PANEL_WIDTH, vd_v_at(op->w, op->w_type, (first + p * VD_PANEL_WIDTH) * op->k + k0),
                          stride, columns - p * VD_PANEL_WIDTH, job->w_cells, k);
        const unsigned mode = _mm_getcsr();
        if (job->flush)
            _mm_setcsr(0x9FC0); /* to nearest; subnormals are zeros, in and out */
        vd_v_run_strips(job, first_row, rows, panels, k0, k, strip, weights, sums);
        _mm_setcsr(mode);
    }
    vd_v_finish(op, first_row, rows, first, columns, sums);
}

/* Sizes of a task. None of them changes a byte. `native`: the level has the bf16 instruction. */
static inline vd_fma_job vd_v_plan_linear(const vd_linear *op, int threads, bool native)
{
    vd_fma_job job = {op, VD_CELLS_F32, op->w_type == VD_BF16 ? VD_CELLS_WIDEN : VD_CELLS_F32, false, 512, VD_FMA_COLUMNS, VD_FMA_ROWS, 0, NULL};
    if (op->order == VD_FMA_PAIR) {
        job.x_cells = job.w_cells = native ? VD_CELLS_PAIRS : VD_CELLS_SWAPPED;
        job.flush   = !native;
    }
    if (op->order != VD_FMA_FOLD512) /* whose leaf is its contract */
        job.block = VD_FMA_BLOCK * vd_cells_elements(job.x_cells);
    const int64_t tasks = ((op->n + job.columns - 1) / job.columns) * ((op->m + job.rows - 1) / job.rows);
    if (tasks < 2 * threads) /* narrower tasks keep more threads busy */
        job.columns = vd_max(1, op->n / (2 * threads));
    job.columns = vd_min((job.columns + VD_PANEL_WIDTH - 1) / VD_PANEL_WIDTH * VD_PANEL_WIDTH, VD_FMA_COLUMNS);
    job.rows    = vd_max(1, vd_min(job.rows, op->m));
    job.bytes   = (VD_STRIP_ROWS * VD_STRIP_STRIDE + job.columns * (VD_FMA_CELLS + job.rows)) * (int64_t)sizeof(float);
    job.bytes   = (job.bytes + 63) / 64 * 64;
    return job;
}

static inline void vd_v_linear(vd_exec *exec, const vd_linear *op, bool native)
{
    if (op->m < 1)
        return;
    vd_fma_job job = vd_v_plan_linear(op, exec->threads, native);
    job.scratch    = exec->scratch;
    vd_parallel(exec->threads, ((op->n + job.columns - 1) / job.columns) * ((op->m + job.rows - 1) / job.rows), vd_v_linear_task, &job);
}

static inline int64_t vd_v_linear_scratch(const vd_linear *op, int threads, bool native)
{
    return vd_v_plan_linear(op, threads, native).bytes * threads;
}

#endif
