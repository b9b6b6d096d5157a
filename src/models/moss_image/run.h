/* State of one MOSS-Image forward: what is asked, where each value lives, and the calls of the table in the model's own words. */
#ifndef VD_MOSS_RUN_H
#define VD_MOSS_RUN_H

#include "kernels/table.h"
#include "models/moss_image/forward.h"
#include "models/moss_image/nodes.h"
#include "models/moss_image/policy.h"

typedef enum vd_moss_todo { VD_MOSS_UNUSED = 0, VD_MOSS_GIVEN, VD_MOSS_COMPUTE } vd_moss_todo;

/* One sample's place and the values that live through its forward. Rows are joint rows: image rows first, then text rows. */
typedef struct vd_moss_state {
    const vd_sample *in;
    int              index;         /* in the call */
    int64_t          h, w;          /* latent's size */
    int64_t          image, text;   /* rows of each kind; joint rows = image + text */
    int64_t          head_rows;     /* rows that the head reads: image, or in->row_count */
    int64_t          last_block;    /* the block that in->rows applies to; -1: none */
    uint8_t         *todo;          /* [nodes] */
    bool            *skipped;       /* [layers] */
    void            *time;          /* [dim] stream type, like the next */
    void            *mod;           /* [6, dim] */
    void            *head_mod;      /* [2, dim] */
    void            *x;             /* [rows, dim]; the text embedder works on its tail */
    void            *x_rows;        /* [row_count, dim]: the stream after the last block, if only some rows leave it */
    void            *cos, *sin;     /* [rows, head_dim] */
    void            *cos_rows, *sin_rows;
} vd_moss_state;

typedef struct vd_moss_run {
    vd_context               *ctx;
    const vd_moss_model      *model;
    const vd_forward_options *options;
    vd_kernels                kernels;
    vd_exec                   exec;
    vd_moss_points            points;
    vd_moss_hooks             hooks;
    int64_t                   from, to;
    vd_moss_state            *samples;
    int                       sample_count;
    bool                      dry;        /* measure only: nothing is computed, scratch needs are recorded */
    int64_t                   scratch;    /* largest need met so far */
    int64_t                   whole;      /* rows of the part at hand in a whole forward: what options->match goes by, also when few are asked for */
    int64_t                   unmeasured; /* linears that options->match has no measurement for; the first of them: */
    int64_t                   unmeasured_rows, unmeasured_n, unmeasured_k;
    int64_t                   base, end;  /* arena: addresses of its start and of its first free byte */
    /* Work memory, shared by the samples, which run one after another. `a` holds a, then o, b and down; `big` holds q k v att, or ug situ. */
    void                     *a, *big;
    float                    *bands;      /* [bands]: recomputed, never read from a file */
} vd_moss_run;

/* plan.c: checks a call and fills run, samples and todo lists; nothing is computed. */
vd_status vd_moss_prepare(vd_moss_run *run, const vd_sample *samples);
/* Places every buffer from `base` on (64-byte aligned); returns the bytes that they take together. */
int64_t   vd_moss_place(vd_moss_run *run, int64_t base);
void      vd_moss_unprepare(vd_moss_run *run);

/* Shape of a node's value in this sample: rows and columns. */
void vd_moss_node_shape(const vd_moss_run *run, const vd_moss_state *s, int64_t index, int64_t *rows, int64_t *cols);

/* values.c: the given inputs, and the hands on computed values. */
const vd_tensor *vd_moss_find_input(const vd_moss_run *run, const vd_moss_state *s, int64_t index);
const vd_tensor *vd_moss_named_input(const vd_moss_state *s, const char *name);
/* Copies a given tensor to a buffer of `type`, exactly; `rounded` allows rounding F32 to BF16. */
vd_status vd_moss_copy_input(vd_moss_run *run, const vd_tensor *given, void *to, vd_dtype type, int64_t count, bool rounded);
/* Whether a node is to be computed now. A given one is copied to `value` instead. */
bool vd_moss_begin(vd_moss_run *run, vd_moss_state *s, int64_t index, void *value, vd_dtype type);
/* Shows a computed node to hooks and taps. */
void vd_moss_end(vd_moss_run *run, vd_moss_state *s, int64_t index, void *value, vd_dtype type);
void vd_moss_alter(vd_moss_run *run, vd_moss_state *s, const char *name, void *value, vd_dtype type, int64_t rows, int64_t cols);

#endif
