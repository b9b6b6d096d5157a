/* Repeating a receipt's run, and comparing. Audits are in audit.c. */
#include "audit/verify.h"

#include <stdio.h>
#include <string.h>

#include "contract/contract.h"
#include "formats/file.h"

void vd_verify_options_init(vd_verify_options *options) { memset(options, 0, sizeof *options); }

vd_status vd_verify_note(vd_verification *v, bool held, const char *what, const char *format, ...)
{
    vd_context       *ctx = v->ctx;
    vd_verify_result *r   = v->result;
    char              text[1024];
    va_list           args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (r->check_count % 16 == 0) {
        const int64_t one  = (int64_t)sizeof *r->checks;
        vd_check     *more = vd_realloc(ctx, r->checks, r->check_count * one, (r->check_count + 16) * one, "the list of checks");
        if (!more)
            return ctx->status;
        r->checks = more;
    }
    vd_check *check = &r->checks[r->check_count];
    *check          = (vd_check){vd_copy_string(ctx, what), held, vd_copy_string(ctx, text)};
    r->check_count++;
    r->held &= held;
    return ctx->status;
}

void vd_verify_result_free(vd_context *ctx, vd_verify_result *result)
{
    if (!result)
        return;
    for (int64_t i = 0; i < result->check_count; i++) {
        vd_free(ctx, result->checks[i].what);
        vd_free(ctx, result->checks[i].text);
    }
    vd_free(ctx, result->checks);
    vd_free(ctx, result);
}

/* ---- What the receipt says about files ---- */

static const json_t *find_weight(const json_t *files, const char *name)
{
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);
        const char   *text = vd_json_text(json_object_get(file, "name"));
        if (text && !strcmp(text, name))
            return file;
    }
    return NULL;
}

static vd_status check_weight(vd_verification *v, const char *path)
{
    char          what[256], digits[VD_HASH_TEXT];
    const json_t *said = find_weight(v->receipt.weights, vd_path_name(path));
    const char   *hash = said ? vd_json_text(json_object_get(said, "sha256")) : NULL;
    vd_mapping    map;
    snprintf(what, sizeof what, "weights %.200s", vd_path_name(path));
    if (!said)
        return vd_verify_note(v, false, what, "the receipt names no such file");
    if (vd_file_map(v->ctx, path, &map) != VD_OK)
        return v->ctx->status;
    const int64_t size = map.size, claimed = json_integer_value(json_object_get(said, "bytes"));
    vd_file_unmap(&map);
    if (size != claimed)
        return vd_verify_note(v, false, what, "%lld bytes here, %lld in the receipt", (long long)size, (long long)claimed);
    if (!hash)
        return vd_verify_note(v, true, what, "same size; the receipt has no hash");
    if (size > VD_HASH_ALWAYS && !v->options->hash_weights)
        return vd_verify_note(v, true, what, "same size; not hashed (large: ask for it with hash_weights, --hash)");
    if (vd_hash_file(v->ctx, path, digits) != VD_OK)
        return v->ctx->status;
    if (strcmp(digits, hash) != 0)
        return vd_verify_note(v, false, what, "SHA-256 is %s here, %.64s in the receipt", digits, hash);
    return vd_verify_note(v, true, what, "same SHA-256");
}

static vd_status check_model(vd_verification *v)
{
    const vd_moss_model *model  = vd_model_moss(v->model);
    json_t              *config = vd_receipt_config(&model->config);
    if (!config)
        return vd_fail(v->ctx, VD_NO_MEMORY, "no-memory", "no memory for a configuration");
    const bool equal = json_equal(config, v->receipt.config) == 1;
    json_decref(config);
    const int64_t files = vd_tensors_file_count(model->files);
    if (vd_verify_note(v, equal, "model configuration", equal ? "same" : "differs from the receipt's"))
        return v->ctx->status;
    if ((int64_t)json_array_size(v->receipt.weights) != files &&
        vd_verify_note(v, false, "weights", "%lld files here, %lld in the receipt", (long long)files, (long long)json_array_size(v->receipt.weights)))
        return v->ctx->status;
    for (int64_t i = 0; i < files; i++)
        if (check_weight(v, vd_tensors_file(model->files, i)) != VD_OK)
            return v->ctx->status;
    return VD_OK;
}

bool vd_verify_same_shape(const vd_receipt_tensor *said, const vd_tensor *t)
{
    return said->type == t->type && said->rank == t->rank && !memcmp(said->shape, t->shape, (size_t)t->rank * sizeof *t->shape);
}

