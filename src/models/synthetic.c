#include "models/synthetic.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contract/contract.h"
#include "core/hash.h"
#include "core/parallel.h"
#include "formats/file.h"
#include "models/moss_image/tensors.h"

static const struct {
    const char    *name;
    vd_moss_config config;
} shapes[] = {
    {"tiny", {.dim = 64, .ffn_dim = 160, .heads = 2, .layers = 4, .text_dim = 64, .freq_dim = 32, .latent_channels = 32, .rope_base = 10000}},
    {"small", {.dim = 256, .ffn_dim = 192, .heads = 2, .layers = 6, .text_dim = 128, .freq_dim = 64, .latent_channels = 16, .rope_base = 10000}},
    {"moss",
     {.dim = 3072, .ffn_dim = 8192, .heads = 24, .layers = 42, .text_dim = 4096, .freq_dim = 256, .latent_channels = 128, .rope_base = 10000}},
};

/* ---- Values ---- */

/* 2^-floor(log2(sqrt(columns / 3))): the power of four that still fits into columns / 3. */
static float weight_scale(int64_t columns)
{
    int power = -1;
    for (int64_t four = 3; four <= columns; four *= 4)
        power++;
    return ldexpf(1.0f, -power);
}

/* Channels that a trained model drives to extremes: adding to a bias makes the stream massive there, a small norm weight hides it again. */
static const int64_t massive_channels[2] = {1356, 77};

typedef struct rule {
    float   scale, offset;
    bool    massive_bias, massive_norm;
    int64_t sixth; /* 0, or a sixth of a modulation bias: the gates' sixths gain 0.5 */
} rule;

static rule find_rule(const vd_tensor *tensor)
{
    const char *name = tensor->name;
    rule        r    = {.scale = 0.125f};
    if (tensor->rank == 2 && vd_text_ends(name, ".weight")) {
        r.scale = weight_scale(tensor->shape[1]) * (strstr(name, "modulation") ? 0.5f : 1.0f);
    } else if (strstr(name, "norm")) {
        r.scale        = 0.25f;
        r.offset       = strstr(name, "q_norm") || strstr(name, "k_norm") ? 2.0f : 1.0f;
        r.massive_norm = vd_text_ends(name, "norm1.weight") || vd_text_ends(name, "norm2.weight") || vd_text_ends(name, "final_norm_video.weight");
    } else {
        r.massive_bias = !strcmp(name, "video_embedder.bias") || !strcmp(name, "text_embedder.proj.bias");
        r.sixth        = !strcmp(name, "shared_block_modulation.bias") ? tensor->shape[0] / 6 : 0;
    }
    return r;
}

static float apply_rule(const rule *r, uint64_t base, int64_t i)
{
    const float x       = r->offset + (float)vd_synth_value(base, i) * 0x1p-15f * r->scale; /* exact */
    const bool  massive = i == massive_channels[0] || i == massive_channels[1];
    if (r->massive_norm)
        return massive ? 0.0625f : x * 4.0f;
    if (r->massive_bias && massive)
        return x + (i == massive_channels[0] ? 300.0f : -140.0f);
    if (r->sixth && (i / r->sixth == 2 || i / r->sixth == 5))
        return x + 0.5f;
    return x;
}

