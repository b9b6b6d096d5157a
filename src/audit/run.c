#include "audit/run.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/receipt.h"
#include "formats/file.h"
#include "kernels/table.h"
#include "models/moss_image/nodes.h"

/* ---- Rows ---- */

int64_t vd_rows_count(const vd_tensor *t)
{
    if (t->rank == 3)
        return t->shape[1] * t->shape[2];
    int64_t rows = 1;
    for (int i = 0; i + 1 < t->rank; i++)
        rows *= t->shape[i];
    return rows;
}

int64_t vd_row_bytes(const vd_tensor *t) { return (t->rank == 3 ? t->shape[0] : t->rank ? t->shape[t->rank - 1] : 1) * vd_dtype_size(t->type); }

void vd_row_copy(const vd_tensor *t, int64_t row, void *to)
{
    const int64_t size = vd_dtype_size(t->type), bytes = vd_row_bytes(t);
    if (t->rank != 3) {
        memcpy(to, (const char *)t->data + row * bytes, (size_t)bytes);
        return;
    }
    const int64_t positions = t->shape[1] * t->shape[2];
    for (int64_t c = 0; c < t->shape[0]; c++)
        memcpy((char *)to + c * size, (const char *)t->data + (c * positions + row) * size, (size_t)size);
}

/* ---- Values of a forward ---- */

void vd_collection_free(vd_context *ctx, vd_collection *c)
{
    for (int64_t i = 0; i < c->count; i++)
        vd_free(ctx, c->tensors[i].data);
    vd_free(ctx, c->tensors);
    *c = (vd_collection){0};
}

const vd_tensor *vd_collection_find(const vd_collection *c, const char *name)
{
    for (int64_t i = 0; i < c->count; i++)
        if (!strcmp(c->tensors[i].name, name))
            return &c->tensors[i];
    return NULL;
}

typedef struct collector {
    vd_context    *ctx;
    vd_collection *collections;
} collector;

/* Data and name share one block: the name behind the data. */
static int collect(void *user, int sample, const vd_tensor *value)
{
    const collector *to = user;
    vd_collection   *c  = &to->collections[sample];
    if (c->count == c->room) {
        const int64_t room = c->room ? 2 * c->room : 8, one = (int64_t)sizeof *c->tensors;
        vd_tensor    *more = vd_realloc(to->ctx, c->tensors, c->room * one, room * one, "the list of tapped nodes");
        if (!more)
            return 1;
        c->tensors = more;
        c->room    = room;
    }
    const int64_t bytes = vd_tensor_bytes(value), name = (int64_t)strlen(value->name) + 1;
    char         *block = vd_alloc(to->ctx, bytes + name, "a tapped node");
    if (!block)
        return 1;
    memcpy(block, value->data, (size_t)bytes);
    memcpy(block + bytes, value->name, (size_t)name);
    vd_tensor *kept = &c->tensors[c->count++];
    *kept           = *value;
    kept->data      = block;
    kept->name      = block + bytes;
    return 0;
}

vd_status vd_forward_collect(vd_context *ctx, const vd_model *model, const vd_forward_options *options, const vd_sample *samples, int sample_count,
                             vd_collection *collections)
{
    collector          to   = {ctx, collections};
    vd_forward_options with = *options;
    with.tap                = collect;
    with.tap_user           = &to;
    return vd_forward(ctx, model, &with, samples, sample_count);
}

/* ---- Files ---- */

