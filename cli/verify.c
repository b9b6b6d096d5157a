#include "cli.h"

int cli_verify(cli *c, int argc, char **argv)
{
    (void)argc, (void)argv;
    return cli_fail(c, VD_UNSUPPORTED, "not-built", "verify is not built yet");
}
