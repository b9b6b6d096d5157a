#include "scenarios.h"

#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "core/hash.h"
#include "formats/file.h"
#include "formats/json.h"

enum { PATH_ROOM = 512 };

static const char *path_in(char room[PATH_ROOM], const char *folder, const char *name)
{
    snprintf(room, PATH_ROOM, "%s/%s", folder, name);
    return room;
}

static vd_status open_and_close(vd_context *ctx, const char *inputs, const char *out)
{
    (void)ctx, (void)inputs, (void)out;
    return VD_OK;
}

static vd_status hash_bytes(vd_context *ctx, const char *inputs, const char *out)
{
    (void)inputs, (void)out;
    char            digits[VD_HASH_TEXT];
    const vd_status status = vd_hash_bytes(ctx, "abc", 3, digits);
    return status == VD_OK && strncmp(digits, "ba7816bf", 8) != 0 ? VD_FAILED : status;
}

static vd_status make_strings(vd_context *ctx, const char *inputs, const char *out)
{
    (void)inputs, (void)out;
    char *a = vd_format(ctx, "%s/%d", "part", 7);
    char *b = a ? vd_copy_string(ctx, a) : NULL;
    char *c = b ? vd_realloc(ctx, b, 7, 1000, "a string") : NULL;
    vd_free(ctx, a);
    vd_free(ctx, c ? c : b);
    return ctx->status;
}

static const char document[] = "{\"name\": \"moss\", \"list\": [1, 2.5, true, null, {\"deep\": [[[[\"σ\"]]]]}], \"large\": 9007199254740993}\n";

static vd_status prepare_document(vd_context *ctx, const char *inputs)
{
    char path[PATH_ROOM];
    return vd_file_write_atomic(ctx, path_in(path, inputs, "document.json"), document, sizeof document - 1);
}

static vd_status copy_json(vd_context *ctx, const char *inputs, const char *out)
{
    char      path[PATH_ROOM];
    json_t   *value  = NULL;
    vd_status status = vd_json_read(ctx, path_in(path, inputs, "document.json"), 10000, "case-json", &value);
    if (status == VD_OK)
        status = vd_json_write(ctx, path_in(path, out, "copy.json"), value);
    json_decref(value);
    return status;
}

static bool keep_json(const char *name) { return vd_text_ends(name, ".json"); }

static vd_status list_and_read(vd_context *ctx, const char *inputs, const char *out)
{
    (void)out;
    char      path[PATH_ROOM], *text = NULL;
    int64_t   size   = 0;
    vd_names  names  = {0};
    vd_status status = vd_folder_list(ctx, inputs, keep_json, &names);
    if (status == VD_OK && names.count != 1)
        status = VD_FAILED;
    if (status == VD_OK)
        status = vd_file_read(ctx, path_in(path, inputs, names.names[0]), 10000, "too-large", &text, &size);
    vd_free(ctx, text);
    vd_names_free(ctx, &names);
    return status;
}

/* ---- Tensor files ---- */

static vd_status write_tensors(vd_context *ctx, const char *path)
{
    float                    values[6]  = {1, 2, 3, 4, 5, 6};
    uint16_t                 halves[2]  = {0x3f80, 0xbf80};
    const char *const        metadata[] = {"format", "pt", NULL};
    const vd_tensor          tensors[2] = {{.name = "a", .type = VD_F32, .rank = 2, .shape = {2, 3}, .data = values},
                                           {.name = "b", .type = VD_BF16, .rank = 1, .shape = {2}, .data = halves}};
    return vd_tensors_write(ctx, path, tensors, 2, metadata, NULL, NULL);
}

static vd_status prepare_tensors(vd_context *ctx, const char *inputs)
{
    char path[PATH_ROOM];
    return write_tensors(ctx, path_in(path, inputs, "t.safetensors"));
}

static vd_status copy_tensors(vd_context *ctx, const char *inputs, const char *out)
{
    char        path[PATH_ROOM];
    vd_tensors *tensors = NULL;
    vd_status   status  = vd_tensors_open(ctx, path_in(path, inputs, "t.safetensors"), &tensors);
    if (status == VD_OK && (vd_tensors_count(tensors) != 2 || !vd_tensors_find(tensors, "b") || !vd_tensors_metadata(tensors, "format")))
        status = VD_FAILED;
    if (status == VD_OK)
        status = write_tensors(ctx, path_in(path, out, "copy.safetensors"));
    vd_tensors_close(ctx, tensors);
    return status;
}

