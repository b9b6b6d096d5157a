/* Any text as a receipt. */
#include "audit/receipt.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vd_context     *ctx     = fuzz_open();
    vd_receipt      receipt = {0};
    const vd_status status  = vd_receipt_read(ctx, fuzz_write(data, size, "receipt.json"), &receipt);
    if (status == VD_OK)
        FUZZ_CHECK(receipt.root && receipt.input_count >= 0 && receipt.output_count >= 0);
    vd_receipt_free(ctx, &receipt);
    fuzz_close(ctx, status);
    return 0;
}
