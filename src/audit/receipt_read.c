/* Reading receipts: they come from strangers like any other file. */
#include <string.h>

#include "audit/receipt.h"

static vd_status fail(const vd_json_in *in, const char *what) { return vd_fail(in->ctx, VD_BAD_FILE, "receipt-value", "%s: %s", in->file, what); }

/* Whole numbers, each in [0, most]. */
static vd_status read_numbers(const vd_json_in *in, const json_t *list, int64_t most, int64_t **out, int64_t *count)
{
    *count = (int64_t)json_array_size(list);
    *out   = vd_alloc(in->ctx, *count * (int64_t)sizeof **out, "a receipt's numbers");
    if (!*out)
        return in->ctx->status;
    for (int64_t i = 0; i < *count; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > most)
            return fail(in, "a list of skipped blocks, rows or sizes holds something other than a whole number that is not negative");
        (*out)[i] = json_integer_value(value);
    }
    return VD_OK;
}

/* A text, or null. */
static vd_status read_optional(const vd_json_in *in, const json_t *object, const char *key, const char **out)
{
    json_t *value;
    if (vd_json_member(in, object, key, &value) != VD_OK)
        return in->ctx->status;
    *out = json_is_null(value) ? NULL : vd_json_text(value);
    if (!*out && !json_is_null(value))
        return vd_fail(in->ctx, VD_BAD_FILE, "receipt-type", "%s: %s must be a text or null, not %s", in->file, key, vd_json_kind(value));
    return VD_OK;
}

static bool is_hash(const char *text) { return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64; }

static vd_status read_rows(const vd_json_in *in, const json_t *object, vd_receipt_tensor *t)
{
    json_t *list;
    if (vd_json_array_of(in, object, "rows", &list) != VD_OK)
        return in->ctx->status;
    if (json_array_size(list) > VD_RECEIPT_ROWS)
        return fail(in, "a tensor has more sampled rows than a receipt can hold");
    int64_t rows = 1; /* the product of any of the sizes fits: read_tensor saw to it */
    for (int i = 0; i + 1 < t->rank; i++)
        rows *= t->shape[i];
    if (t->rank == 3)
        rows = t->shape[1] * t->shape[2];
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (!json_is_object(row))
            return fail(in, "a sampled row is no object");
        if (vd_json_integer_of(in, row, "row", 0, rows - 1, &t->rows[i].row) || vd_json_text_of(in, row, "sha256", &t->rows[i].sha256) ||
            vd_json_text_of(in, row, "values", &t->rows[i].values))
            return in->ctx->status;
        if (!is_hash(t->rows[i].sha256))
            return fail(in, "a sampled row's sha256 is not 64 hexadecimal digits");
        t->row_count++;
    }
    return VD_OK;
}

static vd_status read_tensor(const vd_json_in *in, const json_t *object, bool with_rows, vd_receipt_tensor *t)
{
    const char *type;
    json_t     *shape;
    if (!json_is_object(object))
        return fail(in, "a tensor is no object");
    if (vd_json_text_of(in, object, "name", &t->name) || vd_json_text_of(in, object, "dtype", &type) ||
        vd_json_text_of(in, object, "sha256", &t->sha256) || vd_json_array_of(in, object, "shape", &shape))
        return in->ctx->status;
    t->type = VD_DTYPE_COUNT;
    for (int i = 0; i < VD_DTYPE_COUNT; i++)
        if (!strcmp(vd_dtype_name((vd_dtype)i), type))
            t->type = (vd_dtype)i;
    if (t->type == VD_DTYPE_COUNT || !is_hash(t->sha256) || json_array_size(shape) > VD_MAX_RANK)
        return fail(in, "a tensor's dtype, sha256 or shape is not one");
    int64_t product = 1; /* of the sizes that are not 0: a 0 must not hide what overflows beside it */
    t->rank          = (int)json_array_size(shape);
    for (int i = 0; i < t->rank; i++) {
        t->shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
        if (!json_is_integer(json_array_get(shape, (size_t)i)) || t->shape[i] < 0 ||
            !vd_mul_fits(product, vd_max(t->shape[i], 1), &product))
            return fail(in, "a tensor's shape is not one");
    }
    return with_rows ? read_rows(in, object, t) : VD_OK;
}

static vd_status read_tensors(const vd_json_in *in, const char *part, bool with_rows, const json_t *root, const char **path, vd_receipt_tensor **out,
                              int64_t *count)
{
    json_t *object, *list;
    if (vd_json_object_of(in, root, part, &object) || vd_json_text_of(in, object, "path", path) || vd_json_array_of(in, object, "tensors", &list))
        return in->ctx->status;
    const int64_t n = (int64_t)json_array_size(list);
    *out            = vd_alloc(in->ctx, n * (int64_t)sizeof **out, "a receipt's tensors");
    for (*count = 0; *out && *count < n; ++*count)
        if (read_tensor(in, json_array_get(list, (size_t)*count), with_rows, &(*out)[*count]) != VD_OK)
            break;
    return in->ctx->status;
}

