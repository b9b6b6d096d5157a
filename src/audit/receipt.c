/* Writing receipts. */
#include "audit/receipt.h"

#include <string.h>

#include "contract/contract.h"
#include "formats/file.h"

/* Whole rows are quoted while the receipt stays small; then the first bytes only. */
enum { VALUES_LIMIT = 512 << 10, VALUES_START = 64 };

static vd_status fail_memory(vd_context *ctx) { return vd_fail(ctx, VD_NO_MEMORY, "no-memory", "no memory for the receipt's JSON"); }

/* jansson says that it has no memory by giving NULL or refusing it: seen here, in one place, once for all. */
static void put(vd_context *ctx, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        fail_memory(ctx);
}

static void append(vd_context *ctx, json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) != 0)
        fail_memory(ctx);
}

/* Paths need not be UTF-8; JSON must. A byte that is not becomes a question mark. */
static json_t *make_text(vd_context *ctx, const char *text)
{
    char *copy = text ? vd_copy_string(ctx, text) : NULL;
    if (!copy)
        return text ? NULL : json_null();
    for (int64_t at; (at = vd_utf8_find_fault(copy, (int64_t)strlen(copy))) >= 0;)
        copy[at] = '?';
    json_t *value = json_string(copy);
    vd_free(ctx, copy);
    return value;
}

static json_t *make_numbers(vd_context *ctx, const int64_t *items, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        append(ctx, list, json_integer(items[i]));
    return list;
}

/* ---- Hashes ---- */

vd_status vd_tensor_hash(vd_context *ctx, const vd_tensor *tensor, char digits[VD_HASH_TEXT])
{
    return vd_hash_bytes(ctx, tensor->data, vd_tensor_bytes(tensor), digits);
}

vd_status vd_hash_file(vd_context *ctx, const char *path, char digits[65])
{
    enum { PIECE = 16 << 20 };
    vd_mapping map;
    vd_status  status = vd_file_map(ctx, path, &map);
    if (status != VD_OK)
        return status;
    vd_hasher *hasher = vd_hash_open(ctx);
    if (!hasher)
        status = ctx->status;
    for (int64_t at = 0; status == VD_OK && at < map.size; at += PIECE) {
        vd_hash_feed(hasher, map.data + at, vd_min(PIECE, map.size - at));
        status = vd_report_progress(ctx, "MB hashed", vd_min(at + PIECE, map.size) / 1000000, map.size / 1000000);
    }
    if (hasher) {
        const vd_status closed = vd_hash_close(ctx, hasher, status == VD_OK ? digits : NULL);
        status                 = status == VD_OK ? closed : status;
    }
    vd_file_unmap(&map);
    return status;
}

