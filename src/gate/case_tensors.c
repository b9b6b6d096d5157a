#include <math.h>
#include <stdio.h>
#include <string.h>

#include "contract/contract.h"
#include "formats/file.h"
#include "gate/case.h"
#include "gate/stats.h"

/* Beyond these a run is no honest one. The embedded cases' largest are 0.0073 and 8e-6. */
static const double most_row = 1, most_cosine = 0.5;
/* Row errors are kept in float32, and a cosine error is a difference of two numbers near 1: far below any limit that is used. */
static const double slack = 1e-5, least = 1e-12;

/* The case's tensors are taken off a list of what the files hold, so that what is left over shows. */
typedef struct reader {
    vd_context       *ctx;
    vd_case          *c;
    const vd_tensors *file;
    const char       *name; /* of the file, for messages */
    int64_t           used;
} reader;

static const vd_tensor *take(reader *r, const char *name, vd_dtype type, int rank, int64_t a, int64_t b, int64_t c)
{
    const vd_tensor *tensor = vd_tensors_find(r->file, name);
    const int64_t    shape[3] = {a, b, c};
    if (!tensor) {
        vd_fail(r->ctx, VD_BAD_FILE, "missing-tensor", "%s: tensor %s is missing; a node without it cannot be gated: record the case again", r->name, name);
        return NULL;
    }
    bool fits = tensor->type == type && tensor->rank == rank;
    for (int i = 0; fits && i < rank; i++)
        fits = tensor->shape[i] == shape[i];
    r->used++;
    if (fits)
        return tensor;
    char   wanted[80] = "", found[200] = "";
    size_t at = 0;
    for (int i = 0; i < rank && at < sizeof wanted; i++)
        at += (size_t)snprintf(wanted + at, sizeof wanted - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
    at = 0;
    for (int i = 0; i < tensor->rank && at < sizeof found; i++)
        at += (size_t)snprintf(found + at, sizeof found - at, "%s%lld", i ? ", " : "", (long long)tensor->shape[i]);
    vd_fail(r->ctx, VD_BAD_FILE, "shape-mismatch", "%s: tensor %s is %s [%s]; the case calls for %s [%s]", r->name, name, vd_dtype_name(tensor->type), found,
            vd_dtype_name(type), wanted);
    return NULL;
}

/* Memory that the case owns. */
static void *own(reader *r, int64_t bytes)
{
    vd_case *c = r->c;
    if (c->owned_count == c->owned_room) {
        const int64_t room = c->owned_room ? 2 * c->owned_room : 16, size = (int64_t)sizeof *c->owned;
        void        **more = vd_realloc(r->ctx, c->owned, c->owned_room * size, room * size, "the case's tensors");
        if (!more)
            return NULL;
        c->owned = more, c->owned_room = room;
    }
    void *memory = vd_alloc(r->ctx, bytes, "the case's tensors");
    if (memory)
        c->owned[c->owned_count++] = memory;
    return memory;
}

/* float32 data, 4-byte aligned: where a file is not, a copy that the case owns. */
static const float *aligned(reader *r, const vd_tensor *tensor)
{
    if (!tensor)
        return NULL;
    if ((uintptr_t)tensor->data % _Alignof(float) == 0)
        return tensor->data;
    void *copy = own(r, vd_tensor_bytes(tensor));
    return copy ? memcpy(copy, tensor->data, (size_t)vd_tensor_bytes(tensor)) : NULL;
}

static const float *take_floats(reader *r, const char *name, int rank, int64_t a, int64_t b)
{
    return aligned(r, take(r, name, VD_F32, rank, a, b, 0));
}

/* Recorded bytes are in the type that the run computed: bf16, or float32 where the policy keeps the node there. */
static const vd_tensor *take_bytes(reader *r, const char *name, int64_t rows, int64_t cols)
{
    const vd_tensor *tensor = vd_tensors_find(r->file, name);
    return take(r, name, tensor && tensor->type == VD_F32 ? VD_F32 : VD_BF16, 2, rows, cols, 0);
}

/* Opens one of the case's files after its bytes proved to be the recorded ones. */
static vd_status open_file(vd_context *ctx, const vd_case *c, int which, vd_tensors **out)
{
    char      *path = vd_path_join(ctx, c->path, c->files[which].file), text[VD_HASH_TEXT];
    vd_mapping map  = {0};
    if (!path)
        return ctx->status;
    vd_status status = vd_file_map(ctx, path, &map);
    if (status == VD_OK)
        status = vd_hash_bytes(ctx, map.data, map.size, text);
    vd_file_unmap(&map);
    if (status == VD_OK && strcmp(text, c->files[which].sha256) != 0)
        status = vd_fail(ctx, VD_BAD_FILE, "case-hash", "%s: SHA-256 is %s; case.json says %s: the file is not the recorded one, fetch or record the case again", path, text,
                         c->files[which].sha256);
    if (status == VD_OK)
        status = vd_tensors_open(ctx, path, out);
    vd_free(ctx, path);
    return status;
}

static vd_status refuse_rest(const reader *r)
{
    if (r->ctx->status != VD_OK || vd_tensors_count(r->file) == r->used)
        return r->ctx->status;
    return vd_fail(r->ctx, VD_BAD_FILE, "unexpected-tensor", "%s holds %lld tensors; the case has a place for %lld", r->name, (long long)vd_tensors_count(r->file),
                   (long long)r->used);
}

static vd_status refuse_nonfinite(const reader *r, const char *name, vd_dtype type, const void *values, int64_t count)
{
    for (int64_t i = 0; values && i < count; i++)
        if (!isfinite(vd_load(values, type, i)))
            return vd_fail(r->ctx, VD_BAD_FILE, "case-range", "%s: tensor %s holds %g at element %lld; recorded values must be finite: record the case again", r->name, name,
                           (double)vd_load(values, type, i), (long long)i);
    return r->ctx->status;
}

static vd_status refuse_nonfinite_tensor(const reader *r, const vd_tensor *tensor)
{
    return tensor ? refuse_nonfinite(r, tensor->name, tensor->type, tensor->data, vd_tensor_elements(tensor)) : r->ctx->status;
}

static vd_status read_inputs(vd_context *ctx, vd_case *c)
{
    reader r    = {ctx, c, c->inputs_file, c->files[0].file, 0};
    c->latents  = take(&r, "latents", VD_F32, 3, c->config.latent_channels, c->h, c->w);
    c->text     = take(&r, "text", VD_BF16, 2, c->text_rows, c->config.text_dim, 0);
    c->t_tensor = take(&r, "t", VD_F32, 1, 1, 0, 0);
    float t     = 0;
    if (refuse_nonfinite_tensor(&r, c->latents) != VD_OK || refuse_nonfinite_tensor(&r, c->text) != VD_OK)
        return ctx->status;
    if (c->t_tensor)
        memcpy(&t, c->t_tensor->data, sizeof t);
    if (ctx->status == VD_OK && t != c->t)
        return vd_fail(ctx, VD_BAD_FILE, "case-range", "%s: t is %.9g; case.json says %.9g", r.name, (double)t, (double)c->t);
    return refuse_rest(&r);
}

/* ‖f_i‖² of each row: what a row error is a share of. */
static vd_status measure_rows(reader *r, vd_case_node *node)
{
    double *squares = own(r, node->rows * (int64_t)sizeof *squares);
    if (!squares)
        return r->ctx->status;
    for (int64_t i = 0; i < node->rows; i++) {
        squares[i] = 0;
        for (int64_t k = 0; k < node->cols; k++)
            squares[i] += (double)node->f[i * node->cols + k] * (double)node->f[i * node->cols + k];
    }
    node->row_squares = squares;
    return VD_OK;
}

static vd_status read_nodes(vd_context *ctx, vd_case *c)
{
    reader         r    = {ctx, c, c->nodes_file, c->files[1].file, 0};
    const vd_dtype type = c->policy == VD_POLICY_BF16 ? VD_BF16 : VD_F32;
    char           name[48];
    for (int64_t i = 0; ctx->status == VD_OK && i < c->node_count; i++) {
        vd_case_node *node = &c->nodes[i];
        snprintf(name, sizeof name, "%s.f32", node->name);
        node->f = take_floats(&r, name, 2, node->rows, node->cols);
        if (refuse_nonfinite(&r, name, VD_F32, node->f, node->rows * node->cols) != VD_OK || measure_rows(&r, node) != VD_OK)
            return ctx->status;
        if (node->block >= 0 || strcmp(node->name, "velocity") == 0 || strcmp(node->name, "text.0") == 0 || strcmp(node->name, "text.1") == 0) {
            snprintf(name, sizeof name, "%s.in", node->name);
            node->in = take(&r, name, type, 2, node->rows, c->config.dim, 0);
            if (refuse_nonfinite_tensor(&r, node->in) != VD_OK)
                return ctx->status;
        }
    }
    if (ctx->status != VD_OK)
        return ctx->status;
    c->mod_used      = take(&r, "mod.used", type, 2, VD_MOSS_MOD_ROWS, c->config.dim, 0);
    c->head_mod_used = take(&r, "head_mod.used", type, 2, VD_MOSS_HEAD_MOD_ROWS, c->config.dim, 0);
    c->step_f        = take_floats(&r, "step.f32", 2, c->image_rows, c->config.latent_channels);
    if (refuse_nonfinite_tensor(&r, c->mod_used) != VD_OK || refuse_nonfinite_tensor(&r, c->head_mod_used) != VD_OK ||
        refuse_nonfinite(&r, "step.f32", VD_F32, c->step_f, c->image_rows * c->config.latent_channels) != VD_OK)
        return ctx->status;
    return refuse_rest(&r);
}

/* How far a run's direction can be from float32's, given its row errors. Together they are q = ‖e‖/‖f‖. To turn f by an angle a takes an
 * error of at least ‖f‖ sin a, so sin a <= q, and 1 - cos a <= 1 - sqrt(1 - q²) = q² / (1 + sqrt(1 - q²)). */
static double largest_cosine(const vd_case_node *node, const float *row_errors)
{
    double ee = 0, ff = 0;
    for (int64_t i = 0; i < node->rows; i++) {
        ee += (double)row_errors[i] * (double)row_errors[i] * node->row_squares[i];
        ff += node->row_squares[i];
    }
    const double q = ff > 0 ? ee / ff : 0;
    return q < 1 ? q / (1 + sqrt(1 - q)) : 2;
}

/* A limit must be what was recorded, as far as the files can tell: the largest row error is the worst row in case.json; the cosine error
 * there is no larger than the row errors allow, nor than that of the run's bytes, where they are kept (a narrower limit lets nothing through).
 * And it must be honest: the published module's roundings, in whatever order it sums, move no row by its own length. */
static vd_status check_mark(reader *r, const vd_case_run *run, const vd_case_node *node, const vd_case_mark *mark)
{
    double worst = 0;
    if (!mark->row_errors)
        return r->ctx->status;
    for (int64_t i = 0; i < node->rows; i++) {
        if (!(mark->row_errors[i] >= 0 && isfinite(mark->row_errors[i])))
            return vd_fail(r->ctx, VD_BAD_FILE, "case-range", "%s: run %s, node %s: row %lld's error is %g; a limit cannot come from it", r->name, run->name, node->name,
                           (long long)i, (double)mark->row_errors[i]);
        worst = fmax(worst, (double)mark->row_errors[i]);
    }
    if (fabs(worst - mark->worst_row) > 1e-5 * worst + 1e-30)
        return vd_fail(r->ctx, VD_BAD_FILE, "case-runs", "%s: run %s, node %s: the largest row error is %.9g; case.json says %.9g", r->name, run->name, node->name, worst,
                       mark->worst_row);
    if (worst > most_row || mark->cosine > most_cosine)
        return vd_fail(r->ctx, VD_BAD_FILE, "case-runs", "%s: run %s, node %s: worst row %.3g, cosine error %.3g; no honest run is beyond %g and %g: record the case again",
                       r->name, run->name, node->name, worst, mark->cosine, most_row, most_cosine);
    const double most = largest_cosine(node, mark->row_errors);
    if (mark->cosine > most * (1 + slack) + least)
        return vd_fail(r->ctx, VD_BAD_FILE, "case-runs", "%s: run %s, node %s: case.json says a cosine error of %.9g; the row errors allow at most %.9g", r->name, run->name,
                       node->name, mark->cosine, most);
    if (!mark->bytes)
        return VD_OK;
    vd_distance distance;
    vd_distance_measure(mark->bytes->type, mark->bytes->data, node->f, node->rows, node->cols, NULL, &distance);
    if (!(mark->cosine <= distance.cosine * (1 + slack) + least) || !(fabs(distance.worst_row - worst) <= slack * worst + least))
        return vd_fail(r->ctx, VD_BAD_FILE, "case-runs", "%s: run %s, node %s: its bytes have cosine error %.9g and worst row %.9g; the case says %.9g and %.9g", r->name,
                       run->name, node->name, distance.cosine, distance.worst_row, mark->cosine, worst);
    return VD_OK;
}

/* The whole step is judged beside the runs' own: a distance that is not finite would make everything look near. */
static vd_status check_step(reader *r, const vd_case *c, const vd_case_run *run)
{
    vd_distance   distance;
    const int64_t count = c->image_rows * c->config.latent_channels;
    char          name[128];
    snprintf(name, sizeof name, "%s/step", run->name);
    if (!run->step || refuse_nonfinite(r, name, VD_F32, run->step, count) != VD_OK || refuse_nonfinite_tensor(r, run->step_bytes) != VD_OK)
        return r->ctx->status;
    vd_distance_measure(VD_F32, run->step, c->step_f, c->image_rows, c->config.latent_channels, NULL, &distance);
    if (!isfinite(distance.l2) || !isfinite(distance.worst_row))
        return vd_fail(r->ctx, VD_BAD_FILE, "case-range", "%s: run %s: row %lld of its whole step has an infinite distance to step.f32, which is zero there", r->name, run->name,
                       (long long)distance.worst_row_index);
    return VD_OK;
}

static vd_status read_runs(vd_context *ctx, vd_case *c)
{
    reader r = {ctx, c, c->runs_file, c->files[2].file, 0};
    char   name[128];
    for (int64_t k = 0; k < c->run_count; k++) {
        vd_case_run *run    = &c->runs[k];
        const bool   bytes  = json_is_true(json_object_get(json_array_get(json_object_get(c->json, "runs"), (size_t)k), "bytes"));
        for (int64_t i = 0; i < c->node_count; i++) {
            const vd_case_node *node = &c->nodes[i];
            vd_case_mark       *mark = &run->marks[i];
            snprintf(name, sizeof name, "%s/%s.row_errors", run->name, node->name);
            mark->row_errors = take_floats(&r, name, 1, node->rows, 0);
            if (bytes) {
                snprintf(name, sizeof name, "%s/%s.bytes", run->name, node->name);
                mark->bytes = take_bytes(&r, name, node->rows, node->cols);
            }
            if (ctx->status != VD_OK || check_mark(&r, run, node, mark) != VD_OK)
                return ctx->status;
        }
        snprintf(name, sizeof name, "%s/step", run->name);
        run->step = take_floats(&r, name, 2, c->image_rows, c->config.latent_channels);
        if (bytes) {
            snprintf(name, sizeof name, "%s/step.bytes", run->name);
            run->step_bytes = take_bytes(&r, name, c->image_rows, c->config.latent_channels);
        }
        if (check_step(&r, c, run) != VD_OK)
            return ctx->status;
    }
    return refuse_rest(&r);
}

vd_status vd_case_read_tensors(vd_context *ctx, vd_case *c)
{
    vd_status status = open_file(ctx, c, 0, &c->inputs_file);
    if (status == VD_OK)
        status = open_file(ctx, c, 1, &c->nodes_file);
    if (status == VD_OK)
        status = open_file(ctx, c, 2, &c->runs_file);
    if (status == VD_OK)
        status = read_inputs(ctx, c);
    if (status == VD_OK)
        status = read_nodes(ctx, c);
    if (status == VD_OK)
        status = read_runs(ctx, c);
    return status;
}