void vd_synth_fill(const vd_moss_config *config, uint64_t seed, const vd_tensor *tensor, int64_t first, int64_t count, void *to)
{
    if (!strcmp(tensor->name, "rope.bands")) {
        for (int64_t i = 0; i < count; i++)
            ((float *)to)[i] = vd_rope_band(config->rope_base, first + i, tensor->shape[0]);
        return;
    }
    const rule     r    = find_rule(tensor);
    const uint64_t base = vd_synth_base(vd_fnv1a(tensor->name), seed);
    uint16_t      *y    = to;
    if (tensor->rank == 2) { /* no additions: the bulk of the bytes */
        const float scale = 0x1p-15f * r.scale;
        for (int64_t i = 0; i < count; i++)
            y[i] = vd_to_bf16((float)vd_synth_value(base, first + i) * scale);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        y[i] = vd_to_bf16(apply_rule(&r, base, first + i));
}

/* ---- Shapes ---- */

static vd_status set_key(vd_context *ctx, vd_moss_config *config, const char *text)
{
    const struct {
        const char *key;
        int64_t    *value;
        int64_t     low, high;
    } keys[] = {
        {"dim", &config->dim, 8, 65536},
        {"ffn_dim", &config->ffn_dim, 1, 262144},
        {"num_heads", &config->heads, 1, 1024},
        {"num_layers", &config->layers, 1, 1024},
        {"text_dim", &config->text_dim, 1, 65536},
        {"freq_dim", &config->freq_dim, 2, 65536},
        {"latent_channels", &config->latent_channels, 1, 65536},
    };
    const char  *equal = strchr(text, '=');
    const size_t size  = equal ? (size_t)(equal - text) : 0;
    for (size_t i = 0; equal && i < sizeof keys / sizeof *keys; i++) {
        if (strlen(keys[i].key) != size || strncmp(keys[i].key, text, size) != 0)
            continue;
        char *end;
        errno                 = 0;
        const long long value = strtoll(equal + 1, &end, 10);
        if (end == equal + 1 || *end || errno || value < keys[i].low || value > keys[i].high)
            return vd_fail(ctx, VD_BAD_ARGUMENT, "synth-set", "%s is not a whole number for %s; allowed are %lld to %lld", equal + 1, keys[i].key,
                           (long long)keys[i].low, (long long)keys[i].high);
        *keys[i].value = value;
        return VD_OK;
    }
    return vd_fail(ctx, VD_BAD_ARGUMENT, "synth-set",
                   "'%s' changes nothing known; use key=value with dim, ffn_dim, num_heads, num_layers, text_dim, freq_dim or latent_channels", text);
}

vd_status vd_synth_config(vd_context *ctx, const char *shape, const char *const *set, vd_moss_config *config)
{
    if (!strcmp(shape, "h3"))
        return vd_fail(ctx, VD_UNSUPPORTED, "synth-shape", "shape h3 is not built yet in this version; use tiny, small or moss");
    bool found = false;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!strcmp(shapes[i].name, shape)) {
            *config = shapes[i].config;
            found   = true;
        }
    }
    if (!found)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "synth-shape", "there is no shape '%s'; use tiny, small or moss", shape);
    for (; set && *set; set++) {
        const vd_status status = set_key(ctx, config, *set);
        if (status != VD_OK)
            return status;
    }
    if (config->dim % config->heads || config->dim / config->heads % 8 || config->freq_dim % 2)
        return vd_fail(
            ctx, VD_BAD_ARGUMENT, "synth-shape",
            "dim %lld, num_heads %lld, freq_dim %lld: the heads must divide dim, a head's width must be a multiple of 8, freq_dim must be even",
            (long long)config->dim, (long long)config->heads, (long long)config->freq_dim);
    return VD_OK;
}

/* ---- The list of tensors ---- */

static int compare_names(const void *a, const void *b) { return strcmp(((const vd_tensor *)a)->name, ((const vd_tensor *)b)->name); }

vd_status vd_synth_list(vd_context *ctx, const vd_moss_config *config, vd_tensor **tensors, int64_t *count)
{
    *count   = vd_moss_tensor_count(config);
    *tensors = vd_alloc(ctx, *count * (int64_t)(sizeof **tensors + VD_MOSS_TENSOR_NAME), "the list of tensors");
    if (!*tensors)
        return ctx->status;
    char *names = (char *)(*tensors + *count);
    for (int64_t i = 0; i < *count; i++) {
        vd_moss_tensor t;
        char          *name = names + i * VD_MOSS_TENSOR_NAME;
        vd_moss_tensor_at(config, NULL, i, &t);
        memcpy(name, t.name, sizeof t.name);
        (*tensors)[i] = (vd_tensor){.name = name, .type = t.type, .rank = t.rank, .shape = {t.shape[0], t.shape[1]}};
    }
    qsort(*tensors, (size_t)*count, sizeof **tensors, compare_names);
    return VD_OK;
}

/* ---- Writing ---- */

typedef struct writer {
    const vd_moss_config *config;
    uint64_t              seed;
    int64_t               done, total; /* MB, for progress */
    const vd_tensor      *tensor;      /* the piece at hand */
    int64_t               first, count, chunk;
    char                 *to;
} writer;

static void fill_chunk(void *arg, int64_t index, int worker)
{
    (void)worker;
    const writer *w     = arg;
    const int64_t start = index * w->chunk;
    vd_synth_fill(w->config, w->seed, w->tensor, w->first + start, vd_min(w->chunk, w->count - start),
                  w->to + start * vd_dtype_size(w->tensor->type));
}

static vd_status fill_piece(void *user, vd_context *ctx, const vd_tensor *tensor, int64_t first, void *to, int64_t bytes)
{
    writer       *w    = user;
    const int64_t size = vd_dtype_size(tensor->type);
    w->tensor          = tensor;
    w->first           = first / size;
    w->count           = bytes / size;
    w->chunk           = 65536;
    w->to              = to;
    vd_parallel(ctx->threads, (w->count + w->chunk - 1) / w->chunk, fill_chunk, w);
    w->done += bytes;
    return vd_report_progress(ctx, "MB written", w->done / 1000000, w->total / 1000000);
}

