#include "formats/safetensors.h"

#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "formats/sniff.h"

static const char METADATA[] = "__metadata__";

/* What parsing one header needs to know of its file. */
typedef struct header {
    vd_context    *ctx;
    const char    *path;
    const uint8_t *data;      /* the bytes behind the header */
    int64_t        data_size;
    int64_t        unknown;   /* keys that no tensor's description has; the first is named in one warning */
    const char    *unknown_key, *unknown_tensor;
} header;

/* A tensor's bytes, to check that they tile the data. */
typedef struct span {
    int64_t          begin, end;
    const vd_tensor *tensor;
} span;

int64_t vd_tensor_elements(const vd_tensor *tensor)
{
    int64_t n = 1;
    for (int i = 0; i < tensor->rank; i++)
        n *= tensor->shape[i];
    return n;
}

int64_t vd_tensor_bytes(const vd_tensor *tensor) { return vd_tensor_elements(tensor) * vd_dtype_size(tensor->type); }

vd_shape_text vd_shape_print(const int64_t *shape, int rank)
{
    vd_shape_text s = {"["};
    size_t        n = 1;
    for (int i = 0; i < rank && n < sizeof s.text - 24; i++)
        n += (size_t)snprintf(s.text + n, sizeof s.text - n, "%s%lld", i ? "," : "", (long long)shape[i]);
    snprintf(s.text + n, sizeof s.text - n, "]");
    return s;
}

/* ---- One tensor ---- */

static vd_status read_dtype(const header *h, const char *name, const json_t *value, vd_dtype *out)
{
    /* Dtypes of the format that nothing here computes with: told apart from typing errors. */
    static const char *const other[] = {"C64", "F4", "F6_E2M3", "F6_E3M2", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};
    const char *text = vd_json_text(value);
    for (size_t i = 0; text && i < sizeof other / sizeof *other; i++)
        if (strcmp(text, other[i]) == 0)
            return vd_fail(h->ctx, VD_UNSUPPORTED, "unsupported-dtype", "%s: tensor %s has dtype %s, with which nothing here computes; convert it to BF16 or F32",
                           h->path, vd_quote(name).text, text);
    for (int i = 0; text && i < VD_DTYPE_COUNT; i++)
        if (strcmp(text, vd_dtype_name((vd_dtype)i)) == 0) {
            *out = (vd_dtype)i;
            return VD_OK;
        }
    return vd_fail(h->ctx, VD_BAD_FILE, "unknown-dtype", "%s: tensor %s has dtype %s, which the format does not know (F32, BF16, …)", h->path,
                   vd_quote(name).text, text ? vd_quote(text).text : "with a NUL inside");
}

static vd_status read_shape(const header *h, const json_t *value, vd_tensor *t)
{
    if (json_array_size(value) > VD_MAX_RANK)
        return vd_fail(h->ctx, VD_BAD_FILE, "bad-shape", "%s: tensor %s has %zu dimensions; at most %d are read", h->path, vd_quote(t->name).text,
                       json_array_size(value), VD_MAX_RANK);
    t->rank = (int)json_array_size(value);
    for (int i = 0; i < t->rank; i++) {
        const json_t *n = json_array_get(value, (size_t)i);
        if (!json_is_integer(n))
            return vd_fail(h->ctx, VD_BAD_FILE, "bad-shape", "%s: dimension %d of tensor %s is %s; an integer is needed", h->path, i, vd_quote(t->name).text,
                           vd_json_kind(n));
        t->shape[i] = json_integer_value(n);
        if (t->shape[i] < 0)
            return vd_fail(h->ctx, VD_BAD_FILE, "bad-shape", "%s: dimension %d of tensor %s is %lld; it cannot be negative", h->path, i,
                           vd_quote(t->name).text, (long long)t->shape[i]);
    }
    return VD_OK;
}

/* The byte count, every product checked: 2^62 + 4 floats would wrap to the 16 bytes that are there. */
static vd_status count_bytes(const header *h, const vd_tensor *t, int64_t *bytes)
{
    *bytes = vd_dtype_size(t->type);
    for (int i = 0; i < t->rank; i++)
        if (!vd_mul_fits(*bytes, t->shape[i], bytes))
            return vd_fail(h->ctx, VD_BAD_FILE, "overflow", "%s: tensor %s has shape %s; its bytes do not fit 63 bits", h->path, vd_quote(t->name).text,
                           vd_shape_print(t->shape, t->rank).text);
    return VD_OK;
}

