#include "cli.h"

int cli_op(cli *c, int argc, char **argv)
{
    (void)argc, (void)argv;
    return cli_fail(c, VD_UNSUPPORTED, "not-built", "op is not built yet");
}
