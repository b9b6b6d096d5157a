/* From tensors in files to MOSS-Image's weights: every expected tensor's presence, shape and type, and nothing besides. */
#ifndef VD_MOSS_LOAD_H
#define VD_MOSS_LOAD_H

#include "models/moss_image/moss_image.h"

/* Finds the weights of `model->config` in `model->files`, in the publisher's spelling or in one of these, which is logged: names behind
 * `model.diffusion_model.` or `diffusion_model.`; layers.N.proj.qkv.weight for q, k and v; an MLX export's time_embedding.1 for .2 and
 * absent rope.bands. Weights point into the files; nothing is copied. One failure names all that is missing, misshapen, of another type
 * or unexpected: missing-tensor, shape-mismatch, unexpected-tensor, unsupported-dtype, rope-bands. `label` is the path for messages. */
vd_status vd_moss_match(vd_context *ctx, const char *label, vd_moss_model *model);

#endif