/* Whether an input is a tensor that a forward could take, used or not: what a file says wrongly is the file's fault. */
static vd_status check_input(vd_context *ctx, const vd_moss_config *c, const char *path, const vd_tensor *t)
{
    const bool     number = t->type == VD_F32 || t->type == VD_BF16, latents = !strcmp(t->name, "latents"), text = !strcmp(t->name, "text");
    const int64_t *d      = t->shape + (latents && t->rank == 4 && t->shape[0] == 1);
    const int      rank   = t->rank - (int)(d - t->shape);
    if (!strcmp(t->name, "t") && (t->type != VD_F32 || rank > 1 || (rank == 1 && d[0] != 1)))
        return vd_fail(ctx, VD_BAD_FILE, "shape-mismatch", "%s: t must be F32 [1], holding 1000·sigma; the tensor given is %s of rank %d with %lld elements",
                       path, vd_dtype_name(t->type), rank, (long long)vd_tensor_elements(t));
    if (latents && (t->type != VD_F32 || rank != 3 || d[0] != c->latent_channels))
        return vd_fail(ctx, VD_BAD_FILE, "shape-mismatch", "%s: latents must be F32 [%lld, h, w]; the tensor given is %s of rank %d", path,
                       (long long)c->latent_channels, vd_dtype_name(t->type), t->rank);
    if (text && (!number || rank != 2 || d[1] != c->text_dim))
        return vd_fail(ctx, VD_BAD_FILE, "shape-mismatch", "%s: text must be BF16 or F32 [rows, %lld]; the tensor given is %s of rank %d", path,
                       (long long)c->text_dim, vd_dtype_name(t->type), rank);
    if (!number)
        return vd_fail(ctx, VD_BAD_FILE, "dtype-mismatch", "%s: tensor %s is %s; F32 or BF16 is wanted", path, vd_quote(t->name).text,
                       vd_dtype_name(t->type));
    if (vd_tensor_elements(t) < 1)
        return vd_fail(ctx, VD_BAD_FILE, "shape-mismatch", "%s: tensor %s is empty", path, vd_quote(t->name).text);
    return VD_OK;
}

vd_status vd_inputs_open(vd_context *ctx, const vd_model *model, const char *path, vd_tensors **file, vd_tensor **list)
{
    static const char *const known[] = {"latents", "text", "t", "x"};
    const int64_t            layers  = vd_model_moss(model)->config.layers;
    *list                            = NULL;
    vd_status status                 = vd_tensors_open(ctx, path, file);
    if (status != VD_OK)
        return status;
    const int64_t count = vd_tensors_count(*file);
    *list               = vd_alloc(ctx, count * (int64_t)sizeof **list, "the inputs");
    if (!*list)
        status = ctx->status;
    for (int64_t i = 0; status == VD_OK && i < count; i++) {
        (*list)[i] = *vd_tensors_get(*file, i);
        bool found = vd_moss_node_find((*list)[i].name, layers) >= 0;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            found |= !strcmp(known[k], (*list)[i].name);
        if (!found)
            status = vd_fail(ctx, VD_BAD_FILE, "input-name",
                             "%s: tensor %s is no input of this model; inputs are latents, text, t, x and node names such as x.0 or b2.q", path,
                             vd_quote((*list)[i].name).text);
        else
            status = check_input(ctx, &vd_model_moss(model)->config, path, &(*list)[i]);
    }
    if (status != VD_OK) {
        vd_free(ctx, *list);
        vd_tensors_close(ctx, *file);
        *list = NULL;
        *file = NULL;
    }
    return status;
}

static bool is_same_file(const struct stat *a, const struct stat *b) { return a->st_dev == b->st_dev && a->st_ino == b->st_ino; }

/* Whether two paths are one place: the same file, or the same name in the same folder where there is no file yet. Without memory the context
 * says so. */
static bool is_same_place(vd_context *ctx, const char *a, const char *b)
{
    struct stat one, two;
    if (stat(a, &one) == 0 && stat(b, &two) == 0)
        return is_same_file(&one, &two);
    if (strcmp(vd_path_name(a), vd_path_name(b)) != 0)
        return false;
    char      *first = vd_path_folder(ctx, a), *second = vd_path_folder(ctx, b);
    const bool same = first && second && stat(first, &one) == 0 && stat(second, &two) == 0 && is_same_file(&one, &two);
    vd_free(ctx, first);
    vd_free(ctx, second);
    return same;
}

vd_status vd_output_check(vd_context *ctx, const char *path, const char *const *reads, int64_t count)
{
    vd_writer *writer;
    if (vd_writer_open(ctx, path, 0, &writer) != VD_OK) /* refuses links, so what follows is about the file itself */
        return ctx->status;
    vd_writer_abandon(ctx, writer);
    for (int64_t i = 0; i < count; i++)
        if (is_same_place(ctx, path, reads[i]))
            return vd_fail(ctx, VD_IO, "output-path", "%s is read by this run; name another output", path);
    return ctx->status;
}

