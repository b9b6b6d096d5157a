#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/moss_image/run.h"

enum { MAX_SIDE = 65536, MAX_ROWS = 1 << 24 };

static vd_status find_range(vd_moss_run *r)
{
    const int64_t layers = r->model->config.layers;
    const char   *from = r->options->from, *to = r->options->to;
    r->from = from ? vd_moss_node_find(from, layers) : 0;
    r->to   = to ? vd_moss_node_find(to, layers) : vd_moss_node_count(layers) - 1;
    if (r->from < 0 || r->to < 0)
        return vd_fail(r->ctx, VD_BAD_ARGUMENT, "node", "no node \"%s\": nodes are time, mod, head_mod, video, text.in, text.0, text.1, x.0 … x.%lld, velocity and, "
                       "inside block N of 0 … %lld, bN.a .q .k .v .q_rot .k_rot .att .o .mid .b .ug .situ .down",
                       r->from < 0 ? from : to, (long long)layers, (long long)layers - 1);
    if (r->from > r->to)
        return vd_fail(r->ctx, VD_BAD_ARGUMENT, "range", "the range is empty: %s comes after %s", from ? from : "time", to ? to : "velocity");
    return VD_OK;
}

/* Each pattern of options->taps must match a node of the range: a misspelt one would be missed only when a long run has ended. */
static vd_status check_taps(vd_moss_run *r)
{
    const int64_t layers = r->model->config.layers;
    for (const char *tap = r->options->taps; tap && *tap;) {
        const size_t size = strcspn(tap, ",");
        char         pattern[256], name[VD_MOSS_NODE_NAME];
        bool         found = size == 0;
        if (size >= sizeof pattern)
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "tap", "a tap is %zu characters long; node names and patterns have fewer than %zu", size, sizeof pattern);
        memcpy(pattern, tap, size);
        pattern[size] = 0;
        for (int64_t i = r->from; i <= r->to && !found; i++) {
            vd_moss_node_name(i, layers, name);
            found = vd_moss_name_matches(pattern, name);
        }
        if (!found)
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "tap", "the tap \"%s\" matches no node of the range %s … %s (blocks are 0 … %lld)", pattern,
                           r->options->from ? r->options->from : "time", r->options->to ? r->options->to : "velocity", (long long)layers - 1);
        tap += size + (tap[size] == ',');
    }
    return VD_OK;
}

static vd_status find_skipped(vd_moss_run *r, vd_moss_state *s)
{
    const int64_t layers = r->model->config.layers;
    for (int i = 0; i < s->in->skip_count; i++) {
        const int64_t block = s->in->skip[i];
        if (block < 0 || block >= layers)
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "skip", "block %lld cannot be skipped: the model has blocks 0 … %lld", (long long)block, (long long)layers - 1);
        if (s->skipped[block])
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "skip", "block %lld is in the skip list twice", (long long)block);
        s->skipped[block] = true;
    }
    return VD_OK;
}

