/* The public face of models: names of the choices, opening, and the forward of whichever family the folder holds. */
#include <string.h>

#include "models/model.h"
#include "models/moss_image/forward.h"

struct vd_model {
    vd_moss_model *moss; /* the one family built so far */
};

static const char *const policy_names[VD_POLICY_COUNT] = {[VD_POLICY_BF16] = "bf16", [VD_POLICY_F32] = "f32", [VD_POLICY_F32_SITU] = "f32-situ"};
static const char *const arith_names[VD_ARITH_COUNT]   = {[VD_ARITH_TC16] = "tc16", [VD_ARITH_FMA] = "fma"};
static const char *const match_names[VD_MATCH_COUNT]   = {[VD_MATCH_NONE] = "none", [VD_MATCH_TORCH_2_11_H200] = "torch2.11-h200"};

static int find_name(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

const char *vd_policy_name(vd_policy policy) { return (unsigned)policy < VD_POLICY_COUNT ? policy_names[policy] : "?"; }
const char *vd_arith_name(vd_arith arith) { return (unsigned)arith < VD_ARITH_COUNT ? arith_names[arith] : "?"; }
const char *vd_match_name(vd_match match) { return (unsigned)match < VD_MATCH_COUNT ? match_names[match] : "?"; }

bool vd_policy_find(const char *name, vd_policy *out)
{
    const int i = find_name(policy_names, VD_POLICY_COUNT, name);
    if (i >= 0)
        *out = (vd_policy)i;
    return i >= 0;
}

bool vd_arith_find(const char *name, vd_arith *out)
{
    const int i = find_name(arith_names, VD_ARITH_COUNT, name);
    if (i >= 0)
        *out = (vd_arith)i;
    return i >= 0;
}

bool vd_match_find(const char *name, vd_match *out)
{
    const int i = find_name(match_names, VD_MATCH_COUNT, name);
    if (i >= 0)
        *out = (vd_match)i;
    return i >= 0;
}

vd_status vd_model_open(vd_context *ctx, const char *path, vd_model **out)
{
    *out = NULL;
    vd_clear_error(ctx);
    vd_model *model = vd_alloc(ctx, sizeof *model, "the model");
    if (!model)
        return ctx->status;
    if (vd_moss_open(ctx, path, &model->moss)) {
        vd_free(ctx, model);
        return ctx->status;
    }
    *out = model;
    return VD_OK;
}

void vd_model_close(vd_context *ctx, vd_model *model)
{
    if (!model)
        return;
    vd_moss_close(ctx, model->moss);
    vd_free(ctx, model);
}

const vd_moss_model *vd_model_moss(const vd_model *model) { return model->moss; }

void vd_forward_options_init(vd_forward_options *options) { memset(options, 0, sizeof *options); }

vd_status vd_model_check_choices(vd_context *ctx, const vd_forward_options *o)
{
    if (!o)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "options", "no options: pass a struct that vd_forward_options_init has filled");
    if ((unsigned)o->policy >= VD_POLICY_COUNT || (unsigned)o->arith >= VD_ARITH_COUNT || (unsigned)o->match >= VD_MATCH_COUNT)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "options", "policy %d, arithmetic %d, match %d: outside the choices", (int)o->policy, (int)o->arith, (int)o->match);
    if (o->match != VD_MATCH_NONE && o->arith != VD_ARITH_TC16)
        return vd_fail(ctx, VD_UNSUPPORTED, "match", "match %s reproduces a GPU and needs arithmetic tc16, not %s", vd_match_name(o->match), vd_arith_name(o->arith));
    return VD_OK;
}

vd_status vd_forward(vd_context *ctx, const vd_model *model, const vd_forward_options *options, const vd_sample *samples, int sample_count)
{
    vd_clear_error(ctx);
    if (vd_model_check_choices(ctx, options))
        return ctx->status;
    return vd_moss_forward(ctx, model->moss, options, samples, sample_count, NULL, NULL);
}

vd_status vd_plan_memory(vd_context *ctx, const vd_model *model, const vd_forward_options *options, const vd_sample *samples, int sample_count, vd_memory_plan *plan)
{
    vd_clear_error(ctx);
    if (vd_model_check_choices(ctx, options))
        return ctx->status;
    return vd_moss_plan(ctx, model->moss, options, samples, sample_count, plan);
}
