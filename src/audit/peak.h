/* The yardstick of benches: how many fp32 multiply-adds a core makes when nothing holds it up. */
#ifndef VD_PEAK_H
#define VD_PEAK_H

/* GFLOP/s of one core, with the widest vectors that the machine has; about 0.2 seconds. A multiply-add counts as two. */
double vd_measure_peak(void);
double vd_now(void); /* seconds, monotonic */

#endif
