/* Planted faults: the catalogue, and how each is put into a forward without touching the model's files or code.
 *
 * A fault works through the forward's hooks, through a copy of the model's descriptor with some weights replaced in memory, or through the
 * inputs that the gate gives. So the candidate's run differs from the true one in exactly the named way, node alone and through the step.
 */
#ifndef VD_GATE_FAULTS_H
#define VD_GATE_FAULTS_H

#include "gate/case.h"
#include "gate/keep.h"
#include "models/moss_image/forward.h"

typedef struct vd_fault vd_fault;

/* "FAULT" or "FAULT@PLACE". Fails with VD_BAD_ARGUMENT for a fault or a place that there is not (naming those that there are), and with
 * VD_UNSUPPORTED where the fault changes nothing (a bf16 timestep, where t is one). */
vd_status vd_fault_open(vd_context *ctx, const char *text, const vd_case *c, const vd_moss_model *model, vd_fault **out);
void      vd_fault_close(vd_context *ctx, vd_fault *fault); /* NULL is legal */

const vd_gate_fault *vd_fault_kind_of(const vd_fault *fault);
/* The first of the case's nodes that it changes. */
const char          *vd_fault_node(const vd_fault *fault);
/* What the candidate runs with: `hooks` for the forward, `model` in place of the true one. */
const vd_moss_model *vd_fault_model(const vd_fault *fault);
const vd_moss_hooks *vd_fault_hooks(const vd_fault *fault);

/* Tells that a run begins: its number (0, 1), the case's node that it computes (NULL: the whole step), and what enters it, for the faults
 * that replace a node by its input. */
void vd_fault_begin(vd_fault *fault, int run, const vd_case_node *node);
/* Changes a copy of the modulation that block `block` is given when it runs alone; [6, dim] of `type`. */
void vd_fault_change_mod(const vd_fault *fault, int64_t block, vd_dtype type, void *mod);
/* The failure of a fault that could not be carried out inside a hook, or VD_OK. */
vd_status vd_fault_status(const vd_fault *fault);

#endif