static vd_status read_offsets(const header *h, const char *name, const json_t *value, int64_t *begin, int64_t *end)
{
    int64_t at[2];
    if (json_array_size(value) != 2)
        return vd_fail(h->ctx, VD_BAD_FILE, "bad-offsets", "%s: data_offsets of tensor %s has %zu numbers; two are needed", h->path, vd_quote(name).text,
                       json_array_size(value));
    for (size_t i = 0; i < 2; i++) {
        const json_t *n = json_array_get(value, i);
        if (!json_is_integer(n))
            return vd_fail(h->ctx, VD_BAD_FILE, "bad-offsets", "%s: %s of tensor %s is %s; an integer is needed", h->path, i ? "end" : "begin",
                           vd_quote(name).text, vd_json_kind(n));
        at[i] = json_integer_value(n);
        if (at[i] < 0)
            return vd_fail(h->ctx, VD_BAD_FILE, "bad-offsets", "%s: %s of tensor %s is %lld; it cannot be negative", h->path, i ? "end" : "begin",
                           vd_quote(name).text, (long long)at[i]);
    }
    *begin = at[0];
    *end   = at[1];
    if (*end < *begin)
        return vd_fail(h->ctx, VD_BAD_FILE, "offset-order", "%s: tensor %s ends at byte %lld, before its begin at %lld", h->path, vd_quote(name).text,
                       (long long)*end, (long long)*begin);
    return VD_OK;
}

/* The three fields; any other key may change what the bytes mean (strides, scale), so it is said. */
static vd_status read_fields(header *h, const char *name, json_t *info, json_t *fields[3])
{
    static const char *const names[3] = {"dtype", "shape", "data_offsets"};
    if (!json_is_object(info))
        return vd_fail(h->ctx, VD_BAD_FILE, "header-structure", "%s: tensor %s is described by %s; an object is needed", h->path, vd_quote(name).text,
                       vd_json_kind(info));
    for (int i = 0; i < 3; i++) {
        fields[i] = json_object_get(info, names[i]);
        if (!fields[i])
            return vd_fail(h->ctx, VD_BAD_FILE, "header-structure", "%s: tensor %s has no %s", h->path, vd_quote(name).text, names[i]);
        if (i == 0 ? !json_is_string(fields[i]) : !json_is_array(fields[i]))
            return vd_fail(h->ctx, VD_BAD_FILE, "header-structure", "%s: %s of tensor %s is %s; %s is needed", h->path, names[i], vd_quote(name).text,
                           vd_json_kind(fields[i]), i == 0 ? "a string" : "an array");
    }
    const char *key;
    json_t     *value;
    if (json_object_size(info) > 3)
        json_object_foreach(info, key, value)
            if (strcmp(key, names[0]) != 0 && strcmp(key, names[1]) != 0 && strcmp(key, names[2]) != 0 && h->unknown++ == 0) {
                h->unknown_key    = key;
                h->unknown_tensor = name;
            }
    return VD_OK;
}

static vd_status read_tensor(header *h, json_t *info, vd_tensor *t, span *s)
{
    json_t   *fields[3];
    int64_t   bytes;
    vd_status status = read_fields(h, t->name, info, fields);
    if (status != VD_OK || (status = read_dtype(h, t->name, fields[0], &t->type)) != VD_OK || (status = read_shape(h, fields[1], t)) != VD_OK
        || (status = count_bytes(h, t, &bytes)) != VD_OK || (status = read_offsets(h, t->name, fields[2], &s->begin, &s->end)) != VD_OK)
        return status;
    if (s->end - s->begin != bytes)
        return vd_fail(h->ctx, VD_BAD_FILE, "size-mismatch", "%s: tensor %s, %s %s, needs %lld bytes; its data_offsets [%lld,%lld] give %lld", h->path,
                       vd_quote(t->name).text, vd_dtype_name(t->type), vd_shape_print(t->shape, t->rank).text, (long long)bytes, (long long)s->begin,
                       (long long)s->end, (long long)(s->end - s->begin));
    if (s->end > h->data_size)
        return vd_fail(h->ctx, VD_BAD_FILE, "truncated", "%s: tensor %s ends at byte %lld of the data; the file has %lld. It was cut short: fetch it again",
                       h->path, vd_quote(t->name).text, (long long)s->end, (long long)h->data_size);
    t->data  = (void *)(uintptr_t)(h->data + s->begin);
    s->tensor = t;
    return VD_OK;
}

/* ---- All tensors ---- */

