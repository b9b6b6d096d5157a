/* Recorded files for the contract tests, and comparison by bytes. */
#ifndef TESTS_CONTRACT_DATA_H
#define TESTS_CONTRACT_DATA_H

#include "contract/contract.h"
#include "formats/safetensors.h"

typedef struct d_file {
    vd_context    *ctx;
    vd_safetensors st;
} d_file;

/* A file of tests/data/golden (or of the folder that VERDIT_GOLDEN names); ends the test if it cannot be read. */
d_file d_open(const char *name);
void   d_close(d_file *file);

const vd_tensor *d_find(const d_file *file, const char *name);                   /* NULL if there is none */
const vd_tensor *d_get(const d_file *file, const char *format, ...) __attribute__((format(printf, 2, 3))); /* ends the test if there is none */

/* Elements that differ. */
int64_t d_differ(const void *a, const void *b, vd_dtype type, int64_t count);

/* Prints "NAME: W of N differ" and counts. */
typedef struct d_tally {
    int64_t checked, wrong;
} d_tally;

void d_count(d_tally *tally, const char *name, const void *expected, const void *got, vd_dtype type, int64_t count);

#endif
