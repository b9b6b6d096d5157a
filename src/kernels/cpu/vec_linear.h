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
#include "kernels/cpu/vec_product.h"

typedef struct vd_fma_job {
    const vd_linear *op;
    vd_cells         x_cells, w_cells;
    bool             flush;         /* subnormals are zeros in the products */
    int64_t          block;         /* elements of k at once */
    int64_t          rows, columns; /* of a task */
    int64_t          bytes;         /* scratch of one worker */
    char            *scratch;
} vd_fma_job;

/* One task: rows first_row … of x, outputs `first` …, and its worker's memory. */
typedef struct vd_fma_task {
    int64_t first_row, rows, first, columns, panels;
    float  *strips, *weights, *sums; /* [VD_FMA_STRIPS] strips; panels [VD_FMA_CELLS][VD_PANEL_WIDTH]; [panels][rows][VD_PANEL_WIDTH] */
} vd_fma_task;

/* A row of x as cells, up to a whole vector. */
static inline int64_t vd_v_row_floats(const vd_fma_job *job) { return (vd_cells_count(job->x_cells, job->op->k) + VD_W - 1) / VD_W * VD_W; }

static inline bool vd_v_is_direct(const vd_fma_job *job, int64_t rows)
{
    return rows <= VD_FEW_ROWS && rows * vd_v_row_floats(job) <= job->columns * VD_FMA_CELLS;
}

/* One block of k. A few strips of x lie ready while the panels pass; each panel is turned when it first passes. Not inlined: the caller may
 * have changed how the processor treats subnormals, and no arithmetic may move across that. */
static __attribute__((noinline)) void vd_v_run_block(const vd_fma_job *job, const vd_fma_task *t, int64_t k0, int64_t k)
{
    const vd_linear *op     = job->op;
    const int64_t    strips = (t->rows + VD_STRIP_ROWS - 1) / VD_STRIP_ROWS, cells = vd_cells_count(job->x_cells, k);
    const int64_t    stride = op->k * vd_dtype_size(op->w_type), c_panel = t->rows * VD_PANEL_WIDTH;
    const vd_sum_mode mode  = op->order == VD_FMA_FOLD512 ? VD_SUM_LEAF : VD_SUM_ON;
    for (int64_t s0 = 0; s0 < strips; s0 += VD_FMA_STRIPS) {
        const int64_t s1 = vd_min(strips, s0 + VD_FMA_STRIPS);
        for (int64_t s = s0; s < s1; s++)
            for (int64_t m = t->rows * s / strips, row = m; row < t->rows * (s + 1) / strips; row++)
                vd_pack_row(t->strips + ((s - s0) * VD_STRIP_ROWS + row - m) * VD_STRIP_STRIDE,
                            vd_v_at(op->x, op->x_type, (t->first_row + row) * op->x_stride + k0), job->x_cells, k);
        for (int64_t p = 0; p < t->panels; p++) {
            float *panel = t->weights + p * VD_FMA_CELLS * VD_PANEL_WIDTH;
            if (s0 == 0)
                vd_pack_panel(panel, VD_PANEL_WIDTH, vd_v_at(op->w, op->w_type, (t->first + p * VD_PANEL_WIDTH) * op->k + k0), stride,
                              t->columns - p * VD_PANEL_WIDTH, job->w_cells, k);
            for (int64_t s = s0; s < s1; s++) {
                const int64_t row = t->rows * s / strips, mr = t->rows * (s + 1) / strips - row;
                vd_v_run_kernels((int)mr, 1, cells, t->strips + (s - s0) * VD_STRIP_ROWS * VD_STRIP_STRIDE, panel, 0,
                                 t->sums + p * c_panel + row * VD_PANEL_WIDTH, 0, mode);
            }
        }
    }
}

