#include "models/moss_image/load.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "contract/contract.h"
#include "formats/file.h"
#include "formats/safetensors.h"
#include "models/moss_image/config.h"
#include "models/moss_image/tensors.h"

/* ---- Complaints: the first twelve of a kind, and how many there are ---- */

typedef struct complaints {
    char    first[12][200];
    int64_t count;
} complaints;

__attribute__((format(printf, 2, 3))) static void complain(complaints *list, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (list->count < 12)
        vsnprintf(list->first[list->count], sizeof list->first[0], format, args);
    va_end(args);
    list->count++;
}

/* "; missing 3: a, b, c", within `room` bytes of the message. */
static void print_complaints(char *text, size_t size, size_t room, const char *title, const complaints *list)
{
    size_t at = strlen(text), end = at + room < size ? at + room : size;
    if (!list->count)
        return;
    at += (size_t)snprintf(text + at, size - at, "; %s (%lld): ", title, (long long)list->count);
    int64_t i = 0;
    for (; i < list->count && i < 12 && at + strlen(list->first[i]) + 24 < end; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", list->first[i]);
    if (i < list->count)
        snprintf(text + at, size - at, " and %lld more", (long long)(list->count - i));
}

/* ---- Matching ---- */

typedef struct matcher {
    vd_context    *ctx;
    const char    *label;
    vd_moss_model *model;
    const char    *prefix;   /* of every name in the files */
    bool          *used;     /* [tensors] */
    int64_t        fused, renamed; /* tensors taken from another spelling */
    complaints     missing, shapes, types, extra;
} matcher;

static const vd_tensor *find(matcher *m, const char *name)
{
    char full[192];
    snprintf(full, sizeof full, "%s%s", m->prefix, name);
    const vd_tensor *t = vd_tensors_find(m->model->files, full);
    if (t)
        m->used[t - vd_tensors_get(m->model->files, 0)] = true;
    return t;
}

/* An MLX export numbers the time MLP's layers without the activation between them. */
static const vd_tensor *find_renamed(matcher *m, const char *name)
{
    static const char publisher[] = "time_embedding.2.";
    char              mlx[192];
    if (strncmp(name, publisher, sizeof publisher - 1) != 0)
        return NULL;
    snprintf(mlx, sizeof mlx, "time_embedding.1.%s", name + sizeof publisher - 1);
    const vd_tensor *t = find(m, mlx);
    m->renamed += t != NULL;
    return t;
}

static bool has_shape(const vd_tensor *t, int64_t rows, int64_t columns)
{
    return t->rank == (columns ? 2 : 1) && t->shape[0] == rows && (!columns || t->shape[1] == columns);
}

/* Checks type and shape; says so and returns false when they do not fit. */
static bool check_tensor(matcher *m, const vd_tensor *t, vd_dtype type, int64_t rows, int64_t columns)
{
    const int64_t want[2] = {rows, columns};
    if (!has_shape(t, rows, columns))
        complain(&m->shapes, "%s is %s, must be %s", t->name, vd_shape_print(t->shape, t->rank).text, vd_shape_print(want, columns ? 2 : 1).text);
    else if (t->type != type)
        complain(&m->types, "%s is %s", t->name, vd_dtype_name(t->type));
    else
        return true;
    return false;
}

static void match_tensor(matcher *m, int64_t index)
{
    vd_moss_tensor want;
    vd_moss_tensor_at(&m->model->config, &m->model->weights, index, &want);
    if (want.weight->data || want.type == VD_F32)
        return; /* from a fused tensor; rope.bands are recomputed */
    const vd_tensor *t = find(m, want.name);
    if (!t)
        t = find_renamed(m, want.name);
    if (!t)
        complain(&m->missing, "%s", want.name);
    else if (check_tensor(m, t, want.type, want.shape[0], want.shape[1]))
        *want.weight = (vd_weight){t->data, t->type};
}

/* Some engines store q, k and v as one matrix; its thirds are they. Only when none of the three is there: both would be ambiguous, and
 * then the fused one is left to be reported as unexpected. */
static void match_fused(matcher *m, int64_t index, vd_moss_block *block)
{
    static const char *const parts[3] = {"proj.q.weight", "proj.k.weight", "proj.v.weight"};
    char full[192];
    for (int i = 0; i < 3; i++) {
        snprintf(full, sizeof full, "%slayers.%lld.%s", m->prefix, (long long)index, parts[i]);
        if (vd_tensors_find(m->model->files, full))
            return;
    }
    snprintf(full, sizeof full, "layers.%lld.proj.qkv.weight", (long long)index);
    const vd_tensor *t   = find(m, full);
    const int64_t    dim = m->model->config.dim;
    if (!t)
        return;
    /* Misshapen or of another type: complained of once, and the three are not missing besides. */
    static const uint16_t nothing = 0;
    const bool            fits    = check_tensor(m, t, VD_BF16, 3 * dim, dim);
    vd_weight *const      to[3]   = {&block->q, &block->k, &block->v};
    for (int i = 0; i < 3; i++)
        *to[i] = (vd_weight){fits ? (const char *)t->data + 2 * dim * dim * i : (const char *)&nothing, VD_BF16};
    m->fused++;
}

/* rope.bands is derived from the configuration, so it is recomputed and never trusted: exact float32 words must be there, or a rounded
 * bf16 copy of them. Exports that leave it out (MLX, prefixed single files) lose nothing. */
static vd_status match_bands(matcher *m, float *bands)
{
    const int64_t    n = vd_moss_bands(&m->model->config);
    const vd_tensor *t = find(m, "rope.bands");
    vd_rope_bands(m->model->config.rope_base, n, bands);
    m->model->weights.bands = (vd_weight){bands, VD_F32};
    if (!t) {
        if (m->renamed || *m->prefix)
            vd_log(m->ctx, VD_LOG_INFO, "%s: no rope.bands in this spelling; recomputed from rope_base", m->label);
        else
            complain(&m->missing, "rope.bands");
        return VD_OK;
    }
    if (!has_shape(t, n, 0) || (t->type != VD_F32 && t->type != VD_BF16)) {
        check_tensor(m, t, VD_F32, n, 0);
        return VD_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t want, got = 0;
        memcpy(&want, &bands[i], 4);
        if (t->type == VD_BF16) {
            want = (want + 0x7fff + (want >> 16 & 1)) & 0xffff0000u; /* bands are positive and finite */
            memcpy((char *)&got + 2, (const char *)t->data + 2 * i, 2);
        } else {
            memcpy(&got, (const char *)t->data + 4 * i, 4);
        }
        if (got != want)
            return vd_fail(m->ctx, VD_BAD_FILE, "rope-bands", "%s: rope.bands[%lld] is 0x%08x; rope_base %.17g gives 0x%08x. The file is of another model, or damaged",
                           m->label, (long long)i, got, m->model->config.rope_base, want);
    }
    if (t->type == VD_BF16)
        vd_log(m->ctx, VD_LOG_WARNING, "%s: rope.bands is a copy rounded to BF16; the exact bands are recomputed from rope_base", m->label);
    return VD_OK;
}

static const char *find_prefix(const vd_tensors *files)
{
    static const char *const prefixes[] = {"", "model.diffusion_model.", "diffusion_model."};
    char                     name[96];
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        snprintf(name, sizeof name, "%svideo_embedder.weight", prefixes[i]);
        if (vd_tensors_find(files, name))
            return prefixes[i];
    }
    return "";
}