/* ---- The run ---- */

typedef struct run {
    vd_context           *ctx;
    const vd_run_options *options;
    vd_model             *model;
    vd_tensors          **files; /* [count], like the rest */
    vd_tensor           **inputs;
    vd_sample            *samples;
    vd_collection        *outputs;
    char                **receipts;
} run;

void vd_run_options_init(vd_run_options *options)
{
    memset(options, 0, sizeof *options);
    vd_forward_options_init(&options->forward);
    options->repeats = 1;
}

static vd_status check_options(vd_context *ctx, const vd_run_options *o)
{
    if (!o->model || o->count < 1 || !o->inputs || !o->outputs)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "run", "a run needs a model, and an input and an output for each of at least one sample");
    if (o->repeats < 1 || o->repeats > 1000)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "run", "repeats is %d; it must be 1 to 1000", o->repeats);
    return VD_OK;
}

/* What describes a model beside its weights, whether it is there or not: a new one would be read by the next run. */
static vd_status list_descriptions(run *r, vd_names *names)
{
    static const char *const usual[] = {"config.json", "model_index.json", "diffusion_pytorch_model.safetensors.index.json", "model.safetensors.index.json"};
    char                    *folder  = vd_path_folder(r->ctx, vd_tensors_file(vd_model_moss(r->model)->files, 0));
    vd_status                status  = folder ? vd_names_add(r->ctx, names, r->options->model) : r->ctx->status;
    for (size_t i = 0; status == VD_OK && i < 2 * sizeof usual / sizeof *usual; i++) {
        char *path = vd_path_join(r->ctx, i % 2 ? folder : r->options->model, usual[i / 2]);
        status     = path ? vd_names_add(r->ctx, names, path) : r->ctx->status;
        vd_free(r->ctx, path);
    }
    vd_free(r->ctx, folder);
    return status;
}

static vd_status check_paths(run *r)
{
    const vd_run_options *o      = r->options;
    const vd_tensors     *files  = vd_model_moss(r->model)->files;
    vd_names              read   = {0};
    vd_status             status = list_descriptions(r, &read);
    for (int64_t i = 0; status == VD_OK && i < o->count; i++)
        status = vd_names_add(r->ctx, &read, o->inputs[i]);
    for (int64_t i = 0; status == VD_OK && i < vd_tensors_file_count(files); i++)
        status = vd_names_add(r->ctx, &read, vd_tensors_file(files, i));
    const char *const *reads = (const char *const *)read.names;
    const int64_t      count = read.count;
    for (int i = 0; status == VD_OK && i < o->count; i++) {
        r->receipts[i] = o->receipts ? vd_copy_string(r->ctx, o->receipts[i]) : vd_format(r->ctx, "%s.receipt.json", o->outputs[i]);
        status         = r->receipts[i] ? vd_output_check(r->ctx, o->outputs[i], reads, count) : r->ctx->status;
        if (status == VD_OK)
            status = vd_output_check(r->ctx, r->receipts[i], reads, count);
    }
    vd_names_free(r->ctx, &read);
    for (int i = 0; status == VD_OK && i < 2 * o->count; i++) { /* outputs, then receipts: every one its own file */
        for (int j = 0; status == VD_OK && j < i; j++) {
            const char *a = i < o->count ? o->outputs[i] : r->receipts[i - o->count], *b = j < o->count ? o->outputs[j] : r->receipts[j - o->count];
            if (!strcmp(a, b) || is_same_place(r->ctx, a, b))
                status = vd_fail(r->ctx, VD_BAD_ARGUMENT, "run", "%s would be written twice; give every output and every receipt its own file", a);
        }
    }
    return status;
}