static char *format_config(vd_context *ctx, const vd_moss_config *c)
{
    return vd_format(
        ctx,
        "{\n  \"_class_name\": \"MOSSImageTransformer\",\n  \"dim\": %lld,\n  \"ffn_dim\": %lld,\n  \"freq_dim\": %lld,\n"
        "  \"latent_channels\": %lld,\n  \"num_heads\": %lld,\n  \"num_layers\": %lld,\n  \"rope_base\": %.1f,\n  \"text_dim\": %lld\n}\n",
        (long long)c->dim, (long long)c->ffn_dim, (long long)c->freq_dim, (long long)c->latent_channels, (long long)c->heads, (long long)c->layers,
        c->rope_base, (long long)c->text_dim);
}

void vd_synth_options_init(vd_synth_options *options)
{
    memset(options, 0, sizeof *options);
    options->shape = "tiny";
    options->seed  = 1;
}

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

vd_status vd_synth_write_model(vd_context *ctx, const char *dir, const vd_synth_options *options)
{
    vd_moss_config config;
    vd_status      status = vd_synth_config(ctx, options->shape, options->set, &config);
    if (status != VD_OK)
        return status;
    vd_tensor *tensors = NULL;
    int64_t    count   = 0;
    char      *weights = vd_format(ctx, "%s/diffusion_pytorch_model.safetensors", dir);
    char      *json    = vd_format(ctx, "%s/config.json", dir);
    char      *text    = format_config(ctx, &config);
    bool       made    = false;
    if (!weights || !json || !text || vd_synth_list(ctx, &config, &tensors, &count) != VD_OK) {
        status = ctx->status;
        goto end;
    }
    if (mkdir(dir, 0777) == 0) {
        made = true;
    } else if (errno != EEXIST) {
        status = vd_fail(ctx, VD_IO, "make-folder", "%s: the folder could not be made: %s", dir, strerror(errno));
        goto end;
    }
    if (exists(weights) || exists(json)) {
        status = vd_fail(ctx, VD_IO, "exists",
                         "%s: a model is already there; a synthetic model is never written over another: name a new folder or remove that one", dir);
        goto end;
    }
    writer w = {.config = &config, .seed = options->seed};
    for (int64_t i = 0; i < count; i++)
        w.total += vd_tensor_bytes(&tensors[i]);
    status = vd_tensors_write(ctx, weights, tensors, count, NULL, fill_piece, &w);
    if (status == VD_OK)
        status = vd_file_write_atomic(ctx, json, text, (int64_t)strlen(text)); /* last: without it the folder is no model */
    if (status != VD_OK)
        unlink(weights);
end:
    if (status != VD_OK && made)
        rmdir(dir);
    vd_free(ctx, tensors);
    vd_free(ctx, text);
    vd_free(ctx, json);
    vd_free(ctx, weights);
    return status;
}

/* ---- Inputs ---- */

static vd_status fill_input(void *user, vd_context *ctx, const vd_tensor *tensor, int64_t first, void *to, int64_t bytes)
{
    (void)ctx;
    const uint64_t seed = *(const uint64_t *)user;
    const int64_t  size = vd_dtype_size(tensor->type);
    const uint64_t base = vd_synth_base(vd_fnv1a(!strcmp(tensor->name, "text") ? "input.text" : "input.latents"), seed);
    for (int64_t i = 0; i < bytes / size; i++) {
        const float x = (float)vd_synth_value(base, first / size + i) * 0x1p-14f;
        if (tensor->type == VD_BF16)
            ((uint16_t *)to)[i] = vd_to_bf16(x);
        else
            ((float *)to)[i] = x;
    }
    return VD_OK;
}

vd_status vd_synth_write_inputs(vd_context *ctx, const char *path, const vd_synth_options *options, int64_t h, int64_t w, int64_t text_rows, float t)
{
    vd_moss_config  config;
    const vd_status status = vd_synth_config(ctx, options->shape, options->set, &config);
    if (status != VD_OK)
        return status;
    if (h < 1 || w < 1 || h > 4096 || w > 4096 || text_rows < 1 || text_rows > 1048576)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "synth-size",
                       "latents %lldx%lld with %lld text rows: height and width must be 1 to 4096, text rows 1 to 1048576", (long long)h,
                       (long long)w, (long long)text_rows);
    if (!(t >= 0.0f && t <= 1000.0f))
        return vd_fail(ctx, VD_BAD_ARGUMENT, "synth-t", "t is %g; it is 1000 times sigma and must be 0 to 1000", (double)t);
    const vd_tensor tensors[3] = {
        {.name = "latents", .type = VD_F32, .rank = 3, .shape = {config.latent_channels, h, w}},
        {.name = "t", .type = VD_F32, .rank = 1, .shape = {1}, .data = &t},
        {.name = "text", .type = VD_BF16, .rank = 2, .shape = {text_rows, config.text_dim}},
    };
    uint64_t seed = options->seed;
    return vd_tensors_write(ctx, path, tensors, 3, NULL, fill_input, &seed);
}