/* A tensor that has no place would be left out in silence. Names without the prefix are another part's (text encoder, VAE) of a file that
 * holds several, which is said. */
static void find_extra(matcher *m)
{
    int64_t others = 0;
    for (int64_t i = 0; i < vd_tensors_count(m->model->files); i++) {
        const vd_tensor *t = vd_tensors_get(m->model->files, i);
        if (m->used[i])
            continue;
        if (strncmp(t->name, m->prefix, strlen(m->prefix)) == 0)
            complain(&m->extra, "%s", vd_quote(t->name).text);
        else
            others++;
    }
    if (others)
        vd_log(m->ctx, VD_LOG_WARNING, "%s: %lld tensors do not begin with %s; they belong to other parts and are not used", m->label, (long long)others,
               m->prefix);
}

/* What is probably the matter, when the names tell. */
static const char *guess_cause(const matcher *m)
{
    static const struct { const char *mark, *cause; } known[] = {
        {"lora_", ". These are the names of a LoRA, an addition to a model: give the model"},
        {"lokr_", ". These are the names of a LoKr, an addition to a model: give the model"},
        {"_scale", ". These are the names of quantisation scales, which are not applied: use the publisher's bf16 weights"},
        {".scales", ". These are the names of quantisation scales, which are not applied: use the publisher's bf16 weights"},
        {".absmax", ". These are the names of quantisation scales, which are not applied: use the publisher's bf16 weights"},
    };
    for (int64_t i = 0; i < m->extra.count && i < 12; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strstr(m->extra.first[i], known[k].mark))
                return known[k].cause;
    if (m->types.count && !m->missing.count && !m->shapes.count && !m->extra.count)
        return ". Convert them to BF16 (in torch: tensor.bfloat16()); nothing is rounded for you";
    return "";
}

static vd_status fail_complaints(const matcher *m)
{
    const vd_moss_config *c = &m->model->config;
    char                  text[1700];
    snprintf(text, sizeof text, "%.300s: the weights do not fit the configuration (dim %lld, ffn_dim %lld, %lld heads, %lld layers)", m->label, (long long)c->dim,
             (long long)c->ffn_dim, (long long)c->heads, (long long)c->layers);
    print_complaints(text, sizeof text, 420, "missing", &m->missing);
    print_complaints(text, sizeof text, 420, "of another shape", &m->shapes);
    print_complaints(text, sizeof text, 420, "unexpected", &m->extra);
    print_complaints(text, sizeof text, 300, "not BF16", &m->types);
    const char *reason = m->missing.count ? "missing-tensor" : m->shapes.count ? "shape-mismatch" : m->extra.count ? "unexpected-tensor" : "unsupported-dtype";
    const bool  types  = !m->missing.count && !m->shapes.count && !m->extra.count;
    return vd_fail(m->ctx, types ? VD_UNSUPPORTED : VD_BAD_FILE, reason, "%s%s", text, guess_cause(m));
}

