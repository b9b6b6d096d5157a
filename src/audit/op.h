/* One operation through a given table of kernels. */
#ifndef VD_OP_H
#define VD_OP_H

#include "core/core.h"
#include "kernels/table.h"

/* vd_op_run with a table; kernels NULL: plan only. */
vd_status vd_op_call(vd_context *ctx, const vd_kernels *kernels, const char *name, const vd_op_options *options, const vd_tensor *inputs, int count,
                     vd_tensor *out, char contract[32]);

#endif
