/* Threads split outputs, never sums: a task is a set of outputs, and which thread runs it, or when, may not change a byte. */
#ifndef VD_PARALLEL_H
#define VD_PARALLEL_H

#include <stdint.h>

/* `worker` is in [0, threads): the index of scratch memory that this call may use. */
typedef void vd_task(void *arg, int64_t index, int worker);

/* Runs task(arg, i, worker) once for every i in [0, tasks), on at most `threads` threads; returns when all are done.
 * The bad-luck build (VD_BAD_LUCK) shuffles the order of the tasks and varies the number of threads. */
void vd_parallel(int threads, int64_t tasks, vd_task *task, void *arg);

/* CPUs that this process may use. */
int vd_cpu_count(void);

#endif
