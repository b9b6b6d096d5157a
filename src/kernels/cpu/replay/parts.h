/* Small things that the linear layer and attention share. */
#ifndef VD_REPLAY_PARTS_H
#define VD_REPLAY_PARTS_H

#include "kernels/cpu/replay/types.h"
#include "kernels/table.h"

/* Takes bytes from a worker's memory; base NULL: only counts. */
static inline void *vd_carve(char *base, int64_t *used, int64_t bytes)
{
    void *p = base ? base + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return p;
}

static inline void vd_reset_low(int32_t *low, int64_t rows)
{
    for (int64_t i = 0; i < rows * VD_LANES; i++)
        low[i] = INT32_MAX;
}

/* Notes which rows had a lane below the window. */
static inline void vd_note_low(const int32_t *low, int64_t rows, uint8_t *left)
{
    for (int64_t r = 0; r < rows; r++) {
        int32_t least = INT32_MAX;
        for (int j = 0; j < VD_LANES; j++)
            least = low[r * VD_LANES + j] < least ? low[r * VD_LANES + j] : least;
        left[r] |= least < VD_FIELD_LOW << 23;
    }
}

/* out = sum·2^shift, for one row of a panel. VD_MODE_NEAREST. */
__attribute__((noinline)) static void vd_scale_row(const float *sum, int32_t shift, float *out)
{
    const vd_vf scale = vd_vi_float(vd_vi_set1((shift + 127) << 23));
    for (int i = 0; i < VD_PANEL; i += VD_W)
        vd_vf_store(out + i, vd_vf_mul(vd_vf_load(sum + i), scale));
}

static inline void vd_count(int64_t *counter, int64_t n) { __atomic_fetch_add(counter, n, __ATOMIC_RELAXED); }

/* Threads that a call may use: as many as have memory. Too little scratch is a fault of the plan; nothing is computed then. */
static inline int vd_count_workers(vd_exec *exec, int64_t worker_bytes)
{
    const int64_t fit = exec->scratch_bytes / worker_bytes;
    if (fit < 1)
        exec->status = VD_INTERNAL;
    return fit < exec->threads ? (int)fit : exec->threads;
}

#endif
