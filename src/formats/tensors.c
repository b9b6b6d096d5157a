/* Tensors of one file, or of all shards that an index names, behind one handle: the public calls of verdit.h. */
#include "formats/tensors.h"

#include <string.h>

#include "formats/file.h"
#include "formats/index.h"
#include "formats/safetensors.h"
#include "formats/sniff.h"

struct vd_tensors {
    vd_safetensors *files;
    int64_t         file_count;
    vd_tensor      *own;     /* merged, when there are shards */
    vd_tensor      *tensors; /* names ascending: own, or the one file's */
    int64_t         count;
};

/* ---- Shards ---- */

static vd_status check_shards_are_there(vd_context *ctx, const char *index_path, const char *folder, const vd_index *index)
{
    vd_names  missing = {0};
    vd_status status  = VD_OK;
    for (int64_t i = 0; status == VD_OK && i < index->shards.count; i++) {
        char *path = vd_path_join(ctx, folder, index->shards.names[i]);
        if (!path)
            status = VD_NO_MEMORY;
        else if (vd_path_find(path) == VD_PATH_NONE)
            status = vd_names_add(ctx, &missing, index->shards.names[i]);
        vd_free(ctx, path);
    }
    if (status == VD_OK && missing.count)
        status = vd_fail(ctx, VD_BAD_FILE, "missing-shard", "%s names %lld of its %lld files that are not in its folder: %s; fetch them again", index_path,
                         (long long)missing.count, (long long)index->shards.count, vd_list_names((const char *const *)missing.names, missing.count).text);
    vd_names_free(ctx, &missing);
    return status;
}

static vd_status open_shards(vd_context *ctx, const char *folder, const vd_index *index, vd_tensors *t)
{
    t->files = vd_alloc(ctx, index->shards.count * (int64_t)sizeof *t->files, "a list of shards");
    vd_status status = t->files ? VD_OK : VD_NO_MEMORY;
    for (int64_t i = 0; status == VD_OK && i < index->shards.count; i++) {
        char *path = vd_path_join(ctx, folder, index->shards.names[i]);
        status = path ? vd_safetensors_open(ctx, path, &t->files[i]) : VD_NO_MEMORY;
        vd_free(ctx, path);
        t->file_count = i + 1;
    }
    return status;
}

static vd_status fail_elsewhere(vd_context *ctx, const char *index_path, const vd_index *index, const vd_tensors *t, const vd_index_entry *entry)
{
    for (int64_t i = 0; i < t->file_count; i++)
        if (vd_safetensors_find(&t->files[i], entry->name))
            return vd_fail(ctx, VD_BAD_FILE, "tensor-not-in-shard",
                           "%s: tensor %s is not in %s, where the index has it, but in %s; the index does not belong to these files", index_path, vd_quote(entry->name).text, index->shards.names[entry->shard], index->shards.names[i]);
    return vd_fail(ctx, VD_BAD_FILE, "tensor-not-in-shard",
                   "%s: tensor %s is not in %s, where the index has it, nor in another shard; the index does not belong to these files", index_path, vd_quote(entry->name).text, index->shards.names[entry->shard]);
}

static vd_status merge(vd_context *ctx, const char *index_path, const vd_index *index, vd_tensors *t)
{
    int64_t bytes = 0;
    t->own = t->tensors = vd_alloc(ctx, index->count * (int64_t)sizeof *t->own, "a list of tensors");
    if (!t->own)
        return VD_NO_MEMORY;
    t->count = index->count;
    for (int64_t i = 0; i < index->count; i++) {
        const vd_index_entry *entry = &index->entries[i];
        const vd_tensor      *found = vd_safetensors_find(&t->files[entry->shard], entry->name);
        if (!found)
            return fail_elsewhere(ctx, index_path, index, t, entry);
        t->own[i] = *found;
        bytes += vd_tensor_bytes(found);
    }
    if (index->total_size >= 0 && index->total_size != bytes)
        vd_log(ctx, VD_LOG_WARNING, "%s: metadata.total_size is %lld; the tensors have %lld bytes. The files themselves are whole, the number is not used",
               index_path, (long long)index->total_size, (long long)bytes);
    return VD_OK;
}

static bool equal_tensors(const vd_tensor *a, const vd_tensor *b)
{
    return a->type == b->type && a->rank == b->rank && memcmp(a->shape, b->shape, sizeof a->shape) == 0
           && memcmp(a->data, b->data, (size_t)vd_tensor_bytes(a)) == 0;
}

/* Tensors that lie in a shard where the index does not have them: readers that load every shard in order would take those. Equal copies
 * are harmless; different ones make two models of one folder. Only such twins' bytes are read. */
