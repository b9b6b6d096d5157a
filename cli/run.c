#include "cli.h"

int cli_run(cli *c, int argc, char **argv)
{
    (void)argc, (void)argv;
    return cli_fail(c, VD_UNSUPPORTED, "not-built", "run is not built yet");
}
