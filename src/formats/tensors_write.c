/* Writing safetensors: declared first, then streamed, so that nothing is held but one piece. */
#include <stdio.h>
#include <string.h>

#include "formats/file.h"
#include "formats/json.h"
#include "formats/safetensors.h"

enum { PIECE = 4 << 20 };

static int compare_tensors(const void *a, const void *b) { return strcmp((*(const vd_tensor *const *)a)->name, (*(const vd_tensor *const *)b)->name); }

/* Everything that the reader would refuse is refused here, before a file is begun. */
static vd_status check_tensors(vd_context *ctx, const char *path, const vd_tensor *const *tensors, int64_t count, vd_fill_fn *fill, int64_t *total)
{
    *total = 0;
    for (int64_t i = 0; i < count; i++) {
        const vd_tensor *t     = tensors[i];
        int64_t          bytes = vd_dtype_size(t->type);
        if (t->type == VD_F8_E4M3 || t->type == VD_F8_E5M2 || bytes == 0)
            return vd_fail(ctx, VD_BAD_ARGUMENT, "unsupported-dtype", "%s: tensor %s has dtype %s, which is not written", path, vd_quote(t->name).text,
                           vd_dtype_name(t->type));
        if (strcmp(t->name, "__metadata__") == 0 || vd_utf8_find_fault(t->name, (int64_t)strlen(t->name)) >= 0)
            return vd_fail(ctx, VD_BAD_ARGUMENT, "bad-name", "%s: %s cannot be the name of a tensor", path, vd_quote(t->name).text);
        if (i && strcmp(tensors[i - 1]->name, t->name) == 0)
            return vd_fail(ctx, VD_BAD_ARGUMENT, "duplicate-name", "%s: two tensors are named %s", path, vd_quote(t->name).text);
        bool fits = t->rank >= 0 && t->rank <= VD_MAX_RANK;
        for (int d = 0; fits && d < t->rank; d++)
            fits = t->shape[d] >= 0 && vd_mul_fits(bytes, t->shape[d], &bytes);
        if (!fits || !vd_add_fits(*total, bytes, total))
            return vd_fail(ctx, VD_BAD_ARGUMENT, "bad-shape", "%s: tensor %s has shape %s, which cannot be written", path, vd_quote(t->name).text,
                           vd_shape_print(t->shape, t->rank < 0 ? 0 : t->rank > VD_MAX_RANK ? VD_MAX_RANK : t->rank).text);
        if (bytes && !t->data && !fill)
            return vd_fail(ctx, VD_BAD_ARGUMENT, "no-data", "%s: tensor %s has neither data nor somebody to ask for them", path, vd_quote(t->name).text);
    }
    return VD_OK;
}

/* Pairs of UTF-8; a key that came twice would be refused by the reader. */
static vd_status check_metadata(vd_context *ctx, const char *path, const char *const *metadata)
{
    for (int64_t i = 0; metadata && metadata[i]; i += 2) {
        const char *key = metadata[i], *value = metadata[i + 1];
        bool        fits = value && vd_utf8_find_fault(key, (int64_t)strlen(key)) < 0 && vd_utf8_find_fault(value, (int64_t)strlen(value)) < 0;
        for (int64_t k = 0; fits && k < i; k += 2)
            fits = strcmp(metadata[k], key) != 0;
        if (!fits)
            return vd_fail(ctx, VD_BAD_ARGUMENT, "bad-metadata", "%s: metadata %s has no value, comes twice, or is not UTF-8", path, vd_quote(key).text);
    }
    return VD_OK;
}

