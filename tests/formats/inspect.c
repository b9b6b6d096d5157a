/* Opens one file or folder as the library does and says what came of it, as one line of JSON; the exit status is the library's.
 *
 *     inspect tensors|moss PATH
 *
 * run_hostile.py gives it malformed files, one process each, so that a crash, a hang or a gigabyte is one case's failure.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "core/core.h"
#include "formats/json.h"
#include "models/moss_image/moss_image.h"

enum { SHOWN = 64, READ_ALL = 1 << 20 };

static void collect(void *user, vd_log_level level, const char *text)
{
    if (level == VD_LOG_WARNING)
        json_array_append_new(user, json_string(text));
}

/* Small float tensors' values, so that the manifest's can be compared. */
static void add_values(json_t *to, const vd_tensor *t)
{
    const int64_t size = vd_dtype_size(t->type);
    if ((t->type != VD_F32 && t->type != VD_BF16) || vd_tensor_elements(t) > 16)
        return;
    json_t *list = json_array();
    for (int64_t i = 0; i < vd_tensor_elements(t); i++) {
        float x = 0;
        memcpy((char *)&x + 4 - size, (const char *)t->data + size * i, (size_t)size); /* bf16 is fp32's upper half */
        json_array_append_new(list, x == x && x - x == 0 ? json_real((double)x) : json_null());
    }
    json_object_set_new(to, t->name, list);
}

/* Reads every byte, but of huge files, so that a wrong place or size is a crash here and not later. */
static uint64_t read_bytes(const vd_tensor *t)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < vd_min(vd_tensor_bytes(t), READ_ALL); i++)
        sum += ((const uint8_t *)t->data)[i];
    return sum;
}

static vd_status inspect_tensors(vd_context *ctx, const char *path, json_t *report)
{
    vd_tensors     *tensors;
    const vd_status status = vd_tensors_open(ctx, path, &tensors);
    if (status != VD_OK)
        return status;
    json_t  *values = json_object();
    uint64_t sum    = 0;
    for (int64_t i = 0; i < vd_tensors_count(tensors); i++) {
        const vd_tensor *t = vd_tensors_get(tensors, i);
        if (vd_tensors_find(tensors, t->name) != t)
            sum = 1, json_object_set_new(report, "lost", json_string(t->name));
        sum += read_bytes(t);
        if (i < SHOWN)
            add_values(values, t);
    }
    json_object_set_new(report, "count", json_integer(vd_tensors_count(tensors)));
    json_object_set_new(report, "sum", json_integer((json_int_t)(sum >> 1)));
    json_object_set_new(report, "values", values);
    vd_tensors_close(ctx, tensors);
    return VD_OK;
}

static vd_status inspect_moss(vd_context *ctx, const char *path, json_t *report)
{
    vd_moss_model  *model;
    const vd_status status = vd_moss_open(ctx, path, &model);
    if (status != VD_OK)
        return status;
    json_object_set_new(report, "bytes", json_integer(vd_moss_weight_bytes(model)));
    json_object_set_new(report, "layers", json_integer(model->config.layers));
    vd_moss_close(ctx, model);
    return VD_OK;
}

int main(int count, char **args)
{
    if (count != 3)
        return VD_BAD_ARGUMENT;
    json_t    *report = json_object(), *warnings = json_array();
    vd_context *ctx;
    vd_options  options;
    vd_options_init(&options);
    options.threads  = 1;
    options.log      = collect;
    options.log_user = warnings;
    vd_status status = vd_open(&options, &ctx);
    if (status == VD_OK)
        status = strcmp(args[1], "moss") == 0 ? inspect_moss(ctx, args[2], report) : inspect_tensors(ctx, args[2], report);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    json_object_set_new(report, "status", json_string(vd_status_name(status)));
    json_object_set_new(report, "reason", json_string(status == VD_OK ? "" : vd_error_reason(ctx)));
    json_object_set_new(report, "text", json_string(status == VD_OK ? "" : vd_error_text(ctx)));
    json_object_set_new(report, "warnings", warnings);
    json_object_set_new(report, "resident_kb", json_integer(used.ru_maxrss));
    vd_close(ctx);
    char *line = json_dumps(report, JSON_COMPACT);
    json_decref(report);
    if (!line)
        return VD_INTERNAL; /* a message that is not UTF-8, among others */
    puts(line);
    free(line);
    return status;
}
