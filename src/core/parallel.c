#define _GNU_SOURCE
#include "core/parallel.h"

#include <omp.h>
#include <sched.h>

#ifdef VD_BAD_LUCK
#include <stdatomic.h>

/* A step of size `stride` coprime with the number of tasks visits each once. */
static int64_t find_coprime(int64_t n, int64_t start)
{
    for (int64_t stride = start;; stride++) {
        int64_t a = stride, b = n;
        while (b) {
            const int64_t r = a % b;
            a = b, b = r;
        }
        if (a == 1)
            return stride;
    }
}

void vd_parallel(int threads, int64_t tasks, vd_task *task, void *arg)
{
    static _Atomic uint64_t calls; /* test build only: makes each call unlucky in its own way */
    const uint64_t          call = atomic_fetch_add(&calls, 1);
    const int               used = 1 + (int)(call % (uint64_t)(threads < 5 ? threads : 5));
    if (tasks <= 0)
        return;
    const int64_t stride = find_coprime(tasks, 1 + (int64_t)((call * 2654435761u) % (uint64_t)tasks));
#pragma omp parallel for num_threads(used) schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks; i++)
        task(arg, (int64_t)(((__int128)i * stride + (int64_t)(call % (uint64_t)tasks)) % tasks), omp_get_thread_num());
}
#else
void vd_parallel(int threads, int64_t tasks, vd_task *task, void *arg)
{
    if (threads <= 1 || tasks <= 1) {
        for (int64_t i = 0; i < tasks; i++)
            task(arg, i, 0);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks; i++)
        task(arg, i, omp_get_thread_num());
}
#endif

int vd_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    return omp_get_num_procs();
}
