/* MOSS-Image's config.json, read strictly: sizes come from strangers, and every later product of them must fit. */
#ifndef VD_MOSS_CONFIG_H
#define VD_MOSS_CONFIG_H

#include "models/moss_image/moss_image.h"

/* The largest sizes that are read. Far above any model, and small enough that no byte count can overflow 63 bits. */
enum {
    VD_MOSS_MAX_DIM    = 1 << 20,
    VD_MOSS_MAX_FFN    = 1 << 24,
    VD_MOSS_MAX_LAYERS = 4096,
    VD_MOSS_MAX_OTHER  = 1 << 20, /* text_dim, freq_dim, latent_channels */
    VD_MOSS_CONFIG_BYTES = 1 << 20
};

/* Reads FILE; reasons config-json, config-missing-key, config-type, config-range, config-inconsistent, wrong-class,
 * quantized-unsupported, json-depth, duplicate-name. Keys that are not known are named in a warning. */
vd_status vd_moss_config_read(vd_context *ctx, const char *path, vd_moss_config *out);
vd_status vd_moss_config_parse(vd_context *ctx, const char *path, const char *text, int64_t size, vd_moss_config *out);

#endif
