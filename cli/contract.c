#include "cli.h"

int cli_contract(cli *c, int argc, char **argv)
{
    (void)argc, (void)argv;
    return cli_fail(c, VD_UNSUPPORTED, "not-built", "contract is not built yet");
}