vd_status vd_verify_computed(vd_verification *v, vd_status status)
{
    char text[700];
    if (status != VD_BAD_ARGUMENT)
        return status;
    snprintf(text, sizeof text, "%s", vd_error_text(v->ctx));
    vd_clear_error(v->ctx);
    return vd_verify_note(v, false, "run", "cannot be repeated as the receipt describes it: %s", text);
}

/* The receipt must quote exactly the rows that this library chooses for a tensor of that name and size. */
static vd_status check_rows(vd_verification *v)
{
    for (int64_t i = 0; i < v->receipt.output_count; i++) {
        const vd_receipt_tensor *said = &v->receipt.outputs[i];
        vd_tensor                like = {.name = said->name, .type = said->type, .rank = said->rank};
        int64_t                  chosen[VD_RECEIPT_ROWS];
        char                     what[256];
        memcpy(like.shape, said->shape, sizeof said->shape);
        bool same = vd_receipt_choose_rows(said->name, vd_rows_count(&like), chosen) == said->row_count;
        for (int64_t k = 0; same && k < said->row_count; k++)
            same = said->rows[k].row == chosen[k];
        snprintf(what, sizeof what, "sampled rows of %.200s", said->name);
        if (!same && vd_verify_note(v, false, what, "are not those that a receipt has for a tensor of this name and size"))
            return v->ctx->status;
    }
    return VD_OK;
}

/* Tensors in a file against a receipt's list; `part` is "input" or "output". */
static vd_status check_tensors(vd_verification *v, const char *part, const vd_receipt_tensor *said, int64_t count, const vd_tensors *file)
{
    char what[256], digits[VD_HASH_TEXT];
    for (int64_t i = 0; i < count; i++) {
        const vd_tensor *t = vd_tensors_find(file, said[i].name);
        snprintf(what, sizeof what, "%s %.200s", part, said[i].name);
        vd_status status;
        if (!t)
            status = vd_verify_note(v, false, what, "is not in the file");
        else if (!vd_verify_same_shape(&said[i], t))
            status = vd_verify_note(v, false, what, "has another type or shape than in the receipt");
        else if (vd_tensor_hash(v->ctx, t, digits) != VD_OK)
            status = v->ctx->status;
        else
            status = vd_verify_note(v, !strcmp(digits, said[i].sha256), what,
                                    strcmp(digits, said[i].sha256) ? "the file's bytes are not those of the receipt" : "same SHA-256");
        if (status != VD_OK)
            return status;
    }
    if (vd_tensors_count(file) != count) {
        snprintf(what, sizeof what, "%s file", part);
        return vd_verify_note(v, false, what, "holds %lld tensors, the receipt names %lld", (long long)vd_tensors_count(file), (long long)count);
    }
    return VD_OK;
}

/* The path as given; or else as the receipt has it; or else the same name beside the receipt, where it travels with it. */
static char *find_file(vd_verification *v, const char *given, const char *said)
{
    if (given || vd_path_find(said) != VD_PATH_NONE)
        return vd_copy_string(v->ctx, given ? given : said);
    char *folder = vd_path_folder(v->ctx, v->path), *beside = folder ? vd_path_join(v->ctx, folder, vd_path_name(said)) : NULL;
    vd_free(v->ctx, folder);
    if (beside && vd_path_find(beside) == VD_PATH_NONE) {
        vd_free(v->ctx, beside);
        beside = vd_copy_string(v->ctx, said);
    }
    return beside;
}

/* ---- The repetition ---- */

/* Whether `hex` are the digits of the first bytes of a row (all of them, or fewer). */
static bool are_first_bytes(const char *hex, const uint8_t *row, int64_t bytes)
{
    const int64_t size = (int64_t)strlen(hex) / 2;
    if (strlen(hex) % 2 || size < 1 || size > bytes)
        return false;
    for (int64_t i = 0; i < size; i++)
        if (hex[2 * i] != "0123456789abcdef"[row[i] >> 4] || hex[2 * i + 1] != "0123456789abcdef"[row[i] & 15])
            return false;
    return true;
}