static int compare_spans(const void *a, const void *b)
{
    const span *s = a, *t = b;
    return s->begin != t->begin ? (s->begin < t->begin ? -1 : 1) : s->end != t->end ? (s->end < t->end ? -1 : 1) : 0;
}

static int compare_tensors(const void *a, const void *b) { return strcmp(((const vd_tensor *)a)->name, ((const vd_tensor *)b)->name); }

/* The tensors' bytes tile the data: no byte belongs to two, none to nobody. */
static vd_status check_tiling(const header *h, span *spans, int64_t count)
{
    if (count)
        qsort(spans, (size_t)count, sizeof *spans, compare_spans);
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const span *s = &spans[i];
        if (s->begin < at)
            return vd_fail(h->ctx, VD_BAD_FILE, "offset-overlap", "%s: tensors %s and %s share bytes: the first ends at %lld, the second begins at %lld", h->path,
                           vd_quote(spans[i - 1].tensor->name).text, vd_quote(s->tensor->name).text, (long long)at, (long long)s->begin);
        if (s->begin > at)
            return vd_fail(h->ctx, VD_BAD_FILE, "offset-hole", "%s: bytes %lld to %lld before tensor %s belong to no tensor", h->path, (long long)at,
                           (long long)s->begin, vd_quote(s->tensor->name).text);
        at = s->end;
    }
    if (at < h->data_size)
        return vd_fail(h->ctx, VD_BAD_FILE, "trailing-bytes", "%s: %lld bytes follow the last tensor; they belong to nothing", h->path,
                       (long long)(h->data_size - at));
    return VD_OK;
}

static vd_status check_metadata(const header *h, const json_t *metadata)
{
    const char *key;
    json_t     *value;
    if (metadata && !json_is_object(metadata))
        return vd_fail(h->ctx, VD_BAD_FILE, "bad-metadata", "%s: __metadata__ is %s; an object of strings is needed", h->path, vd_json_kind(metadata));
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
        if (!vd_json_text(value))
            return vd_fail(h->ctx, VD_BAD_FILE, "bad-metadata", "%s: __metadata__ %s is %s; a string without NUL is needed", h->path, vd_quote(key).text,
                           vd_json_kind(value));
    return VD_OK;
}

static char *keep_text(char **to, const char *text)
{
    char        *kept = *to;
    const size_t size = strlen(text) + 1;
    memcpy(kept, text, size);
    *to += size;
    return kept;
}

static vd_status read_header(header *h, json_t *root, vd_safetensors *out)
{
    const char *name;
    json_t     *value;
    if (!json_is_object(root))
        return vd_fail(h->ctx, VD_BAD_FILE, "header-structure", "%s: the header is %s; an object from tensor names to their places is needed", h->path,
                       vd_json_kind(root));
    json_t   *metadata = json_object_get(root, METADATA);
    vd_status status   = check_metadata(h, metadata);
    if (status != VD_OK)
        return status;

    out->count          = (int64_t)json_object_size(root) - (metadata ? 1 : 0);
    out->metadata_count = (int64_t)json_object_size(metadata);
    size_t text = 0;
    json_object_foreach(root, name, value)
        text += strlen(name) + 1;
    json_object_foreach(metadata, name, value)
        text += strlen(name) + 1 + json_string_length(value) + 1;
    out->tensors  = vd_alloc(h->ctx, out->count * (int64_t)sizeof *out->tensors, "a list of tensors");
    out->metadata = vd_alloc(h->ctx, 2 * out->metadata_count * (int64_t)sizeof *out->metadata, "metadata");
    out->text     = vd_alloc(h->ctx, (int64_t)text, "names of tensors");
    span *spans   = vd_alloc(h->ctx, out->count * (int64_t)sizeof *spans, "places of tensors");
    if (!out->tensors || !out->metadata || !out->text || !spans)
        status = VD_NO_MEMORY;

    char   *to = out->text;
    int64_t n  = 0;
    if (status == VD_OK)
        json_object_foreach(metadata, name, value) {
            out->metadata[n++] = keep_text(&to, name);
            out->metadata[n++] = keep_text(&to, json_string_value(value));
        }
    n = 0;
    json_object_foreach(root, name, value) {
        if (status != VD_OK)
            break;
        if (value == metadata)
            continue;
        out->tensors[n].name = keep_text(&to, name);
        status = read_tensor(h, value, &out->tensors[n], &spans[n]);
        n++;
    }
    if (status == VD_OK)
        status = check_tiling(h, spans, out->count);
    if (status == VD_OK && h->unknown)
        vd_log(h->ctx, VD_LOG_WARNING, "%s: %lld unknown keys in descriptions of tensors, %s of tensor %s the first; they are not used", h->path,
               (long long)h->unknown, vd_quote(h->unknown_key).text, vd_quote(h->unknown_tensor).text);
    if (status == VD_OK && out->count)
        qsort(out->tensors, (size_t)out->count, sizeof *out->tensors, compare_tensors);
    vd_free(h->ctx, spans);
    return status;
}

