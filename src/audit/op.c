/* One operation alone: names and shapes are checked here as strictly as a model's files, then the table is called. */
#include "audit/op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "contract/functions.h"

static const vd_op ops[] = {
    {"linear", "x [M,K], w [N,K], optional b [N]", "y [M,N]", "tc16/chain,tc16/splitS,tc16/fold512,tc16/tree8,fma/pair,fma/chain,fma/fold512"},
    {"attention", "q [H,M,d], k [H,S,d], v [H,S,d]", "o [H,M,d]", "attn/k128,attn/k128/pair,attn/k128/f32"},
    {"rms_norm", "x [M,N], w [N]", "y [M,N]", "rowsum128,rowsum512"},
    {"norm_modulate", "x [M,N], w [N], scale [N], shift [N]", "y [M,N]", "rowsum128"},
    {"rotary", "x [M,H,d], cos [M,d], sin [M,d]", "y [M,H,d]", "rotary"},
    {"situ", "u, g", "y", "situ"},
    {"gated_residual", "x [M,N], y [M,N], optional gate [N]", "o [M,N]", "gated_residual"},
    {"silu", "x", "y", "silu"},
    {"tanh", "x", "y", "tanh"},
    {"sigmoid", "x", "y", "sigmoid"},
    {"exp", "x", "y", "exp"},
    {"softplus", "x", "y", "softplus"},
    {"ex2", "x", "y", "ex2"},
    {"rsq", "x", "y", "rsq"},
    {"rcp", "x", "y", "rcp"},
    {"sin", "x", "y", "sin"},
    {"cos", "x", "y", "cos"},
    {"sinusoid", "t [T]", "e [T,dim]", "sinusoid/moss,sinusoid/h3"},
};

const vd_op *vd_op_list(int *count)
{
    *count = (int)(sizeof ops / sizeof *ops);
    return ops;
}

void vd_op_options_init(vd_op_options *options)
{
    memset(options, 0, sizeof *options);
    options->eps = 1e-6;
}

/* ---- Checks ---- */

typedef struct call {
    vd_context          *ctx;
    const vd_kernels    *kernels; /* NULL: check only */
    const vd_op         *op;
    const vd_op_options *options;
    const vd_tensor     *inputs;
    int                  count;
    bool                 used[64]; /* which inputs the operation took */
    vd_tensor           *out;
    char                *contract;
    vd_dtype             out_type, round;
    vd_exec              exec;
} call;

static vd_status fail(call *c, const char *reason, const char *text)
{
    return vd_fail(c->ctx, VD_BAD_ARGUMENT, reason, "%s: %s (inputs: %s → %s)", c->op->name, text, c->op->inputs, c->op->output);
}

static const vd_tensor *find_input(call *c, const char *name)
{
    for (int i = 0; i < c->count; i++) {
        if (!strcmp(c->inputs[i].name, name)) {
            c->used[i] = true;
            return &c->inputs[i];
        }
    }
    return NULL;
}