/* Walks back from the last node: what it needs is given, or is computed if it lies in the range (time and modulations always may be). */
static vd_status find_todo(vd_moss_run *r, vd_moss_state *s)
{
    const int64_t layers = r->model->config.layers;
    char          name[VD_MOSS_NODE_NAME], reader[VD_MOSS_NODE_NAME];
    uint8_t      *needed = s->todo; /* VD_MOSS_COMPUTE until settled */
    for (int64_t i = r->to; i >= 0; i--) {
        int64_t            block;
        const vd_moss_node node = vd_moss_node_at(i, layers, &block);
        vd_moss_node_name(i, layers, name);
        if (i == r->to)
            needed[i] = VD_MOSS_COMPUTE;
        const bool passed = block >= 0 && s->skipped[block];
        if (i >= r->from && !(passed && node != VD_MOSS_X) && vd_moss_name_listed(r->options->taps, name))
            needed[i] = VD_MOSS_COMPUTE;
        if (!needed[i])
            continue;
        if (passed && node != VD_MOSS_X)
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "skip", "%s was asked for, but block %lld is in the skip list", name, (long long)block);
        if (i == r->to && vd_moss_find_input(r, s, i))
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "range", "%s, the last node of the range, is given: there is nothing to compute", name);
        if (vd_moss_find_input(r, s, i)) {
            needed[i] = VD_MOSS_GIVEN;
            continue;
        }
        if (i < r->from && i > VD_MOSS_HEAD_MOD) {
            for (int64_t j = r->from; j <= r->to; j++) { /* name a node that reads it */
                int64_t   inputs[3], b;
                const int count = (vd_moss_node_at(j, layers, &b), vd_moss_node_inputs(j, layers, b >= 0 && s->skipped[b], inputs));
                for (int k = 0; k < count; k++)
                    if (inputs[k] == i && needed[j]) {
                        vd_moss_node_name(j, layers, reader);
                        return vd_fail(r->ctx, VD_BAD_ARGUMENT, "input-missing", "%s reads %s, which the range %s … leaves out and the inputs do not give: add a tensor named %s%s",
                                       reader, name, r->options->from, name, k == 0 && j == r->from ? " (or x)" : "");
                    }
            }
        }
        int64_t   inputs[3];
        const int count = vd_moss_node_inputs(i, layers, passed, inputs);
        for (int k = 0; k < count; k++)
            needed[inputs[k]] = VD_MOSS_COMPUTE;
    }
    if (s->todo[VD_MOSS_TIME] == VD_MOSS_COMPUTE) {
        const vd_tensor *t = vd_moss_named_input(s, "t");
        if (!t || t->type != VD_F32 || t->rank > 1 || (t->rank == 1 && t->shape[0] != 1))
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "input-missing", "the timestep is needed: give a tensor t, F32 [1], holding 1000·sigma%s", t ? " (the one given has another type or shape)" : "");
        float value;
        memcpy(&value, t->data, sizeof value);
        if (!isfinite(value) || value < 0 || value > 100000)
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "timestep", "t is %g; it must be finite, from 0 to 100000 (1000·sigma; published schedules stay within 1000)", (double)value);
    }
    return VD_OK;
}

static bool takes_rows(const vd_moss_state *s, int64_t first, int64_t last)
{
    for (int64_t i = first; i <= last; i++)
        if (s->todo[i])
            return true;
    return false;
}

static vd_status find_size(vd_moss_run *r, vd_moss_state *s)
{
    const vd_moss_config *c       = &r->model->config;
    const vd_tensor      *latents = vd_moss_named_input(s, "latents"), *text = vd_moss_named_input(s, "text");
    const int64_t         nodes   = vd_moss_node_count(c->layers);
    const bool            image_only = !takes_rows(s, VD_MOSS_TEXT_IN, r->to - 1) || r->to <= VD_MOSS_VIDEO;
    s->h = s->in->h, s->w = s->in->w, s->text = s->in->text_rows;
    if (latents) {
        const int64_t *d = latents->shape + (latents->rank == 4 && latents->shape[0] == 1);
        if ((latents->rank != 3 && d == latents->shape) || d[0] != c->latent_channels || latents->type != VD_F32)
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "shape-mismatch", "latents must be F32 [%lld, h, w]; the tensor given is %s of rank %d", (long long)c->latent_channels,
                           vd_dtype_name(latents->type), latents->rank);
        if ((s->h && s->h != d[1]) || (s->w && s->w != d[2]))
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "shape-mismatch", "latents are %lld x %lld, the size given is %lld x %lld", (long long)d[1], (long long)d[2], (long long)s->h, (long long)s->w);
        s->h = d[1], s->w = d[2];
    }
    if (text) {
        if (text->rank != 2 || text->shape[1] != c->text_dim || (text->type != VD_BF16 && text->type != VD_F32))
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "shape-mismatch", "text must be BF16 or F32 [rows, %lld]; the tensor given is %s of rank %d", (long long)c->text_dim, vd_dtype_name(text->type), text->rank);
        if (s->text && s->text != text->shape[0])
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "shape-mismatch", "text has %lld rows, the number given is %lld", (long long)text->shape[0], (long long)s->text);
        s->text = text->shape[0];
    }
    if (!takes_rows(s, VD_MOSS_VIDEO, nodes - 1)) { /* time and modulations only: sizes do not matter */
        s->h = s->w = s->text = 1;
    } else if (!takes_rows(s, VD_MOSS_X0, nodes - 1) && !s->todo[VD_MOSS_VIDEO] && !s->h && !s->w) {
        s->h = s->w = 1; /* the text embedder alone */
    }
    if (s->h < 1 || s->w < 1 || s->h > MAX_SIDE || s->w > MAX_SIDE || s->h * s->w > MAX_ROWS)
        return vd_fail(r->ctx, VD_BAD_ARGUMENT, "size", "the latent's size is %lld x %lld; each side must be 1 … %d and their product at most %d (give latents, or a size)", (long long)s->h,
                       (long long)s->w, MAX_SIDE, MAX_ROWS);
    s->image = s->h * s->w;
    for (int64_t i = VD_MOSS_TEXT_IN; i < nodes - 1 && !s->text; i++) { /* any given joint value tells how many text rows there are */
        const vd_tensor *given = s->todo[i] == VD_MOSS_GIVEN ? vd_moss_find_input(r, s, i) : NULL;
        if (given && given->rank >= 2)
            s->text = given->shape[given->rank - 2] - (i >= VD_MOSS_X0 ? s->image : 0);
    }
    if (s->text < 1 && image_only)
        s->text = 1; /* the head, or the image embedder, alone: text rows play no part */
    if (s->text < 1 || s->text > MAX_ROWS)
        return vd_fail(r->ctx, VD_BAD_ARGUMENT, "size", "the sample has %lld text rows; there must be 1 … %d (give text, or the number of rows)", (long long)s->text, MAX_ROWS);
    return VD_OK;
}

