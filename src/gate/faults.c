#include "gate/faults.h"

#include <stdio.h>
#include <string.h>

#include "contract/contract.h"
#include "formats/file.h"
#include "gate/fault_run.h"
#include "models/moss_image/nodes.h"

bool vd_fault_sees(const vd_fault *f, const vd_tensor *value, const char *inner)
{
    char name[32];
    if (strcmp(inner, ".x") == 0)
        snprintf(name, sizeof name, "x.%lld", (long long)f->block + 1);
    else
        snprintf(name, sizeof name, "b%lld%s", (long long)f->block, inner);
    return strcmp(value->name, name) == 0;
}

bool vd_fault_sees_node(const vd_fault *f, const vd_tensor *value) { return strcmp(value->name, f->node->name) == 0; }

uint16_t *vd_fault_copy_weight(vd_fault *f, vd_weight *weight, int64_t elements)
{
    uint16_t *copy = vd_keep_alloc(&f->keep, 2 * elements, "a faulty weight");
    if (copy) {
        memcpy(copy, weight->data, (size_t)(2 * elements));
        weight->data = copy;
    }
    return copy;
}

void vd_fault_widen(const vd_tensor *value, float *to)
{
    const int64_t count = vd_tensor_elements(value);
    for (int64_t i = 0; i < count; i++)
        to[i] = vd_load(value->data, value->type, i);
}

/* ---- What the forward calls ---- */

/* Keeps what later faults of the block need, then lets the fault act. */
static void alter(void *user, int sample, vd_tensor *value)
{
    vd_fault     *f    = user;
    const int64_t rows = value->shape[0];
    char          name[32];
    (void)sample;
    if (f->status != VD_OK)
        return;
    snprintf(name, sizeof name, "x.%lld", (long long)f->block);
    if (f->entering && strcmp(value->name, name) == 0)
        memcpy(f->entering, value->data, (size_t)vd_tensor_bytes(value));
    if (f->mod && strcmp(value->name, "mod") == 0)
        memcpy(f->mod, value->data, (size_t)vd_tensor_bytes(value));
    if (f->cosines && rows == f->c->joint_rows && strcmp(value->name, "rope.cos") == 0)
        vd_fault_widen(value, f->cosines);
    if (f->sines && rows == f->c->joint_rows && strcmp(value->name, "rope.sin") == 0)
        vd_fault_widen(value, f->sines);
    if (f->kind->alter)
        f->kind->alter(f, value);
    if (f->q && vd_fault_sees(f, value, ".q_rot"))
        vd_fault_widen(value, f->q);
    if (f->k && vd_fault_sees(f, value, ".k_rot"))
        vd_fault_widen(value, f->k);
    if (f->v && vd_fault_sees(f, value, ".v"))
        vd_fault_widen(value, f->v);
    if (f->ug && vd_fault_sees(f, value, ".ug"))
        vd_fault_widen(value, f->ug);
    if (f->situ && vd_fault_sees(f, value, ".situ"))
        vd_fault_widen(value, f->situ);
    /* Through the whole step all blocks read one modulation, so a fault of how it is read changes it for all of them. */
    if (f->kind->change_mod && !f->running && strcmp(value->name, "mod") == 0)
        f->kind->change_mod(f, value->type, value->data);
}

void vd_fault_begin(vd_fault *f, int run, const vd_case_node *node)
{
    f->run     = run;
    f->running = node;
    if (node && f->entering && node->in && f->block >= 0 && node->block == f->block)
        memcpy(f->entering, node->in->data, (size_t)vd_tensor_bytes(node->in));
    if (node && f->mod)
        memcpy(f->mod, f->c->mod_used->data, (size_t)vd_tensor_bytes(f->c->mod_used));
}

void vd_fault_change_mod(const vd_fault *f, int64_t block, vd_dtype type, void *mod)
{
    if (f->kind->change_mod && block == f->block)
        f->kind->change_mod(f, type, mod);
}

/* ---- Opening ---- */

static const vd_case_node *find_node(const vd_case *c, const char *name)
{
    for (int64_t i = 0; i < c->node_count; i++)
        if (strcmp(c->nodes[i].name, name) == 0)
            return &c->nodes[i];
    return NULL;
}

static const vd_case_node *node_of_block(const vd_case *c, int64_t block)
{
    for (int64_t i = 0; i < c->node_count; i++)
        if (block >= 0 && c->nodes[i].block == block)
            return &c->nodes[i];
    return NULL;
}

/* The kept block nearest to the middle from below (20 of 42), else the first kept one behind it. */
static const vd_case_node *middle_block(const vd_case *c)
{
    const vd_case_node *best = NULL;
    for (int64_t i = 0; i < c->node_count; i++)
        if (c->nodes[i].block >= 0 && (!best || c->nodes[i].block <= (c->config.layers - 1) / 2))
            best = &c->nodes[i];
    return best;
}

static const vd_case_node *first_block(const vd_case *c)
{
    for (int64_t i = 0; i < c->node_count; i++)
        if (c->nodes[i].block >= 0)
            return &c->nodes[i];
    return NULL;
}

