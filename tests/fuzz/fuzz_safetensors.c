/* Any bytes as a safetensors file. What is accepted lies inside the bytes, is found under its name and tiles the data. */
#include <string.h>

#include "formats/tensors.h"
#include "fuzz.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) { return fuzz_mutate_tensors(data, size, room, seed); }

static void check_tensors(const vd_tensors *tensors, const uint8_t *data, size_t size)
{
    int64_t           bytes = 0;
    volatile uint64_t sum   = 0;
    for (int64_t i = 0; i < vd_tensors_count(tensors); i++) {
        const vd_tensor *t = vd_tensors_get(tensors, i);
        const uint8_t   *p = t->data;
        const int64_t    n = vd_tensor_bytes(t);
        FUZZ_CHECK(vd_tensors_find(tensors, t->name) == t);
        FUZZ_CHECK(i == 0 || strcmp(vd_tensors_get(tensors, i - 1)->name, t->name) < 0);
        FUZZ_CHECK(t->rank >= 0 && t->rank <= VD_MAX_RANK && n >= 0 && p >= data + 8 && p + n <= data + size);
        for (int64_t k = 0; k < n; k++)
            sum = sum + p[k];
        bytes += n;
    }
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--)
        header = header << 8 | data[i];
    FUZZ_CHECK(bytes == (int64_t)(size - 8 - header));
    for (int64_t i = 0; i < vd_tensors_metadata_count(tensors); i++)
        FUZZ_CHECK(vd_tensors_metadata(tensors, vd_tensors_metadata_key(tensors, i)) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vd_context *ctx = fuzz_open();
    vd_tensors *tensors;
    vd_status   status = vd_tensors_parse(ctx, "fuzzed", data, (int64_t)size, &tensors);
    FUZZ_CHECK((status == VD_OK) == (tensors != NULL));
    if (tensors)
        check_tensors(tensors, data, size);
    vd_tensors_close(ctx, tensors);
    fuzz_close(ctx, status);
    return 0;
}
