#include "gate/case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/file.h"
#include "formats/json.h"

enum {
    CASE_BYTES = 64 << 20,    /* case.json: 46 nodes and 20 runs take 100 kB */
    MOST_SIZE  = 1 << 20,     /* any one size of a configuration; products of two fit 64 bits many times over */
    MOST_SIDE  = 1 << 13,     /* latent height and width: 131,072 pixels a side */
    MOST_TEXT  = 1 << 20,
    MOST_RUNS  = 1024
};

/* An object of the format has the keys that the schema lists and no other: a key misspelt must not pass for one left out. */
static vd_status refuse_other_keys(const vd_json_in *in, const json_t *object, const char *where, const char *const *keys)
{
    const char *key;
    json_t     *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        bool known = false;
        for (const char *const *k = keys; *k; k++)
            known |= strcmp(*k, key) == 0;
        if (!known)
            return vd_fail(in->ctx, VD_BAD_FILE, "case-unknown-key", "%s: key %s in %s is not part of verdit-case/1; remove it, or use the version that wrote it",
                           in->file, vd_quote(key).text, where);
    }
    return VD_OK;
}

static vd_status read_hash(const vd_json_in *in, const json_t *object, const char **out)
{
    if (vd_json_text_of(in, object, "sha256", out) != VD_OK)
        return in->ctx->status;
    if (strlen(*out) == 64 && strspn(*out, "0123456789abcdef") == 64)
        return VD_OK;
    return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: sha256 is %s; 64 lower-case hexadecimal digits are needed", in->file, vd_quote(*out).text);
}

/* A name inside a folder: what a case names must not lead out of it. */
static vd_status read_file_name(const vd_json_in *in, const json_t *object, const char **out)
{
    if (vd_json_text_of(in, object, "file", out) != VD_OK)
        return in->ctx->status;
    if (**out && !strpbrk(*out, "/\\") && strcmp(*out, ".") != 0 && strcmp(*out, "..") != 0)
        return VD_OK;
    return vd_fail(in->ctx, VD_BAD_FILE, "unsafe-path", "%s: file is %s; a plain name inside the folder is needed, without / or \\", in->file,
                   vd_quote(*out).text);
}

static vd_status read_config(const vd_json_in *in, const json_t *top, vd_moss_config *c)
{
    static const char *const keys[] = {"dim", "ffn_dim", "num_heads", "num_layers", "text_dim", "freq_dim", "latent_channels", "rope_base", NULL};
    int64_t *const           fields[] = {&c->dim, &c->ffn_dim, &c->heads, &c->layers, &c->text_dim, &c->freq_dim, &c->latent_channels};
    json_t                  *config;
    if (vd_json_object_of(in, top, "config", &config) != VD_OK || refuse_other_keys(in, config, "config", keys) != VD_OK)
        return in->ctx->status;
    for (int i = 0; i < 7; i++)
        if (vd_json_integer_of(in, config, keys[i], 1, MOST_SIZE, fields[i]) != VD_OK)
            return in->ctx->status;
    if (vd_json_number_of(in, config, "rope_base", 1e-3, 1e12, &c->rope_base) != VD_OK)
        return in->ctx->status;
    if (c->dim % c->heads != 0 || c->dim / c->heads % 8 != 0 || c->freq_dim % 2 != 0 || c->layers > 4096)
        return vd_fail(in->ctx, VD_BAD_FILE, "case-range",
                       "%s: config has dim %lld, num_heads %lld, freq_dim %lld, num_layers %lld; heads must divide dim into multiples of 8, freq_dim be even, layers at "
                       "most 4096",
                       in->file, (long long)c->dim, (long long)c->heads, (long long)c->freq_dim, (long long)c->layers);
    return VD_OK;
}

