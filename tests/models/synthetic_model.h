/* A synthetic MOSS-Image model in memory: the bytes that `verdit synth` writes, for the tensors that a test needs. */
#ifndef SYNTHETIC_MODEL_H
#define SYNTHETIC_MODEL_H

#include "models/moss_image/moss_image.h"

/* Makes the tensors whose names match `patterns` (as vd_moss_name_matches); the others stay absent: a forward that reads one crashes.
 * Aborts the test on failure. */
vd_moss_model *make_model(vd_context *ctx, const vd_moss_config *config, uint64_t seed, const char *patterns);
void           free_model(vd_context *ctx, vd_moss_model *model);

/* input.latents [channels, h, w] F32 (v·2^-14) and input.text [rows, text_dim] BF16 of a seed. Freed with vd_free(ctx, tensor.data). */
vd_tensor make_latents(vd_context *ctx, const vd_moss_config *config, uint64_t seed, int64_t h, int64_t w);
vd_tensor make_text(vd_context *ctx, const vd_moss_config *config, uint64_t seed, int64_t rows);

#endif
