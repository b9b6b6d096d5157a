/* verdit info: what is in a file or folder, and what a run would take, before anything is loaded. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct info {
    cli           *c;
    const char    *path;
    char          *tensor_path; /* where the tensors are: path, or its transformer/ */
    char          *config_path; /* NULL: none */
    vd_tensors    *tensors;
    vd_model      *model;   /* NULL: not a model that this version runs */
    const char    *foreign; /* why a folder with a configuration is no model that this version runs */
    json_t        *config;
    bool           planned;
    vd_memory_plan plan;
    int64_t        size[2], text_rows;
    bool           hash, brief;
    char (*hashes)[65]; /* per file */
} info;

static bool is_there(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

static char *join(const char *folder, const char *name)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char        *path = cli_alloc(size, 1);
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static void find_paths(info *n)
{
    struct stat s;
    n->tensor_path = strdup(n->path);
    if (stat(n->path, &s) != 0 || !S_ISDIR(s.st_mode))
        return;
    char *inner = join(n->path, "transformer");
    if (stat(inner, &s) == 0 && S_ISDIR(s.st_mode)) {
        free(n->tensor_path);
        n->tensor_path = inner;
    } else {
        free(inner);
    }
    char *config = join(n->tensor_path, "config.json");
    if (is_there(config))
        n->config_path = config;
    else
        free(config);
}

/* A request of that size, without its numbers: a plan reads shapes only, but for the time. */
static int make_plan(info *n)
{
    cli          *c        = n->c;
    const int64_t channels = json_integer_value(json_object_get(n->config, "latent_channels")),
                  width    = json_integer_value(json_object_get(n->config, "text_dim"));
    float     t            = 1000;
    vd_tensor inputs[]     = {
            {.name = "latents", .type = VD_F32, .rank = 3, .shape = {channels, n->size[0], n->size[1]}},
            {.name = "text", .type = VD_BF16, .rank = 2, .shape = {n->text_rows, width}},
            {.name = "t", .type = VD_F32, .rank = 1, .shape = {1}, .data = &t},
    };
    const vd_sample    sample = {.inputs = inputs, .input_count = 3};
    vd_forward_options o;
    vd_forward_options_init(&o);
    o.policy               = (vd_policy)c->policy;
    o.arith                = (vd_arith)c->arith;
    o.match                = (vd_match)c->match;
    const vd_status status = vd_plan_memory(c->ctx, n->model, &o, &sample, 1, &n->plan);
    n->planned             = status == VD_OK;
    return status == VD_OK ? VD_OK : cli_fail_library(c, status);
}

static int open_all(info *n)
{
    cli *c = n->c;
    find_paths(n);
    vd_status status = vd_tensors_open(c->ctx, n->tensor_path, &n->tensors);
    if (status != VD_OK)
        return cli_fail_library(c, status);
    if (n->hash) {
        n->hashes = cli_alloc((size_t)vd_tensors_file_count(n->tensors), sizeof *n->hashes);
        for (int64_t i = 0; i < vd_tensors_file_count(n->tensors); i++)
            if ((status = vd_hash_file(c->ctx, vd_tensors_file(n->tensors, i), n->hashes[i])) != VD_OK)
                return cli_fail_library(c, status);
    }
    if (!n->config_path)
        return VD_OK;
    status = vd_model_open(c->ctx, n->path, &n->model);
    if (status != VD_OK && !strcmp(vd_error_reason(c->ctx), "wrong-class"))
        n->foreign = strcpy(cli_keep(c, strlen(vd_error_text(c->ctx)) + 1, 1), vd_error_text(c->ctx));
    else if (status != VD_OK)
        return cli_fail_library(c, status);
    n->config = json_load_file(n->config_path, JSON_REJECT_DUPLICATES, NULL); /* the library has read it */
    return n->model ? make_plan(n) : VD_OK;
}

static int64_t count_elements(const info *n)
{
    int64_t elements = 0;
    for (int64_t i = 0; i < vd_tensors_count(n->tensors); i++)
        elements += vd_tensor_elements(vd_tensors_get(n->tensors, i));
    return elements;
}

static int64_t count_bytes(const info *n)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < vd_tensors_count(n->tensors); i++)
        bytes += vd_tensor_bytes(vd_tensors_get(n->tensors, i));
    return bytes;
}

