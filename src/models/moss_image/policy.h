/* Rounding points of MOSS-Image by policy: the one table that says in which type each value lives between operations. */
#ifndef VD_MOSS_POLICY_H
#define VD_MOSS_POLICY_H

#include "verdit.h"

typedef struct vd_moss_points {
    vd_dtype stream;    /* residual stream, time, modulations, embedders and head; norms after x·r and ·w; modulate; rotary and its table */
    vd_dtype block;     /* what block linears and attention take and give; q and k before the head norm's weight */
    vd_dtype situ;      /* after each of SiTU's nine operations; F32: one rounding, at its end */
    vd_dtype text;      /* `block` of the text embedder's two blocks, and the input and output of its projection */
    vd_dtype text_situ; /* `situ` of the text embedder */
} vd_moss_points;

static inline vd_moss_points vd_moss_points_of(vd_policy policy)
{
    static const vd_moss_points table[VD_POLICY_COUNT] = {
        /*                       stream   block    situ     text     text_situ */
        [VD_POLICY_BF16]     = {VD_BF16, VD_BF16, VD_BF16, VD_BF16, VD_BF16},
        [VD_POLICY_F32]      = {VD_F32,  VD_BF16, VD_BF16, VD_F32,  VD_F32},
        [VD_POLICY_F32_SITU] = {VD_F32,  VD_BF16, VD_F32,  VD_BF16, VD_F32},
    };
    return table[policy];
}

#endif