static vd_status read_model(const vd_json_in *in, const json_t *top, vd_case *c)
{
    static const char *const keys[] = {"path", "weights", NULL}, *const weight_keys[] = {"file", "sha256", "bytes", NULL};
    json_t                  *model, *path, *weights;
    if (vd_json_object_of(in, top, "model", &model) != VD_OK || refuse_other_keys(in, model, "model", keys) != VD_OK ||
        vd_json_member(in, model, "path", &path) != VD_OK || vd_json_array_of(in, model, "weights", &weights) != VD_OK)
        return in->ctx->status;
    if (!json_is_null(path)) {
        const char *text = vd_json_text(path);
        if (!text || !*text || *text == '/')
            return vd_fail(in->ctx, VD_BAD_FILE, "unsafe-path",
                           "%s: model.path is %s; a path relative to the case's folder is needed, or null (then name the model when gating)", in->file,
                           text ? vd_quote(text).text : vd_json_kind(path));
        if (!(c->model_path = vd_path_join(in->ctx, c->path, text)))
            return in->ctx->status;
    }
    c->weight_count = (int64_t)json_array_size(weights);
    if (c->weight_count < 1 || c->weight_count > 100000)
        return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: model.weights lists %lld files; 1 to 100000 are needed", in->file, (long long)c->weight_count);
    if (!(c->weights = vd_alloc(in->ctx, c->weight_count * (int64_t)sizeof *c->weights, "the case's list of weight files")))
        return in->ctx->status;
    for (int64_t i = 0; i < c->weight_count; i++) {
        const json_t   *entry  = json_array_get(weights, (size_t)i);
        vd_case_weight *weight = &c->weights[i];
        if (!json_is_object(entry))
            return vd_fail(in->ctx, VD_BAD_FILE, "case-type", "%s: model.weights[%lld] is %s; an object is needed", in->file, (long long)i, vd_json_kind(entry));
        if (refuse_other_keys(in, entry, "model.weights", weight_keys) != VD_OK || read_file_name(in, entry, &weight->file) != VD_OK ||
            read_hash(in, entry, &weight->sha256) != VD_OK || vd_json_integer_of(in, entry, "bytes", 1, INT64_MAX, &weight->bytes) != VD_OK)
            return in->ctx->status;
    }
    return VD_OK;
}

static vd_status read_skip(const vd_json_in *in, const json_t *top, vd_case *c)
{
    json_t *skip;
    if (vd_json_array_of(in, top, "skip", &skip) != VD_OK)
        return in->ctx->status;
    c->skip_count = (int64_t)json_array_size(skip);
    if (c->skip_count > c->config.layers)
        return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: skip lists %lld blocks; the model has %lld", in->file, (long long)c->skip_count,
                       (long long)c->config.layers);
    if (!(c->skip = vd_alloc(in->ctx, c->skip_count * (int64_t)sizeof *c->skip, "the case's skip list")))
        return in->ctx->status;
    for (int64_t i = 0; i < c->skip_count; i++) {
        const json_t *entry = json_array_get(skip, (size_t)i);
        c->skip[i]          = json_is_integer(entry) ? json_integer_value(entry) : -1;
        if (c->skip[i] < 0 || c->skip[i] >= c->config.layers || (i > 0 && c->skip[i] <= c->skip[i - 1]))
            return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: skip[%lld] must be a block of 0 to %lld, and the list ascending", in->file, (long long)i,
                           (long long)c->config.layers - 1);
    }
    return VD_OK;
}