static int64_t file_bytes(const info *n, int64_t i)
{
    struct stat s;
    return stat(vd_tensors_file(n->tensors, i), &s) == 0 ? (int64_t)s.st_size : -1;
}

static void print_plan(const info *n)
{
    char a[32], b[32], d[32], e[32];
    printf(
        "memory  for latents %lldx%lld, %lld text rows, policy %s, arith %s: %s of mapped weights, %s of activations, %s of scratch; together %s\n",
        (long long)n->size[0], (long long)n->size[1], (long long)n->text_rows, vd_policy_name((vd_policy)n->c->policy),
        vd_arith_name((vd_arith)n->c->arith), cli_bytes(a, n->plan.weights), cli_bytes(b, n->plan.activations), cli_bytes(d, n->plan.scratch),
        cli_bytes(e, n->plan.total));
}

static void print_text(const info *n)
{
    char text[32];
    cli_show(stdout, n->path);
    printf(": %s, %lld tensors, %lld elements, %s\n", n->model ? "MOSS-Image transformer" : "safetensors", (long long)vd_tensors_count(n->tensors),
           (long long)count_elements(n), cli_bytes(text, count_bytes(n)));
    if (n->config) {
        const char *key;
        json_t     *value;
        fputs("config ", stdout);
        json_object_foreach(n->config, key, value)
        {
            if (json_is_integer(value))
                printf(" %s %lld", key, (long long)json_integer_value(value));
            else if (json_is_real(value))
                printf(" %s %g", key, json_real_value(value));
        }
        puts("");
    }
    for (int64_t i = 0; i < vd_tensors_file_count(n->tensors); i++) {
        fputs("file    ", stdout);
        cli_show(stdout, vd_tensors_file(n->tensors, i));
        printf("  %lld bytes%s%s\n", (long long)file_bytes(n, i), n->hash ? "  sha256 " : "", n->hash ? n->hashes[i] : "");
    }
    for (int64_t i = 0; i < vd_tensors_metadata_count(n->tensors); i++) {
        const char *key = vd_tensors_metadata_key(n->tensors, i);
        fputs("says    ", stdout);
        cli_show(stdout, key);
        fputs(": ", stdout);
        cli_show(stdout, vd_tensors_metadata(n->tensors, key));
        puts("");
    }
    if (n->foreign) {
        fputs("model   not one that this version runs: ", stdout);
        cli_show(stdout, n->foreign);
        puts("");
    }
    if (n->planned)
        print_plan(n);
    for (int64_t i = 0; i < vd_tensors_count(n->tensors) && !n->brief; i++) {
        const vd_tensor *t = vd_tensors_get(n->tensors, i);
        fputs("  ", stdout);
        cli_show(stdout, t->name);
        printf("  %s [", vd_dtype_name(t->type));
        for (int d = 0; d < t->rank; d++)
            printf("%s%lld", d ? "," : "", (long long)t->shape[d]);
        puts("]");
    }
}