/* ---- The file ---- */

/* A file of another kind is named for what it is: an unfetched Git-LFS pointer must not read as "header too large". */
static vd_status fail_other_kind(vd_context *ctx, const char *path, const uint8_t *bytes, int64_t size, bool *other)
{
    const char *advice;
    const char *kind = vd_sniff(bytes, size, &advice);
    *other = kind != NULL;
    return kind ? vd_fail(ctx, VD_BAD_FILE, "not-safetensors", "%s is no safetensors file but %s; %s", path, kind, advice) : VD_OK;
}

static vd_status find_header(vd_context *ctx, const char *path, const uint8_t *bytes, int64_t size, int64_t *length)
{
    bool      other  = false;
    vd_status status = fail_other_kind(ctx, path, bytes, size, &other);
    if (other)
        return status;
    if (size < 8)
        return vd_fail(ctx, VD_BAD_FILE, "header-too-small", "%s has %lld bytes; a safetensors file has at least 8, the length of its header", path,
                       (long long)size);
    uint64_t declared = 0;
    for (int i = 7; i >= 0; i--)
        declared = declared << 8 | bytes[i];
    if (declared > VD_SAFETENSORS_HEADER_LIMIT)
        return vd_fail(ctx, VD_BAD_FILE, "header-too-large", "%s declares a header of %llu bytes; the format allows %d. It is damaged, or no safetensors file", path,
                       (unsigned long long)declared, VD_SAFETENSORS_HEADER_LIMIT);
    if ((int64_t)declared > size - 8)
        return vd_fail(ctx, VD_BAD_FILE, "header-length", "%s declares a header of %llu bytes; only %lld follow. It was cut short: fetch it again", path,
                       (unsigned long long)declared, (long long)(size - 8));
    *length = (int64_t)declared;
    return VD_OK;
}

vd_status vd_safetensors_parse(vd_context *ctx, const char *path, const uint8_t *bytes, int64_t size, vd_safetensors *out)
{
    static const vd_json_reasons reasons = {"header-json", "header-utf8", "overflow"};
    int64_t length = 0;
    json_t *root   = NULL;
    *out = (vd_safetensors){0};
    vd_status status = find_header(ctx, path, bytes, size, &length);
    if (status != VD_OK)
        return status;
    const char  *text = (const char *)bytes + 8;
    header       h    = {.ctx = ctx, .path = path, .data = bytes + 8 + length, .data_size = size - 8 - length};
    status = vd_json_parse(ctx, path, text, length, &reasons, &root);
    if (status == VD_OK && text[0] != '{' && json_is_object(root))
        status = vd_fail(ctx, VD_BAD_FILE, "header-structure", "%s: the header begins with a space; the format wants the brace first", path);
    if (status == VD_OK)
        status = read_header(&h, root, out);
    json_decref(root);
    if (status == VD_OK && !(out->path = vd_copy_string(ctx, path)))
        status = VD_NO_MEMORY;
    if (status != VD_OK)
        vd_safetensors_close(ctx, out);
    return status;
}

vd_status vd_safetensors_open(vd_context *ctx, const char *path, vd_safetensors *out)
{
    vd_mapping map;
    *out = (vd_safetensors){0};
    vd_status status = vd_file_map(ctx, path, &map);
    if (status == VD_OK)
        status = vd_safetensors_parse(ctx, path, map.data, map.size, out);
    if (status == VD_OK)
        out->map = map;
    else
        vd_file_unmap(&map);
    return status;
}

void vd_safetensors_close(vd_context *ctx, vd_safetensors *file)
{
    vd_file_unmap(&file->map);
    vd_free(ctx, file->path);
    vd_free(ctx, file->tensors);
    vd_free(ctx, file->metadata);
    vd_free(ctx, file->text);
    *file = (vd_safetensors){0};
}

const vd_tensor *vd_safetensors_find(const vd_safetensors *file, const char *name)
{
    const vd_tensor key = {.name = name};
    return file->count ? bsearch(&key, file->tensors, (size_t)file->count, sizeof *file->tensors, compare_tensors) : NULL;
}
