/* verdit verify: does a receipt hold here? */
#include "cli.h"

int cli_verify(cli *c, int argc, char **argv)
{
    vd_verify_options o;
    const char       *receipt = NULL;
    vd_verify_options_init(&o);
    const cli_argument arguments[] = {
        {"--input", 'i', CLI_TEXT, "FILE", .value = &o.input, .help = "the run's inputs (default: where the receipt says, or beside it)"},
        {"--output", 'o', CLI_TEXT, "FILE", .value = &o.output, .help = "its output (default likewise; a repetition can do without)"},
        {"--audit", 0, CLI_FLAG, .value = &o.audit, .help = "recompute only sampled rows, stage by stage, from the output's own rows"},
        {"--hash", 0, CLI_FLAG, .value = &o.hash_weights, .help = "hash weight files above 256 MB too"},
    };
    const cli_argument positionals[] = {{"RECEIPT", 0, CLI_TEXT, .value = &receipt, .help = "OUTPUT.receipt.json, as verdit run wrote it"}};
    const cli_spec     spec          = {
                     .usage    = "RECEIPT [-m DIR] [-i FILE] [-o FILE] [--audit]",
                     .about    = "Repeats the run that a receipt describes and compares every byte, with whatever threads and vector level this machine has.\n"
                                              "--audit is for runs recorded with --tap 'x.*': each block is recomputed from the rows that entered it, for a few rows only.\n"
                                              "It shows that those rows follow from what the output file says entered the block; nodes it cannot reach are named.\n"
                                              "Exit 0: all held. 1: something differs, and is named.",
                     .examples = "  verdit run -m models/moss-small -i models/moss-small/case-bf16/inputs.safetensors -o /tmp/out.safetensors --tap 'x.*'\n"
                                              "  verdit verify /tmp/out.safetensors.receipt.json\n"
                                              "  verdit verify /tmp/out.safetensors.receipt.json -m models/moss-small --threads 2\n"
                                              "  verdit verify /tmp/out.safetensors.receipt.json --audit --json\n",
                     .common   = CLI_WITH_MODEL | CLI_WITH_DEVICE,
                     .arguments        = arguments,
                     .argument_count   = sizeof arguments / sizeof *arguments,
                     .positionals      = positionals,
                     .positional_count = 1,
    };
    if (!cli_parse(c, &spec, argc, argv) || !cli_open(c))
        return c->exit;
    o.model = c->model;
    vd_verify_result *result;
    const vd_status   status = vd_verify(c->ctx, receipt, &o, &result);
    cli_end_progress(c);
    if (!result)
        return cli_fail_library(c, status);
    if (c->json) {
        json_t *checks = json_array();
        for (int64_t i = 0; i < result->check_count; i++)
            json_array_append_new(checks, json_pack("{so sb so}", "what", cli_text(result->checks[i].what), "held", (int)result->checks[i].held,
                                                    "text", cli_text(result->checks[i].text)));
        cli_print_json(json_pack("{so sb so}", "receipt", cli_text(receipt), "held", (int)result->held, "checks", checks));
    } else {
        for (int64_t i = 0; i < result->check_count; i++) {
            fputs(result->checks[i].held ? "  held    " : "  FAILED  ", stdout);
            cli_show(stdout, result->checks[i].what);
            fputs(": ", stdout);
            cli_show(stdout, result->checks[i].text);
            puts("");
        }
        puts(result->held ? "the receipt holds" : "the receipt does NOT hold");
    }
    vd_verify_result_free(c->ctx, result);
    return status == VD_OK ? VD_OK : cli_fail_library(c, status);
}