static json_t *make_json(const info *n)
{
    json_t *files = json_array(), *tensors = json_object(), *metadata = json_object();
    for (int64_t i = 0; i < vd_tensors_file_count(n->tensors); i++)
        json_array_append_new(files, json_pack("{so sI ss?}", "path", cli_text(vd_tensors_file(n->tensors, i)), "bytes", (json_int_t)file_bytes(n, i),
                                               "sha256", n->hash ? n->hashes[i] : NULL));
    for (int64_t i = 0; i < vd_tensors_metadata_count(n->tensors); i++) {
        const char *key = vd_tensors_metadata_key(n->tensors, i);
        json_object_set_new(metadata, key, json_string(vd_tensors_metadata(n->tensors, key)));
    }
    for (int64_t i = 0; i < vd_tensors_count(n->tensors) && !n->brief; i++) {
        const vd_tensor *t     = vd_tensors_get(n->tensors, i);
        json_t          *shape = json_array();
        for (int d = 0; d < t->rank; d++)
            json_array_append_new(shape, json_integer(t->shape[d]));
        json_object_set_new(tensors, t->name,
                            json_pack("{ss so sI}", "dtype", vd_dtype_name(t->type), "shape", shape, "bytes", (json_int_t)vd_tensor_bytes(t)));
    }
    json_t *all = json_pack("{so ss sI sI sI so so}", "path", cli_text(n->path), "kind", n->model ? "moss_image" : "tensors", "tensor_count",
                            (json_int_t)vd_tensors_count(n->tensors), "elements", (json_int_t)count_elements(n), "bytes", (json_int_t)count_bytes(n),
                            "files", files, "metadata", metadata);
    if (n->config)
        json_object_set(all, "config", n->config);
    if (n->foreign)
        json_object_set_new(all, "foreign", cli_text(n->foreign));
    if (n->planned)
        json_object_set_new(all, "memory",
                            json_pack("{s[II] sI ss ss sI sI sI sI}", "latents", (json_int_t)n->size[0], (json_int_t)n->size[1], "text_rows",
                                      (json_int_t)n->text_rows, "policy", vd_policy_name((vd_policy)n->c->policy), "arith",
                                      vd_arith_name((vd_arith)n->c->arith), "weights", (json_int_t)n->plan.weights, "activations",
                                      (json_int_t)n->plan.activations, "scratch", (json_int_t)n->plan.scratch, "total", (json_int_t)n->plan.total));
    if (!n->brief)
        json_object_set_new(all, "tensors", tensors);
    else
        json_decref(tensors);
    return all;
}

int cli_info(cli *c, int argc, char **argv)
{
    info               n           = {.c = c, .size = {64, 64}, .text_rows = 256};
    const cli_argument arguments[] = {
        {"--size", 0, CLI_SIZE, "HxW", 1, 65536, n.size, .help = "latents of the memory plan (default 64x64, a picture of 1024x1024)"},
        {"--text-rows", 0, CLI_INTEGER, "T", 1, 1 << 24, &n.text_rows, .help = "text rows of the memory plan (default 256)"},
        {"--hash", 0, CLI_FLAG, .value = &n.hash, .help = "read the files and print their SHA-256"},
        {"--brief", 0, CLI_FLAG, .value = &n.brief, .help = "leave the list of tensors out"},
    };
    const cli_argument positionals[] = {{"PATH", 0, CLI_TEXT, .value = &n.path, .help = "a safetensors file, an index, or a model folder"}};
    const cli_spec     spec          = {
                     .usage = "PATH [--size HxW] [--text-rows T] [--hash] [--brief]",
                     .about =
                         "Lists files, tensors, types and shapes, checks a model folder as strictly as a run would, and plans a run's memory. Reads no weights.",
                     .examples         = "  verdit info models/moss-small\n"
                                                      "  verdit info models/moss-small --brief --size 128x128 --text-rows 512 --policy f32\n"
                                                      "  verdit info models/moss-small/case-bf16/inputs.safetensors --json\n",
                     .common           = CLI_WITH_NUMBERS | CLI_WITH_DEVICE,
                     .arguments        = arguments,
                     .argument_count   = sizeof arguments / sizeof *arguments,
                     .positionals      = positionals,
                     .positional_count = 1,
    };
    if (!cli_parse(c, &spec, argc, argv) || !cli_open(c))
        return c->exit;
    const int code = open_all(&n);
    if (code == VD_OK) {
        cli_end_progress(c);
        if (c->json)
            cli_print_json(make_json(&n));
        else
            print_text(&n);
    }
    vd_model_close(c->ctx, n.model);
    vd_tensors_close(c->ctx, n.tensors);
    json_decref(n.config);
    free(n.hashes);
    free(n.config_path);
    free(n.tensor_path);
    return code;
}