static vd_status read_sizes(const vd_json_in *in, const json_t *top, vd_case *c)
{
    json_t *size, *seed;
    double  t, number;
    if (vd_json_array_of(in, top, "latent_size", &size) != VD_OK || vd_json_integer_of(in, top, "text_rows", 1, MOST_TEXT, &c->text_rows) != VD_OK ||
        vd_json_integer_of(in, top, "step", 0, INT64_MAX, &c->step) != VD_OK || vd_json_number_of(in, top, "sigma", 0, 1e6, &c->sigma) != VD_OK ||
        vd_json_number_of(in, top, "t", 0, 1e9, &t) != VD_OK || vd_json_member(in, top, "seed", &seed) != VD_OK)
        return in->ctx->status;
    const json_t *h = json_array_get(size, 0), *w = json_array_get(size, 1);
    c->h = json_is_integer(h) ? json_integer_value(h) : 0;
    c->w = json_is_integer(w) ? json_integer_value(w) : 0;
    if (json_array_size(size) != 2 || c->h < 1 || c->h > MOST_SIDE || c->w < 1 || c->w > MOST_SIDE)
        return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: latent_size must be two integers of 1 to %d: height and width", in->file, MOST_SIDE);
    /* A seed above 2^63 is written as a number that JSON readers may take for a fraction: any number will do, it is only shown. */
    number = json_number_value(seed);
    if (!json_is_number(seed) || number < 0)
        return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: seed must be a number of 0 to 2^64 - 1", in->file);
    c->seed_low   = json_is_integer(seed) ? json_integer_value(seed) : 0;
    c->t          = (float)t;
    c->image_rows = c->h * c->w;
    c->joint_rows = c->image_rows + c->text_rows;
    if (t != (double)c->t)
        return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: t is %.17g, which is no float32 value; the transformer receives a float32", in->file, t);
    if (fabs(t - 1000 * c->sigma) > 1e-4 * t + 1e-6)
        return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: t is %.9g and sigma %.9g; t must be 1000 times sigma", in->file, t, c->sigma);
    return VD_OK;
}

static vd_status read_files(const vd_json_in *in, const json_t *top, vd_case *c)
{
    static const char *const names[] = {"inputs", "nodes", "runs", NULL}, *const keys[] = {"file", "sha256", NULL};
    json_t                  *files, *entry;
    if (vd_json_object_of(in, top, "files", &files) != VD_OK || refuse_other_keys(in, files, "files", names) != VD_OK)
        return in->ctx->status;
    for (int i = 0; i < 3; i++)
        if (vd_json_object_of(in, files, names[i], &entry) != VD_OK || refuse_other_keys(in, entry, "files", keys) != VD_OK ||
            read_file_name(in, entry, &c->files[i].file) != VD_OK || read_hash(in, entry, &c->files[i].sha256) != VD_OK)
            return in->ctx->status;
    return VD_OK;
}

static void add_node(vd_case *c, const char *name, int64_t rows, int64_t cols, int64_t block)
{
    vd_case_node *node = &c->nodes[c->node_count++];
    snprintf(node->name, sizeof node->name, "%s", name);
    node->rows = rows, node->cols = cols, node->block = block;
}

/* The nodes that this configuration and skip list have: case.json must list exactly these. */
static vd_status lay_out_nodes(vd_context *ctx, vd_case *c)
{
    const vd_moss_config *m = &c->config;
    if (!(c->nodes = vd_alloc(ctx, (m->layers + 7) * (int64_t)sizeof *c->nodes, "the case's nodes")))
        return ctx->status;
    add_node(c, "mod", VD_MOSS_MOD_ROWS, m->dim, -1);
    add_node(c, "head_mod", VD_MOSS_HEAD_MOD_ROWS, m->dim, -1);
    add_node(c, "video", c->image_rows, m->dim, -1);
    add_node(c, "text.in", c->text_rows, m->dim, -1);
    add_node(c, "text.0", c->text_rows, m->dim, -1);
    add_node(c, "text.1", c->text_rows, m->dim, -1);
    for (int64_t block = 0, at = 0; block < m->layers; block++) {
        if (at < c->skip_count && c->skip[at] == block) {
            at++;
            continue;
        }
        char name[24];
        snprintf(name, sizeof name, "x.%lld", (long long)block + 1);
        add_node(c, name, c->joint_rows, m->dim, block);
    }
    add_node(c, "velocity", c->image_rows, m->latent_channels, -1);
    return VD_OK;
}

