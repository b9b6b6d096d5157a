/* Operations on rows and on single values. */
#include <string.h>

#include "core/core.h"
#include "core/parallel.h"
#include "kernels/cpu/generic/generic.h"

static void run_rms_norm(void *arg, int64_t row, int worker)
{
    (void)worker;
    const vd_rms_norm *op = arg;
    vd_rms_norm_row(op->order, op->eps, op->n, op->cast, vd_at(op->x, op->x_type, row * op->x_stride), op->x_type, op->w, op->w_type,
                    vd_at_out(op->y, op->y_type, row * op->y_stride), op->y_type);
}

void vd_generic_rms_norm(vd_exec *exec, const vd_rms_norm *op)
{
    vd_rms_norm task = *op;
    vd_parallel(exec->threads, op->m, run_rms_norm, &task);
}

static void run_norm_modulate(void *arg, int64_t row, int worker)
{
    (void)worker;
    const vd_norm_modulate *op = arg;
    vd_norm_modulate_row(op->eps, op->n, op->round, vd_at(op->x, op->x_type, row * op->x_stride), op->x_type, op->w, op->w_type, op->scale,
                         op->shift, op->mod_type, vd_at_out(op->y, op->y_type, row * op->y_stride), op->y_type);
}

void vd_generic_norm_modulate(vd_exec *exec, const vd_norm_modulate *op)
{
    vd_norm_modulate task = *op;
    vd_parallel(exec->threads, op->m, run_norm_modulate, &task);
}

static void run_rotary(void *arg, int64_t row, int worker)
{
    (void)worker;
    const vd_rotary *op = arg;
    for (int64_t head = 0; head < op->heads; head++)
        vd_rotary_head(op->d, op->round, vd_at(op->x, op->x_type, row * op->x_stride + head * op->d), op->x_type,
                       vd_at(op->cos, op->table_type, row * op->d), vd_at(op->sin, op->table_type, row * op->d), op->table_type,
                       vd_at_out(op->y, op->y_type, row * op->y_stride + head * op->d), op->y_type);
}

void vd_generic_rotary(vd_exec *exec, const vd_rotary *op)
{
    vd_rotary task = *op;
    vd_parallel(exec->threads, op->m, run_rotary, &task);
}

static void run_head_norm_rotary(void *arg, int64_t row, int worker)
{
    (void)worker;
    const vd_head_norm_rotary *op = arg;
    const vd_rotary           *r  = &op->rotary;
    for (int64_t head = 0; head < r->heads; head++)
        vd_head_norm_rotary_head(r->d, op->eps, op->cast, r->round, vd_at(r->x, r->x_type, row * r->x_stride + head * r->d), r->x_type, op->w,
                                 op->w_type, vd_at(r->cos, r->table_type, row * r->d), vd_at(r->sin, r->table_type, row * r->d),
                                 r->table_type, vd_at_out(r->y, r->y_type, row * r->y_stride + head * r->d), r->y_type);
}

void vd_generic_head_norm_rotary(vd_exec *exec, const vd_head_norm_rotary *op)
{
    vd_head_norm_rotary task = *op;
    vd_parallel(exec->threads, op->rotary.m, run_head_norm_rotary, &task);
}

static void run_situ(void *arg, int64_t row, int worker)
{
    (void)worker;
    const vd_situ *op = arg;
    const char    *u  = vd_at(op->u, op->x_type, row * op->x_stride), *g = vd_at(op->g, op->x_type, row * op->x_stride);
    char          *y  = vd_at_out(op->y, op->y_type, row * op->y_stride);
    for (int64_t i = 0; i < op->n; i++)
        vd_store(y, op->y_type, i, vd_situ_value(vd_load(u, op->x_type, i), vd_load(g, op->x_type, i), op->round));
}

void vd_generic_situ(vd_exec *exec, const vd_situ *op)
{
    vd_situ task = *op;
    vd_parallel(exec->threads, op->m, run_situ, &task);
}

static void run_gated_residual(void *arg, int64_t row, int worker)
{
    (void)worker;
    const vd_gated_residual *op = arg;
    const char              *x  = vd_at(op->x, op->x_type, row * op->x_stride), *y = vd_at(op->y, op->y_type, row * op->y_stride);
    char                    *o  = vd_at_out(op->o, op->x_type, row * op->o_stride);
    for (int64_t i = 0; i < op->n; i++) {
        const float a = vd_load(x, op->x_type, i), b = vd_load(y, op->y_type, i);
        vd_store(o, op->x_type, i,
                 op->gate ? vd_gated_residual_value(a, b, vd_load(op->gate, op->gate_type, i), op->x_type) : vd_residual_value(a, b, op->x_type));
    }
}

void vd_generic_gated_residual(vd_exec *exec, const vd_gated_residual *op)
{
    vd_gated_residual task = *op;
    vd_parallel(exec->threads, op->m, run_gated_residual, &task);
}

#define VALUES 4096 /* values of a map in a task; tuning only */

static float apply(vd_function f, float x)
{
    switch (f) {
    case VD_SILU: return vd_silu(x);
    case VD_TANH: return vd_tanh(x);
    case VD_SIGMOID: return vd_sigmoid(x);
    case VD_EXP: return vd_exp(x);
    case VD_SOFTPLUS: return vd_softplus(x);
    case VD_EX2: return vd_ex2(x);
    case VD_RSQ: return vd_rsq(x);
    case VD_RCP: return vd_rcp(x);
    case VD_SIN: return vd_sin(x);
    case VD_COS: return vd_cos(x);
    default: return x;
    }
}

static void run_map(void *arg, int64_t index, int worker)
{
    (void)worker;
    const vd_map *op = arg;
    for (int64_t i = index * VALUES; i < vd_min((index + 1) * VALUES, op->n); i++)
        vd_store(op->y, op->y_type, i, apply(op->f, vd_load(op->x, op->x_type, i)));
}

void vd_generic_map(vd_exec *exec, const vd_map *op)
{
    vd_map task = *op;
    vd_parallel(exec->threads, (op->n + VALUES - 1) / VALUES, run_map, &task);
}

static void run_transpose(void *arg, int64_t j, int worker)
{
    (void)worker;
    const vd_transpose *op = arg;
    for (int64_t i = 0; i < op->m; i++)
        vd_store(op->y, op->y_type, j * op->y_stride + i, vd_load(op->x, op->x_type, i * op->x_stride + j));
}

void vd_generic_transpose(vd_exec *exec, const vd_transpose *op)
{
    vd_transpose task = *op;
    vd_parallel(exec->threads, op->n, run_transpose, &task);
}

static void run_gather(void *arg, int64_t i, int worker)
{
    (void)worker;
    const vd_gather *op = arg;
    memcpy(vd_at_out(op->y, op->type, i * op->y_stride), vd_at(op->x, op->type, op->rows[i] * op->x_stride), (size_t)(op->n * vd_dtype_size(op->type)));
}

void vd_generic_gather(vd_exec *exec, const vd_gather *op)
{
    vd_gather task = *op;
    vd_parallel(exec->threads, op->m, run_gather, &task);
}
