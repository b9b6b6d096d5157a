/* What the benchmarks share: a clock, a median of ratios, a peak, and random tensors. */
#ifndef VD_BENCH_H
#define VD_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/table.h"

typedef void bench_fn(void *arg);

double bench_now(void);           /* seconds that this thread has had a CPU: neighbours take time away, but not this time */
double bench_fma_peak(void);     /* GFLOP/s of independent fp32 FMAs, one thread, the widest vectors of this CPU; the best of several short windows */
void  *bench_alloc(int64_t size); /* 64-byte aligned; ends the program when there is none */
void   bench_fill(void *to, vd_dtype type, int64_t n, float scale, uint64_t seed);

/* Runs both by turns until `seconds` are over, at least three times each. Medians of each, and the median of (peer's time / our time) over the
 * turns: 1 is as fast as the peer, more is faster. Neighbours that come and go hit both of a turn. */
typedef struct bench_result {
    double ours, peer, ratio; /* seconds, seconds, peer / ours */
    int    turns;
} bench_result;

bench_result bench_compare(bench_fn *ours, void *our_arg, bench_fn *peer, void *peer_arg, double seconds);

#endif
