#include "gate/keep.h"

#include <stdio.h>

void *vd_keep_take(vd_keep *keep, void *pointer)
{
    if (pointer && keep->count == keep->room) {
        const int64_t room = keep->room ? 2 * keep->room : 64, size = (int64_t)sizeof *keep->items;
        void        **more = vd_realloc(keep->ctx, keep->items, keep->room * size, room * size, "a result");
        if (!more) {
            vd_free(keep->ctx, pointer);
            return NULL;
        }
        keep->items = more, keep->room = room;
    }
    if (pointer)
        keep->items[keep->count++] = pointer;
    return pointer;
}

void *vd_keep_alloc(vd_keep *keep, int64_t size, const char *what)
{
    return vd_keep_take(keep, vd_alloc(keep->ctx, size, what));
}

char *vd_keep_format(vd_keep *keep, const char *format, ...)
{
    char    small[1024];
    va_list args;
    va_start(args, format);
    const int size = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    char *text = size < 0 ? NULL : vd_keep_alloc(keep, (int64_t)size + 1, "a sentence");
    if (text) {
        va_start(args, format);
        vsnprintf(text, (size_t)size + 1, format, args);
        va_end(args);
    }
    return text;
}

void vd_keep_free(vd_keep *keep)
{
    for (int64_t i = 0; i < keep->count; i++)
        vd_free(keep->ctx, keep->items[i]);
    vd_free(keep->ctx, keep->items);
    keep->items = NULL, keep->count = keep->room = 0;
}
