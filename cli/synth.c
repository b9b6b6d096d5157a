/* verdit synth: a synthetic model folder, a request for it, or both. */
#include "cli.h"

#include <string.h>
#include <sys/stat.h>

/* A request replaces a request (a safetensors file that holds latents, t, text and nothing else), never another file. */
static bool may_replace(cli *c, const char *path)
{
    struct stat there;
    vd_tensors *file;
    if (lstat(path, &there) != 0 || !S_ISREG(there.st_mode))
        return true; /* nothing to lose; links and the like the writer refuses */
    if (vd_tensors_open(c->ctx, path, &file) != VD_OK)
        return false;
    const bool request = vd_tensors_count(file) == 3 && vd_tensors_find(file, "latents") && vd_tensors_find(file, "t") && vd_tensors_find(file, "text");
    vd_tensors_close(c->ctx, file);
    return request;
}

int cli_synth(cli *c, int argc, char **argv)
{
    const char        *dir = NULL, *inputs = NULL;
    cli_texts          set     = {0};
    int64_t            size[2] = {8, 8}, text_rows = 16, seed = 1;
    double             t           = 910;
    const char        *shape       = "tiny";
    const cli_argument arguments[] = {
        {"--shape", 's', CLI_TEXT, "tiny|small|moss", .value = &shape,
         .help = "sizes: tiny (default), small (head width 128), moss (as published, 10 GB)"},
        {"--seed", 0, CLI_INTEGER, "N", 0, INT64_MAX, &seed, .help = "which model (default 1)"},
        {"--set", 0, CLI_TEXTS, "KEY=VALUE", .value = &set, .help = "change a size, as config.json names it: --set num_layers=2 (may be repeated)"},
        {"--inputs", 'i', CLI_TEXT, "FILE", .value = &inputs, .help = "write a request too: latents, text, t; without DIR only that"},
        {"--latents", 0, CLI_SIZE, "HxW", 1, 4096, size, .help = "its latents (default 8x8)"},
        {"--text-rows", 0, CLI_INTEGER, "T", 1, 1048576, &text_rows, .help = "its text rows (default 16)"},
        {"--t", 't', CLI_NUMBER, "T", 0, 1000, &t, .help = "its time, 1000 times sigma (default 910)"},
    };
    const cli_argument positionals[] = {{"DIR", 0, CLI_TEXT, .value = &dir, .optional = true, .help = "the folder to make"}};
    const cli_spec     spec          = {
                     .usage            = "[DIR] [--shape tiny|small|moss] [--seed N] [--inputs FILE]",
                     .about            = "Makes a model whose every weight is a function of its name, an index and a seed: the same bytes on any machine.\n"
                                                      "A folder that holds a model already is left as it is.",
                     .examples         = "  verdit synth /tmp/tiny\n"
                                                      "  verdit synth --inputs /tmp/in.safetensors --latents 4x4 --text-rows 16\n"
                                                      "  verdit synth /tmp/moss --shape moss --seed 1        # 10 GB, the recorded run's model\n",
                     .common           = CLI_WITH_DEVICE,
                     .arguments        = arguments,
                     .argument_count   = sizeof arguments / sizeof *arguments,
                     .positionals      = positionals,
                     .positional_count = 1,
    };
    if (!cli_parse(c, &spec, argc, argv))
        return c->exit;
    if (!dir && !inputs)
        return cli_fail_usage(c, "nothing to make: name a folder, or a request with --inputs FILE");
    if (!cli_open(c))
        return c->exit;
    vd_synth_options options;
    vd_synth_options_init(&options);
    options.shape    = shape;
    options.seed     = (uint64_t)seed;
    options.set      = set.items;
    vd_status status = VD_OK;
    if (inputs && !may_replace(c, inputs))
        return cli_fail(c, VD_IO, "output-path", "%s exists and is no request (latents, t, text); name another file", inputs);
    if (dir)
        status = vd_synth_write_model(c->ctx, dir, &options);
    if (status == VD_OK && inputs && !may_replace(c, inputs)) /* it may be one of the model's files, new just now */
        return cli_fail(c, VD_IO, "output-path", "%s is a file of the model; name another file for the request", inputs);
    if (status == VD_OK && inputs)
        status = vd_synth_write_inputs(c->ctx, inputs, &options, size[0], size[1], text_rows, (float)t);
    if (status != VD_OK)
        return cli_fail_library(c, status);
    cli_end_progress(c);
    if (c->json) {
        cli_print_json(json_pack("{so* so* ss sI}", "model", dir ? cli_text(dir) : NULL, "inputs", inputs ? cli_text(inputs) : NULL, "shape", shape,
                                 "seed", (json_int_t)seed));
    } else {
        if (dir)
            printf("%s: synthetic model, shape %s, seed %lld\n", dir, shape, (long long)seed);
        if (inputs)
            printf("%s: latents %lldx%lld, %lld text rows, t %g\n", inputs, (long long)size[0], (long long)size[1], (long long)text_rows, t);
    }
    return VD_OK;
}
