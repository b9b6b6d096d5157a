#include "core/hash.h"

#include <openssl/evp.h>

struct vd_hasher {
    EVP_MD_CTX *md;
    bool        failed;
};

vd_hasher *vd_hash_open(vd_context *ctx)
{
    vd_hasher *hasher = vd_alloc(ctx, sizeof *hasher, "a hash");
    if (!hasher)
        return NULL;
    hasher->md = EVP_MD_CTX_new();
    if (!hasher->md || EVP_DigestInit_ex(hasher->md, EVP_sha256(), NULL) != 1) {
        vd_fail(ctx, VD_NO_MEMORY, "no-memory", "SHA-256 could not start: libcrypto gave no digest context; free memory or check the libcrypto installation");
        EVP_MD_CTX_free(hasher->md);
        vd_free(ctx, hasher);
        return NULL;
    }
    return hasher;
}

void vd_hash_feed(vd_hasher *hasher, const void *data, int64_t size)
{
    if (size > 0 && EVP_DigestUpdate(hasher->md, data, (size_t)size) != 1)
        hasher->failed = true;
}

vd_status vd_hash_close(vd_context *ctx, vd_hasher *hasher, char text[VD_HASH_TEXT])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    vd_status     status = VD_OK;
    if (text && (hasher->failed || EVP_DigestFinal_ex(hasher->md, digest, NULL) != 1))
        status = vd_fail(ctx, VD_INTERNAL, "hash", "libcrypto failed while computing a SHA-256");
    if (text && status == VD_OK) {
        for (int i = 0; i < 32; i++) {
            text[2 * i]     = "0123456789abcdef"[digest[i] >> 4];
            text[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
        }
        text[64] = 0;
    }
    EVP_MD_CTX_free(hasher->md);
    vd_free(ctx, hasher);
    return status;
}

vd_status vd_hash_bytes(vd_context *ctx, const void *data, int64_t size, char text[VD_HASH_TEXT])
{
    vd_hasher *hasher = vd_hash_open(ctx);
    if (!hasher)
        return ctx->status;
    vd_hash_feed(hasher, data, size);
    return vd_hash_close(ctx, hasher, text);
}