static vd_status check_unlisted(vd_context *ctx, const char *index_path, const vd_index *index, const vd_tensors *t)
{
    int64_t     twins = 0, unlisted = 0;
    const char *twin = NULL, *other = NULL;
    for (int64_t f = 0; f < t->file_count; f++)
        for (int64_t i = 0; i < t->files[f].count; i++) {
            const vd_tensor *here   = &t->files[f].tensors[i];
            const vd_tensor *chosen = vd_tensors_find(t, here->name);
            if (!chosen) {
                other = here->name;
                unlisted++;
            } else if (chosen->name != here->name) {
                if (!equal_tensors(chosen, here))
                    return vd_fail(ctx, VD_BAD_FILE, "ambiguous-tensor",
                                   "%s: tensor %s lies in %s too, where the index does not have it, with other contents; which is right cannot be told", index_path,
                                   vd_quote(here->name).text, index->shards.names[f]);
                twin = here->name;
                twins++;
            }
        }
    if (twins)
        vd_log(ctx, VD_LOG_WARNING, "%s: %lld tensors (%s) lie in two shards, with equal contents", index_path, (long long)twins, vd_quote(twin).text);
    if (unlisted)
        vd_log(ctx, VD_LOG_WARNING, "%s: %lld tensors (%s) lie in the shards but not in the index; they are not used", index_path, (long long)unlisted,
               vd_quote(other).text);
    return VD_OK;
}

static bool is_safetensors_name(const char *name) { return vd_text_ends(name, ".safetensors"); }

/* Weights in the folder that are not used: an older split, another variant. Said, so that nobody believes they were. */
static vd_status report_unused(vd_context *ctx, const char *folder, const vd_tensors *t)
{
    vd_names  found, unused = {0};
    vd_status status = vd_folder_list(ctx, folder, is_safetensors_name, &found);
    for (int64_t i = 0; status == VD_OK && i < found.count; i++) {
        bool used = false;
        for (int64_t f = 0; f < t->file_count && !used; f++)
            used = strcmp(vd_path_name(t->files[f].path), found.names[i]) == 0;
        if (!used)
            status = vd_names_add(ctx, &unused, found.names[i]);
    }
    if (status == VD_OK && unused.count)
        vd_log(ctx, VD_LOG_WARNING, "%s: these files are not part of the model that was opened and are not used: %s", folder,
               vd_list_names((const char *const *)unused.names, unused.count).text);
    vd_names_free(ctx, &found);
    vd_names_free(ctx, &unused);
    return status;
}

static vd_status open_index(vd_context *ctx, const char *path, vd_tensors *t)
{
    vd_index  index;
    char     *folder = vd_path_folder(ctx, path);
    vd_status status = folder ? vd_index_read(ctx, path, &index) : VD_NO_MEMORY;
    if (status != VD_OK) {
        vd_free(ctx, folder);
        return status;
    }
    if ((status = check_shards_are_there(ctx, path, folder, &index)) == VD_OK && (status = open_shards(ctx, folder, &index, t)) == VD_OK
        && (status = merge(ctx, path, &index, t)) == VD_OK)
        status = check_unlisted(ctx, path, &index, t);
    vd_index_free(ctx, &index);
    vd_free(ctx, folder);
    return status;
}

/* ---- Files and folders ---- */

/* bytes NULL: the file at `path`. */
static vd_status open_one(vd_context *ctx, const char *path, const uint8_t *bytes, int64_t size, vd_tensors *t)
{
    t->files = vd_alloc(ctx, sizeof *t->files, "a tensor file");
    vd_status status = !t->files ? VD_NO_MEMORY : bytes ? vd_safetensors_parse(ctx, path, bytes, size, t->files) : vd_safetensors_open(ctx, path, t->files);
    if (status == VD_OK) {
        t->file_count = 1;
        t->tensors    = t->files->tensors;
        t->count      = t->files->count;
    }
    return status;
}

static bool is_weights_name(const char *name)
{
    const char *advice;
    return is_safetensors_name(name) || vd_sniff_name(name, &advice) != NULL;
}

