#include "models/moss_image/config.h"

#include <math.h>
#include <string.h>

#include "formats/file.h"
#include "formats/json.h"

static const char CLASS[] = "MOSSImageTransformer";

/* No _class_name is odd but harmless: the tensors decide. Another one is another model, even where the sizes happen to fit. */
static vd_status check_class(const vd_json_in *in, const json_t *root)
{
    const char *class;
    if (!json_object_get(root, "_class_name")) {
        vd_log(in->ctx, VD_LOG_WARNING, "%s: no _class_name; taken for %s because its sizes are there", in->file, CLASS);
        return VD_OK;
    }
    const vd_status status = vd_json_text_of(in, root, "_class_name", &class);
    if (status == VD_OK && strcmp(class, CLASS) != 0)
        return vd_fail(in->ctx, VD_BAD_FILE, "wrong-class", "%s: _class_name is %s; %s is needed", in->file, vd_quote(class).text, CLASS);
    return status;
}

/* Quantised weights need scales that nothing here applies. `null` declares nothing. */
static vd_status check_quantisation(const vd_json_in *in, const json_t *root)
{
    static const char *const keys[] = {"quantization_config", "quantization", "quant_config", "quantization_metadata"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(root, keys[i]);
        if (value && !json_is_null(value)) {
            const char *method = vd_json_text(json_object_get(value, "quant_method"));
            return vd_fail(in->ctx, VD_UNSUPPORTED, "quantized-unsupported", "%s: %s declares quantised weights%s%s; use the publisher's bf16 weights", in->file,
                           keys[i], method ? " of kind " : "", method ? vd_quote(method).text : "");
        }
    }
    const json_t *mlx = json_object_get(json_object_get(root, "moss_image_mlx"), "quantization");
    if (mlx && !json_is_null(mlx))
        return vd_fail(in->ctx, VD_UNSUPPORTED, "quantized-unsupported",
                       "%s: an MLX export with quantised weights; use an export without, or the publisher's weights", in->file);
    return VD_OK;
}

static vd_status report_unknown(const vd_json_in *in, json_t *root)
{
    static const char *const known[] = {"dim", "ffn_dim", "num_heads", "num_layers", "text_dim", "freq_dim", "latent_channels", "rope_base", "dtype",
                                        "torch_dtype", "quantization_config", "quantization", "quant_config", "quantization_metadata", "moss_image_mlx"};
    vd_names    unknown = {0};
    vd_status   status  = VD_OK;
    const char *key;
    json_t     *value;
    json_object_foreach(root, key, value) {
        bool found = key[0] == '_'; /* bookkeeping of the library that wrote it */
        for (size_t i = 0; i < sizeof known / sizeof *known && !found; i++)
            found = strcmp(key, known[i]) == 0;
        if (!found && (status = vd_names_add(in->ctx, &unknown, key)) != VD_OK)
            break;
    }
    if (unknown.count && status == VD_OK)
        vd_log(in->ctx, VD_LOG_WARNING, "%s: unknown keys, not used: %s", in->file, vd_list_names((const char *const *)unknown.names, unknown.count).text);
    vd_names_free(in->ctx, &unknown);
    return status;
}

static vd_status read_sizes(const vd_json_in *in, const json_t *root, vd_moss_config *c)
{
    const struct {
        const char *key;
        int64_t    *to;
        int64_t     least, most;
    } sizes[] = {
        {"dim", &c->dim, 8, VD_MOSS_MAX_DIM},
        {"ffn_dim", &c->ffn_dim, 1, VD_MOSS_MAX_FFN},
        {"num_heads", &c->heads, 1, VD_MOSS_MAX_DIM / 8},
        {"num_layers", &c->layers, 1, VD_MOSS_MAX_LAYERS},
        {"text_dim", &c->text_dim, 1, VD_MOSS_MAX_OTHER},
        {"freq_dim", &c->freq_dim, 2, VD_MOSS_MAX_OTHER},
        {"latent_channels", &c->latent_channels, 1, VD_MOSS_MAX_OTHER},
    };
    vd_status status = VD_OK;
    for (size_t i = 0; status == VD_OK && i < sizeof sizes / sizeof *sizes; i++)
        status = vd_json_integer_of(in, root, sizes[i].key, sizes[i].least, sizes[i].most, sizes[i].to);
    /* Below 1 the bands would grow with j, beyond 1e12 the slowest vanish in fp32 phases; neither was ever published. */
    return status == VD_OK ? vd_json_number_of(in, root, "rope_base", 1, 1e12, &c->rope_base) : status;
}

static vd_status check_sizes(const vd_json_in *in, const vd_moss_config *c)
{
    if (c->dim % c->heads)
        return vd_fail(in->ctx, VD_BAD_FILE, "config-inconsistent", "%s: %lld heads do not divide dim %lld", in->file, (long long)c->heads, (long long)c->dim);
    if (vd_moss_head_dim(c) % 8)
        return vd_fail(in->ctx, VD_BAD_FILE, "config-inconsistent",
                       "%s: dim %lld in %lld heads gives a head width of %lld; it must be a multiple of 8 (four axes, pairs)", in->file, (long long)c->dim, (long long)c->heads, (long long)vd_moss_head_dim(c));
    if (c->freq_dim % 2)
        return vd_fail(in->ctx, VD_BAD_FILE, "config-range", "%s: freq_dim is %lld; it must be even (cosines, then as many sines)", in->file,
                       (long long)c->freq_dim);
    return VD_OK;
}

static vd_status read_root(vd_context *ctx, const char *path, json_t *root, vd_moss_config *out)
{
    const vd_json_in in = {ctx, path, "config"};
    vd_status        status;
    if ((status = check_class(&in, root)) != VD_OK || (status = check_quantisation(&in, root)) != VD_OK || (status = read_sizes(&in, root, out)) != VD_OK
        || (status = check_sizes(&in, out)) != VD_OK)
        return status;
    return report_unknown(&in, root);
}

vd_status vd_moss_config_parse(vd_context *ctx, const char *path, const char *text, int64_t size, vd_moss_config *out)
{
    static const vd_json_reasons reasons = {"config-json", "config-json", "config-range"};
    json_t *root;
    *out = (vd_moss_config){0};
    vd_status status = vd_json_parse(ctx, path, text, size, &reasons, &root);
    if (status == VD_OK && !json_is_object(root))
        status = vd_fail(ctx, VD_BAD_FILE, "config-json", "%s: the JSON is %s; an object is needed", path, vd_json_kind(root));
    if (status == VD_OK)
        status = read_root(ctx, path, root, out);
    json_decref(root);
    return status;
}

vd_status vd_moss_config_read(vd_context *ctx, const char *path, vd_moss_config *out)
{
    char   *text;
    int64_t size;
    *out = (vd_moss_config){0};
    vd_status status = vd_file_read(ctx, path, VD_MOSS_CONFIG_BYTES, "config-json", &text, &size);
    if (status == VD_OK)
        status = vd_moss_config_parse(ctx, path, text, size, out);
    vd_free(ctx, text);
    return status;
}
