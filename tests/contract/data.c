#include "contract/data.h"

#include <stdio.h>
#include <stdlib.h>

static void give_up(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}

d_file d_open(const char *name)
{
    const char *folder = getenv("VERDIT_GOLDEN");
    char        path[4096];
    d_file      file = {0};
    snprintf(path, sizeof path, "%s/%s", folder ? folder : TEST_DATA "/golden", name);
    if (vd_open(NULL, &file.ctx) != VD_OK || vd_safetensors_open(file.ctx, path, &file.st) != VD_OK)
        give_up(path, vd_error_text(file.ctx));
    return file;
}

void d_close(d_file *file)
{
    vd_safetensors_close(file->ctx, &file->st);
    vd_close(file->ctx);
}

const vd_tensor *d_find(const d_file *file, const char *name)
{
    return vd_safetensors_find(&file->st, name);
}

const vd_tensor *d_get(const d_file *file, const char *format, ...)
{
    char    name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const vd_tensor *tensor = d_find(file, name);
    if (!tensor)
        give_up("no such tensor", name);
    return tensor;
}

int64_t d_differ(const void *a, const void *b, vd_dtype type, int64_t count)
{
    const size_t size = (size_t)vd_dtype_size(type);
    int64_t      wrong = 0;
    for (int64_t i = 0; i < count; i++)
        wrong += memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size, size) != 0;
    return wrong;
}

void d_count(d_tally *tally, const char *name, const void *expected, const void *got, vd_dtype type, int64_t count)
{
    const int64_t wrong = d_differ(expected, got, type, count);
    tally->checked += count;
    tally->wrong += wrong;
    printf("%s: %lld of %lld differ\n", name, (long long)wrong, (long long)count);
}