static void format_shape(const vd_tensor *t, char text[128])
{
    size_t used = (size_t)snprintf(text, 128, "%s [", vd_dtype_name(t->type));
    for (int i = 0; i < t->rank && used < 100; i++)
        used += (size_t)snprintf(text + used, 128 - used, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    snprintf(text + used, 128 - used, "]");
}

/* The input `name`: F32 or BF16 (type: exactly that, unless VD_DTYPE_COUNT), `rank` dimensions of the sizes given; 0 stands for any size, which
 * is then written there, -1 as rank for any shape. NULL: recorded as a failure, unless optional and absent. */
static const vd_tensor *take(call *c, const char *name, bool optional, vd_dtype type, int rank, int64_t *d0, int64_t *d1, int64_t *d2)
{
    int64_t *const   sizes[3] = {d0, d1, d2};
    const vd_tensor *t        = find_input(c, name);
    char             text[256], shape[128];
    if (!t) {
        snprintf(text, sizeof text, "the input has no tensor %s", name);
        if (!optional)
            fail(c, "input-missing", text);
        return NULL;
    }
    format_shape(t, shape);
    if (t->type != VD_F32 && t->type != VD_BF16) {
        snprintf(text, sizeof text, "%s is %s; it must be F32 or BF16", name, shape);
        fail(c, "dtype", text);
        return NULL;
    }
    if (type != VD_DTYPE_COUNT && t->type != type) {
        snprintf(text, sizeof text, "%s is %s; it must be %s here", name, shape, vd_dtype_name(type));
        fail(c, "dtype", text);
        return NULL;
    }
    bool right = rank < 0 || t->rank == rank;
    for (int i = 0; right && i < rank; i++)
        right = *sizes[i] == 0 ? t->shape[i] > 0 : t->shape[i] == *sizes[i];
    if (!right || vd_tensor_elements(t) < 1) {
        size_t used = (size_t)snprintf(text, sizeof text, "%s is %s; it must be [", name, shape);
        for (int i = 0; i < rank; i++)
            used += *sizes[i] ? (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i ? "," : "", (long long)*sizes[i])
                              : (size_t)snprintf(text + used, sizeof text - used, "%s≥1", i ? "," : "");
        snprintf(text + used, sizeof text - used, "]");
        if (rank < 0)
            snprintf(text, sizeof text, "%s is empty", name);
        fail(c, "shape", text);
        return NULL;
    }
    for (int i = 0; i < rank; i++)
        *sizes[i] = t->shape[i];
    return t;
}

static vd_status find_type(call *c, const char *option, const char *text, vd_dtype standard, vd_dtype *out)
{
    *out = standard;
    if (!text)
        return VD_OK;
    if (strcmp(text, "bf16") != 0 && strcmp(text, "f32") != 0)
        return vd_fail(c->ctx, VD_BAD_ARGUMENT, "op-option", "%s is '%s'; it must be bf16 or f32", option, text);
    *out = text[0] == 'b' ? VD_BF16 : VD_F32;
    return VD_OK;
}

/* Output and rounding types, whose default is the data's type. */
static vd_status find_types(call *c, vd_dtype data)
{
    if (find_type(c, "out", c->options->out, data, &c->out_type) || find_type(c, "round", c->options->round, data, &c->round))
        return c->ctx->status;
    return VD_OK;
}

static vd_status set_out(call *c, const char *name, vd_dtype type, int rank, const int64_t *shape)
{
    void *data = c->out->data;
    *c->out    = (vd_tensor){.name = name, .type = type, .rank = rank, .data = c->kernels ? data : NULL};
    memcpy(c->out->shape, shape, (size_t)rank * sizeof *shape);
    for (int i = 0; i < c->count; i++)
        if (!c->used[i])
            return vd_fail(c->ctx, VD_BAD_ARGUMENT, "input-name", "%s takes no tensor %.80s (inputs: %s)", c->op->name, c->inputs[i].name,
                           c->op->inputs);
    return VD_OK;
}

static vd_status take_scratch(call *c, int64_t bytes)
{
    c->exec.threads       = c->ctx->threads;
    c->exec.scratch       = vd_alloc(c->ctx, bytes, "an operation's scratch");
    c->exec.scratch_bytes = bytes;
    return c->exec.scratch ? VD_OK : c->ctx->status;
}

/* Sets the contract's id, or refuses another than `only` (with or without version 1). */
static vd_status only_contract(call *c, const char *only)
{
    const char  *asked = c->options->contract;
    const size_t n     = strlen(only);
    snprintf(c->contract, 32, "%s@1", only);
    if (!asked || !strcmp(asked, c->contract) || (strlen(asked) == n && !strncmp(asked, only, n)))
        return VD_OK;
    return vd_fail(c->ctx, VD_UNSUPPORTED, "contract", "%s under contract %s is not defined; it is defined under %s", c->op->name, asked,
                   c->contract);
}

/* The number of "tc16/split4" or "tc16/split4@1": 1 to 64, without a sign, a space or a leading zero. 0: it is written otherwise. */
static int read_splits(const char *text)
{
    int splits = 0, digits = 0;
    for (; digits < 2 && text[digits] >= (digits ? '0' : '1') && text[digits] <= '9'; digits++)
        splits = 10 * splits + (text[digits] - '0');
    return splits <= 64 && (!text[digits] || !strcmp(text + digits, "@1")) ? splits : 0;
}

/* "tc16/split4" names the order and the number of slices. */
static vd_status find_order(call *c, vd_order standard, vd_order *order, int *splits)
{
    const char *asked = c->options->contract;
    const bool  split = asked && !strncmp(asked, "tc16/split", 10);
    *order            = asked ? vd_order_find(asked) : standard;
    *splits           = 1;
    if (split && (*splits = read_splits(asked + 10)) > 0)
        *order = VD_TC16_SPLIT;
    else if (split)
        return vd_fail(c->ctx, VD_BAD_ARGUMENT, "contract", "tc16/splitS needs its number of slices: tc16/split2 to tc16/split64");
    if (*order == VD_ORDER_NONE)
        return vd_fail(c->ctx, VD_UNSUPPORTED, "contract", "contract %s is not known for %s; known are %s, each @1", asked, c->op->name,
                       c->op->contracts);
    if (*order == VD_TC16_SPLIT)
        snprintf(c->contract, 32, "tc16/split%d@1", *splits);
    else
        snprintf(c->contract, 32, "%s", vd_order_id(*order));
    return VD_OK;
}

/* ---- The operations ---- */

static vd_status run_linear(call *c)
{
    int64_t          m = 0, n = 0, k = 0;
    const vd_tensor *x = take(c, "x", false, VD_DTYPE_COUNT, 2, &m, &k, NULL), *w = x ? take(c, "w", false, VD_DTYPE_COUNT, 2, &n, &k, NULL) : NULL;
    const vd_tensor *b = w ? take(c, "b", true, VD_DTYPE_COUNT, 1, &n, NULL, NULL) : NULL;
    vd_order         order;
    int              splits;
    if (c->ctx->status || find_order(c, x->type == VD_BF16 ? VD_TC16_CHAIN : VD_FMA_FOLD512, &order, &splits) || find_types(c, x->type))
        return c->ctx->status;
    if (order >= VD_ROWSUM128)
        return vd_fail(c->ctx, VD_UNSUPPORTED, "contract", "contract %s is not one of linear's: %s", c->contract, c->op->contracts);
    if (!vd_linear_takes(order, x->type, w->type))
        return vd_fail(c->ctx, VD_UNSUPPORTED, "contract",
                       "%s does not take x %s with w %s; tc16 and fma/pair take BF16 with BF16, fma/chain and fma/fold512 take F32 with F32 or BF16",
                       c->contract, vd_dtype_name(x->type), vd_dtype_name(w->type));
    if (order == VD_TC16_SPLIT && k % splits)
        return vd_fail(c->ctx, VD_UNSUPPORTED, "contract", "%s needs K divisible by %d; K is %lld", c->contract, splits, (long long)k);
    if (order == VD_TC16_TREE8 && !vd_tc16_tree8_fits(k))
        return vd_fail(c->ctx, VD_UNSUPPORTED, "contract", "%s needs K/8 to be a multiple of 16; K is %lld", c->contract, (long long)k);
    if (set_out(c, "y", c->out_type, 2, (int64_t[]){m, n}) || !c->kernels)
        return c->ctx->status;
    const vd_linear l = {.order    = order,
                         .splits   = splits,
                         .m        = m,
                         .n        = n,
                         .k        = k,
                         .x        = x->data,
                         .x_type   = x->type,
                         .x_stride = k,
                         .w        = w->data,
                         .w_type   = w->type,
                         .b        = b ? b->data : NULL,
                         .b_type   = b ? b->type : VD_F32,
                         .y        = c->out->data,
                         .y_type   = c->out_type,
                         .y_stride = n};
    if (take_scratch(c, c->kernels->linear_scratch(&l, c->ctx->threads)) == VD_OK)
        c->kernels->linear(&c->exec, &l);
    return c->ctx->status;
}

static vd_status run_attention(call *c)
{
    int64_t          h = 0, m = 0, s = 0, d = 0;
    const vd_tensor *q = take(c, "q", false, VD_DTYPE_COUNT, 3, &h, &m, &d), *k = q ? take(c, "k", false, q->type, 3, &h, &s, &d) : NULL;
    const vd_tensor *v = k ? take(c, "v", false, q->type, 3, &h, &s, &d) : NULL;
    vd_order         order;
    int              splits;
    if (c->ctx->status || find_order(c, q->type == VD_BF16 ? VD_ATTN_K128 : VD_ATTN_K128_F32, &order, &splits) || find_types(c, q->type) || !v)
        return c->ctx->status;
    if (order < VD_ATTN_K128 || (order == VD_ATTN_K128_F32) != (q->type == VD_F32))
        return vd_fail(c->ctx, VD_UNSUPPORTED, "contract",
                       "contract %s does not take %s; attn/k128 and attn/k128/pair take BF16, attn/k128/f32 takes F32", c->contract,
                       vd_dtype_name(q->type));
    if (c->out_type != q->type)
        return vd_fail(c->ctx, VD_UNSUPPORTED, "op-option", "attention gives its inputs' type, %s; out must be that or left away",
                       vd_dtype_name(q->type));
    if (set_out(c, "o", q->type, 3, (int64_t[]){h, m, d}) || !c->kernels)
        return c->ctx->status;
    vd_attention a = {
        .order = order, .m = m, .s = s, .heads = 1, .d = d, .type = q->type, .q_stride = d, .k_stride = d, .v_stride = d, .o_stride = d};
    if (take_scratch(c, c->kernels->attention_scratch(&a, c->ctx->threads)) != VD_OK)
        return c->ctx->status;
    const int64_t size = vd_dtype_size(q->type);
    for (int64_t i = 0; i < h; i++) {
        a.q = (const char *)q->data + i * m * d * size;
        a.k = (const char *)k->data + i * s * d * size;
        a.v = (const char *)v->data + i * s * d * size;
        a.o = (char *)c->out->data + i * m * d * size;
        c->kernels->attention(&c->exec, &a);
    }
    return c->ctx->status;
}

static bool names_order(const char *contract, vd_order order) { return contract && vd_order_find(contract) == order; }

/* The form fixes the order; a contract alone implies the form. */
static vd_status run_rms_norm(call *c)
{
    int64_t          m = 0, n = 0;
    const vd_tensor *x = take(c, "x", false, VD_DTYPE_COUNT, 2, &m, &n, NULL), *w = x ? take(c, "w", false, VD_DTYPE_COUNT, 1, &n, NULL, NULL) : NULL;
    const char      *form = c->options->form ? c->options->form : names_order(c->options->contract, VD_ROWSUM512) ? "fused" : "cast-before-weight";
    if (c->ctx->status || find_types(c, x->type))
        return c->ctx->status;
    const bool fused = !strcmp(form, "fused");
    if (!fused && strcmp(form, "cast-before-weight") != 0)
        return vd_fail(c->ctx, VD_BAD_ARGUMENT, "op-option", "form is '%s'; it must be cast-before-weight or fused", form);
    if (only_contract(c, fused ? "rowsum512" : "rowsum128"))
        return c->ctx->status;
    if (fused && n % 4)
        return vd_fail(c->ctx, VD_UNSUPPORTED, "contract", "the fused form (rowsum512) needs rows of a multiple of 4; N is %lld", (long long)n);
    if (n >= 1 << 24)
        return vd_fail(c->ctx, VD_UNSUPPORTED, "contract", "rows of %lld are longer than the mean is defined for (16777215)", (long long)n);
    if (set_out(c, "y", c->out_type, 2, (int64_t[]){m, n}) || !c->kernels || take_scratch(c, 0))
        return c->ctx->status;
    const vd_rms_norm r = {.order    = fused ? VD_ROWSUM512 : VD_ROWSUM128,
                           .eps      = (float)c->options->eps,
                           .m        = m,
                           .n        = n,
                           .cast     = c->round,
                           .x        = x->data,
                           .x_type   = x->type,
                           .x_stride = n,
                           .w        = w->data,
                           .w_type   = w->type,
                           .y        = c->out->data,
                           .y_type   = c->out_type,
                           .y_stride = n};
    c->kernels->rms_norm(&c->exec, &r);
    return c->ctx->status;
}

static vd_status run_norm_modulate(call *c)
{
    int64_t          m = 0, n = 0;
    const vd_tensor *x = take(c, "x", false, VD_DTYPE_COUNT, 2, &m, &n, NULL), *w = x ? take(c, "w", false, VD_DTYPE_COUNT, 1, &n, NULL, NULL) : NULL;
    const vd_tensor *scale = w ? take(c, "scale", false, VD_DTYPE_COUNT, 1, &n, NULL, NULL) : NULL;
    const vd_tensor *shift = scale ? take(c, "shift", false, scale->type, 1, &n, NULL, NULL) : NULL;
    if (c->ctx->status || !shift || find_types(c, x->type) || only_contract(c, "rowsum128") || set_out(c, "y", c->out_type, 2, (int64_t[]){m, n}) ||
        !c->kernels || take_scratch(c, 0))
        return c->ctx->status;
    const vd_norm_modulate r = {.eps      = (float)c->options->eps,
                                .m        = m,
                                .n        = n,
                                .round    = c->round,
                                .x        = x->data,
                                .x_type   = x->type,
                                .x_stride = n,
                                .w        = w->data,
                                .w_type   = w->type,
                                .scale    = scale->data,
                                .shift    = shift->data,
                                .mod_type = scale->type,
                                .y        = c->out->data,
                                .y_type   = c->out_type,
                                .y_stride = n};
    c->kernels->norm_modulate(&c->exec, &r);
    return c->ctx->status;
}

static vd_status run_rotary(call *c)
{
    int64_t          m = 0, h = 0, d = 0;
    const vd_tensor *x       = take(c, "x", false, VD_DTYPE_COUNT, 3, &m, &h, &d),
                    *cosines = x ? take(c, "cos", false, VD_DTYPE_COUNT, 2, &m, &d, NULL) : NULL;
    const vd_tensor *sines   = cosines ? take(c, "sin", false, cosines->type, 2, &m, &d, NULL) : NULL;
    if (c->ctx->status || !sines || find_types(c, x->type) || only_contract(c, "rotary"))
        return c->ctx->status;
    if (d % 2)
        return vd_fail(c->ctx, VD_UNSUPPORTED, "shape", "rotary pairs element p with p + d/2, so d must be even; it is %lld", (long long)d);
    if (set_out(c, "y", c->out_type, 3, (int64_t[]){m, h, d}) || !c->kernels || take_scratch(c, 0))
        return c->ctx->status;
    const vd_rotary r = {.m          = m,
                         .heads      = h,
                         .d          = d,
                         .round      = c->round,
                         .x          = x->data,
                         .x_type     = x->type,
                         .x_stride   = h * d,
                         .cos        = cosines->data,
                         .sin        = sines->data,
                         .table_type = cosines->type,
                         .y          = c->out->data,
                         .y_type     = c->out_type,
                         .y_stride   = h * d};
    c->kernels->rotary(&c->exec, &r);
    return c->ctx->status;
}

static vd_status run_situ(call *c)
{
    const vd_tensor *u = take(c, "u", false, VD_DTYPE_COUNT, -1, NULL, NULL, NULL),
                    *g = u ? take(c, "g", false, u->type, -1, NULL, NULL, NULL) : NULL;
    if (c->ctx->status || !g || find_types(c, u->type) || only_contract(c, "situ"))
        return c->ctx->status;
    if (u->rank != g->rank || memcmp(u->shape, g->shape, (size_t)u->rank * sizeof *u->shape) != 0)
        return fail(c, "shape", "u and g must have equal shapes");
    if (set_out(c, "y", c->out_type, u->rank, u->shape) || !c->kernels || take_scratch(c, 0))
        return c->ctx->status;
    const int64_t n = vd_tensor_elements(u);
    const vd_situ r = {.m        = 1,
                       .n        = n,
                       .round    = c->round,
                       .u        = u->data,
                       .g        = g->data,
                       .x_type   = u->type,
                       .x_stride = n,
                       .y        = c->out->data,
                       .y_type   = c->out_type,
                       .y_stride = n};
    c->kernels->situ(&c->exec, &r);
    return c->ctx->status;
}

static vd_status run_gated_residual(call *c)
{
    int64_t          m = 0, n = 0;
    const vd_tensor *x = take(c, "x", false, VD_DTYPE_COUNT, 2, &m, &n, NULL), *y = x ? take(c, "y", false, VD_DTYPE_COUNT, 2, &m, &n, NULL) : NULL;
    const vd_tensor *gate = y ? take(c, "gate", true, VD_DTYPE_COUNT, 1, &n, NULL, NULL) : NULL;
    if (c->ctx->status || find_types(c, x->type) || only_contract(c, "gated_residual"))
        return c->ctx->status;
    if (c->out_type != x->type || c->round != x->type)
        return vd_fail(c->ctx, VD_UNSUPPORTED, "op-option", "gated_residual rounds to and gives x's type, %s", vd_dtype_name(x->type));
    if (set_out(c, "o", x->type, 2, (int64_t[]){m, n}) || !c->kernels || take_scratch(c, 0))
        return c->ctx->status;
    const vd_gated_residual r = {.m         = m,
                                 .n         = n,
                                 .x         = x->data,
                                 .x_type    = x->type,
                                 .x_stride  = n,
                                 .y         = y->data,
                                 .y_type    = y->type,
                                 .y_stride  = n,
                                 .gate      = gate ? gate->data : NULL,
                                 .gate_type = gate ? gate->type : VD_F32,
                                 .o         = c->out->data,
                                 .o_stride  = n};
    c->kernels->gated_residual(&c->exec, &r);
    return c->ctx->status;
}

static const struct {
    const char *name;
    vd_function f;
} functions[] = {
    {"silu", VD_SILU}, {"tanh", VD_TANH}, {"sigmoid", VD_SIGMOID}, {"exp", VD_EXP}, {"softplus", VD_SOFTPLUS},
    {"ex2", VD_EX2},   {"rsq", VD_RSQ},   {"rcp", VD_RCP},         {"sin", VD_SIN}, {"cos", VD_COS},
};

static vd_status run_function(call *c, vd_function f)
{
    const vd_tensor *x = take(c, "x", false, VD_DTYPE_COUNT, -1, NULL, NULL, NULL);
    if (!x || find_types(c, x->type) || only_contract(c, c->op->name) || set_out(c, "y", c->out_type, x->rank, x->shape) || !c->kernels ||
        take_scratch(c, 0))
        return c->ctx->status;
    const int64_t n = vd_tensor_elements(x);
    for (int64_t i = 0; (f == VD_SIN || f == VD_COS) && i < n; i++) {
        const float value = vd_load(x->data, x->type, i);
        if (!isnan(value) && !vd_trig_in_range(value))
            return vd_fail(c->ctx, VD_UNSUPPORTED, "range", "%s is defined for |x| < 105615; element %lld of x is %g", c->op->name, (long long)i,
                           (double)value);
    }
    const vd_map r = {.f = f, .n = n, .x = x->data, .x_type = x->type, .y = c->out->data, .y_type = c->out_type};
    c->kernels->map(&c->exec, &r);
    return c->ctx->status;
}

static vd_status run_sinusoid(call *c)
{
    int64_t          rows = 0;
    const vd_tensor *t    = take(c, "t", false, VD_F32, 1, &rows, NULL, NULL);
    const char      *kind = c->options->kind ? c->options->kind : "moss";
    const int64_t    dim  = c->options->dim ? c->options->dim : 256;
    const bool       h3   = !strcmp(kind, "h3");
    if (!t)
        return c->ctx->status;
    if (!h3 && strcmp(kind, "moss") != 0)
        return vd_fail(c->ctx, VD_BAD_ARGUMENT, "op-option", "kind is '%s'; it must be moss or h3", kind);
    if (dim < 2 || dim > 65536 || dim % 2)
        return vd_fail(c->ctx, VD_BAD_ARGUMENT, "op-option", "dim is %lld; it must be even, 2 to 65536", (long long)dim);
    if (find_types(c, VD_F32) || only_contract(c, h3 ? "sinusoid/h3" : "sinusoid/moss"))
        return c->ctx->status;
    if (c->out_type != VD_F32)
        return vd_fail(c->ctx, VD_UNSUPPORTED, "op-option", "sinusoid gives f32; round it yourself");
    for (int64_t i = 0; i < rows; i++) {
        const float value = vd_load(t->data, VD_F32, i);
        if (h3 ? !(value >= 0 && value <= 1) : !(fabsf(value) < 0x1p29f))
            return vd_fail(c->ctx, VD_UNSUPPORTED, "range", "element %lld of t is %g; kind %s takes %s", (long long)i, (double)value, kind,
                           h3 ? "0 to 1" : "|t| < 2^29");
    }
    if (set_out(c, "e", VD_F32, 2, (int64_t[]){rows, dim}) || !c->kernels)
        return c->ctx->status;
    float *row = vd_alloc(c->ctx, dim * (int64_t)sizeof *row, "a sinusoid");
    for (int64_t i = 0; row && i < rows; i++) {
        (h3 ? vd_sinusoid_h3 : vd_sinusoid_moss)(vd_load(t->data, VD_F32, i), dim, row);
        memcpy((char *)c->out->data + i * dim * 4, row, (size_t)dim * 4);
    }
    vd_free(c->ctx, row);
    return c->ctx->status;
}

vd_status vd_op_call(vd_context *ctx, const vd_kernels *kernels, const char *name, const vd_op_options *options, const vd_tensor *inputs, int count,
                     vd_tensor *out, char contract[32])
{
    static const struct {
        const char *name;
        vd_status (*run)(call *);
    } runs[] = {
        {"linear", run_linear},
        {"attention", run_attention},
        {"rms_norm", run_rms_norm},
        {"norm_modulate", run_norm_modulate},
        {"rotary", run_rotary},
        {"situ", run_situ},
        {"gated_residual", run_gated_residual},
        {"sinusoid", run_sinusoid},
    };
    call c = {.ctx = ctx, .kernels = kernels, .options = options, .inputs = inputs, .count = count, .out = out, .contract = contract};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, name))
            c.op = &ops[i];
    if (!c.op)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "op-name",
                       "there is no operation '%.60s'; there are linear, attention, rms_norm, norm_modulate, rotary, situ, gated_residual, silu, "
                       "tanh, sigmoid, exp, softplus, ex2, rsq, "
                       "rcp, sin, cos, sinusoid",
                       name);
    if (count < 0 || count > 64)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "input-name", "%s takes the inputs %s, not %d tensors", name, c.op->inputs, count);
    if (!(options->eps >= 0 && options->eps < 1))
        return vd_fail(ctx, VD_BAD_ARGUMENT, "op-option", "eps is %g; it must be 0 or more, and below 1", options->eps);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (!strcmp(runs[i].name, name))
            runs[i].run(&c);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name))
            run_function(&c, functions[i].f);
    vd_free(ctx, c.exec.scratch);
    if (ctx->status == VD_OK && c.exec.status != VD_OK)
        return vd_fail(ctx, c.exec.status, "kernel", "%s: the kernel reported %s", name, vd_status_name(c.exec.status));
    return ctx->status;
}

vd_status vd_op_plan(vd_context *ctx, const char *name, const vd_op_options *options, const vd_tensor *inputs, int count, vd_tensor *out,
                     char contract[32])
{
    vd_clear_error(ctx);
    return vd_op_call(ctx, NULL, name, options, inputs, count, out, contract);
}

vd_status vd_op_run(vd_context *ctx, const char *name, const vd_op_options *options, const vd_tensor *inputs, int count, vd_tensor *out,
                    char contract[32])
{
    vd_kernels kernels;
    vd_clear_error(ctx);
    if (vd_kernels_select(ctx, &kernels) != VD_OK)
        return ctx->status;
    return vd_op_call(ctx, &kernels, name, options, inputs, count, out, contract);
}
