/* Runs from files to files, and the receipts that make them checkable. */
#ifndef VD_RUN_H
#define VD_RUN_H

#include "core/core.h"
#include "formats/json.h"
#include "models/model.h"

/* What a forward's tap gave, copied; the names too. */
typedef struct vd_collection {
    vd_tensor *tensors;
    int64_t    count, room;
} vd_collection;

void             vd_collection_free(vd_context *ctx, vd_collection *collection);
const vd_tensor *vd_collection_find(const vd_collection *collection, const char *name);

/* vd_forward, with every tapped value kept: collections[samples], zeroed before. */
vd_status vd_forward_collect(vd_context *ctx, const vd_model *model, const vd_forward_options *options, const vd_sample *samples, int sample_count,
                             vd_collection *collections);

/* Opens a file of inputs: every tensor must be a name that a forward takes. `list` is in memory of its own, its data the file's. */
vd_status vd_inputs_open(vd_context *ctx, const vd_model *model, const char *path, vd_tensors **file, vd_tensor **list);

/* A tensor seen as rows: [C, h, w] has h·w rows of C values, anything else the product of all dimensions but the last. */
int64_t vd_rows_count(const vd_tensor *tensor);
int64_t vd_row_bytes(const vd_tensor *tensor);
void    vd_row_copy(const vd_tensor *tensor, int64_t row, void *to);

#endif