static void report_spelling(const matcher *m)
{
    if (*m->prefix || m->fused || m->renamed)
        vd_log(m->ctx, VD_LOG_INFO, "%s: another engine's spelling, read as it lies:%s%s%s%s", m->label, *m->prefix ? " prefix " : "", m->prefix,
               m->fused ? " fused q, k, v;" : "", m->renamed ? " time_embedding.1 for .2;" : "");
}

vd_status vd_moss_match(vd_context *ctx, const char *label, vd_moss_model *model)
{
    const vd_moss_config *c = &model->config;
    /* One block of memory: the layers, then the bands. */
    const int64_t layers = c->layers * (int64_t)sizeof *model->weights.blocks;
    matcher      *m      = vd_alloc(ctx, sizeof *m, "the check of the weights");
    bool         *used   = vd_alloc(ctx, vd_tensors_count(model->files), "the check of the weights");
    model->weights.blocks = vd_alloc(ctx, layers + vd_moss_bands(c) * (int64_t)sizeof(float), "the list of blocks");
    vd_status status = m && used && model->weights.blocks ? VD_OK : VD_NO_MEMORY;
    if (status == VD_OK) {
        *m = (matcher){.ctx = ctx, .label = label, .model = model, .prefix = find_prefix(model->files), .used = used};
        for (int64_t i = 0; i < c->layers; i++)
            match_fused(m, i, &model->weights.blocks[i]);
        for (int64_t i = 0; i < vd_moss_tensor_count(c); i++)
            match_tensor(m, i);
        status = match_bands(m, (float *)((char *)model->weights.blocks + layers));
        find_extra(m);
        if (status == VD_OK && (m->missing.count || m->shapes.count || m->types.count || m->extra.count))
            status = fail_complaints(m);
        if (status == VD_OK)
            report_spelling(m);
    }
    vd_free(ctx, used);
    vd_free(ctx, m);
    return status;
}

/* ---- Opening ---- */

/* Where weights and configuration lie, for each of the three kinds of path. */
static vd_status find_places(vd_context *ctx, const char *path, char **weights, char **config)
{
    const bool folder = vd_path_find(path) == VD_PATH_FOLDER;
    char      *inner  = vd_path_join(ctx, path, "transformer");
    if (!inner)
        return VD_NO_MEMORY;
    *weights = folder && vd_path_find(inner) == VD_PATH_FOLDER ? vd_copy_string(ctx, inner) : vd_copy_string(ctx, path);
    vd_free(ctx, inner);
    inner    = *weights && !folder ? vd_path_folder(ctx, path) : NULL;
    *config  = *weights && (folder || inner) ? vd_path_join(ctx, folder ? *weights : inner, "config.json") : NULL;
    vd_free(ctx, inner);
    return *weights && *config ? VD_OK : VD_NO_MEMORY;
}

static vd_status read_config(vd_context *ctx, const char *weights, const char *config, vd_moss_config *out)
{
    if (vd_path_find(config) == VD_PATH_NONE)
        return vd_fail(ctx, VD_BAD_FILE, "missing-config",
                       "%s does not exist, so the sizes of %s are not known; put the publisher's transformer/config.json there", config, weights);
    return vd_moss_config_read(ctx, config, out);
}

vd_status vd_moss_open(vd_context *ctx, const char *path, vd_moss_model **out)
{
    char          *weights = NULL, *config = NULL;
    vd_moss_model *model = vd_alloc(ctx, sizeof *model, "a model");
    *out = NULL;
    if (!model)
        return VD_NO_MEMORY;
    model->path = vd_copy_string(ctx, path);
    vd_status status = model->path ? find_places(ctx, path, &weights, &config) : VD_NO_MEMORY;
    /* A folder's configuration first, as it says what the folder is; of a single file, what kind of file it is. */
    const bool folder = status == VD_OK && vd_path_find(weights) == VD_PATH_FOLDER;
    if (status == VD_OK && folder)
        status = read_config(ctx, weights, config, &model->config);
    if (status == VD_OK)
        status = vd_tensors_open(ctx, weights, &model->files);
    if (status == VD_OK && !folder)
        status = read_config(ctx, weights, config, &model->config);
    if (status == VD_OK)
        status = vd_moss_match(ctx, weights, model);
    vd_free(ctx, weights);
    vd_free(ctx, config);
    if (status == VD_OK)
        *out = model;
    else
        vd_moss_close(ctx, model);
    return status;
}

void vd_moss_close(vd_context *ctx, vd_moss_model *model)
{
    if (!model)
        return;
    vd_tensors_close(ctx, model->files);
    vd_free(ctx, model->weights.blocks);
    vd_free(ctx, model->path);
    vd_free(ctx, model);
}
