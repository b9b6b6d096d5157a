/* The check of the contracts on a given table of kernels: vd_contract_check with the context's own; tests plant faults in others. */
#ifndef VD_CONTRACT_CHECK_H
#define VD_CONTRACT_CHECK_H

#include "audit/order_probe.h"
#include "kernels/table.h"

vd_status vd_contract_check_table(vd_context *ctx, const vd_kernels *table, const char *id, vd_contract_fn *report, void *user);

/* ---- Inside the check ---- */

/* One contract being checked. The first failure is kept; later ones add nothing. */
typedef struct vd_proof {
    vd_context       *ctx;
    const vd_kernels *table;
    uint64_t          random;
    int64_t           compared; /* outputs compared with the definition */
    bool              failed;
    char              detail[900];
    void             *memory[96]; /* vd_prove_alloc's, freed when the contract is done */
    int               memory_count;
} vd_proof;

/* Notes that something did not hold. */
void vd_prove_fail(vd_proof *proof, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says what was read back, for the item's detail when all held. */
void vd_prove_note(vd_proof *proof, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Compares bytes; `what` names the inputs. */
void vd_prove_same(vd_proof *proof, const char *what, const void *expected, const void *got, vd_dtype type, int64_t count);

/* Random rows of a kind: 0 N(0,1)-like; 1 wide exponents; 2 with NaN, Inf, zeros, subnormals, largest numbers; 3 any bits; 4 near the smallest. */
enum { VD_PROOF_KINDS = 5 };
void vd_prove_fill(vd_proof *proof, int kind, void *p, vd_dtype type, int64_t count);

/* Each returns a status other than VD_OK only if it could not work (memory). order_check.c, then row_check.c. */
vd_status vd_prove_linear(vd_proof *proof, vd_order order);
vd_status vd_prove_rowsum(vd_proof *proof, vd_order order);
vd_status vd_prove_attention(vd_proof *proof, vd_order order);
vd_status vd_prove_rms_norm(vd_proof *proof);
vd_status vd_prove_norm_modulate(vd_proof *proof);
vd_status vd_prove_rotary(vd_proof *proof);
vd_status vd_prove_head_norm_rotary(vd_proof *proof);
vd_status vd_prove_situ(vd_proof *proof);
vd_status vd_prove_gated_residual(vd_proof *proof);
vd_status vd_prove_function(vd_proof *proof, vd_function f);
vd_status vd_prove_transpose(vd_proof *proof);
vd_status vd_prove_sinusoids(vd_proof *proof);
vd_status vd_prove_rope(vd_proof *proof);

/* Zeroed memory of one check, freed together; NULL with the context's error set. */
void *vd_prove_alloc(vd_proof *proof, int64_t size);
/* An exec with this scratch and the context's threads; its scratch is NULL with the error set when there is no memory. */
vd_exec vd_prove_exec(vd_proof *proof, int64_t scratch);

#endif