static vd_status read_nodes(const vd_json_in *in, const json_t *top, vd_case *c)
{
    static const char *const keys[] = {"name", "rows", "cols", NULL};
    json_t                  *nodes;
    if (lay_out_nodes(in->ctx, c) != VD_OK || vd_json_array_of(in, top, "nodes", &nodes) != VD_OK)
        return in->ctx->status;
    for (int64_t i = 0; i < c->node_count || i < (int64_t)json_array_size(nodes); i++) {
        const json_t       *entry = json_array_get(nodes, (size_t)i);
        const vd_case_node *node  = i < c->node_count ? &c->nodes[i] : NULL;
        const char         *name;
        int64_t             rows, cols;
        if (!entry || !node)
            return vd_fail(in->ctx, VD_BAD_FILE, "case-nodes", "%s: %lld nodes are listed; this configuration and skip list have %lld", in->file,
                           (long long)json_array_size(nodes), (long long)c->node_count);
        if (!json_is_object(entry))
            return vd_fail(in->ctx, VD_BAD_FILE, "case-type", "%s: nodes[%lld] is %s; an object is needed", in->file, (long long)i, vd_json_kind(entry));
        if (refuse_other_keys(in, entry, "nodes", keys) != VD_OK || vd_json_text_of(in, entry, "name", &name) != VD_OK ||
            vd_json_integer_of(in, entry, "rows", 1, INT64_MAX, &rows) != VD_OK || vd_json_integer_of(in, entry, "cols", 1, INT64_MAX, &cols) != VD_OK)
            return in->ctx->status;
        if (strcmp(name, node->name) != 0 || rows != node->rows || cols != node->cols)
            return vd_fail(in->ctx, VD_BAD_FILE, "case-nodes", "%s: nodes[%lld] is %s [%lld, %lld]; execution order and sizes call for %s [%lld, %lld]", in->file,
                           (long long)i, vd_quote(name).text, (long long)rows, (long long)cols, node->name, (long long)node->rows, (long long)node->cols);
    }
    return VD_OK;
}

static vd_status read_mark(const vd_json_in *in, const json_t *marks, const vd_case_run *run, const vd_case_node *node, vd_case_mark *mark)
{
    static const char *const keys[] = {"cosine", "worst_row", "worst_row_index", NULL};
    const json_t            *entry  = json_object_get(marks, node->name);
    if (!json_is_object(entry))
        return vd_fail(in->ctx, VD_BAD_FILE, "case-runs", "%s: run %s has no entry for node %s; a node without its limits cannot be gated: record the case again",
                       in->file, run->name, node->name);
    if (refuse_other_keys(in, entry, "a run's node", keys) != VD_OK || vd_json_number_of(in, entry, "cosine", -1e-6, 2.000001, &mark->cosine) != VD_OK ||
        vd_json_number_of(in, entry, "worst_row", 0, 1e30, &mark->worst_row) != VD_OK ||
        vd_json_integer_of(in, entry, "worst_row_index", 0, node->rows - 1, &mark->worst_row_index) != VD_OK)
        return in->ctx->status;
    return VD_OK;
}

static bool is_run_name(const char *name)
{
    const size_t size = strlen(name);
    return size > 0 && size < 64 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == size && name[0] != '-';
}

