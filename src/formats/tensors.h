/* Inside the library: tensors from bytes in memory, for fuzzers and tests. */
#ifndef VD_TENSORS_H
#define VD_TENSORS_H

#include "core/core.h"

/* One safetensors file in memory that outlives *out; `path` is for messages. */
vd_status vd_tensors_parse(vd_context *ctx, const char *path, const uint8_t *bytes, int64_t size, vd_tensors **out);

#endif