/* `x` stands for what enters the first node of the range, unless that has its own name there: then, or where nothing enters, x would play no part. */
static vd_status check_x(run *r, int sample)
{
    const vd_run_options *o      = r->options;
    const int64_t         layers = vd_model_moss(r->model)->config.layers, from = o->forward.from ? vd_moss_node_find(o->forward.from, layers) : 0;
    const char           *path   = o->inputs[sample];
    char                  name[VD_MOSS_NODE_NAME];
    int64_t               block, inputs[3];
    bool                  skipped = false;
    if (from < 0 || !vd_tensors_find(r->files[sample], "x"))
        return VD_OK; /* an unknown node the forward names */
    vd_moss_node_at(from, layers, &block);
    for (int i = 0; i < o->skip_count; i++)
        skipped |= o->skip[i] == block;
    if (from <= VD_MOSS_X0 || vd_moss_node_inputs(from, layers, skipped, inputs) < 1)
        return vd_fail(r->ctx, VD_BAD_FILE, "input-name", "%s: tensor x stands for the rows that enter the first node, but the run starts with %s; leave "
                       "x out, give it a node's name, or start later (--from)", path, o->forward.from ? o->forward.from : "the inputs");
    vd_moss_node_name(inputs[0], layers, name);
    if (vd_tensors_find(r->files[sample], name))
        return vd_fail(r->ctx, VD_BAD_FILE, "input-name", "%s: tensors x and %s stand for the same rows; leave one of them out", path, name);
    return VD_OK;
}

static vd_status open_samples(run *r)
{
    const vd_run_options *o = r->options;
    for (int i = 0; i < o->count; i++) {
        if (vd_inputs_open(r->ctx, r->model, o->inputs[i], &r->files[i], &r->inputs[i]) || check_x(r, i))
            return r->ctx->status;
        r->samples[i] = (vd_sample){.inputs      = r->inputs[i],
                                    .input_count = (int)vd_tensors_count(r->files[i]),
                                    .h           = o->h,
                                    .w           = o->w,
                                    .text_rows   = o->text_rows,
                                    .skip        = o->skip,
                                    .skip_count  = o->skip_count,
                                    .rows        = o->rows,
                                    .row_count   = o->row_count};
    }
    return VD_OK;
}

/* Another run must give the same bytes; its values are compared and dropped. */
static vd_status repeat(run *r, int number)
{
    const int      count  = r->options->count;
    vd_collection *again  = vd_alloc(r->ctx, count * (int64_t)sizeof *again, "a repetition");
    vd_status      status = again ? vd_forward_collect(r->ctx, r->model, &r->options->forward, r->samples, count, again) : r->ctx->status;
    for (int i = 0; again && i < count; i++) {
        for (int64_t k = 0; status == VD_OK && k < again[i].count; k++) {
            const vd_tensor *a = &again[i].tensors[k], *b = vd_collection_find(&r->outputs[i], a->name);
            const int64_t    bytes = vd_tensor_bytes(a);
            int64_t          at    = 0;
            while (b && at < bytes && ((const char *)a->data)[at] == ((const char *)b->data)[at])
                at++;
            if (!b || at < bytes)
                status = vd_fail(r->ctx, VD_FAILED, "repeat", "sample %d, node %s: run %d differs from the first, from element %lld on", i, a->name,
                                 number, (long long)(at / vd_dtype_size(a->type)));
        }
        vd_collection_free(r->ctx, &again[i]);
    }
    vd_free(r->ctx, again);
    return status;
}

/* What the forward says of a tensor it says without the file: here is the place that knows it. */
static vd_status blame_file(run *r, vd_status status)
{
    static const char *const of_files[] = {"shape-mismatch", "dtype-mismatch", "not-representable", "timestep"};
    for (size_t i = 0; status == VD_BAD_ARGUMENT && i < sizeof of_files / sizeof *of_files; i++) {
        if (strcmp(vd_error_reason(r->ctx), of_files[i]) != 0)
            continue;
        char *text = vd_copy_string(r->ctx, vd_error_text(r->ctx));
        vd_clear_error(r->ctx);
        status = vd_fail(r->ctx, VD_BAD_FILE, of_files[i], "%s: %s", r->options->count == 1 ? r->options->inputs[0] : "one of the inputs",
                         text ? text : "a tensor is wrong");
        vd_free(r->ctx, text);
    }
    return status;
}

static void format_time(char text[32])
{
    struct timespec now = {0};
    struct tm       utc;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!gmtime_r(&now.tv_sec, &utc) || !strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc))
        strcpy(text, "unknown");
}

