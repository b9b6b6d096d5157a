/* Memory that lives as long as a result: everything kept is freed at once. */
#ifndef VD_GATE_KEEP_H
#define VD_GATE_KEEP_H

#include "core/core.h"

typedef struct vd_keep {
    vd_context *ctx;
    void      **items;
    int64_t     count, room;
} vd_keep;

/* All return NULL on failure, with the error recorded. */
void *vd_keep_alloc(vd_keep *keep, int64_t size, const char *what);
void *vd_keep_take(vd_keep *keep, void *pointer); /* takes memory of the context over; NULL passes; frees it on failure */
char *vd_keep_format(vd_keep *keep, const char *format, ...) __attribute__((format(printf, 2, 3)));
void  vd_keep_free(vd_keep *keep);

#endif