vd_status vd_receipt_weights(vd_context *ctx, const vd_model *model, bool hash_all, json_t **out)
{
    const vd_tensors *files  = vd_model_moss(model)->files;
    vd_status         status = VD_OK;
    *out                     = json_array();
    for (int64_t i = 0; status == VD_OK && i < vd_tensors_file_count(files); i++) {
        const char *path = vd_tensors_file(files, i);
        char        digits[VD_HASH_TEXT];
        vd_mapping  map;
        status = vd_file_map(ctx, path, &map); /* for its size */
        if (status != VD_OK)
            break;
        const int64_t size = map.size;
        vd_file_unmap(&map);
        const bool hashed = hash_all || size <= VD_HASH_ALWAYS;
        if (hashed)
            status = vd_hash_file(ctx, path, digits);
        if (status != VD_OK)
            break;
        json_t *file = json_object();
        put(ctx, file, "name", make_text(ctx, vd_path_name(path)));
        put(ctx, file, "bytes", json_integer(size));
        put(ctx, file, "sha256", hashed ? json_string(digits) : json_null());
        append(ctx, *out, file);
        status = ctx->status;
    }
    if (!*out)
        status = fail_memory(ctx);
    if (status != VD_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

/* ---- What ran ---- */

json_t *vd_receipt_contracts(vd_context *ctx, vd_policy policy, vd_arith arith, vd_match match)
{
    const bool     tc16 = arith == VD_ARITH_TC16, torch = match != VD_MATCH_NONE, wide = policy != VD_POLICY_BF16;
    const vd_order used[] = {
        tc16 ? VD_TC16_CHAIN : VD_FMA_PAIR,
        tc16 && torch ? VD_TC16_SPLIT : VD_ORDER_NONE,
        !wide   ? VD_ORDER_NONE
        : torch ? VD_FMA_CHAIN
                : VD_FMA_FOLD512,
        VD_ROWSUM128,
        tc16 ? VD_ATTN_K128 : VD_ATTN_K128_PAIR,
        policy == VD_POLICY_F32 ? VD_ATTN_K128_F32 : VD_ORDER_NONE,
    };
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        if (used[i] != VD_ORDER_NONE)
            append(ctx, list, json_string(vd_order_id(used[i])));
    return list;
}

json_t *vd_receipt_config(const vd_moss_config *c)
{
    return json_pack("{ss sI sI sI sI sI sI sf sI}", "family", "moss_image", "dim", (json_int_t)c->dim, "ffn_dim", (json_int_t)c->ffn_dim, "freq_dim",
                     (json_int_t)c->freq_dim, "latent_channels", (json_int_t)c->latent_channels, "num_heads", (json_int_t)c->heads, "num_layers",
                     (json_int_t)c->layers, "rope_base", c->rope_base, "text_dim", (json_int_t)c->text_dim);
}

/* The sizes that the run had: from latents and text where they were given. */
static void find_sizes(const vd_receipt_facts *f, int64_t size[3])
{
    const vd_tensor *latents = vd_tensors_find(f->input, "latents"), *text = vd_tensors_find(f->input, "text");
    size[0] = f->options->h, size[1] = f->options->w, size[2] = f->options->text_rows;
    if (latents && latents->rank >= 3)
        size[0] = latents->shape[latents->rank - 2], size[1] = latents->shape[latents->rank - 1];
    if (text && text->rank == 2)
        size[2] = text->shape[0];
}

static json_t *make_forward(vd_context *ctx, const vd_receipt_facts *f)
{
    const vd_run_options *o = f->options;
    int64_t               size[3];
    find_sizes(f, size);
    json_t *part = json_object();
    put(ctx, part, "policy", json_string(vd_policy_name(o->forward.policy)));
    put(ctx, part, "arith", json_string(vd_arith_name(o->forward.arith)));
    put(ctx, part, "match", json_string(vd_match_name(o->forward.match)));
    put(ctx, part, "from", make_text(ctx, o->forward.from));
    put(ctx, part, "to", make_text(ctx, o->forward.to));
    put(ctx, part, "taps", make_text(ctx, o->forward.taps));
    put(ctx, part, "skip", make_numbers(ctx, o->skip, o->skip_count));
    put(ctx, part, "rows", o->rows ? make_numbers(ctx, o->rows, o->row_count) : json_null());
    put(ctx, part, "latents", make_numbers(ctx, size, 2));
    put(ctx, part, "text_rows", json_integer(size[2]));
    return part;
}

/* ---- Tensors ---- */

static char *format_hex(vd_context *ctx, const uint8_t *bytes, int64_t count)
{
    char *text = vd_alloc(ctx, 2 * count + 1, "a row's digits");
    for (int64_t i = 0; text && i < count; i++) {
        text[2 * i]     = "0123456789abcdef"[bytes[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    return text;
}

int vd_receipt_choose_rows(const char *name, int64_t rows, int64_t chosen[VD_RECEIPT_ROWS])
{
    if (rows <= VD_RECEIPT_ROWS) {
        for (int64_t i = 0; i < rows; i++)
            chosen[i] = i;
        return (int)rows;
    }
    const uint64_t hash  = vd_fnv1a(name);
    const int64_t  inner = rows - 2; /* rows 1 … rows-2 */
    int64_t        a = 1 + (int64_t)(hash % (uint64_t)inner), b = 1 + (int64_t)((hash >> 20) % (uint64_t)inner);
    if (a == b)
        b = a < rows - 2 ? a + 1 : 1;
    chosen[0] = 0, chosen[1] = vd_min(a, b), chosen[2] = vd_max(a, b), chosen[3] = rows - 1;
    return VD_RECEIPT_ROWS;
}

static json_t *make_rows(vd_context *ctx, const vd_tensor *t, bool whole)
{
    int64_t       chosen[VD_RECEIPT_ROWS];
    const int     count = vd_receipt_choose_rows(t->name, vd_rows_count(t), chosen);
    const int64_t bytes = vd_row_bytes(t);
    uint8_t      *row   = vd_alloc(ctx, bytes, "a row");
    json_t       *list  = json_array();
    for (int i = 0; row && i < count; i++) {
        char digits[VD_HASH_TEXT];
        vd_row_copy(t, chosen[i], row);
        char *hex = format_hex(ctx, row, whole ? bytes : vd_min(bytes, VALUES_START));
        if (hex && vd_hash_bytes(ctx, row, bytes, digits) == VD_OK)
            append(ctx, list, json_pack("{sI ss ss}", "row", (json_int_t)chosen[i], "sha256", digits, "values", hex));
        vd_free(ctx, hex);
    }
    vd_free(ctx, row);
    return list;
}

static json_t *make_tensor(vd_context *ctx, const vd_tensor *t, bool with_rows, bool whole)
{
    char    digits[VD_HASH_TEXT] = "";
    json_t *part                 = json_object();
    vd_tensor_hash(ctx, t, digits);
    put(ctx, part, "name", make_text(ctx, t->name));
    put(ctx, part, "dtype", json_string(vd_dtype_name(t->type)));
    put(ctx, part, "shape", make_numbers(ctx, t->shape, t->rank));
    put(ctx, part, "sha256", json_string(digits));
    if (with_rows)
        put(ctx, part, "rows", make_rows(ctx, t, whole));
    return part;
}

static json_t *make_input(vd_context *ctx, const vd_receipt_facts *f)
{
    json_t *part = json_object(), *list = json_array();
    for (int64_t i = 0; i < vd_tensors_count(f->input); i++)
        append(ctx, list, make_tensor(ctx, vd_tensors_get(f->input, i), false, false));
    put(ctx, part, "path", make_text(ctx, f->options->inputs[f->sample]));
    put(ctx, part, "tensors", list);
    return part;
}

static json_t *make_output(vd_context *ctx, const vd_receipt_facts *f)
{
    json_t *part = json_object(), *list = json_array();
    int64_t values = 0;
    for (int64_t i = 0; i < f->output->count; i++)
        values += VD_RECEIPT_ROWS * vd_row_bytes(&f->output->tensors[i]);
    for (int64_t i = 0; i < f->output->count; i++)
        append(ctx, list, make_tensor(ctx, &f->output->tensors[i], true, values <= VALUES_LIMIT));
    put(ctx, part, "path", make_text(ctx, f->options->outputs[f->sample]));
    put(ctx, part, "tensors", list);
    return part;
}

/* ---- The whole ---- */

static vd_status seal(vd_context *ctx, json_t *receipt)
{
    int64_t size = 0;
    char    digits[VD_HASH_TEXT];
    char   *text = vd_json_print(ctx, receipt, false, &size);
    if (!text)
        return ctx->status;
    const vd_status status = vd_hash_bytes(ctx, text, size, digits);
    vd_free(ctx, text);
    if (status != VD_OK)
        return status;
    put(ctx, receipt, "seal", json_string(digits));
    return ctx->status;
}

vd_status vd_receipt_make(vd_context *ctx, const vd_receipt_facts *f, json_t **out)
{
    const vd_run_options *o       = f->options;
    json_t               *receipt = json_object(), *model = json_object();
    put(ctx, receipt, "schema", json_integer(VD_RECEIPT_SCHEMA));
    put(ctx, receipt, "kind", json_string("verdit-run"));
    put(ctx, receipt, "library", json_string(VERDIT_VERSION));
    put(ctx, receipt, "contracts", vd_receipt_contracts(ctx, o->forward.policy, o->forward.arith, o->forward.match));
    put(ctx, receipt, "command", make_text(ctx, o->command));
    put(ctx, receipt, "started", json_string(f->started));
    put(ctx, receipt, "seconds", json_real((double)(int64_t)(f->seconds * 1e6) / 1e6));
    put(ctx, receipt, "samples", json_integer(o->count));
    put(ctx, receipt, "machine", json_pack("{ss ss si}", "device", "cpu", "level", f->level, "threads", ctx->threads));
    put(ctx, model, "path", make_text(ctx, o->model));
    put(ctx, model, "config", vd_receipt_config(&vd_model_moss(f->model)->config));
    put(ctx, model, "files", json_incref(f->weights));
    put(ctx, receipt, "model", model);
    put(ctx, receipt, "forward", make_forward(ctx, f));
    put(ctx, receipt, "input", make_input(ctx, f));
    put(ctx, receipt, "output", make_output(ctx, f));
    const vd_status status = ctx->status == VD_OK ? seal(ctx, receipt) : ctx->status;
    if (status != VD_OK) {
        json_decref(receipt);
        receipt = NULL;
    }
    *out = receipt;
    return status;
}
