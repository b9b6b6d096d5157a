/* MOSS-Image: a diffusion transformer for pictures. Configuration, weights as they lie in their files, and the loader.
 *
 * A model folder holds config.json and safetensors (one file, or shards with an index). Opening maps the files and reads headers only;
 * weights are read where a kernel touches them and are never copied. Formulas: docs/moss_image.md.
 */
#ifndef VD_MOSS_IMAGE_H
#define VD_MOSS_IMAGE_H

#include "core/core.h"

typedef struct vd_moss_config {
    int64_t dim;             /* 3072 */
    int64_t ffn_dim;         /* 8192 */
    int64_t heads;           /* 24; divides dim; the head's width is a multiple of 8 */
    int64_t layers;          /* 42 */
    int64_t text_dim;        /* 4096 */
    int64_t freq_dim;        /* 256, even */
    int64_t latent_channels; /* 128 */
    double  rope_base;       /* 10000 */
} vd_moss_config;

enum { VD_MOSS_TEXT_BLOCKS = 2, VD_MOSS_MOD_ROWS = 6, VD_MOSS_HEAD_MOD_ROWS = 2, VD_MOSS_ROPE_AXES = 4 };

static inline int64_t vd_moss_head_dim(const vd_moss_config *c) { return c->dim / c->heads; }
static inline int64_t vd_moss_bands(const vd_moss_config *c) { return c->dim / c->heads / 2 / VD_MOSS_ROPE_AXES; } /* per axis */

/* One tensor in a mapped file: contiguous, row-major [out, in] for linears; any alignment. */
typedef struct vd_weight {
    const void *data;
    vd_dtype    type; /* VD_BF16, but for rope.bands */
} vd_weight;

typedef struct vd_moss_text_block {
    vd_weight norm1, norm2;                       /* [dim] */
    vd_weight q_norm, k_norm;                     /* [head_dim] */
    vd_weight qkv, qkv_bias;                      /* [3·dim, dim], [3·dim]: q, k, v are thirds of the rows */
    vd_weight proj, proj_bias;                    /* [dim, dim], [dim] */
    vd_weight ffn_gate, ffn_gate_bias;            /* [ffn_dim, dim], [ffn_dim] */
    vd_weight ffn_up, ffn_up_bias;                /* [ffn_dim, dim], [ffn_dim] */
    vd_weight ffn_down, ffn_down_bias;            /* [dim, ffn_dim], [dim] */
} vd_moss_text_block;

typedef struct vd_moss_block {
    vd_weight norm1, norm2;                       /* [dim] */
    vd_weight q_norm, k_norm;                     /* [head_dim] */
    vd_weight q, k, v, o;                         /* [dim, dim] */
    vd_weight up_gate;                            /* [2·ffn_dim, dim]: up rows first, then gate rows */
    vd_weight down;                               /* [dim, ffn_dim] */
} vd_moss_block;

typedef struct vd_moss_weights {
    vd_weight          video, video_bias;         /* [dim, latent_channels], [dim] */
    vd_weight          text, text_bias;           /* [dim, text_dim], [dim] */
    vd_moss_text_block text_blocks[VD_MOSS_TEXT_BLOCKS];
    vd_weight          bands;                     /* [bands] F32: checked against the recomputed words */
    vd_weight          time0, time0_bias;         /* [dim, freq_dim], [dim] */
    vd_weight          time2, time2_bias;         /* [dim, dim], [dim] */
    vd_weight          mod, mod_bias;             /* [6·dim, dim], [6·dim] */
    vd_weight          head_mod, head_mod_bias;   /* [2·dim, dim], [2·dim] */
    vd_moss_block     *blocks;                    /* [layers] */
    vd_weight          final_norm, final_linear;  /* [dim], [latent_channels, dim] */
} vd_moss_weights;


typedef struct vd_moss_model {
    vd_moss_config          config;
    vd_moss_weights         weights;
    char                   *path;                 /* as given */
    vd_tensors             *files;                /* what the weights point into */
} vd_moss_model;

/* Opens `path`: a pipeline folder (with transformer/), the component's folder, or one .safetensors beside its config.json. Checks every
 * tensor's presence, shape and type; reads no weight but rope.bands. On failure *out is NULL. load.c */
vd_status vd_moss_open(vd_context *ctx, const char *path, vd_moss_model **out);
int64_t   vd_moss_weight_bytes(const vd_moss_model *model); /* of the mapped tensors that the model uses */
void      vd_moss_close(vd_context *ctx, vd_moss_model *model); /* NULL is legal */

#endif
