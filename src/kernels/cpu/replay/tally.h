/* How many outputs took which path: tests show with it that all were taken. */
#ifndef VD_REPLAY_TALLY_H
#define VD_REPLAY_TALLY_H

#include <stdint.h>

typedef struct vd_tally {
    int64_t fast;    /* the fast kernel's result stood */
    int64_t low;     /* of these: left the window, but nothing was cut there */
    int64_t scaled;  /* of these: against a panel scaled down first */
    int64_t careful; /* fp64 */
    int64_t scalar;  /* the contract */
} vd_tally;

#endif
