/* A gate at work: the case, the model and its candidate, and the result that grows. */
#ifndef VD_GATE_JOB_H
#define VD_GATE_JOB_H

#include "gate/case.h"
#include "gate/faults.h"
#include "gate/keep.h"

/* Copies of values that a run produced, by name. */
typedef struct vd_values {
    vd_tensor *items;
    char     (*names)[32];
    int64_t    count, room;
} vd_values;

typedef struct vd_gate_job {
    vd_context            *ctx;
    const vd_gate_options *options;
    vd_case               *c;
    vd_moss_model         *model;   /* the true one */
    vd_fault              *fault;   /* or NULL */
    bool                   fails_anyway; /* the fault's node fails without the fault as well */
    vd_gate_result        *result;
    vd_gate_node          *nodes;   /* result->nodes, writable */
    vd_keep               *keep;    /* the result's memory */
} vd_gate_job;

/* ---- node_run.c ---- */

/* Runs one node of the case alone on its recorded input, or the whole step (node NULL), and keeps the values whose names match the
 * comma-separated `wanted`. `run` numbers repetitions. With `planted` false the true model runs, whatever is planted; `kernels` NULL are
 * the context's. "velocity" is kept as rows. */
vd_status vd_run_node(vd_gate_job *job, const vd_case_node *node, int run, bool planted, const char *wanted, const vd_kernels *kernels, vd_values *out);

/* Repeats one node inside a block, or a node of the case itself, by the true model from values that a run left: `values` give its inputs,
 * the case what entered the node. */
vd_status vd_replay_op(vd_gate_job *job, const vd_case_node *node, const vd_values *values, const char *op, const vd_kernels *kernels, vd_values *out);

const vd_tensor *vd_values_find(const vd_values *values, const char *name);
void             vd_values_free(vd_context *ctx, vd_values *values); /* leaves it empty */

/* ---- judge.c ---- */

/* Fills a node's distances, limits and verdict from the first run's value; the second run's differences must already be counted. */
vd_status vd_judge_node(vd_gate_job *job, const vd_case_node *node, const vd_tensor *value, vd_gate_node *out);
/* The same for the whole step; `value` [I, C]. */
vd_status vd_judge_step(vd_gate_job *job, const vd_tensor *value, vd_gate_step *out);
/* How many elements of `a` differ in their bytes from `b`, widened where the types differ. */
int64_t vd_count_other_values(const vd_tensor *a, const vd_tensor *b);

/* ---- cause.c ---- */

/* Fills the result's ops and causes for its first failing node. */
vd_status vd_find_cause(vd_gate_job *job);

/* ---- report_json.c, report_html.c: a report as text, given back to vd_free; NULL on failure ---- */

char *vd_gate_html(vd_context *ctx, const vd_gate_result *result, int64_t *size);

/* ---- reports.c ---- */

/* Before the work: the reports may be written, and are no file of the case or the model, nor one file. */
vd_status vd_gate_check_reports(const vd_gate_job *job);
/* Both or neither. */
vd_status vd_gate_write_reports(const vd_gate_job *job);

#endif