static vd_status find_rows(vd_moss_run *r, vd_moss_state *s)
{
    const int64_t layers = r->model->config.layers;
    s->head_rows  = s->image;
    s->last_block = -1;
    if (!s->in->rows)
        return VD_OK;
    if (s->in->row_count < 1 || s->in->row_count > s->image + s->text)
        return vd_fail(r->ctx, VD_BAD_ARGUMENT, "rows", "%lld rows were asked for; the sample has %lld", (long long)s->in->row_count, (long long)(s->image + s->text));
    for (int64_t i = r->to; i >= VD_MOSS_FRONT_NODES && s->last_block < 0; i--) {
        int64_t block;
        vd_moss_node_at(i, layers, &block);
        if (block >= 0 && !s->skipped[block] && s->todo[i] == VD_MOSS_COMPUTE)
            s->last_block = block;
        else if (s->todo[i] == VD_MOSS_GIVEN) /* what comes before it does not reach the end of the range */
            break;
    }
    const int64_t limit = r->to == vd_moss_node_count(layers) - 1 ? s->image : s->image + s->text;
    for (int64_t i = 0; i < s->in->row_count; i++)
        if (s->in->rows[i] < 0 || s->in->rows[i] >= limit)
            return vd_fail(r->ctx, VD_BAD_ARGUMENT, "rows", "row %lld is outside the sample's rows 0 … %lld%s", (long long)s->in->rows[i], (long long)limit - 1,
                           limit == s->image ? " (the velocity has image rows only)" : "");
    if (s->last_block < 0)
        return vd_fail(r->ctx, VD_UNSUPPORTED, "rows", "rows can be chosen only where the range holds (part of) a block");
    s->head_rows = s->in->row_count;
    return VD_OK;
}

vd_status vd_moss_prepare(vd_moss_run *r, const vd_sample *samples)
{
    const int64_t layers = r->model->config.layers, nodes = vd_moss_node_count(layers);
    if (find_range(r) || check_taps(r))
        return r->ctx->status;
    if (r->sample_count < 1 || r->sample_count > 1 << 20)
        return vd_fail(r->ctx, VD_BAD_ARGUMENT, "samples", "a forward takes 1 or more samples, not %d", r->sample_count);
    r->samples = vd_alloc(r->ctx, r->sample_count * (int64_t)sizeof *r->samples, "the samples' state");
    for (int i = 0; i < r->sample_count && r->samples; i++) {
        vd_moss_state *s = &r->samples[i];
        s->in = &samples[i], s->index = i;
        s->todo    = vd_alloc(r->ctx, nodes, "the list of nodes");
        s->skipped = vd_alloc(r->ctx, layers ? layers : 1, "the skip list");
        if (!s->todo || !s->skipped || find_skipped(r, s) || find_todo(r, s) || find_size(r, s) || find_rows(r, s))
            return r->ctx->status;
    }
    return r->ctx->status;
}

void vd_moss_unprepare(vd_moss_run *r)
{
    for (int i = 0; i < r->sample_count && r->samples; i++) {
        vd_free(r->ctx, r->samples[i].todo);
        vd_free(r->ctx, r->samples[i].skipped);
    }
    vd_free(r->ctx, r->samples);
    r->samples = NULL;
}

