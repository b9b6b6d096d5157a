#include "formats/index.h"

#include <string.h>

#include "formats/json.h"
#include "formats/safetensors.h"

/* A shard is a file in the index's own folder. */
static bool is_plain_name(const char *name)
{
    return *name && strlen(name) <= 255 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strpbrk(name, "/\\");
}

static int compare_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }
static int compare_entries(const void *a, const void *b) { return strcmp(((const vd_index_entry *)a)->name, ((const vd_index_entry *)b)->name); }

static vd_status check_map(vd_context *ctx, const char *path, json_t *map, size_t *text)
{
    const char *name;
    json_t     *value;
    if (!json_is_object(map))
        return vd_fail(ctx, VD_BAD_FILE, "index-structure", "%s: weight_map is %s; an object from tensor names to file names is needed", path,
                       map ? vd_json_kind(map) : "missing");
    if (json_object_size(map) == 0)
        return vd_fail(ctx, VD_BAD_FILE, "index-empty", "%s: weight_map lists no tensor", path);
    json_object_foreach(map, name, value) {
        if (!json_is_string(value))
            return vd_fail(ctx, VD_BAD_FILE, "index-structure", "%s: the file of tensor %s is %s; a name is needed", path, vd_quote(name).text,
                           vd_json_kind(value));
        const char *file = vd_json_text(value);
        if (!file || !is_plain_name(file))
            return vd_fail(ctx, VD_BAD_FILE, "unsafe-path", "%s: tensor %s is said to lie in %s; shards are files in the index's own folder, named without a path",
                           path, vd_quote(name).text, vd_quote(file ? file : "a name with NUL inside").text);
        *text += strlen(name) + 1;
    }
    return VD_OK;
}

/* The distinct shard names, then each entry's place among them. */
static vd_status fill_entries(vd_context *ctx, const char *path, json_t *map, vd_index *out)
{
    const char  *name;
    json_t      *value;
    char        *to    = out->text;
    int64_t      n     = 0;
    const char **files = vd_alloc(ctx, out->count * (int64_t)sizeof *files, "names of shards");
    vd_status    status = files ? VD_OK : VD_NO_MEMORY;
    if (files) {
        json_object_foreach(map, name, value)
            files[n++] = json_string_value(value);
        qsort(files, (size_t)n, sizeof *files, compare_text);
    }
    for (int64_t i = 0; status == VD_OK && i < n; i++)
        if (i == 0 || strcmp(files[i], files[i - 1]) != 0)
            status = out->shards.count == VD_INDEX_SHARDS
                         ? vd_fail(ctx, VD_BAD_FILE, "index-structure", "%s names more than %d files; no model needs that", path, VD_INDEX_SHARDS)
                         : vd_names_add(ctx, &out->shards, files[i]);
    n = 0;
    json_object_foreach(map, name, value) {
        if (status != VD_OK)
            break;
        const size_t size  = strlen(name) + 1;
        const char  *file  = json_string_value(value);
        char       **found = bsearch(&file, out->shards.names, (size_t)out->shards.count, sizeof *out->shards.names, compare_text);
        out->entries[n++]  = (vd_index_entry){memcpy(to, name, size), found - out->shards.names};
        to += size;
    }
    if (status == VD_OK)
        qsort(out->entries, (size_t)out->count, sizeof *out->entries, compare_entries);
    vd_free(ctx, files);
    return status;
}

/* total_size is advice: writers in the wild put parameters, strings or nothing there. */
static void read_total(vd_context *ctx, const char *path, json_t *metadata, vd_index *out)
{
    const json_t *total = json_object_get(metadata, "total_size");
    out->total_size = json_is_integer(total) ? json_integer_value(total) : -1;
    if (total && out->total_size < 0)
        vd_log(ctx, VD_LOG_WARNING, "%s: metadata.total_size is %s and is not used; a number of bytes is expected", path,
               json_is_integer(total) ? "negative" : vd_json_kind(total));
}

vd_status vd_index_parse(vd_context *ctx, const char *path, const char *text, int64_t size, vd_index *out)
{
    static const vd_json_reasons reasons = {"index-json", "index-json", "index-json"};
    json_t *root, *map;
    size_t  names = 0;
    *out = (vd_index){.total_size = -1};
    vd_status status = vd_json_parse(ctx, path, text, size, &reasons, &root);
    if (status != VD_OK)
        return status;
    map = json_object_get(root, "weight_map");
    if (!json_is_object(root))
        status = vd_fail(ctx, VD_BAD_FILE, "index-structure", "%s is %s; an object with weight_map is needed", path, vd_json_kind(root));
    else
        status = check_map(ctx, path, map, &names);
    if (status == VD_OK) {
        out->count   = (int64_t)json_object_size(map);
        out->text    = vd_alloc(ctx, (int64_t)names, "names of tensors");
        out->entries = vd_alloc(ctx, out->count * (int64_t)sizeof *out->entries, "an index of tensors");
        status       = out->text && out->entries ? fill_entries(ctx, path, map, out) : VD_NO_MEMORY;
    }
    if (status == VD_OK)
        read_total(ctx, path, json_object_get(root, "metadata"), out);
    else
        vd_index_free(ctx, out);
    json_decref(root);
    return status;
}

vd_status vd_index_read(vd_context *ctx, const char *path, vd_index *out)
{
    char   *text;
    int64_t size;
    *out = (vd_index){.total_size = -1};
    vd_status status = vd_file_read(ctx, path, VD_SAFETENSORS_HEADER_LIMIT, "index-json", &text, &size);
    if (status == VD_OK)
        status = vd_index_parse(ctx, path, text, size, out);
    vd_free(ctx, text);
    return status;
}

void vd_index_free(vd_context *ctx, vd_index *index)
{
    vd_names_free(ctx, &index->shards);
    vd_free(ctx, index->entries);
    vd_free(ctx, index->text);
    *index = (vd_index){.total_size = -1};
}
