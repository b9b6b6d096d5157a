#include "cli.h"

int cli_bench(cli *c, int argc, char **argv)
{
    (void)argc, (void)argv;
    return cli_fail(c, VD_UNSUPPORTED, "not-built", "bench is not built yet");
}
