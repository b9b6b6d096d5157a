/* Any text as a case's case.json, in a folder without the other files. It is refused, whatever it says. */
#include "fuzz.h"
#include "gate/case.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vd_context *ctx = fuzz_open();
    vd_case    *c   = NULL;
    fuzz_write(data, size, "case.json");
    const vd_status status = vd_case_open(ctx, fuzz_folder(), &c);
    FUZZ_CHECK(status != VD_OK && c == NULL);
    fuzz_close(ctx, status);
    return 0;
}
