/* The synthetic model family: every weight is a function of its tensor's name, a flat index and a seed.
 *
 * So a test, a bench or another machine has a model of any size without moving a file, and a run recorded here can be repeated there.
 * The rules are in docs/synthetic.md; changing one byte would orphan every recorded run, so they never change.
 */
#ifndef VD_SYNTHETIC_H
#define VD_SYNTHETIC_H

#include "models/moss_image/moss_image.h"

/* Value i of the stream that belongs to `name` and `seed`: -32768..32767. */
static inline uint64_t vd_synth_base(uint64_t name_hash, uint64_t seed) { return name_hash ^ seed; }
static inline int32_t  vd_synth_value(uint64_t base, int64_t i)
{
    uint64_t z = base + ((uint64_t)i + 1) * 0x9E3779B97F4A7C15u;
    z          = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z          = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (int32_t)(z >> 48) - 32768;
}

/* The list of a MOSS-Image model's tensors, names ascending as bytes, data NULL; in one block that vd_free releases. */
vd_status vd_synth_list(vd_context *ctx, const vd_moss_config *config, vd_tensor **tensors, int64_t *count);

/* Fills elements [first, first + count) of a model's tensor, in its type (BF16; F32 for rope.bands). */
void vd_synth_fill(const vd_moss_config *config, uint64_t seed, const vd_tensor *tensor, int64_t first, int64_t count, void *to);

/* The configuration of a named shape with "key=value" changes (NULL-terminated list, or NULL), checked. */
vd_status vd_synth_config(vd_context *ctx, const char *shape, const char *const *set, vd_moss_config *config);

#endif