/* One or two rows: the weights pass once and are turned in registers. `rows`: x as cells, `distance` apart. */
static inline __attribute__((always_inline)) void vd_v_run_direct(const vd_fma_job *job, const vd_fma_task *t, int mr, const float *rows, int64_t distance)
{
    const vd_linear *op     = job->op;
    const int64_t    bytes  = vd_cells_bytes(job->w_cells), row_bytes = op->k * vd_dtype_size(op->w_type), cells = vd_cells_count(job->w_cells, op->k);
    const int64_t    block  = job->block / vd_cells_elements(job->w_cells), step = 64 / bytes;
    const bool       leaves = op->order == VD_FMA_FOLD512;
    for (int64_t p = 0; p < t->panels; p++) {
        const char   *w    = vd_v_at(op->w, op->w_type, (t->first + p * VD_PANEL_WIDTH) * op->k);
        const int64_t here = vd_min(VD_PANEL_WIDTH, t->columns - p * VD_PANEL_WIDTH);
        vd_vf         sum[VD_FEW_ROWS][2], leaf[VD_FEW_ROWS][2];
        for (int m = 0; m < mr; m++)
            for (int g = 0; g < 2; g++)
                sum[m][g] = vd_vf_zero();
        for (int64_t i0 = 0; i0 < cells; i0 += leaves ? block : cells) {
            const int64_t i1 = leaves ? vd_min(cells, i0 + block) : cells;
            for (int m = 0; m < mr; m++)
                for (int g = 0; g < 2; g++)
                    leaf[m][g] = leaves ? vd_vf_zero() : sum[m][g];
            for (int64_t i = i0; i < i1; i += step) {
                vd_lines lines[2];
                for (int64_t g = 0; g < 2; g++)
                    vd_fetch_lines(&lines[g], w + g * VD_W * row_bytes + i * bytes, row_bytes, here - g * VD_W, row_bytes - i * bytes);
                for (int64_t j = 0; j < step && i + j < i1; j += VD_W) {
                    const int count = (int)vd_min(VD_W, i1 - i - j); /* products with zeros would turn -0 into +0 */
                    vd_vf     v[2][VD_W];
                    vd_turn_cells(&lines[0], job->w_cells, j, v[0]);
                    vd_turn_cells(&lines[1], job->w_cells, j, v[1]);
                    for (int c = 0; c < count; c++)
                        for (int m = 0; m < mr; m++)
                            for (int g = 0; g < 2; g++)
                                leaf[m][g] = vd_v_product(vd_vf_set1(rows[m * distance + i + j + c]), v[g][c], leaf[m][g]);
                }
            }
            for (int m = 0; m < mr; m++)
                for (int g = 0; g < 2; g++)
                    sum[m][g] = leaves ? vd_vf_add(sum[m][g], leaf[m][g]) : leaf[m][g];
        }
        for (int m = 0; m < mr; m++)
            for (int g = 0; g < 2; g++)
                vd_vf_store(t->sums + (p * t->rows + m) * VD_PANEL_WIDTH + g * VD_W, sum[m][g]);
    }
}

static __attribute__((noinline)) void vd_v_run_rows(const vd_fma_job *job, const vd_fma_task *t)
{
    const vd_linear *op       = job->op;
    const int64_t    distance = vd_v_row_floats(job);
    for (int64_t m = 0; m < t->rows; m++)
        vd_pack_row(t->weights + m * distance, vd_v_at(op->x, op->x_type, (t->first_row + m) * op->x_stride), job->x_cells, op->k);
    if (t->rows == 1)
        vd_v_run_direct(job, t, 1, t->weights, distance);
    else
        vd_v_run_direct(job, t, 2, t->weights, distance);
}

/* The bias and the one rounding. */
static inline void vd_v_finish(const vd_linear *op, const vd_fma_task *t)
{
    for (int64_t m = 0; m < t->rows; m++) {
        void *y = vd_v_to(op->y, op->y_type, (t->first_row + m) * op->y_stride + t->first);
        for (int64_t n = 0; n < t->columns; n += VD_W) {
            vd_vf sum = vd_vf_load(t->sums + (n / VD_PANEL_WIDTH * t->rows + m) * VD_PANEL_WIDTH + n % VD_PANEL_WIDTH);
            if (op->b)
                sum = vd_vf_add(sum, vd_v_load(op->b, op->b_type, t->first + n, t->first + t->columns));
            vd_v_store(y, op->y_type, n, t->columns, sum);
        }
    }
}

