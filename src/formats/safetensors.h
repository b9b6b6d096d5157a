/* One safetensors file, read strictly. The layout: 8 bytes, little-endian, the header's length; the header, one JSON object from tensor
 * name to {dtype, shape, data_offsets} and, optionally, __metadata__, strings to strings; then the tensors' bytes without gaps.
 *
 * docs/files.md says what is refused and by which reason. Nothing laxer than the format's own reference reader is accepted.
 */
#ifndef VD_SAFETENSORS_H
#define VD_SAFETENSORS_H

#include "core/core.h"
#include "formats/file.h"

enum { VD_SAFETENSORS_HEADER_LIMIT = 100000000 };

typedef struct vd_safetensors {
    char      *path;
    vd_mapping map;
    vd_tensor *tensors;        /* names ascending (bytes); data point into the map */
    int64_t    count;
    char     **metadata;       /* key, value, key, value, … in the file's order */
    int64_t    metadata_count; /* of pairs */
    char      *text;           /* what names, keys and values point into */
} vd_safetensors;

/* Maps and checks a file; reads its header only. On failure *out is empty. */
vd_status        vd_safetensors_open(vd_context *ctx, const char *path, vd_safetensors *out);
/* The same on bytes in memory, which must outlive *out; `path` is for messages. */
vd_status        vd_safetensors_parse(vd_context *ctx, const char *path, const uint8_t *bytes, int64_t size, vd_safetensors *out);
void             vd_safetensors_close(vd_context *ctx, vd_safetensors *file); /* an empty one is legal */
const vd_tensor *vd_safetensors_find(const vd_safetensors *file, const char *name);

/* "[3072,128]": a shape for messages. */
typedef struct vd_shape_text { char text[192]; } vd_shape_text;
vd_shape_text vd_shape_print(const int64_t *shape, int rank);

#endif