vd_status vd_verify_rows(vd_verification *v, const vd_receipt_tensor *said, const vd_tensor *t, const int64_t *rows, int64_t row_count,
                         int64_t *wrong, int64_t *first)
{
    uint8_t *row = vd_alloc(v->ctx, vd_row_bytes(t), "a row");
    char     digits[VD_HASH_TEXT];
    *wrong = 0, *first = -1;
    for (int64_t i = 0; row && i < said->row_count; i++) {
        int64_t at = rows ? -1 : said->rows[i].row;
        for (int64_t k = 0; k < row_count && at < 0; k++)
            if (rows[k] == said->rows[i].row)
                at = k;
        if (at < 0 || at >= vd_rows_count(t)) { /* callers compared shapes */
            vd_fail(v->ctx, VD_INTERNAL, "audit", "row %lld of %s was not computed", (long long)said->rows[i].row, said->name);
            break;
        }
        vd_row_copy(t, at, row);
        if (vd_hash_bytes(v->ctx, row, vd_row_bytes(t), digits) != VD_OK)
            break;
        if (strcmp(digits, said->rows[i].sha256) != 0 || !are_first_bytes(said->rows[i].values, row, vd_row_bytes(t))) {
            *first = *wrong ? *first : said->rows[i].row;
            ++*wrong;
        }
    }
    vd_free(v->ctx, row);
    return v->ctx->status;
}

/* The first element that differs from the output file's, if that is at hand: the sentence's end. */
static void describe_difference(const vd_verification *v, const vd_tensor *t, char text[256])
{
    const vd_tensor *theirs = v->output ? vd_tensors_find(v->output, t->name) : NULL;
    text[0]                 = 0;
    if (!theirs || vd_tensor_bytes(theirs) != vd_tensor_bytes(t) || theirs->type != t->type || (t->type != VD_F32 && t->type != VD_BF16))
        return;
    const int64_t size = vd_dtype_size(t->type), count = vd_tensor_bytes(t) / size;
    int64_t       differ = 0, first = -1;
    for (int64_t i = 0; i < count; i++) {
        if (memcmp((const char *)t->data + i * size, (const char *)theirs->data + i * size, (size_t)size) != 0) {
            first = differ ? first : i;
            differ++;
        }
    }
    if (differ)
        snprintf(text, 256, "; %lld of %lld elements differ from the output file, the first is %lld: %.9g here, %.9g there", (long long)differ,
                 (long long)count, (long long)first, (double)vd_load(t->data, t->type, first), (double)vd_load(theirs->data, t->type, first));
}

static vd_status compare_node(vd_verification *v, const vd_receipt_tensor *said, const vd_tensor *t)
{
    char    what[256], digits[VD_HASH_TEXT], difference[256];
    int64_t wrong, first;
    snprintf(what, sizeof what, "node %.200s", said->name);
    if (!t)
        return vd_verify_note(v, false, what, "was not computed by the repetition");
    if (!vd_verify_same_shape(said, t))
        return vd_verify_note(v, false, what, "has another type or shape than in the receipt");
    if (vd_tensor_hash(v->ctx, t, digits) != VD_OK || vd_verify_rows(v, said, t, NULL, 0, &wrong, &first) != VD_OK)
        return v->ctx->status;
    if (!strcmp(digits, said->sha256) && !wrong)
        return vd_verify_note(v, true, what, "same bytes");
    describe_difference(v, t, difference);
    if (wrong)
        return vd_verify_note(v, false, what, "other bytes; sampled rows: %lld of %lld differ, the first is row %lld%s", (long long)wrong,
                              (long long)said->row_count, (long long)first, difference);
    return vd_verify_note(v, false, what, "other bytes, outside the sampled rows%s", difference);
}

static vd_status repeat(vd_verification *v)
{
    const vd_receipt  *r = &v->receipt;
    vd_forward_options o;
    vd_collection      values = {0};
    vd_forward_options_init(&o);
    o.policy = r->policy, o.arith = r->arith, o.match = r->match, o.from = r->from, o.to = r->to, o.taps = r->taps;
    const vd_sample sample = {.inputs      = v->inputs,
                              .input_count = (int)v->input_count,
                              .h           = r->h,
                              .w           = r->w,
                              .text_rows   = r->text_rows,
                              .skip        = r->skip,
                              .skip_count  = (int)r->skip_count,
                              .rows        = r->row_count >= 0 ? r->rows : NULL,
                              .row_count   = r->row_count};
    vd_status       status = vd_forward_collect(v->ctx, v->model, &o, &sample, 1, &values);
    const bool computed = status == VD_OK;
    status              = vd_verify_computed(v, status);
    for (int64_t i = 0; computed && status == VD_OK && i < r->output_count; i++)
        status = compare_node(v, &r->outputs[i], vd_collection_find(&values, r->outputs[i].name));
    if (computed && status == VD_OK && values.count != r->output_count)
        status = vd_verify_note(v, false, "nodes", "the repetition gave %lld nodes, the receipt names %lld", (long long)values.count,
                                (long long)r->output_count);
    vd_collection_free(v->ctx, &values);
    return status;
}

