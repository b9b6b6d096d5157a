#include <stdio.h>
#include <string.h>

#include "gate/gate_job.h"
#include "models/moss_image/nodes.h"

/* What a run's hook needs: the fault acts first, so that what is kept is what the forward goes on with. */
typedef struct capture {
    vd_context          *ctx;
    const vd_moss_hooks *fault;
    const char          *wanted;
    vd_values           *out;
    vd_status            status;
} capture;

static vd_status keep_value(vd_context *ctx, vd_values *values, const vd_tensor *value)
{
    if (values->count == values->room) {
        const int64_t room = values->room ? 2 * values->room : 8, old = values->room;
        vd_tensor    *items = vd_realloc(ctx, values->items, old * (int64_t)sizeof *items, room * (int64_t)sizeof *items, "a list of values");
        if (!items)
            return ctx->status;
        values->items   = items;
        char(*names)[32] = vd_realloc(ctx, values->names, old * (int64_t)sizeof *names, room * (int64_t)sizeof *names, "a list of values");
        if (!names)
            return ctx->status;
        values->names = names;
        values->room  = room;
    }
    vd_tensor *item = &values->items[values->count];
    *item           = *value;
    item->data      = vd_alloc(ctx, vd_tensor_bytes(value), value->name);
    if (!item->data)
        return ctx->status;
    memcpy(item->data, value->data, (size_t)vd_tensor_bytes(value));
    snprintf(values->names[values->count], sizeof *values->names, "%s", value->name);
    values->count++;
    for (int64_t i = 0; i < values->count; i++)
        values->items[i].name = values->names[i];
    return VD_OK;
}

static void capture_value(void *user, int sample, vd_tensor *value)
{
    capture *c = user;
    if (c->status != VD_OK)
        return;
    if (c->fault && c->fault->alter)
        c->fault->alter(c->fault->user, sample, value);
    if (vd_moss_name_matches(c->wanted, value->name))
        c->status = keep_value(c->ctx, c->out, value);
}

const vd_tensor *vd_values_find(const vd_values *values, const char *name)
{
    for (int64_t i = 0; i < values->count; i++)
        if (strcmp(values->items[i].name, name) == 0)
            return &values->items[i];
    return NULL;
}

void vd_values_free(vd_context *ctx, vd_values *values)
{
    for (int64_t i = 0; i < values->count; i++)
        vd_free(ctx, values->items[i].data);
    vd_free(ctx, values->items);
    vd_free(ctx, values->names);
    memset(values, 0, sizeof *values);
}

static vd_tensor named(const vd_tensor *tensor, const char *name)
{
    vd_tensor copy = *tensor;
    copy.name      = name;
    return copy;
}

/* What one forward is asked. */
typedef struct request {
    const char *from, *to;
    char        from_text[32];
    vd_tensor   inputs[32];
    int         count;
    void       *own_mod; /* the faulty block's own copy of the modulation */
} request;

static void give(request *r, const vd_tensor *tensor, const char *name) { r->inputs[r->count++] = named(tensor, name); }

/* The range of a node and its recorded inputs. */
static void ask_for_node(const vd_case *c, const vd_case_node *node, request *r)
{
    r->to = node->name;
    if (strcmp(node->name, "mod") == 0 || strcmp(node->name, "head_mod") == 0) {
        r->from = "time";
        give(r, c->t_tensor, "t");
    } else if (strcmp(node->name, "video") == 0) {
        r->from = "video";
        give(r, c->latents, "latents");
    } else if (strcmp(node->name, "text.in") == 0) {
        r->from = "text.in";
        give(r, c->text, "text");
    } else if (strcmp(node->name, "text.0") == 0 || strcmp(node->name, "text.1") == 0) {
        r->from = node->name;
        give(r, node->in, strcmp(node->name, "text.0") == 0 ? "text.in" : "text.0");
    } else if (strcmp(node->name, "velocity") == 0) {
        r->from = "velocity";
        give(r, node->in, "x");
        give(r, c->head_mod_used, "head_mod");
    } else {
        snprintf(r->from_text, sizeof r->from_text, "b%lld.a", (long long)node->block);
        r->from = r->from_text;
        give(r, node->in, "x");
        give(r, c->mod_used, "mod");
    }
}

