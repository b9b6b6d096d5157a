#include "core/core.h"
#include "core/parallel.h"
#include "kernels/cpu/generic/generic.h"

#define COLUMNS 64 /* outputs of one row in a task; tuning only */

static void run_linear(void *arg, int64_t index, int worker)
{
    (void)worker;
    const vd_linear *op    = arg;
    const int64_t    per   = (op->n + COLUMNS - 1) / COLUMNS;
    const int64_t    row   = index / per, first = index % per * COLUMNS, last = vd_min(first + COLUMNS, op->n);
    const char      *x     = vd_at(op->x, op->x_type, row * op->x_stride);
    char            *y     = vd_at_out(op->y, op->y_type, row * op->y_stride);
    for (int64_t j = first; j < last; j++) {
        float sum = vd_linear_sum(op->order, op->splits, x, vd_at(op->w, op->w_type, j * op->k), op->w_type, op->k);
        if (op->b)
            sum += vd_load(op->b, op->b_type, j);
        vd_store(y, op->y_type, j, sum);
    }
}

void vd_generic_linear(vd_exec *exec, const vd_linear *op)
{
    vd_linear task = *op;
    vd_parallel(exec->threads, op->m * ((op->n + COLUMNS - 1) / COLUMNS), run_linear, &task);
}

int64_t vd_generic_linear_scratch(const vd_linear *op, int threads)
{
    (void)op;
    (void)threads;
    return 0;
}