/* ---- The whole ---- */

static vd_status check_contracts(vd_verification *v)
{
    json_t    *ours  = vd_receipt_contracts(v->ctx, v->receipt.policy, v->receipt.arith, v->receipt.match);
    const bool equal = ours && json_equal(ours, v->receipt.contracts) == 1;
    json_decref(ours);
    if (v->ctx->status != VD_OK)
        return v->ctx->status;
    return vd_verify_note(v, equal, "contracts",
                          equal ? "same" : "the receipt names other contracts, or other versions of them, than this version of the library uses");
}

static vd_status verify(vd_verification *v)
{
    vd_context *ctx   = v->ctx;
    char       *model = NULL, *input = NULL, *output = NULL;
    vd_status   status = vd_receipt_read(ctx, v->path, &v->receipt);
    if (status == VD_OK)
        status = vd_verify_note(v, v->receipt.sealed, "seal", v->receipt.sealed ? "holds" : "the receipt was changed after it was written");
    if (status == VD_OK)
        status = check_contracts(v);
    if (status == VD_OK)
        status = check_rows(v);
    if (status == VD_OK &&
        (!(model = find_file(v, v->options->model, v->receipt.model)) || !(input = find_file(v, v->options->input, v->receipt.input)) ||
         !(output = find_file(v, v->options->output, v->receipt.output))))
        status = ctx->status;
    if (status == VD_OK && (vd_model_open(ctx, model, &v->model) || check_model(v) || vd_inputs_open(ctx, v->model, input, &v->input, &v->inputs)))
        status = ctx->status;
    if (status == VD_OK) {
        v->input_count = vd_tensors_count(v->input);
        status         = check_tensors(v, "input", v->receipt.inputs, v->receipt.input_count, v->input);
    }
    /* A named output must be there; a remembered one may be gone, unless the audit reads it. */
    if (status == VD_OK && (v->options->output || v->options->audit || vd_path_find(output) != VD_PATH_NONE)) {
        status = vd_tensors_open(ctx, output, &v->output);
        if (status == VD_OK)
            status = check_tensors(v, "output", v->receipt.outputs, v->receipt.output_count, v->output);
    }
    if (status == VD_OK) {
        bool same_start = true; /* with other weights or inputs the run would only repeat what is known already */
        for (int64_t i = 0; i < v->result->check_count; i++)
            same_start &= v->result->checks[i].held || !strncmp(v->result->checks[i].what, "output", 6) ||
                          !strncmp(v->result->checks[i].what, "sampled", 7) || !strcmp(v->result->checks[i].what, "seal");
        if (same_start)
            status = v->options->audit ? vd_verify_audit(v) : repeat(v);
        else
            status = vd_verify_note(v, false, "run", "not repeated: it would start from something else");
    }
    vd_free(ctx, model);
    vd_free(ctx, input);
    vd_free(ctx, output);
    return status;
}

vd_status vd_verify(vd_context *ctx, const char *receipt, const vd_verify_options *options, vd_verify_result **out)
{
    vd_clear_error(ctx);
    vd_verification v = {.ctx = ctx, .path = receipt, .options = options};
    v.result          = vd_alloc(ctx, sizeof *v.result, "a verification");
    vd_status status  = v.result ? VD_OK : ctx->status;
    *out              = NULL;
    if (v.result) {
        v.result->held = true;
        status         = verify(&v);
    }
    vd_tensors_close(ctx, v.output);
    vd_free(ctx, v.inputs);
    vd_tensors_close(ctx, v.input);
    vd_model_close(ctx, v.model);
    vd_receipt_free(ctx, &v.receipt);
    if (status != VD_OK) {
        vd_verify_result_free(ctx, v.result);
        return status;
    }
    *out = v.result;
    if (v.result->held)
        return VD_OK;
    for (int64_t i = 0; i < v.result->check_count; i++)
        if (!v.result->checks[i].held)
            return vd_fail(ctx, VD_FAILED, "verification", "%s: %s: %s", receipt, v.result->checks[i].what, v.result->checks[i].text);
    return VD_FAILED;
}