static void ask_for_step(const vd_case *c, request *r)
{
    r->from = NULL, r->to = NULL;
    give(r, c->latents, "latents");
    give(r, c->text, "text");
    give(r, c->t_tensor, "t");
}

static int ignore_value(void *user, int sample, const vd_tensor *value)
{
    (void)user, (void)sample, (void)value;
    return 0;
}

static vd_status go(vd_gate_job *job, const request *r, const vd_moss_model *model, const vd_moss_hooks *fault, bool whole, const char *wanted,
                    const vd_kernels *kernels, vd_values *out)
{
    const vd_case       *c     = job->c;
    capture              state = {job->ctx, fault, wanted, out, VD_OK};
    vd_moss_hooks        hooks = fault ? *fault : (vd_moss_hooks){.eps_block = -1};
    vd_progress_fn      *progress = job->ctx->options.progress;
    vd_forward_options   options;
    vd_forward_options_init(&options);
    hooks.alter = capture_value, hooks.user = &state;
    options.policy = c->policy, options.arith = job->result->arith, options.match = job->result->match;
    options.from = r->from, options.to = r->to;
    options.tap = ignore_value;
    int64_t        skip_count = 0;
    const int64_t *skip       = NULL;
    if (whole)
        skip = c->skip, skip_count = c->skip_count;
    const vd_sample sample = {.inputs = r->inputs, .input_count = r->count, .h = c->h, .w = c->w, .text_rows = c->text_rows, .skip = skip, .skip_count = (int)skip_count};
    if (!whole) /* the gate counts nodes; a node's own blocks would only make the count jump */
        job->ctx->options.progress = NULL;
    vd_status status = vd_moss_forward(job->ctx, model, &options, &sample, 1, &hooks, kernels);
    job->ctx->options.progress = progress;
    return status != VD_OK ? status : state.status;
}

vd_status vd_run_node(vd_gate_job *job, const vd_case_node *node, int run, bool planted, const char *wanted, const vd_kernels *kernels, vd_values *out)
{
    const vd_case *c     = job->c;
    vd_fault      *fault = planted ? job->fault : NULL;
    request        r     = {0};
    vd_status      status;
    if (node)
        ask_for_node(c, node, &r);
    else
        ask_for_step(c, &r);
    if (fault && node && node->block >= 0) {
        const int64_t size = vd_tensor_bytes(c->mod_used);
        if (!(r.own_mod = vd_alloc(job->ctx, size, "a faulty modulation")))
            return job->ctx->status;
        memcpy(r.own_mod, c->mod_used->data, (size_t)size);
        vd_fault_change_mod(fault, node->block, c->mod_used->type, r.own_mod);
        r.inputs[1].data = r.own_mod;
    }
    if (fault)
        vd_fault_begin(fault, run, node);
    status = go(job, &r, fault ? vd_fault_model(fault) : job->model, fault ? vd_fault_hooks(fault) : NULL, !node, wanted, kernels, out);
    if (status == VD_OK && fault)
        status = vd_fault_status(fault);
    vd_free(job->ctx, r.own_mod);
    return status;
}

vd_status vd_replay_op(vd_gate_job *job, const vd_case_node *node, const vd_values *values, const char *op, const vd_kernels *kernels, vd_values *out)
{
    request r = {0};
    char    entering[32];
    ask_for_node(job->c, node, &r);
    if (node->block >= 0) {
        /* `x` stands for the first input of the range; inside a block the rows that enter it go by their own name. */
        snprintf(entering, sizeof entering, "x.%lld", (long long)node->block);
        r.inputs[0].name = entering;
    }
    r.from = r.to = op;
    for (int64_t i = 0; i < values->count && r.count < 32; i++)
        if (strcmp(values->items[i].name, op) != 0 && strcmp(values->items[i].name, "velocity") != 0)
            give(&r, &values->items[i], values->items[i].name);
    return go(job, &r, job->model, NULL, false, op, kernels, out);
}
