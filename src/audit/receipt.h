/* Receipts: a run's facts as JSON, and read back. */
#ifndef VD_RECEIPT_H
#define VD_RECEIPT_H

#include "audit/run.h"
#include "core/hash.h"

enum { VD_RECEIPT_SCHEMA = 1, VD_RECEIPT_ROWS = 4, VD_RECEIPT_LIMIT = 64 << 20 };

#define VD_HASH_ALWAYS ((int64_t)256 << 20) /* weight files up to this size are always hashed */

typedef struct vd_receipt_facts {
    const vd_run_options *options;
    const vd_model       *model;
    const char           *level;
    json_t               *weights; /* vd_receipt_weights */
    int                   sample;
    const vd_tensors     *input;
    const vd_collection  *output;
    const char           *started;
    double                seconds;
} vd_receipt_facts;

/* [{name, bytes, sha256 or null}, …] of a model's weight files. */
vd_status vd_receipt_weights(vd_context *ctx, const vd_model *model, bool hash_all, json_t **out);
/* The whole receipt, sealed: "seal" is the SHA-256 of the canonical text of everything else. */
vd_status vd_receipt_make(vd_context *ctx, const vd_receipt_facts *facts, json_t **out);
/* Contract ids that a run with these choices may use. Without memory the context says so. */
json_t *vd_receipt_contracts(vd_context *ctx, vd_policy policy, vd_arith arith, vd_match match);
json_t *vd_receipt_config(const vd_moss_config *config);

/* A receipt's parts, checked; texts and numbers live as long as `root`. */
typedef struct vd_receipt_tensor {
    const char *name, *sha256;
    vd_dtype    type;
    int         rank;
    int64_t     shape[VD_MAX_RANK];
    int64_t     row_count;
    struct {
        int64_t     row;
        const char *sha256, *values; /* values: hex of the row's first bytes */
    } rows[VD_RECEIPT_ROWS];
} vd_receipt_tensor;

typedef struct vd_receipt {
    json_t            *root;
    const char        *library, *model, *input, *output, *from, *to, *taps;
    vd_policy          policy;
    vd_arith           arith;
    vd_match           match;
    int64_t            h, w, text_rows;
    int64_t           *skip, *rows;
    int64_t            skip_count, row_count; /* row_count -1: all */
    json_t            *contracts, *config, *weights;
    vd_receipt_tensor *inputs, *outputs;
    int64_t            input_count, output_count;
    bool               sealed; /* the seal holds */
} vd_receipt;

vd_status vd_receipt_read(vd_context *ctx, const char *path, vd_receipt *out);
void      vd_receipt_free(vd_context *ctx, vd_receipt *receipt);

/* The rows that a receipt quotes of a tensor of so many: first, last and two in between that the name chooses; ascending. Returns how many. A receipt
 * with other rows was not written by this library: whoever forges an output must not choose where one looks. */
int vd_receipt_choose_rows(const char *name, int64_t rows, int64_t chosen[VD_RECEIPT_ROWS]);

vd_status vd_tensor_hash(vd_context *ctx, const vd_tensor *tensor, char digits[VD_HASH_TEXT]);

#endif