/* Nothing under a usual name: say what is there instead. */
static vd_status fail_no_weights(vd_context *ctx, const char *folder)
{
    static const char wanted[] = "diffusion_pytorch_model.safetensors or model.safetensors, or either's .index.json";
    vd_names    found;
    const char *kind = NULL, *advice = NULL;
    vd_status   status = vd_folder_list(ctx, folder, is_weights_name, &found);
    if (status != VD_OK)
        return status;
    const char *const *names = (const char *const *)found.names;
    bool               tensors = false;
    for (int64_t i = 0; i < found.count; i++) {
        tensors = tensors || is_safetensors_name(names[i]);
        kind    = kind ? kind : vd_sniff_name(names[i], &advice);
    }
    if (!found.count)
        status = vd_fail(ctx, VD_BAD_FILE, "missing-weights", "%s holds no weights: looked for %s", folder, wanted);
    else if (tensors)
        status = vd_fail(ctx, VD_BAD_FILE, "missing-weights",
                         "%s holds no weights under a usual name (%s) but %s; a variant is not chosen for you: give the file itself, or fetch the missing index", folder, wanted, vd_list_names(names, found.count).text);
    else
        status = vd_fail(ctx, VD_BAD_FILE, "missing-weights", "%s holds weights only as %s (%s), which is not read: %s", folder, kind,
                         vd_list_names(names, found.count).text, advice);
    vd_names_free(ctx, &found);
    return status;
}

static vd_status open_folder(vd_context *ctx, const char *folder, vd_tensors *t)
{
    static const char *const usual[] = {"diffusion_pytorch_model.safetensors.index.json", "model.safetensors.index.json", "diffusion_pytorch_model.safetensors",
                                        "model.safetensors"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        char *path = vd_path_join(ctx, folder, usual[i]);
        if (!path)
            return VD_NO_MEMORY;
        const bool there  = vd_path_find(path) != VD_PATH_NONE;
        vd_status  status = !there ? VD_OK : i < 2 ? open_index(ctx, path, t) : open_one(ctx, path, NULL, 0, t);
        vd_free(ctx, path);
        if (there)
            return status == VD_OK ? report_unused(ctx, folder, t) : status;
    }
    return fail_no_weights(ctx, folder);
}

vd_status vd_tensors_open(vd_context *ctx, const char *path, vd_tensors **out)
{
    *out = NULL;
    vd_clear_error(ctx);
    vd_tensors *t = vd_alloc(ctx, sizeof *t, "a handle for tensors");
    if (!t)
        return VD_NO_MEMORY;
    /* A folder that is named like a file is somebody's mistake, not a model. */
    const bool      folder = vd_path_find(path) == VD_PATH_FOLDER && !is_safetensors_name(path);
    const vd_status status = folder ? open_folder(ctx, path, t) : vd_text_ends(path, ".index.json") ? open_index(ctx, path, t) : open_one(ctx, path, NULL, 0, t);
    if (status == VD_OK)
        *out = t;
    else
        vd_tensors_close(ctx, t);
    return status;
}

vd_status vd_tensors_parse(vd_context *ctx, const char *path, const uint8_t *bytes, int64_t size, vd_tensors **out)
{
    *out = NULL;
    vd_tensors *t = vd_alloc(ctx, sizeof *t, "a handle for tensors");
    if (!t)
        return VD_NO_MEMORY;
    const vd_status status = open_one(ctx, path, bytes, size, t);
    if (status == VD_OK)
        *out = t;
    else
        vd_tensors_close(ctx, t);
    return status;
}

void vd_tensors_close(vd_context *ctx, vd_tensors *t)
{
    if (!t)
        return;
    for (int64_t i = 0; i < t->file_count; i++)
        vd_safetensors_close(ctx, &t->files[i]);
    vd_free(ctx, t->files);
    vd_free(ctx, t->own);
    vd_free(ctx, t);
}

int64_t          vd_tensors_count(const vd_tensors *t) { return t->count; }
const vd_tensor *vd_tensors_get(const vd_tensors *t, int64_t i) { return i >= 0 && i < t->count ? &t->tensors[i] : NULL; }

static int compare_tensors(const void *a, const void *b) { return strcmp(((const vd_tensor *)a)->name, ((const vd_tensor *)b)->name); }

const vd_tensor *vd_tensors_find(const vd_tensors *t, const char *name)
{
    const vd_tensor key = {.name = name};
    return t->count ? bsearch(&key, t->tensors, (size_t)t->count, sizeof *t->tensors, compare_tensors) : NULL;
}

int64_t     vd_tensors_metadata_count(const vd_tensors *t) { return t->file_count ? t->files->metadata_count : 0; }
const char *vd_tensors_metadata_key(const vd_tensors *t, int64_t i) { return i >= 0 && i < vd_tensors_metadata_count(t) ? t->files->metadata[2 * i] : NULL; }

const char *vd_tensors_metadata(const vd_tensors *t, const char *key)
{
    for (int64_t i = 0; i < vd_tensors_metadata_count(t); i++)
        if (strcmp(t->files->metadata[2 * i], key) == 0)
            return t->files->metadata[2 * i + 1];
    return NULL;
}

int64_t     vd_tensors_file_count(const vd_tensors *t) { return t->file_count; }
const char *vd_tensors_file(const vd_tensors *t, int64_t i) { return i >= 0 && i < t->file_count ? t->files[i].path : NULL; }
