/* Reading a sum's order back from a kernel that is a black box.
 *
 * A large value at place i, its negative at place j, small values elsewhere: a small value survives exactly if it meets neither before
 * they have met each other. So the answer tells which places lie under the node where i and j meet, and all answers together tell the tree of
 * additions (and the groups that a tensor core adds as one). Two kernels with equal answers add in equal order; commuting a pair of
 * operands changes no bit and is not told apart.
 */
#ifndef VD_ORDER_PROBE_H
#define VD_ORDER_PROBE_H

#include "core/core.h"

enum { VD_PROBE_PLACES = 24 };

typedef struct vd_places {
    int64_t at[VD_PROBE_PLACES]; /* ascending */
    int     count;
} vd_places;

/* Places of a sum of k numbers that tell the orders in use apart: around steps of 16, tiles of 128, leaves of 512, and both ends; with
 * parts > 1, for orders that cut k in equal parts, around the cuts instead. */
vd_places vd_probe_places(int64_t k, int parts);

/* sizes[i][j]: how many of the k numbers lie under the node where places i and j meet; -1 where the answer makes no sense. */
typedef struct vd_order_tree {
    vd_places places;
    int64_t   sizes[VD_PROBE_PLACES][VD_PROBE_PLACES];
} vd_order_tree;

bool vd_order_same(const vd_order_tree *a, const vd_order_tree *b);
/* The order as text, over the places: "{0 1 15} → {16 31} → 32 → (64 → 65)" adds 0, 1, 15 at once; to that 16 and 31 at once; then 32;
 * then the sum of 64 and 65. */
void vd_order_print(const vd_order_tree *tree, char *text, size_t size);

/* Pairs of places, numbered: 0 ≤ pair < count·(count − 1)/2. */
int  vd_probe_pairs(const vd_places *places);
void vd_probe_pair(const vd_places *places, int pair, int *i, int *j);

#endif
