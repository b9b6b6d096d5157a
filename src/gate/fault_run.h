/* A planted fault at work: what the catalogue's functions see. */
#ifndef VD_GATE_FAULT_RUN_H
#define VD_GATE_FAULT_RUN_H

#include "gate/faults.h"

typedef enum vd_fault_place {
    VD_PLACE_NODE,   /* any node of the case; the middle block unless said */
    VD_PLACE_BLOCK,  /* any kept block; the middle one unless said */
    VD_PLACE_EPS,    /* a block, or all */
    VD_PLACE_BLOCKS, /* all blocks: shows first after the first kept one */
    VD_PLACE_FIXED   /* `node` alone */
} vd_fault_place;

typedef struct vd_fault_kind {
    vd_gate_fault  text;
    vd_fault_place place;
    const char    *node;                                        /* VD_PLACE_FIXED */
    double         amount;
    vd_status (*prepare)(vd_context *ctx, vd_fault *f);         /* or NULL: changes model or hooks, reserves buffers */
    void (*alter)(vd_fault *f, vd_tensor *value);               /* or NULL: sees every value of every run */
    void (*change_mod)(const vd_fault *f, vd_dtype type, void *mod); /* or NULL: the modulation as the faulty block reads it */
} vd_fault_kind;

extern const vd_fault_kind vd_fault_kinds[];
extern const int           vd_fault_kind_count;

struct vd_fault {
    vd_context          *ctx;
    vd_status            status;
    const vd_fault_kind *kind;
    const vd_case       *c;
    const vd_moss_model *base;        /* the true model */
    vd_moss_model        model;       /* the candidate's: a copy of the descriptor, with its own list of blocks */
    vd_moss_hooks        hooks;
    vd_keep              keep;
    int64_t             *block_weights;
    int64_t              block;       /* the faulty one, or -1 */
    const vd_case_node  *node;        /* where it shows first */
    int                  run;         /* of the run at hand: 0, 1 */
    const vd_case_node  *running;     /* the node that it computes alone; NULL: the whole step */
    vd_dtype             stream;      /* type of the stream */
    void                *entering;    /* [joint, dim] rows entering the faulty block; buffers are there when `prepare` asked for them */
    void                *mod;         /* [6, dim] */
    float               *cosines, *sines;   /* [joint, head_dim] */
    float               *q, *k, *v, *ug, *situ; /* [joint, …] */
};

/* Is `value` the faulty block's node of this name (".q"), the rows behind that block (".x"), or the fault's own node? */
bool vd_fault_sees(const vd_fault *f, const vd_tensor *value, const char *inner);
bool vd_fault_sees_node(const vd_fault *f, const vd_tensor *value);
/* A copy of a weight of `elements` bf16 elements that the candidate's model reads in its place. */
uint16_t *vd_fault_copy_weight(vd_fault *f, vd_weight *weight, int64_t elements);
void      vd_fault_widen(const vd_tensor *value, float *to);

/* fault_rotary.c */
vd_status vd_fault_prepare_tables(vd_context *ctx, vd_fault *f);
void vd_fault_alter_pair(vd_fault *f, vd_tensor *value);
vd_status vd_fault_prepare_rope_base(vd_context *ctx, vd_fault *f);
void vd_fault_alter_axes(vd_fault *f, vd_tensor *value);
void vd_fault_alter_coarse_table(vd_fault *f, vd_tensor *value);
void vd_fault_alter_text_positions(vd_fault *f, vd_tensor *value);
vd_status vd_fault_prepare_interleaved(vd_context *ctx, vd_fault *f);

#endif
