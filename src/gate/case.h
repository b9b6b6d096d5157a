/* A case folder, read and checked: docs/cases.md says what it holds, docs/case.schema.json how case.json looks.
 *
 * Everything that the gate relies on is checked when the case is opened: the files' hashes, every tensor's presence, type and shape, that
 * the nodes are exactly those of the configuration and skip list, that every run covers every node, that every recorded value is finite, and
 * that the distances in case.json are those of the recorded rows, as far as these tell. After that a case can be read without another check.
 *
 * Reasons: case-json, case-missing-key, case-type, case-range, case-unknown-key, case-nodes, case-runs, case-hash, unsafe-path,
 * missing-tensor, unexpected-tensor, shape-mismatch, and those of the files themselves.
 */
#ifndef VD_GATE_CASE_H
#define VD_GATE_CASE_H

#include <jansson.h>

#include "core/core.h"
#include "core/hash.h"
#include "models/moss_image/moss_image.h"

typedef struct vd_case_node {
    char             name[24];
    int64_t          rows, cols;
    int64_t          block;      /* x.N: N − 1; else -1 */
    const vd_tensor *in;         /* [rows or more, dim]: what enters; NULL where that is t, latents or text */
    const float     *f;          /* [rows, cols] float32's output, 4-byte aligned */
    const double    *row_squares; /* [rows] ‖f_i‖² */
} vd_case_node;

/* What a run did at one node. */
typedef struct vd_case_mark {
    double           cosine, worst_row;
    int64_t          worst_row_index;
    const float     *row_errors; /* [rows] */
    const vd_tensor *bytes;      /* its output; NULL: not kept */
} vd_case_mark;

typedef struct vd_case_run {
    const char      *name, *what;
    bool             torch;      /* the published module as it is; else a mixed run */
    bool             cuda;
    bool             limit;      /* one of the K runs whose maximum sets the limits: mixed ones, and those on a GPU */
    vd_case_mark    *marks;      /* [node_count] */
    double           step_l2, step_cosine, step_worst_row;
    const float     *step;       /* [I, C] */
    const vd_tensor *step_bytes; /* or NULL */
} vd_case_run;

typedef struct vd_case_weight {
    const char *file, *sha256;
    int64_t     bytes;
} vd_case_weight;

typedef struct vd_case {
    char           *path;        /* the folder, as given */
    char           *model_path;  /* where the case says the model is, joined to the folder; NULL: it does not say */
    vd_moss_config  config;
    vd_policy       policy;
    const char     *branch;
    int64_t         step, seed_low; /* number of the step; the seed's low 63 bits */
    double          sigma;
    float           t;
    int64_t         h, w, text_rows, image_rows, joint_rows;
    int64_t        *skip;        /* [skip_count] ascending */
    int64_t         skip_count;
    int64_t         weight_count;
    vd_case_weight *weights;
    int64_t         node_count;
    vd_case_node   *nodes;       /* execution order */
    int64_t         run_count;
    vd_case_run    *runs;
    int64_t         limit_runs;  /* K */
    const vd_tensor *latents, *text, *t_tensor, *mod_used, *head_mod_used;
    const float    *step_f;      /* [I, C] the float32 run's whole step */
    struct { const char *file, *sha256; } files[3]; /* inputs, nodes, runs */
    /* Behind the pointers above. */
    json_t         *json;
    vd_tensors     *inputs_file, *nodes_file, *runs_file;
    void          **owned;       /* aligned copies, row_squares */
    int64_t         owned_count, owned_room;
} vd_case;

/* `path`: the case's folder. On failure *out is NULL. */
vd_status vd_case_open(vd_context *ctx, const char *path, vd_case **out);
void      vd_case_close(vd_context *ctx, vd_case *c); /* NULL is legal */

/* The versions that case.json lists: value as text in `text`; NULL behind the last. */
const char *vd_case_version(const vd_case *c, int64_t index, char text[64]);

/* ---- Parts: case.c reads case.json, case_tensors.c the tensors. ---- */

vd_status vd_case_read_tensors(vd_context *ctx, vd_case *c);

#endif
