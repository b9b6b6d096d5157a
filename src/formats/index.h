/* A shard index: …safetensors.index.json, an object with weight_map (tensor name → file name) and, optionally, metadata.total_size. */
#ifndef VD_INDEX_H
#define VD_INDEX_H

#include "core/core.h"
#include "formats/file.h"

enum { VD_INDEX_SHARDS = 4096 };

typedef struct vd_index_entry {
    const char *name;
    int64_t     shard; /* in shards */
} vd_index_entry;

typedef struct vd_index {
    vd_names        shards;     /* file names without a folder, ascending, each once */
    vd_index_entry *entries;    /* names ascending */
    int64_t         count;
    int64_t         total_size; /* -1: not said, or not as an integer (then a warning was logged) */
    char           *text;       /* what the names point into */
} vd_index;

vd_status vd_index_read(vd_context *ctx, const char *path, vd_index *out);
vd_status vd_index_parse(vd_context *ctx, const char *path, const char *text, int64_t size, vd_index *out);
void      vd_index_free(vd_context *ctx, vd_index *index);

#endif
