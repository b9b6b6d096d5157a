/* SHA-256 of byte ranges (libcrypto), as 64 lower-case hex digits; and FNV-1a for names. */
#ifndef VD_HASH_H
#define VD_HASH_H

#include "core/core.h"

typedef struct vd_hasher vd_hasher;

#define VD_HASH_TEXT 65 /* 64 hex digits and the terminating zero */

/* Streaming: open, feed any number of times, close (which writes the digits and frees; `text` may be NULL to abandon). */
vd_hasher *vd_hash_open(vd_context *ctx);
void       vd_hash_feed(vd_hasher *hasher, const void *data, int64_t size);
vd_status  vd_hash_close(vd_context *ctx, vd_hasher *hasher, char text[VD_HASH_TEXT]);

vd_status vd_hash_bytes(vd_context *ctx, const void *data, int64_t size, char text[VD_HASH_TEXT]);

static inline uint64_t vd_fnv1a(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return h;
}

#endif