static vd_status read_run(const vd_json_in *in, const json_t *entry, vd_case *c, vd_case_run *run)
{
    static const char *const keys[] = {"name", "kind", "what", "device", "bytes", "versions", "nodes", "step", NULL},
                            *const step_keys[] = {"l2", "cosine", "worst_row", NULL};
    const char *kind, *device;
    json_t     *marks, *step;
    bool        bytes;
    if (!json_is_object(entry))
        return vd_fail(in->ctx, VD_BAD_FILE, "case-type", "%s: a run is %s; an object is needed", in->file, vd_json_kind(entry));
    if (refuse_other_keys(in, entry, "runs", keys) != VD_OK || vd_json_text_of(in, entry, "name", &run->name) != VD_OK ||
        vd_json_text_of(in, entry, "kind", &kind) != VD_OK || vd_json_text_of(in, entry, "what", &run->what) != VD_OK ||
        vd_json_text_of(in, entry, "device", &device) != VD_OK || vd_json_boolean_of(in, entry, "bytes", &bytes) != VD_OK ||
        vd_json_object_of(in, entry, "nodes", &marks) != VD_OK || vd_json_object_of(in, entry, "step", &step) != VD_OK ||
        refuse_other_keys(in, step, "a run's step", step_keys) != VD_OK || vd_json_number_of(in, step, "l2", 0, 1e30, &run->step_l2) != VD_OK ||
        vd_json_number_of(in, step, "cosine", -1e-6, 2.000001, &run->step_cosine) != VD_OK ||
        vd_json_number_of(in, step, "worst_row", 0, 1e30, &run->step_worst_row) != VD_OK)
        return in->ctx->status;
    if (!is_run_name(run->name))
        return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: a run is named %s; small letters, digits and - are needed", in->file, vd_quote(run->name).text);
    if ((strcmp(kind, "torch") != 0 && strcmp(kind, "mixed") != 0) || (strcmp(device, "cpu") != 0 && strcmp(device, "cuda") != 0))
        return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: run %s has kind %s and device %s; kind must be torch or mixed, device cpu or cuda", in->file, run->name,
                       vd_quote(kind).text, vd_quote(device).text);
    for (const vd_case_run *other = c->runs; other < run; other++)
        if (strcmp(other->name, run->name) == 0)
            return vd_fail(in->ctx, VD_BAD_FILE, "case-runs", "%s: two runs are named %s", in->file, run->name);
    run->torch = strcmp(kind, "torch") == 0;
    run->cuda  = strcmp(device, "cuda") == 0;
    run->limit = !run->torch || run->cuda;
    c->limit_runs += run->limit;
    if ((int64_t)json_object_size(marks) != c->node_count)
        return vd_fail(in->ctx, VD_BAD_FILE, "case-runs", "%s: run %s has entries for %lld nodes; the case has %lld", in->file, run->name,
                       (long long)json_object_size(marks), (long long)c->node_count);
    if (!(run->marks = vd_alloc(in->ctx, c->node_count * (int64_t)sizeof *run->marks, "a run's distances")))
        return in->ctx->status;
    for (int64_t i = 0; i < c->node_count; i++)
        if (read_mark(in, marks, run, &c->nodes[i], &run->marks[i]) != VD_OK)
            return in->ctx->status;
    return VD_OK;
}

static vd_status read_runs(const vd_json_in *in, const json_t *top, vd_case *c)
{
    json_t *runs;
    int64_t torch = 0, mixed = 0;
    if (vd_json_array_of(in, top, "runs", &runs) != VD_OK)
        return in->ctx->status;
    c->run_count = (int64_t)json_array_size(runs);
    if (c->run_count < 1 || c->run_count > MOST_RUNS)
        return vd_fail(in->ctx, VD_BAD_FILE, "case-range", "%s: %lld runs are listed; 1 to %d are needed", in->file, (long long)c->run_count, MOST_RUNS);
    if (!(c->runs = vd_alloc(in->ctx, c->run_count * (int64_t)sizeof *c->runs, "the case's runs")))
        return in->ctx->status;
    for (int64_t i = 0; i < c->run_count; i++) {
        if (read_run(in, json_array_get(runs, (size_t)i), c, &c->runs[i]) != VD_OK)
            return in->ctx->status;
        torch += c->runs[i].torch && !c->runs[i].cuda;
        mixed += !c->runs[i].torch;
    }
    if (torch < 2 || mixed < 2)
        return vd_fail(in->ctx, VD_BAD_FILE, "case-runs", "%s: the limits need at least two torch runs on a CPU and two mixed runs; the case has %lld and %lld", in->file,
                       (long long)torch, (long long)mixed);
    return VD_OK;
}

