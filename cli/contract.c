/* verdit contract: the promises, and their proof on this machine. */
#include "cli.h"

#include <string.h>

typedef struct table {
    const cli *c;
    bool       brief;
    json_t    *items;
    int        passed, failed;
} table;

static int show(void *user, const vd_contract_item *item)
{
    table *t = user;
    if (item->passed)
        t->passed++;
    else
        t->failed++;
    if (t->c->json) {
        json_array_append_new(t->items, json_pack("{ss ss ss sb ss sf}", "id", item->id, "promise", item->promise, "level", item->level, "passed",
                                                  (int)item->passed, "detail", item->detail, "seconds", item->seconds));
        return 0;
    }
    printf("%-6s %-20s %-10s %s\n", item->passed ? "held" : "BROKEN", item->id, item->level, item->promise);
    if (!t->brief || !item->passed)
        printf("%-38s %s\n", "", item->detail);
    fflush(stdout);
    return 0;
}

int cli_contract(cli *c, int argc, char **argv)
{
    const char        *id            = NULL;
    table              t             = {.c = c};
    const cli_argument arguments[]   = {{"--brief", 0, CLI_FLAG, .value = &t.brief, .help = "leave out what was compared"}};
    const cli_argument positionals[] = {
        {"ID", 0, CLI_TEXT, .value = &id, .optional = true, .help = "one contract, such as tc16/chain (default: all)"}};
    const cli_spec spec = {
        .usage     = "[ID] [--cpu LEVEL] [--brief]",
        .about     = "Lists what every operation promises and proves it here: bytes against the definition in plain C, recorded hashes, and for\n"
                     "sums the order read back from the kernel itself. Exit 0: all held. 1: one is broken, and is named.",
        .examples  = "  verdit contract\n"
                     "  verdit contract tc16/chain --cpu avx2\n"
                     "  verdit contract --json > /tmp/contracts.json\n",
        .common    = CLI_WITH_DEVICE,
        .arguments = arguments,
        .argument_count   = sizeof arguments / sizeof *arguments,
        .positionals      = positionals,
        .positional_count = 1,
    };
    if (!cli_parse(c, &spec, argc, argv) || !cli_open(c))
        return c->exit;
    t.items                = json_array();
    const vd_status status = vd_contract_check(c->ctx, id, show, &t);
    cli_end_progress(c);
    if ((status == VD_OK || status == VD_FAILED) && c->json)
        cli_print_json(json_pack("{sb sO}", "held", status == VD_OK, "contracts", t.items));
    else if (status == VD_OK || status == VD_FAILED)
        printf("%d held, %d broken\n", t.passed, t.failed);
    json_decref(t.items);
    return status == VD_OK ? VD_OK : cli_fail_library(c, status);
}