/* ---- Models: the smallest synthetic one ---- */

static vd_synth_options synth_options(void)
{
    static const char *const set[] = {"num_layers=2", NULL};
    vd_synth_options         options;
    vd_synth_options_init(&options);
    options.set = set;
    return options;
}

static vd_status write_model(vd_context *ctx, const char *inputs, const char *out)
{
    (void)inputs;
    char                   path[PATH_ROOM];
    const vd_synth_options options = synth_options();
    return vd_synth_write_model(ctx, path_in(path, out, "model"), &options);
}

static vd_status prepare_model(vd_context *ctx, const char *inputs)
{
    char                   path[PATH_ROOM];
    const vd_synth_options options = synth_options();
    const vd_status        status  = vd_synth_write_model(ctx, path_in(path, inputs, "model"), &options);
    return status == VD_OK ? vd_synth_write_inputs(ctx, path_in(path, inputs, "request.safetensors"), &options, 2, 3, 4, 500.0f) : status;
}

static int ignore_tap(void *user, int sample, const vd_tensor *value)
{
    (void)user, (void)sample, (void)value;
    return 0;
}

/* Opens model and request and, if `forward`, runs it with taps; else plans its memory. */
static vd_status use_model(vd_context *ctx, const char *inputs, vd_policy policy, vd_arith arith, bool forward)
{
    char        path[PATH_ROOM];
    vd_model   *model  = NULL;
    vd_tensors *file   = NULL;
    vd_status   status = vd_model_open(ctx, path_in(path, inputs, "model"), &model);
    if (status == VD_OK)
        status = vd_tensors_open(ctx, path_in(path, inputs, "request.safetensors"), &file);
    if (status == VD_OK) {
        const vd_tensor    tensors[3] = {*vd_tensors_get(file, 0), *vd_tensors_get(file, 1), *vd_tensors_get(file, 2)};
        const vd_sample    samples[2] = {{.inputs = tensors, .input_count = 3}, {.inputs = tensors, .input_count = 3}};
        vd_memory_plan     plan;
        vd_forward_options options;
        vd_forward_options_init(&options);
        options.policy = policy;
        options.arith  = arith;
        options.taps   = "x.*,b1.*";
        options.tap    = ignore_tap;
        status = forward ? vd_forward(ctx, model, &options, samples, 2) : vd_plan_memory(ctx, model, &options, samples, 2, &plan);
    }
    vd_tensors_close(ctx, file);
    vd_model_close(ctx, model);
    return status;
}

static vd_status plan_memory(vd_context *ctx, const char *inputs, const char *out)
{
    (void)out;
    return use_model(ctx, inputs, VD_POLICY_BF16, VD_ARITH_TC16, false);
}

static vd_status forward_bf16(vd_context *ctx, const char *inputs, const char *out)
{
    (void)out;
    return use_model(ctx, inputs, VD_POLICY_BF16, VD_ARITH_FMA, true);
}

static vd_status forward_f32(vd_context *ctx, const char *inputs, const char *out)
{
    (void)out;
    return use_model(ctx, inputs, VD_POLICY_F32, VD_ARITH_TC16, true);
}

/* A model whose file lacks tensors: the message lists them. */
static vd_status open_wrong_model(vd_context *ctx, const char *inputs, const char *out)
{
    (void)out;
    char      path[PATH_ROOM];
    vd_model *model  = NULL;
    vd_status status = vd_model_open(ctx, path_in(path, inputs, "wrong"), &model);
    vd_model_close(ctx, model);
    if (status == VD_BAD_FILE) { /* what is right with memory enough */
        vd_clear_error(ctx);
        status = VD_OK;
    }
    return status;
}

static vd_status prepare_wrong_model(vd_context *ctx, const char *inputs)
{
    char                   path[PATH_ROOM], file[PATH_ROOM + 64];
    const vd_synth_options options = synth_options();
    const vd_status        status  = vd_synth_write_model(ctx, path_in(path, inputs, "wrong"), &options);
    snprintf(file, sizeof file, "%s/diffusion_pytorch_model.safetensors", path);
    return status == VD_OK ? write_tensors(ctx, file) : status;
}

