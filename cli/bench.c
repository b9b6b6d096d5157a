/* verdit bench: how fast is this machine, as a share of what its core could do. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct bench {
    const cli *c;
    json_t    *rows;
} bench;

static int show(void *user, const vd_bench_row *r)
{
    bench *b = user;
    if (b->c->json) {
        json_t *row = json_pack("{ss ss ss sf si}", "operation", r->operation, "contract", r->contract, "shape", r->shape, "seconds", r->seconds,
                                "repeats", r->repeats);
        json_object_set_new(row, r->gflops > 0 ? "gflops" : "gbytes", json_real(r->gflops > 0 ? r->gflops : r->gbytes));
        if (r->gflops > 0)
            json_object_set_new(row, "share", json_real(r->share));
        json_array_append_new(b->rows, row);
        return 0;
    }
    printf("%-17s %-16s %-32s %9.3f ms  ", r->operation, r->contract, r->shape, r->seconds * 1e3);
    if (r->gflops > 0)
        printf("%8.2f GFLOP/s  %6.3f of peak\n", r->gflops, r->share);
    else
        printf("%8.2f GB/s\n", r->gbytes);
    fflush(stdout);
    return 0;
}

int cli_bench(cli *c, int argc, char **argv)
{
    double             seconds       = 0.5;
    const char        *only          = NULL;
    const cli_argument arguments[]   = {{"--seconds", 0, CLI_NUMBER, "S", 0, 60, &seconds, .help = "about how long each row may repeat (default 0.5); it runs twice at least"}};
    const cli_argument positionals[] = {
        {"OPERATION", 0, CLI_TEXT, .value = &only, .optional = true, .help = "linear, attention, norm_modulate, … (default: all)"}};
    const cli_spec spec = {
        .usage    = "[OPERATION] [--threads N] [--cpu LEVEL] [--seconds S]",
        .about    = "Times the operations at the published model's sizes on random data: medians, and linear and attention as a share of the core's\n"
                    "own fp32 multiply-add peak, measured in the same call. One thread unless --threads says otherwise. Ratios to other libraries: make "
                    "bench.",
        .examples = "  verdit bench\n"
                    "  verdit bench linear --threads 4\n"
                    "  verdit bench --cpu avx2 --seconds 2 --json\n",
        .common   = CLI_WITH_DEVICE,
        .arguments        = arguments,
        .argument_count   = sizeof arguments / sizeof *arguments,
        .positionals      = positionals,
        .positional_count = 1,
    };
    c->threads = 1;
    if (!cli_parse(c, &spec, argc, argv) || !cli_open(c))
        return c->exit;
    bench           b = {c, json_array()};
    double          peak;
    const char     *level;
    const vd_status status = vd_bench(c->ctx, only, seconds, show, &b, &peak, &level);
    if (status == VD_OK && c->json)
        cli_print_json(json_pack("{ss sI sf sO}", "level", level, "threads", (json_int_t)c->threads, "peak_gflops", peak, "rows", b.rows));
    else if (status == VD_OK)
        printf("level %s, %lld thread%s; fp32 multiply-add peak of one core: %.1f GFLOP/s\n", level, (long long)c->threads,
               c->threads == 1 ? "" : "s", peak);
    json_decref(b.rows);
    return status == VD_OK ? VD_OK : cli_fail_library(c, status);
}
