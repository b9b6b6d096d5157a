/* Where torch's linears leave tc16/chain: cuBLAS splits K for few rows. A table of measurements, keyed by library version and shape. */
#ifndef VD_MATCH_H
#define VD_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "verdit.h"

/* The number of slices that `match`'s library cuts K into for y[m,n] = x[m,k]·w[n,k]ᵀ (+ bias): 1 is the chain.
 * *measured is false where no measurement covers the shape; the answer is then 1. */
int vd_match_splits(vd_match match, int64_t m, int64_t n, int64_t k, bool bias, bool *measured);

#endif