/* A run with its receipt, from the request below `inputs` to `folder`. */
static vd_status run_to(vd_context *ctx, const char *inputs, const char *folder)
{
    char              model[PATH_ROOM], input[PATH_ROOM], output[PATH_ROOM];
    const char *const from = path_in(input, inputs, "request.safetensors"), *const to = path_in(output, folder, "run.safetensors");
    vd_run_options    options;
    vd_run_options_init(&options);
    options.model        = path_in(model, inputs, "model");
    options.inputs       = &from;
    options.outputs      = &to;
    options.count        = 1;
    options.forward.taps = "x.*";
    options.command      = "a test's";
    return vd_run(ctx, &options);
}

static vd_status run_with_receipt(vd_context *ctx, const char *inputs, const char *out) { return run_to(ctx, inputs, out); }

static vd_status prepare_receipt(vd_context *ctx, const char *inputs)
{
    const vd_status status = prepare_model(ctx, inputs);
    return status == VD_OK ? run_to(ctx, inputs, inputs) : status;
}

static vd_status verify_receipt(vd_context *ctx, const char *inputs, const char *out)
{
    (void)out;
    char              path[PATH_ROOM];
    vd_verify_options options;
    vd_verify_result *result = NULL;
    vd_status         status = VD_OK;
    vd_verify_options_init(&options);
    for (int audit = 0; audit < 2 && status == VD_OK; audit++) {
        options.audit = audit == 1;
        status        = vd_verify(ctx, path_in(path, inputs, "run.safetensors.receipt.json"), &options, &result);
        vd_verify_result_free(ctx, result);
        result = NULL;
    }
    return status;
}

static vd_status run_operation(vd_context *ctx, const char *inputs, const char *out)
{
    (void)inputs, (void)out;
    uint16_t         x[2 * 48] = {0}, w[3 * 48] = {0}, y[2 * 3];
    const vd_tensor  tensors[2] = {{.name = "x", .type = VD_BF16, .rank = 2, .shape = {2, 48}, .data = x}, {.name = "w", .type = VD_BF16, .rank = 2, .shape = {3, 48}, .data = w}};
    vd_tensor        result     = {.data = y};
    char             contract[32];
    vd_op_options    options;
    vd_op_options_init(&options);
    return vd_op_run(ctx, "linear", &options, tensors, 2, &result, contract);
}

/* Three shards and an index. */
static vd_status open_shards(vd_context *ctx, const char *inputs, const char *out)
{
    (void)inputs, (void)out;
    vd_model       *model  = NULL;
    const vd_status status = vd_model_open(ctx, TEST_DATA "/hostile/base/moss_sharded", &model);
    vd_model_close(ctx, model);
    return status;
}

/* The gate on the embedded model's smaller case, reports written, with a planted fault so that the causes are looked for too. */
static vd_status gate_case(vd_context *ctx, const char *inputs, const char *out)
{
    (void)inputs;
    char             html[PATH_ROOM], json[PATH_ROOM];
    vd_gate_options  options;
    vd_gate_result  *result = NULL;
    vd_gate_options_init(&options);
    options.node_only = true;
    options.plant     = "row-5%@b3";
    options.html_path = path_in(html, out, "report.html");
    options.json_path = path_in(json, out, "report.json");
    const vd_status status = vd_gate(ctx, MODELS "/moss-small/case-f32", NULL, &options, &result);
    vd_gate_result_free(ctx, result);
    return status == VD_FAILED ? VD_OK : status; /* the planted fault's verdict is what is right with memory enough */
}

const scenario scenarios[] = {
    {"open", open_and_close, NULL, false},
    {"hash", hash_bytes, NULL, false},
    {"strings", make_strings, NULL, false},
    {"json", copy_json, prepare_document, false},
    {"files", list_and_read, prepare_document, false},
    {"tensors", copy_tensors, prepare_tensors, false},
    {"synth", write_model, NULL, false},
    {"shards", open_shards, NULL, false},
    {"wrong-model", open_wrong_model, prepare_wrong_model, false},
    {"plan", plan_memory, prepare_model, false},
    {"forward", forward_bf16, prepare_model, false},
    {"forward-f32", forward_f32, prepare_model, false},
    {"run", run_with_receipt, prepare_model, false},
    {"verify", verify_receipt, prepare_receipt, false},
    {"operation", run_operation, NULL, false},
    {"gate", gate_case, NULL, true},
};
const int scenario_count = sizeof scenarios / sizeof *scenarios;
