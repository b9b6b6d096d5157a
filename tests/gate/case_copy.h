/* A case of the embedded model, copied to a folder of its own where a test may change it. */
#ifndef CASE_COPY_H
#define CASE_COPY_H

#include <jansson.h>

#include "core/core.h"

typedef struct case_copy {
    vd_context *ctx;
    char        path[64]; /* the folder */
    json_t     *json;     /* the original case.json */
} case_copy;

void case_copy_open(case_copy *copy, vd_context *ctx, const char *from);
void case_copy_close(case_copy *copy); /* removes the folder */
/* Writes case.json anew. */
void case_copy_write(const case_copy *copy, const json_t *json);
void case_copy_write_text(const case_copy *copy, const char *text);
/* Writes one of the tensor files anew: tensor `name` is replaced by `with` (its data, type and shape), or left out when `with` is NULL; with
 * a name that is not there, `with` is added. Returns the case's JSON with the file's new hash. */
json_t *case_copy_change_tensor(const case_copy *copy, const char *file, const char *name, const vd_tensor *with);
/* Puts the original files back. */
void case_copy_restore(const case_copy *copy, const char *from);

#endif
