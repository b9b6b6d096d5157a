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

const scenario scenarios[] = {
    {"open", open_and_close, NULL},
    {"hash", hash_bytes, NULL},
    {"strings", make_strings, NULL},
    {"json", copy_json, prepare_document},
    {"files", list_and_read, prepare_document},
};
const int scenario_count = sizeof scenarios / sizeof *scenarios;