static inline void vd_v_linear_task(void *arg, int64_t index, int worker)
{
    const vd_fma_job *job    = arg;
    const vd_linear  *op     = job->op;
    const int64_t     across = (op->n + job->columns - 1) / job->columns;
    vd_fma_task       t      = {.first_row = index / across * job->rows, .first = index % across * job->columns};
    t.rows    = vd_min(job->rows, op->m - t.first_row);
    t.columns = vd_min(job->columns, op->n - t.first);
    t.panels  = (t.columns + VD_PANEL_WIDTH - 1) / VD_PANEL_WIDTH;
    t.strips  = (float *)(void *)(job->scratch + worker * job->bytes);
    t.weights = t.strips + VD_FMA_STRIPS * VD_STRIP_ROWS * VD_STRIP_STRIDE;
    t.sums    = t.weights + job->columns * VD_FMA_CELLS;
    memset(t.sums, 0, (size_t)(t.panels * t.rows * VD_PANEL_WIDTH) * sizeof *t.sums);
    const unsigned mode = _mm_getcsr();
    if (job->flush)
        _mm_setcsr(VD_CSR_FLUSH);
    if (vd_v_is_direct(job, t.rows))
        vd_v_run_rows(job, &t);
    else
        for (int64_t k0 = 0; k0 < op->k; k0 += job->block)
            vd_v_run_block(job, &t, k0, vd_min(job->block, op->k - k0));
    _mm_setcsr(mode);
    vd_v_finish(op, &t);
}

static inline int64_t vd_v_tasks(const vd_fma_job *job)
{
    return ((job->op->n + job->columns - 1) / job->columns) * ((job->op->m + job->rows - 1) / job->rows);
}

/* Sizes of a task. None of them changes a byte. `native`: the level has the bf16 instruction. */
static inline vd_fma_job vd_v_plan_linear(const vd_linear *op, int threads, bool native)
{
    vd_fma_job job = {.op = op, .x_cells = VD_CELLS_F32, .w_cells = op->w_type == VD_BF16 ? VD_CELLS_WIDEN : VD_CELLS_F32, .block = 512};
    if (op->order == VD_FMA_PAIR) {
        job.x_cells = job.w_cells = native ? VD_CELLS_PAIRS : VD_CELLS_SWAPPED;
        job.flush   = !native;
    }
    if (op->order != VD_FMA_FOLD512) /* whose leaf is its contract */
        job.block = VD_FMA_BLOCK * vd_cells_elements(job.x_cells);
    job.rows    = vd_max(1, vd_min(VD_FMA_ROWS, op->m));
    job.columns = VD_FMA_COLUMNS;
    if (op->n < job.columns)
        job.columns = (op->n + VD_PANEL_WIDTH - 1) / VD_PANEL_WIDTH * VD_PANEL_WIDTH;
    while (threads > 1 && vd_v_tasks(&job) < 3 * threads) /* smaller tasks, as long as a panel serves many rows */
        if (job.rows > 512)
            job.rows = (job.rows + 1) / 2;
        else if (job.columns > 4 * VD_PANEL_WIDTH)
            job.columns = (job.columns / 2 + VD_PANEL_WIDTH - 1) / VD_PANEL_WIDTH * VD_PANEL_WIDTH;
        else
            break;
    job.bytes = (VD_FMA_STRIPS * VD_STRIP_ROWS * VD_STRIP_STRIDE + job.columns * (VD_FMA_CELLS + job.rows)) * (int64_t)sizeof(float);
    job.bytes = (job.bytes + 63) / 64 * 64;
    return job;
}

static inline void vd_v_linear(vd_exec *exec, const vd_linear *op, bool native)
{
    vd_fma_job job = vd_v_plan_linear(op, exec->threads, native);
    job.scratch    = exec->scratch;
    vd_parallel(exec->threads, op->m < 1 ? 0 : vd_v_tasks(&job), vd_v_linear_task, &job);
}

static inline int64_t vd_v_linear_scratch(const vd_linear *op, int threads, bool native)
{
    return vd_v_plan_linear(op, threads, native).bytes * threads;
}

#endif
