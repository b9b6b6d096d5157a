#include "cli.h"

int cli_gate(cli *c, int argc, char **argv)
{
    (void)argc, (void)argv;
    return cli_fail(c, VD_UNSUPPORTED, "not-built", "gate is not built yet");
}
