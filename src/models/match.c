#include "models/match.h"

#include <stddef.h>

/* torch 2.11.0, CUDA 13.0, bf16, one H200, by bench/measure_splits.py: every number of rows from 1 to 1,100, every 16th to 8,192, every
 * 256th to 16,384, each on several random inputs. cuBLAS cuts K in two slices or not at all. */
enum { LARGEST_M = 16384, EVERY_M = 1100, STEP_M = 16 };

typedef struct rows {
    int16_t first, last;
} rows;

static const rows never[]        = {{0, 0}};
static const rows text_in[]      = {{1, 40}, {0, 0}};
static const rows text_qkv[]     = {{1, 14}, {0, 0}};
static const rows text_out[]     = {{1, 24}, {32, 40}, {0, 0}}; /* also the time MLP's second, with its one row */
static const rows text_down[]    = {{1, 42}, {0, 0}};
static const rows block_square[] = {{1, 24}, {32, 40}, {48, 48}, {65, 72}, {80, 80}, {0, 0}};
static const rows block_down[]   = {{1, 88}, {96, 104}, {112, 128}, {144, 144}, {160, 160}, {408, 408}, {0, 0}};
static const rows head[]         = {
    {1, 800},    {817, 855},   {857, 880},   {889, 920},   {928, 928},   {937, 967},   {969, 983},   {985, 1000},  {1008, 1008}, {1024, 1024},
    {1033, 1040}, {1056, 1056}, {1072, 1072}, {1104, 1104}, {1136, 1136}, {1168, 1168}, {1200, 1200}, {0, 0},
};

static const struct {
    int64_t     n, k;
    bool        bias;
    const rows *halved; /* where K is cut in two; ends with zeros */
} torch_2_11_h200[] = {
    {3072, 3072, false, block_square}, {16384, 3072, false, never}, {3072, 8192, false, block_down}, {128, 3072, false, head},
    {3072, 128, true, never},          {3072, 4096, true, text_in}, {9216, 3072, true, text_qkv},    {3072, 3072, true, text_out},
    {8192, 3072, true, never},         {3072, 8192, true, text_down}, {3072, 256, true, never},      {18432, 3072, true, never},
    {6144, 3072, true, never},
};

int vd_match_splits(vd_match match, int64_t m, int64_t n, int64_t k, bool bias, bool *measured)
{
    *measured = match == VD_MATCH_NONE;
    if (match != VD_MATCH_TORCH_2_11_H200)
        return 1;
    for (size_t i = 0; i < sizeof torch_2_11_h200 / sizeof *torch_2_11_h200; i++) {
        if (torch_2_11_h200[i].n != n || torch_2_11_h200[i].k != k || torch_2_11_h200[i].bias != bias)
            continue;
        const rows *last = NULL;
        for (const rows *r = torch_2_11_h200[i].halved; r->first; last = r++) {
            if (m >= r->first && m <= r->last) {
                *measured = true;
                return 2;
            }
        }
        /* Between the steps an answer is known where nothing changes any more. */
        *measured = m >= 1 && m <= LARGEST_M && (m <= EVERY_M || m % STEP_M == 0 || !last || m > last->last + STEP_M);
        return 1;
    }
    return 1;
}
