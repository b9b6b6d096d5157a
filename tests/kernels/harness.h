/* Kernel tests: every entry of a level's table against the generic level, byte for byte.
 *
 * A case draws shapes, types, strides, alignment, threads and data; runs the operation on the generic table and on the level's; and compares
 * whole output buffers, the gaps between rows included. Every buffer ends (or begins) at a page that may not be touched, so one byte read or
 * written outside faults; inputs are compared with a copy afterwards; outputs and scratch are poisoned before; scratch is exactly as queried.
 *
 * VERDIT_TEST_SEED=N draws other cases (the seed of a failing case is printed); VERDIT_TEST_SCALE=N runs N times as many.
 */
#ifndef TESTS_KERNELS_HARNESS_H
#define TESTS_KERNELS_HARNESS_H

#include <stdint.h>
#include <stdio.h>

#include "kernels/table.h"

/* ---- Random numbers: splitmix64 ---- */

typedef struct h_random {
    uint64_t state;
} h_random;

uint64_t h_next(h_random *r);
int64_t  h_range(h_random *r, int64_t low, int64_t high); /* both included */
bool     h_chance(h_random *r, int one_in);
float    h_normal(h_random *r); /* about N(0, 1) */

/* ---- Data ---- */

typedef enum h_kind {
    H_NORMAL,    /* N(0, 1) */
    H_SMALL,     /* N(0, 0.02), as weights are */
    H_WIDE,      /* exponents over the whole range of sums and products that stay finite */
    H_MASSIVE,   /* one column in forty 300 times larger */
    H_CANCEL,    /* neighbours cancel but for a little */
    H_CONSTANT,  /* a row of one value: largest significands meet */
    H_SPARSE,    /* mostly zeros of both signs */
    H_TINY,      /* near and below the smallest normal number */
    H_HUGE,      /* products overflow */
    H_BITS,      /* any bit pattern, NaN and Inf included */
    H_SPECIAL,   /* N(0, 1) with NaN, Inf, -0, subnormals, largest numbers sprinkled in */
    H_KINDS
} h_kind;

const char *h_kind_name(h_kind kind);
/* rows x columns values into memory of that type, rows `stride` elements apart; the gaps are filled with NaN. */
void h_fill(h_random *r, h_kind kind, void *p, vd_dtype type, int64_t rows, int64_t columns, int64_t stride);

/* ---- A run of cases on one level ---- */

typedef struct h_buffer {
    unsigned char *map, *data, *copy;
    int64_t        map_size, size;
    bool           input;
} h_buffer;

typedef struct h_run {
    const char       *name;      /* what is tested, for messages */
    const vd_kernels *generic, *level;
    h_random          random;
    uint64_t          seed;      /* of the current case */
    int64_t           cases, failures;
    bool              quiet;     /* no message on failure: the harness's own tests plant faults */
    h_buffer          buffers[24];
    int               count;
    char              what[512]; /* describes the current case */
} h_run;

/* Random memory in the case's keeping. `alignment` 1..64: the address is a multiple of it, and of no larger power of two where the size allows. */
void *h_input(h_run *run, h_kind kind, vd_dtype type, int64_t rows, int64_t columns, int64_t stride, int64_t alignment);
void *h_output(h_run *run, int64_t size, int64_t alignment);
void *h_copy(h_run *run, const void *from, int64_t size, int64_t alignment); /* an output that starts as a copy: for operations in place */

/* The bytes that rows at this stride span; the last row has no gap after it. */
int64_t h_span(vd_dtype type, int64_t rows, int64_t columns, int64_t stride);

/* Readies exec for one call: random threads 1..3 (1 for the generic run if `plain`), poisoned scratch of exactly `scratch` bytes. */
vd_exec h_exec(h_run *run, int threads, int64_t scratch);

/* Compares two outputs; a difference is counted and reported by element. Then checks inputs and guards. */
void h_same(h_run *run, const void *expected, const void *got, int64_t size, vd_dtype type);

void h_begin(h_run *run); /* new case: seeds from the run */
void h_end(h_run *run);   /* checks inputs, frees everything */

/* One operation's cases: draws, runs both, compares. */
typedef void h_case(h_run *run);

/* Runs `cases` cases of `test` on every level of this machine whose entry at `offset` in vd_kernels differs from the level before it;
 * says which levels are not run and why. Returns the number of failures. */
int64_t h_levels(const char *name, size_t offset, h_case *test, int64_t cases);

/* The harness's own proof: the same on a table with a planted fault, quietly. Returns the number of failing cases, which must not be 0. */
int64_t h_planted(const char *name, const vd_kernels *planted, h_case *test, int64_t cases);

#endif