static double now_seconds(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Output and receipt come together or not at all: the receipt lies ready aside before the output gets its name. */
static vd_status write_sample(run *r, int i, json_t *weights, const char *level, const char *started, double seconds)
{
    const vd_run_options  *o          = r->options;
    const char            *metadata[] = {"format", "pt", "producer", "verdit " VERDIT_VERSION, NULL};
    json_t                *receipt    = NULL;
    vd_writer             *writer     = NULL;
    int64_t                size       = 0;
    const vd_receipt_facts facts      = {.options = o,
                                         .model   = r->model,
                                         .level   = level,
                                         .weights = weights,
                                         .sample  = i,
                                         .input   = r->files[i],
                                         .output  = &r->outputs[i],
                                         .started = started,
                                         .seconds = seconds};
    vd_status              status     = vd_receipt_make(r->ctx, &facts, &receipt);
    char                  *text       = status == VD_OK ? vd_json_print(r->ctx, receipt, true, &size) : NULL;
    json_decref(receipt);
    if (!text || vd_writer_open(r->ctx, r->receipts[i], size, &writer) || vd_writer_put(r->ctx, writer, text, size) ||
        vd_tensors_write(r->ctx, o->outputs[i], r->outputs[i].tensors, r->outputs[i].count, metadata, NULL, NULL)) {
        vd_writer_abandon(r->ctx, writer);
        status = r->ctx->status;
    } else if ((status = vd_writer_commit(r->ctx, writer)) != VD_OK) {
        unlink(o->outputs[i]);
    }
    vd_free(r->ctx, text);
    return status;
}

static vd_status run_all(run *r)
{
    const vd_run_options *o = r->options;
    char                  started[32];
    vd_kernels            kernels;
    json_t               *weights = NULL;
    if (check_options(r->ctx, o) || vd_kernels_select(r->ctx, &kernels) || vd_model_open(r->ctx, o->model, &r->model) || check_paths(r) ||
        open_samples(r))
        return r->ctx->status;
    format_time(started);
    const double begin   = now_seconds();
    vd_status    status  = blame_file(r, vd_forward_collect(r->ctx, r->model, &o->forward, r->samples, o->count, r->outputs));
    const double seconds = now_seconds() - begin;
    for (int i = 2; status == VD_OK && i <= o->repeats; i++)
        status = repeat(r, i);
    if (status == VD_OK)
        status = vd_receipt_weights(r->ctx, r->model, o->hash_weights, &weights);
    for (int i = 0; status == VD_OK && i < o->count; i++)
        status = write_sample(r, i, weights, kernels.level, started, seconds);
    json_decref(weights);
    return status;
}

vd_status vd_run(vd_context *ctx, const vd_run_options *options)
{
    vd_clear_error(ctx);
    const int64_t count    = vd_max(options->count, 1);
    run           r        = {.ctx = ctx, .options = options};
    r.files                = vd_alloc(ctx, count * (int64_t)sizeof *r.files, "the samples");
    r.inputs               = vd_alloc(ctx, count * (int64_t)sizeof *r.inputs, "the samples");
    r.samples              = vd_alloc(ctx, count * (int64_t)sizeof *r.samples, "the samples");
    r.outputs              = vd_alloc(ctx, count * (int64_t)sizeof *r.outputs, "the samples");
    r.receipts             = vd_alloc(ctx, count * (int64_t)sizeof *r.receipts, "the samples");
    const vd_status status = r.files && r.inputs && r.samples && r.outputs && r.receipts ? run_all(&r) : ctx->status;
    for (int64_t i = 0; i < options->count; i++) {
        if (r.inputs)
            vd_free(ctx, r.inputs[i]);
        if (r.files)
            vd_tensors_close(ctx, r.files[i]);
        if (r.outputs)
            vd_collection_free(ctx, &r.outputs[i]);
        if (r.receipts)
            vd_free(ctx, r.receipts[i]);
    }
    vd_free(ctx, r.files);
    vd_free(ctx, r.inputs);
    vd_free(ctx, r.samples);
    vd_free(ctx, r.outputs);
    vd_free(ctx, r.receipts);
    vd_model_close(ctx, r.model);
    return status;
}