void vd_moss_node_shape(const vd_moss_run *r, const vd_moss_state *s, int64_t index, int64_t *rows, int64_t *cols)
{
    const vd_moss_config *c = &r->model->config;
    int64_t               block;
    const vd_moss_node    node = vd_moss_node_at(index, c->layers, &block);
    const int64_t         joint = s->image + s->text;
    *rows = joint, *cols = c->dim;
    switch (node) {
    case VD_MOSS_TIME: *rows = 1; break;
    case VD_MOSS_MOD: *rows = VD_MOSS_MOD_ROWS; break;
    case VD_MOSS_HEAD_MOD: *rows = VD_MOSS_HEAD_MOD_ROWS; break;
    case VD_MOSS_VIDEO: *rows = s->image; break;
    case VD_MOSS_TEXT_IN:
    case VD_MOSS_TEXT_0:
    case VD_MOSS_TEXT_1: *rows = s->text; break;
    case VD_MOSS_VELOCITY: *rows = s->head_rows, *cols = c->latent_channels; break;
    case VD_MOSS_UG: *cols = 2 * c->ffn_dim; break;
    case VD_MOSS_SITU: *cols = c->ffn_dim; break;
    default: break;
    }
    const bool all_rows = node == VD_MOSS_A || node == VD_MOSS_K || node == VD_MOSS_V || node == VD_MOSS_K_ROT; /* keys come from every row */
    if (block >= 0 && s->last_block >= 0 && !all_rows && (block == s->last_block || (block > s->last_block && node == VD_MOSS_X)))
        *rows = s->in->row_count;
}

static void *carve(vd_moss_run *r, int64_t bytes)
{
    void *at = (void *)(uintptr_t)r->end;
    r->end += (bytes + 63) / 64 * 64;
    return at;
}

int64_t vd_moss_place(vd_moss_run *r, int64_t base)
{
    const vd_moss_config *c        = &r->model->config;
    const int64_t         head_dim = vd_moss_head_dim(c), stream = vd_dtype_size(r->points.stream), block = vd_dtype_size(r->points.block), text = vd_dtype_size(r->points.text);
    int64_t               a = 0, big = 0;
    r->base = r->end = base;
    for (int i = 0; i < r->sample_count; i++) {
        vd_moss_state *s     = &r->samples[i];
        const int64_t  joint = s->image + s->text, picked = s->last_block >= 0 ? s->in->row_count : 0;
        s->time     = carve(r, c->dim * stream);
        s->mod      = carve(r, VD_MOSS_MOD_ROWS * c->dim * stream);
        s->head_mod = carve(r, VD_MOSS_HEAD_MOD_ROWS * c->dim * stream);
        s->x        = carve(r, joint * c->dim * stream);
        s->x_rows   = carve(r, picked * c->dim * stream);
        s->cos      = carve(r, joint * head_dim * stream);
        s->sin      = carve(r, joint * head_dim * stream);
        s->cos_rows = carve(r, picked * head_dim * stream);
        s->sin_rows = carve(r, picked * head_dim * stream);
        /* block: a, or the picked rows behind it; then four values of attention, or up_gate and SiTU */
        a   = vd_max(a, (joint + picked) * c->dim * block + 64);
        big = vd_max(big, vd_max(4 * c->dim, 3 * c->ffn_dim) * joint * block);
        /* text embedder: its input [text, text_dim] or norm; then qkv and attention, or up, gate and SiTU */
        a   = vd_max(a, s->text * vd_max(c->text_dim, c->dim) * text);
        big = vd_max(big, vd_max(4 * c->dim, 3 * c->ffn_dim) * s->text * text);
        /* ends: image rows of the latents; modulated rows, then the velocity as rows and as a picture */
        a   = vd_max(a, vd_max(s->head_rows, s->image) * vd_max(c->dim, c->latent_channels) * stream);
        big = vd_max(big, vd_max(s->head_rows, s->image) * c->latent_channels * (stream + 4) + 64);
        /* time: sinusoid and its hidden row */
        a   = vd_max(a, (c->freq_dim + c->dim) * 4 + 64);
    }
    r->a     = carve(r, a);
    r->big   = carve(r, big);
    r->bands = carve(r, vd_moss_bands(c) * (int64_t)sizeof *r->bands);
    return r->end - r->base;
}
