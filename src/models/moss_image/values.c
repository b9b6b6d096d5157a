#include <string.h>

#include "contract/contract.h"
#include "models/moss_image/run.h"

const vd_tensor *vd_moss_named_input(const vd_moss_state *s, const char *name)
{
    for (int i = 0; i < s->in->input_count; i++)
        if (strcmp(s->in->inputs[i].name, name) == 0)
            return &s->in->inputs[i];
    return NULL;
}

const vd_tensor *vd_moss_find_input(const vd_moss_run *r, const vd_moss_state *s, int64_t index)
{
    const int64_t layers = r->model->config.layers;
    char          name[VD_MOSS_NODE_NAME];
    vd_moss_node_name(index, layers, name);
    const vd_tensor *given = vd_moss_named_input(s, name);
    if (given)
        return given;
    int64_t   inputs[3], block;
    vd_moss_node_at(r->from, layers, &block);
    const int count = vd_moss_node_inputs(r->from, layers, block >= 0 && s->skipped[block], inputs);
    return r->from > VD_MOSS_X0 && count > 0 && inputs[0] == index ? vd_moss_named_input(s, "x") : NULL;
}

vd_status vd_moss_copy_input(vd_moss_run *r, const vd_tensor *given, void *to, vd_dtype type, int64_t count, bool rounded)
{
    if (given->type == type) {
        memcpy(to, given->data, (size_t)(count * vd_dtype_size(type)));
    } else if (given->type == VD_BF16 && type == VD_F32) {
        const uint16_t *from = given->data;
        for (int64_t i = 0; i < count; i++)
            ((float *)to)[i] = vd_from_bf16(from[i]);
    } else if (given->type == VD_F32 && type == VD_BF16) {
        const float *from = given->data;
        for (int64_t i = 0; i < count; i++) {
            ((uint16_t *)to)[i] = vd_to_bf16(from[i]);
            const float back = vd_from_bf16(((uint16_t *)to)[i]);
            if (!rounded && memcmp(&back, &from[i], sizeof back) != 0)
                return vd_fail(r->ctx, VD_BAD_ARGUMENT, "not-representable", "%s[%lld] is %.9g, which bf16 cannot hold; under policy %s this value is bf16: round it yourself, or take --policy f32",
                               given->name, (long long)i, (double)from[i], vd_policy_name(r->options->policy));
        }
    } else {
        return vd_fail(r->ctx, VD_BAD_ARGUMENT, "dtype-mismatch", "%s is %s; F32 or BF16 is wanted", given->name, vd_dtype_name(given->type));
    }
    return VD_OK;
}

/* [rows, cols], with leading ones; vectors and modulations may be flat. */
static bool has_shape(const vd_tensor *t, int64_t rows, int64_t cols, bool flat)
{
    int lead = 0;
    while (t->rank - lead > 2 && t->shape[lead] == 1)
        lead++;
    if (t->rank - lead == 2)
        return t->shape[lead] == rows && t->shape[lead + 1] == cols;
    return flat && t->rank - lead == 1 && t->shape[lead] == rows * cols;
}

bool vd_moss_begin(vd_moss_run *r, vd_moss_state *s, int64_t index, void *value, vd_dtype type)
{
    if (s->todo[index] != VD_MOSS_GIVEN || r->dry || r->exec.status)
        return s->todo[index] == VD_MOSS_COMPUTE && !r->exec.status;
    const vd_tensor *given = vd_moss_find_input(r, s, index);
    int64_t          rows, cols;
    vd_moss_node_shape(r, s, index, &rows, &cols);
    const int64_t last  = vd_moss_node_count(r->model->config.layers) - 1;
    const bool    head  = index == last - 1 && r->to == last && has_shape(given, s->image, cols, false); /* the head reads image rows only */
    if (!head && !has_shape(given, rows, cols, index <= VD_MOSS_HEAD_MOD)) {
        char name[VD_MOSS_NODE_NAME];
        vd_moss_node_name(index, r->model->config.layers, name);
        r->exec.status = vd_fail(r->ctx, VD_BAD_ARGUMENT, "shape-mismatch", "%s stands for %s and must be [%lld, %lld]; it has rank %d and shape [%lld, %lld …]", given->name, name,
                                 (long long)rows, (long long)cols, given->rank, (long long)(given->rank > 0 ? given->shape[0] : 0), (long long)(given->rank > 1 ? given->shape[1] : 0));
        return false;
    }
    r->exec.status = vd_moss_copy_input(r, given, value, type, (head ? s->image : rows) * cols, false);
    return false;
}

void vd_moss_alter(vd_moss_run *r, vd_moss_state *s, const char *name, void *value, vd_dtype type, int64_t rows, int64_t cols)
{
    if (!r->hooks.alter || r->dry || r->exec.status)
        return;
    vd_tensor tensor = {.name = name, .type = type, .rank = 2, .shape = {rows, cols}, .data = value};
    r->hooks.alter(r->hooks.user, s->index, &tensor);
}

void vd_moss_end(vd_moss_run *r, vd_moss_state *s, int64_t index, void *value, vd_dtype type)
{
    if (r->dry || r->exec.status)
        return;
    char    name[VD_MOSS_NODE_NAME];
    int64_t rows, cols;
    vd_moss_node_name(index, r->model->config.layers, name);
    vd_moss_node_shape(r, s, index, &rows, &cols);
    if (index != vd_moss_node_count(r->model->config.layers) - 1) /* the head shows its rows to the hook before it makes the picture */
        vd_moss_alter(r, s, name, value, type, rows, cols);
    if (!r->options->tap || (index != r->to && (index < r->from || !vd_moss_name_matches(r->options->taps, name))))
        return;
    vd_tensor tensor = {.name = name, .type = type, .rank = 2, .shape = {rows, cols}, .data = value};
    if (index == VD_MOSS_TIME)
        tensor.rank = 1, tensor.shape[0] = cols;
    if (index == vd_moss_node_count(r->model->config.layers) - 1 && s->last_block < 0)
        tensor.rank = 3, tensor.shape[0] = cols, tensor.shape[1] = s->h, tensor.shape[2] = s->w;
    if (r->options->tap(r->options->tap_user, s->index, &tensor))
        r->exec.status = vd_fail(r->ctx, VD_CANCELLED, "cancelled", "stopped on request at node %s; nothing was written", name);
}
