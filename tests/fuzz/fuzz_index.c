/* Any text as a shard index. No accepted name leaves the folder; names ascend; every tensor points to a shard. */
#include <string.h>

#include "formats/index.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vd_context     *ctx = fuzz_open();
    vd_index        index;
    const vd_status status = vd_index_parse(ctx, "fuzzed", (const char *)data, (int64_t)size, &index);
    FUZZ_CHECK(status == VD_OK ? index.count > 0 && index.shards.count > 0 : index.count == 0 && !index.entries);
    for (int64_t i = 0; i < index.shards.count; i++) {
        const char *name = index.shards.names[i];
        FUZZ_CHECK(*name && !strchr(name, '/') && !strchr(name, '\\') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
        FUZZ_CHECK(i == 0 || strcmp(index.shards.names[i - 1], name) < 0);
    }
    for (int64_t i = 0; i < index.count; i++) {
        FUZZ_CHECK(index.entries[i].shard >= 0 && index.entries[i].shard < index.shards.count);
        FUZZ_CHECK(i == 0 || strcmp(index.entries[i - 1].name, index.entries[i].name) < 0);
    }
    vd_index_free(ctx, &index);
    fuzz_close(ctx, status);
    return 0;
}
