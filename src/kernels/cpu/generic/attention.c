#include "core/core.h"
#include "core/parallel.h"
#include "kernels/cpu/generic/generic.h"

typedef struct job {
    const vd_attention *op;
    float              *sums; /* [workers, padded d] */
} job;

/* One worker's sums, padded to whole cache lines. */
static int64_t pad(int64_t d) { return (d + 15) / 16 * 16; }

static void run_attention(void *arg, int64_t index, int worker)
{
    const job          *task = arg;
    const vd_attention *op   = task->op;
    const int64_t       row = index / op->heads, head = index % op->heads;
    vd_attention_row(op->order, op->s, op->d, vd_at(op->q, op->type, row * op->q_stride + head * op->d),
                     vd_at(op->k, op->type, head * op->d), op->k_stride, vd_at(op->v, op->type, head * op->d), op->v_stride,
                     vd_at_out(op->o, op->type, row * op->o_stride + head * op->d), task->sums + worker * pad(op->d));
}

void vd_generic_attention(vd_exec *exec, const vd_attention *op)
{
    job task = {op, exec->scratch};
    vd_parallel(exec->threads, op->m * op->heads, run_attention, &task);
}

int64_t vd_generic_attention_scratch(const vd_attention *op, int threads)
{
    return 4 * pad(op->d) * threads;
}
