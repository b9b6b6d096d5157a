/* A verification under way. */
#ifndef VD_VERIFY_H
#define VD_VERIFY_H

#include "audit/receipt.h"

typedef struct vd_verification {
    vd_context              *ctx;
    const char              *path; /* of the receipt */
    const vd_verify_options *options;
    vd_verify_result        *result;
    vd_receipt               receipt;
    vd_model                *model;
    vd_tensors              *input, *output; /* output NULL: not at hand */
    vd_tensor               *inputs;
    int64_t                  input_count;
} vd_verification;

/* Adds a check to the result; returns a failure only when there is no memory. */
vd_status vd_verify_note(vd_verification *v, bool held, const char *what, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Compares the receipt's sampled rows with a tensor's; `rows` names the tensor's rows if it holds only some (NULL: all). */
vd_status vd_verify_rows(vd_verification *v, const vd_receipt_tensor *said, const vd_tensor *t, const int64_t *rows, int64_t row_count,
                         int64_t *wrong, int64_t *first);
/* What a forward made of the receipt's choices: one that refuses them (VD_BAD_ARGUMENT) makes a receipt that does not hold, noted here. */
vd_status vd_verify_computed(vd_verification *v, vd_status status);
/* Type, rank and sizes as the receipt has them. */
bool vd_verify_same_shape(const vd_receipt_tensor *said, const vd_tensor *t);
/* The audit: each block from the rows that entered it, sampled rows only. audit.c */
vd_status vd_verify_audit(vd_verification *v);

#endif