/* The header as jansson values, so that names are escaped in one place. NULL when jansson has no memory. */
static json_t *make_header(const vd_tensor *const *tensors, int64_t count, const char *const *metadata)
{
    json_t *root = json_object();
    bool    whole = root != NULL;
    int64_t at = 0;
    if (metadata && *metadata) {
        json_t *pairs = json_object();
        whole = pairs && json_object_set_new(root, "__metadata__", pairs) == 0;
        for (int64_t i = 0; whole && metadata[i]; i += 2)
            whole = json_object_set_new(pairs, metadata[i], json_string(metadata[i + 1])) == 0;
    }
    for (int64_t i = 0; whole && i < count; i++) {
        const vd_tensor *t     = tensors[i];
        json_t          *shape = json_array();
        whole = shape != NULL;
        for (int d = 0; whole && d < t->rank; d++)
            whole = json_array_append_new(shape, json_integer(t->shape[d])) == 0;
        if (!whole)
            json_decref(shape);
        const int64_t end = at + vd_tensor_bytes(t);
        json_t *info = !whole ? NULL : json_pack("{s:s, s:o, s:[I,I]}", "dtype", vd_dtype_name(t->type), "shape", shape, "data_offsets",
                                                 (json_int_t)at, (json_int_t)end);
        whole = info && json_object_set_new(root, t->name, info) == 0;
        at = end;
    }
    if (!whole) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static vd_status write_header(vd_context *ctx, vd_writer *w, const char *header, int64_t size)
{
    static const char spaces[8] = "        ";
    const int64_t     padded    = (size + 7) / 8 * 8;
    uint8_t           length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)padded >> (8 * i));
    vd_status status = vd_writer_put(ctx, w, length, 8);
    if (status == VD_OK)
        status = vd_writer_put(ctx, w, header, size);
    return status == VD_OK ? vd_writer_put(ctx, w, spaces, padded - size) : status;
}

static vd_status write_tensor(vd_context *ctx, vd_writer *w, const vd_tensor *t, vd_fill_fn *fill, void *user, char *piece)
{
    const int64_t bytes  = vd_tensor_bytes(t);
    vd_status     status = VD_OK;
    for (int64_t at = 0; status == VD_OK && at < bytes; at += PIECE) {
        const int64_t n    = vd_min(PIECE, bytes - at);
        const char   *from = t->data ? (const char *)t->data + at : piece;
        if (!t->data)
            status = fill(user, ctx, t, at, piece, n);
        if (status == VD_OK)
            status = vd_writer_put(ctx, w, from, n);
    }
    return status;
}

vd_status vd_tensors_write(vd_context *ctx, const char *path, const vd_tensor *tensors, int64_t count, const char *const *metadata, vd_fill_fn *fill,
                           void *user)
{
    vd_clear_error(ctx);
    int64_t           total = 0, size = 0;
    char             *header = NULL;
    vd_writer        *w      = NULL;
    const vd_tensor **sorted = vd_alloc(ctx, count * (int64_t)sizeof *sorted, "an order of tensors");
    char             *piece  = fill ? vd_alloc(ctx, PIECE, "a piece of a tensor") : NULL;
    vd_status         status = sorted && (piece || !fill) ? check_metadata(ctx, path, metadata) : VD_NO_MEMORY;
    if (status == VD_OK) {
        for (int64_t i = 0; i < count; i++)
            sorted[i] = &tensors[i];
        qsort(sorted, (size_t)count, sizeof *sorted, compare_tensors);
        status = check_tensors(ctx, path, sorted, count, fill, &total);
    }
    if (status == VD_OK) {
        json_t *root = make_header(sorted, count, metadata);
        header = root ? vd_json_print(ctx, root, false, &size) : NULL;
        status = header ? VD_OK : vd_fail(ctx, VD_NO_MEMORY, "no-memory", "%s: no memory for its header", path);
        json_decref(root);
    }
    if (status == VD_OK && size > VD_SAFETENSORS_HEADER_LIMIT)
        status = vd_fail(ctx, VD_BAD_ARGUMENT, "header-too-large", "%s: the header would have %lld bytes; the format allows %d", path, (long long)size,
                         VD_SAFETENSORS_HEADER_LIMIT);
    if (status == VD_OK)
        status = vd_writer_open(ctx, path, total + size + 16, &w);
    if (status == VD_OK)
        status = write_header(ctx, w, header, size);
    for (int64_t i = 0; status == VD_OK && i < count; i++)
        status = write_tensor(ctx, w, sorted[i], fill, user, piece);
    if (status == VD_OK)
        status = vd_writer_commit(ctx, w);
    else
        vd_writer_abandon(ctx, w);
    vd_free(ctx, header);
    vd_free(ctx, piece);
    vd_free(ctx, sorted);
    return status;
}
