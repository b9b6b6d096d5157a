#include "formats/sniff.h"

#include <string.h>

#include "formats/file.h"

static const char CONVERT[] = "convert it to safetensors with the tool that wrote it";
static const char UNPICKLE[] = "it can run code when it is opened; convert it to safetensors in torch, somewhere safe";
static const char GGUF[] = "its weights are quantised or laid out for another engine; use the publisher's safetensors";
static const char FETCH[] = "perhaps a failed download: then fetch the file again";

/* Git-LFS pointers, web pages and error messages: text where a header's length should be. A length that is printable text in all eight
 * bytes would be at least 2^61, so no valid file is mistaken for text. */
static const char *sniff_text(const uint8_t *bytes, int64_t size, const char **advice)
{
    static const char lfs[] = "version https://git-lfs";
    int64_t           first = 0;
    if (size >= (int64_t)sizeof lfs - 1 && memcmp(bytes, lfs, sizeof lfs - 1) == 0) {
        *advice = "the weights were never fetched: run `git lfs pull` in that folder";
        return "a Git-LFS pointer";
    }
    if (size < 8)
        return NULL;
    for (int64_t i = 0; i < 8; i++)
        if (!(bytes[i] >= 32 && bytes[i] < 127) && !strchr("\t\r\n", bytes[i]))
            return NULL;
    for (int64_t i = 0; i < 8; i++)
        if (!bytes[i])
            return NULL;
    while (first < size && first < 4096 && strchr(" \t\r\n", bytes[first]) && bytes[first])
        first++;
    *advice = FETCH;
    if (first + 5 < size && bytes[first] == '<')
        return memcmp(bytes + first, "<?xml", 5) == 0 ? "an XML message" : "a web page";
    if (first < size && (bytes[first] == '{' || bytes[first] == '[')) {
        *advice = "if it is an index or a configuration, give its folder; if it is an error message of a server, fetch the file again";
        return "JSON text";
    }
    return "plain text";
}

const char *vd_sniff(const uint8_t *bytes, int64_t size, const char **advice)
{
    static const struct { const char *magic; int64_t size; const char *kind, *advice; } known[] = {
        {"GGUF", 4, "a GGUF file", GGUF},
        {"PK\3\4", 4, "a zip archive, as torch.save writes (.bin, .pt) or numpy (.npz)", UNPICKLE},
        {"\x89HDF\r\n\x1a\n", 8, "an HDF5 file", CONVERT},
        {"\x93NUMPY", 6, "a NumPy array", CONVERT},
        {"\x89PNG\r\n\x1a\n", 8, "a PNG picture", "give the file with the weights"},
        {"\x1f\x8b", 2, "a gzip archive", "unpack it first"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16, "bytes of 0xff", FETCH},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        /* A valid length is below 2^27: its upper four bytes are zero, so short magic words cannot be one. */
        if (size >= 8 && size >= known[i].size && memcmp(bytes, known[i].magic, (size_t)known[i].size) == 0 && (bytes[4] | bytes[5] | bytes[6] | bytes[7])) {
            *advice = known[i].advice;
            return known[i].kind;
        }
    /* A pickle begins with its protocol, 2 to 5; legacy torch files start with a pickled magic number. */
    if (size >= 16 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 && (bytes[4] | bytes[5] | bytes[6] | bytes[7])) {
        *advice = UNPICKLE;
        return "a pickle, as older torch.save writes (.bin, .pt, .ckpt)";
    }
    if (size >= 64) {
        bool zero = true;
        for (int i = 0; i < 64 && zero; i++)
            zero = bytes[i] == 0;
        if (zero) {
            *advice = "the download set its room aside and never filled it: fetch the file again";
            return "zeros";
        }
    }
    return sniff_text(bytes, size, advice);
}

const char *vd_sniff_name(const char *name, const char **advice)
{
    static const struct { const char *end, *kind, *advice; } known[] = {
        {".gguf", "GGUF", GGUF},       {".bin", "torch pickle", UNPICKLE}, {".pt", "torch pickle", UNPICKLE}, {".pth", "torch pickle", UNPICKLE},
        {".ckpt", "torch pickle", UNPICKLE}, {".npz", "NumPy", CONVERT},   {".onnx", "ONNX", CONVERT},        {".h5", "HDF5", CONVERT},
        {".msgpack", "Flax", CONVERT},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (vd_text_ends(name, known[i].end)) {
            *advice = known[i].advice;
            return known[i].kind;
        }
    return NULL;
}