static vd_status read_forward(const vd_json_in *in, vd_receipt *r)
{
    json_t     *part, *skip, *rows, *latents;
    const char *policy, *arith, *match;
    int64_t    *size, sizes;
    if (vd_json_object_of(in, r->root, "forward", &part) || vd_json_text_of(in, part, "policy", &policy) ||
        vd_json_text_of(in, part, "arith", &arith) || vd_json_text_of(in, part, "match", &match) || read_optional(in, part, "from", &r->from) ||
        read_optional(in, part, "to", &r->to) || read_optional(in, part, "taps", &r->taps) || vd_json_array_of(in, part, "skip", &skip) ||
        vd_json_member(in, part, "rows", &rows) || vd_json_array_of(in, part, "latents", &latents) ||
        vd_json_integer_of(in, part, "text_rows", 0, 1 << 24, &r->text_rows) || read_numbers(in, skip, 1 << 20, &r->skip, &r->skip_count))
        return in->ctx->status;
    if (!vd_policy_find(policy, &r->policy) || !vd_arith_find(arith, &r->arith) || !vd_match_find(match, &r->match))
        return vd_fail(in->ctx, VD_UNSUPPORTED, "receipt-choice", "%s: policy %s, arithmetic %s, match %s: this version does not know all of them",
                       in->file, policy, arith, match);
    r->row_count = -1;
    if (json_is_array(rows) && read_numbers(in, rows, 1 << 30, &r->rows, &r->row_count))
        return in->ctx->status;
    if (!json_is_array(rows) && !json_is_null(rows))
        return fail(in, "rows must be a list or null");
    if (read_numbers(in, latents, 65536, &size, &sizes) == VD_OK) {
        if (sizes == 2)
            r->h = size[0], r->w = size[1];
        else
            fail(in, "latents must be a height and a width");
    }
    vd_free(in->ctx, size);
    return in->ctx->status;
}

static vd_status check_seal(const vd_json_in *in, vd_receipt *r)
{
    const char *given;
    int64_t     size = 0;
    char        digits[VD_HASH_TEXT];
    if (vd_json_text_of(in, r->root, "seal", &given) != VD_OK)
        return in->ctx->status;
    json_t *seal = json_incref(json_object_get(r->root, "seal")); /* taken out for good: a copy without it could be cut short for want of memory */
    json_object_del(r->root, "seal");
    char *text = vd_json_print(in->ctx, r->root, false, &size);
    if (text && vd_hash_bytes(in->ctx, text, size, digits) == VD_OK)
        r->sealed = !strcmp(digits, given);
    json_decref(seal);
    vd_free(in->ctx, text);
    return in->ctx->status;
}

vd_status vd_receipt_read(vd_context *ctx, const char *path, vd_receipt *out)
{
    const vd_json_in in = {ctx, path, "receipt"};
    json_t          *model;
    int64_t          schema;
    const char      *kind;
    *out             = (vd_receipt){0};
    vd_status status = vd_json_read(ctx, path, VD_RECEIPT_LIMIT, "receipt-syntax", &out->root);
    if (status == VD_OK && (vd_json_text_of(&in, out->root, "kind", &kind) || vd_json_integer_of(&in, out->root, "schema", 1, 1 << 20, &schema)))
        status = ctx->status;
    if (status == VD_OK && (strcmp(kind, "verdit-run") != 0 || schema != VD_RECEIPT_SCHEMA))
        status = vd_fail(ctx, VD_UNSUPPORTED, "receipt-schema", "%s is a %s of schema %lld; this version verifies verdit-run of schema %d", path,
                         kind, (long long)schema, (int)VD_RECEIPT_SCHEMA);
    if (status == VD_OK && (check_seal(&in, out) || vd_json_text_of(&in, out->root, "library", &out->library) ||
                            vd_json_array_of(&in, out->root, "contracts", &out->contracts) || vd_json_object_of(&in, out->root, "model", &model) ||
                            vd_json_text_of(&in, model, "path", &out->model) || vd_json_object_of(&in, model, "config", &out->config) ||
                            vd_json_array_of(&in, model, "files", &out->weights) || read_forward(&in, out) ||
                            read_tensors(&in, "input", false, out->root, &out->input, &out->inputs, &out->input_count) ||
                            read_tensors(&in, "output", true, out->root, &out->output, &out->outputs, &out->output_count)))
        status = ctx->status;
    if (status != VD_OK)
        vd_receipt_free(ctx, out);
    return status;
}

void vd_receipt_free(vd_context *ctx, vd_receipt *r)
{
    vd_free(ctx, r->skip);
    vd_free(ctx, r->rows);
    vd_free(ctx, r->inputs);
    vd_free(ctx, r->outputs);
    json_decref(r->root);
    *r = (vd_receipt){0};
}
