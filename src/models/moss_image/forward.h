/* MOSS-Image's forward, with what tests and gates need beyond the public call: a hand on every value, and parameters to disturb. */
#ifndef VD_MOSS_FORWARD_H
#define VD_MOSS_FORWARD_H

#include "models/moss_image/moss_image.h"
#include "kernels/table.h"

/* How faults are planted. All zero: the model as it is. */
typedef struct vd_moss_hooks {
    /* Called with every node's value when it is there, before taps and before anything reads it; may change the data. Besides the nodes:
     * "time.in" (the sinusoid [freq_dim]), "rope.cos" and "rope.sin" [rows, head_dim]. `text` blocks' inner values are not shown. */
    void (*alter)(void *user, int sample, vd_tensor *value);
    void          *user;
    float          norm_eps, qk_eps; /* 0: 1e-6 */
    int            eps_block;        /* the block that takes them; -1: all (the text blocks too). Read only when an eps is set */
    const int64_t *block_weights;    /* [layers]: whose weights each block uses; NULL: its own */
} vd_moss_hooks;

/* vd_forward with hooks (NULL: none) and a given table of kernels (NULL: the context's level). */
vd_status vd_moss_forward(vd_context *ctx, const vd_moss_model *model, const vd_forward_options *options, const vd_sample *samples, int sample_count,
                          const vd_moss_hooks *hooks, const vd_kernels *kernels);

/* Memory for such a forward. The weights' part is what the whole model maps. */
vd_status vd_moss_plan(vd_context *ctx, const vd_moss_model *model, const vd_forward_options *options, const vd_sample *samples, int sample_count, vd_memory_plan *plan);

#endif