static vd_status read_json(vd_context *ctx, vd_case *c, const char *file)
{
    static const char *const keys[] = {"schema", "family", "config", "model", "branch", "step", "sigma", "t", "latent_size", "text_rows", "skip", "seed", "policy",
                                       "versions", "files", "nodes", "runs", NULL};
    const vd_json_in in = {ctx, file, "case"};
    const char      *schema, *family, *policy;
    json_t          *versions;
    if (vd_json_read(ctx, file, CASE_BYTES, "case-json", &c->json) != VD_OK || vd_json_text_of(&in, c->json, "schema", &schema) != VD_OK)
        return ctx->status;
    if (strcmp(schema, "verdit-case/1") != 0)
        return vd_fail(ctx, VD_BAD_FILE, "case-range", "%s: schema is %s; this version reads verdit-case/1", file, vd_quote(schema).text);
    if (refuse_other_keys(&in, c->json, "the case", keys) != VD_OK || vd_json_text_of(&in, c->json, "family", &family) != VD_OK ||
        vd_json_text_of(&in, c->json, "policy", &policy) != VD_OK || vd_json_text_of(&in, c->json, "branch", &c->branch) != VD_OK ||
        vd_json_object_of(&in, c->json, "versions", &versions) != VD_OK)
        return ctx->status;
    if (strcmp(family, "moss_image") != 0)
        return vd_fail(ctx, VD_BAD_FILE, "case-range", "%s: family is %s; this version knows moss_image", file, vd_quote(family).text);
    if (!vd_policy_find(policy, &c->policy))
        return vd_fail(ctx, VD_BAD_FILE, "case-range", "%s: policy is %s; it must be bf16, f32 or f32-situ", file, vd_quote(policy).text);
    vd_status status = read_config(&in, c->json, &c->config);
    if (status == VD_OK)
        status = read_model(&in, c->json, c);
    if (status == VD_OK)
        status = read_skip(&in, c->json, c);
    if (status == VD_OK)
        status = read_sizes(&in, c->json, c);
    if (status == VD_OK)
        status = read_files(&in, c->json, c);
    if (status == VD_OK)
        status = read_nodes(&in, c->json, c);
    if (status == VD_OK)
        status = read_runs(&in, c->json, c);
    return status;
}

vd_status vd_case_open(vd_context *ctx, const char *path, vd_case **out)
{
    vd_status status = VD_OK;
    char     *file   = NULL;
    vd_case  *c      = vd_alloc(ctx, sizeof *c, "a case");
    *out             = NULL;
    if (!c)
        return ctx->status;
    if (vd_path_find(path) == VD_PATH_FILE)
        status = vd_fail(ctx, VD_BAD_FILE, "not-a-file", "%s is a file; the case's folder is needed, which holds case.json", path);
    else if (vd_path_find(path) == VD_PATH_NONE)
        status = vd_fail(ctx, VD_IO, "no-such-file", "%s does not exist; a case's folder is needed (python -m verdit record makes one)", path);
    if (status == VD_OK && (!(c->path = vd_copy_string(ctx, path)) || !(file = vd_path_join(ctx, path, "case.json"))))
        status = ctx->status;
    if (status == VD_OK)
        status = read_json(ctx, c, file);
    if (status == VD_OK)
        status = vd_case_read_tensors(ctx, c);
    vd_free(ctx, file);
    if (status == VD_OK)
        *out = c;
    else
        vd_case_close(ctx, c);
    return status;
}

void vd_case_close(vd_context *ctx, vd_case *c)
{
    if (!c)
        return;
    for (int64_t i = 0; i < c->owned_count; i++)
        vd_free(ctx, c->owned[i]);
    for (int64_t i = 0; c->runs && i < c->run_count; i++)
        vd_free(ctx, c->runs[i].marks);
    vd_tensors_close(ctx, c->inputs_file);
    vd_tensors_close(ctx, c->nodes_file);
    vd_tensors_close(ctx, c->runs_file);
    vd_free(ctx, c->owned);
    vd_free(ctx, c->runs);
    vd_free(ctx, c->nodes);
    vd_free(ctx, c->weights);
    vd_free(ctx, c->skip);
    vd_free(ctx, c->model_path);
    vd_free(ctx, c->path);
    json_decref(c->json);
    vd_free(ctx, c);
}

const char *vd_case_version(const vd_case *c, int64_t index, char text[64])
{
    const json_t *versions = json_object_get(c->json, "versions");
    const char   *key;
    json_t       *value;
    json_object_foreach((json_t *)(uintptr_t)versions, key, value) {
        if (index-- != 0)
            continue;
        if (json_is_integer(value))
            snprintf(text, 64, "%lld", (long long)json_integer_value(value));
        else
            snprintf(text, 64, "%s", vd_json_text(value) ? vd_json_text(value) : "none");
        return key;
    }
    return NULL;
}