/* "b20" and "x.21" both name block 20. Numbers are read as in names of nodes: no sign, no leading zero. */
static const vd_case_node *node_at(const vd_case *c, const char *place)
{
    char    name[VD_MOSS_NODE_NAME];
    int64_t block = -1;
    if (place[0] != 'b')
        return find_node(c, place);
    if (strchr(place, '.') || snprintf(name, sizeof name, "%s.a", place) >= (int)sizeof name)
        return NULL;
    const int64_t index = vd_moss_node_find(name, c->config.layers);
    if (index >= 0)
        vd_moss_node_at(index, c->config.layers, &block);
    return node_of_block(c, block);
}

static vd_status find_place(vd_context *ctx, vd_fault *f, const char *place)
{
    const vd_case       *c    = f->c;
    const vd_fault_kind *kind = f->kind;
    f->block                  = -1;
    if (!first_block(c))
        return vd_fail(ctx, VD_UNSUPPORTED, "plant", "%s cannot be planted: the case keeps no block", kind->text.name);
    switch (kind->place) {
    case VD_PLACE_NODE: f->node = place ? node_at(c, place) : middle_block(c); break;
    case VD_PLACE_BLOCK: f->node = place ? node_at(c, place) : middle_block(c); break;
    case VD_PLACE_EPS:
        f->node = !place ? middle_block(c) : strcmp(place, "all") == 0 ? find_node(c, "text.0") : node_at(c, place);
        break;
    case VD_PLACE_BLOCKS: f->node = !place || strcmp(place, "all") == 0 ? first_block(c) : NULL; break;
    case VD_PLACE_FIXED: f->node = !place || strcmp(place, kind->node) == 0 ? find_node(c, kind->node) : NULL; break;
    }
    const bool all = kind->place == VD_PLACE_EPS && place && strcmp(place, "all") == 0;
    if (f->node && !all && kind->place != VD_PLACE_NODE && kind->place != VD_PLACE_FIXED && f->node->block < 0)
        f->node = NULL;
    if (!f->node)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "plant", "%s cannot be planted at %s; places: %s%s", kind->text.name, vd_quote(place).text, kind->text.place,
                       kind->place == VD_PLACE_FIXED || kind->place == VD_PLACE_BLOCKS ? "" : " (a block is written b20 or x.21; skipped ones are not in the case)");
    if (kind->place != VD_PLACE_BLOCKS)
        f->block = f->node->block;
    return VD_OK;
}

static vd_status find_kind(vd_context *ctx, const char *text, size_t size, const vd_fault_kind **out)
{
    const char *names[64];
    int         count = 0;
    for (int i = 0; i < vd_fault_kind_count; i++) {
        const char *name = vd_fault_kinds[i].text.name;
        if (strlen(name) == size && strncmp(name, text, size) == 0)
            return *out = &vd_fault_kinds[i], VD_OK;
        if (count < 64)
            names[count++] = name;
    }
    char   list[1500];
    size_t at = 0;
    for (int i = 0; i < count && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", names[i]);
    return vd_fail(ctx, VD_BAD_ARGUMENT, "plant", "there is no fault named %s; faults: %s", vd_quote(text).text, list);
}

vd_status vd_fault_open(vd_context *ctx, const char *text, const vd_case *c, const vd_moss_model *model, vd_fault **out)
{
    const char *place = strchr(text, '@');
    vd_fault   *f     = vd_alloc(ctx, sizeof *f, "a planted fault");
    vd_status   status;
    *out = NULL;
    if (!f)
        return ctx->status;
    f->ctx      = ctx;
    f->c        = c;
    f->base     = model;
    f->model    = *model;
    f->keep.ctx = ctx;
    f->stream   = c->policy == VD_POLICY_BF16 ? VD_BF16 : VD_F32;
    f->hooks    = (vd_moss_hooks){.alter = alter, .user = f, .eps_block = -1};
    status      = find_kind(ctx, text, place ? (size_t)(place - text) : strlen(text), &f->kind);
    if (status == VD_OK)
        status = find_place(ctx, f, place ? place + 1 : NULL);
    if (status == VD_OK) {
        const int64_t size = c->config.layers * (int64_t)sizeof *f->model.weights.blocks;
        f->model.weights.blocks = vd_keep_alloc(&f->keep, size, "a faulty model's blocks");
        if (f->model.weights.blocks)
            memcpy(f->model.weights.blocks, model->weights.blocks, (size_t)size);
        else
            status = ctx->status;
    }
    if (status == VD_OK && f->kind->prepare)
        status = f->kind->prepare(ctx, f);
    if (status == VD_OK)
        *out = f;
    else
        vd_fault_close(ctx, f);
    return status;
}

void vd_fault_close(vd_context *ctx, vd_fault *f)
{
    if (f)
        vd_keep_free(&f->keep);
    vd_free(ctx, f);
}

const vd_gate_fault *vd_fault_kind_of(const vd_fault *f) { return &f->kind->text; }
const char          *vd_fault_node(const vd_fault *f) { return f->node->name; }
const vd_moss_model *vd_fault_model(const vd_fault *f) { return &f->model; }
const vd_moss_hooks *vd_fault_hooks(const vd_fault *f) { return &f->hooks; }
vd_status            vd_fault_status(const vd_fault *f) { return f->status; }
