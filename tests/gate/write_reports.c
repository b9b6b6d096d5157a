/* Writes the reports of one gate for check_reports.py: write_reports CASE PLANT HTML JSON ("" plants nothing). Exit status: the gate's. */
#include <stdio.h>

#include "verdit.h"

int main(int argc, char **argv)
{
    vd_context     *ctx;
    vd_gate_options options;
    vd_gate_result *result;
    if (argc != 5)
        return 2;
    vd_gate_options_init(&options);
    options.plant     = argv[2][0] ? argv[2] : NULL;
    options.html_path = argv[3], options.json_path = argv[4];
    vd_status status = vd_open(NULL, &ctx);
    if (status == VD_OK)
        status = vd_gate(ctx, argv[1], NULL, &options, &result);
    if (status != VD_OK)
        fprintf(stderr, "%s\n", vd_error_text(ctx));
    if (status == VD_OK || status == VD_FAILED)
        vd_gate_result_free(ctx, result);
    vd_close(ctx);
    return status;
}
