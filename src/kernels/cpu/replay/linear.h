/* The linear layer in the tc16 orders: blocks of rows x groups of panels are tasks; inside a task, blocks of K, then panels, steps, rows.
 * Include vec_*.h, vec_sfu.h, step_*.h and single_*.h first. */
#ifndef VD_REPLAY_LINEAR_H
#define VD_REPLAY_LINEAR_H

#include "core/core.h"
#include "core/parallel.h"
#include "kernels/cpu/replay/careful.h"
#include "kernels/cpu/replay/mode.h"
#include "kernels/cpu/replay/pack.h"
#include "kernels/cpu/replay/parts.h"
#include "kernels/cpu/tiles.h"
#include "kernels/table.h"

/* The order as leaves (chains from +0) of `leaf` elements, added ascending within parts; a tree joins eight parts. */
typedef struct vd_leaves {
    int64_t k, leaf, leaf_steps, steps, part_leaves;
    bool    folded, tree;
} vd_leaves;

static inline vd_leaves vd_cut_leaves(const vd_linear *op)
{
    const int64_t k = op->k;
    vd_leaves     l = {.k = k, .leaf = k, .folded = op->order != VD_TC16_CHAIN, .tree = op->order == VD_TC16_TREE8};
    if (op->order == VD_TC16_SPLIT)
        l.leaf = k > op->splits ? k / op->splits : 1;
    if (op->order == VD_TC16_FOLD512)
        l.leaf = 512;
    if (l.tree)
        for (l.leaf = 512; l.leaf > 16 && k / 8 % l.leaf != 0;)
            l.leaf -= 16;
    if (l.leaf < 1)
        l.leaf = 1;
    const int64_t whole = k / l.leaf, rest = k % l.leaf;
    l.leaf_steps  = (l.leaf + VD_STEP - 1) / VD_STEP;
    l.steps       = whole * l.leaf_steps + (rest + VD_STEP - 1) / VD_STEP;
    l.part_leaves = l.tree ? k / 8 / l.leaf : whole + 1;
    return l;
}

/* Where a step lies. */
typedef struct vd_step_at {
    int64_t leaf, end, k, count; /* end: of the leaf */
    bool    ends_leaf;
} vd_step_at;

static inline void vd_measure_step(vd_step_at *s)
{
    s->count     = vd_min(VD_STEP, s->end - s->k);
    s->ends_leaf = s->k + s->count == s->end;
}

static inline vd_step_at vd_find_step(const vd_leaves *l, int64_t i)
{
    vd_step_at s = {.leaf = i / l->leaf_steps};
    s.end        = vd_min((s.leaf + 1) * l->leaf, l->k);
    s.k          = s.leaf * l->leaf + i % l->leaf_steps * VD_STEP;
    vd_measure_step(&s);
    return s;
}

static inline void vd_next_step(const vd_leaves *l, vd_step_at *s)
{
    if (s->ends_leaf) {
        s->leaf++;
        s->k   = s->end;
        s->end = vd_min(s->end + l->leaf, l->k);
    } else
        s->k += VD_STEP;
    vd_measure_step(s);
}

enum { VD_SUMS = 5 }; /* 0: the chain; 1: the leaves' sum; 2 to 4: the tree's, by level */

typedef struct vd_linear_job {
    const vd_linear *op;
    vd_leaves        leaves;
    vd_tally        *tally;
    char            *scratch;
    int64_t          worker_bytes;
    int64_t          rows;         /* of a block */
    int64_t          block_steps;  /* of K */
    int64_t          group;        /* panels of a task */
    int64_t          row_blocks, panels, groups;
    int              sums;         /* 1, 2 or VD_SUMS */
} vd_linear_job;

/* One worker's memory. */
typedef struct vd_linear_worker {
    vd_row_step     *steps;  /* [block_steps, rows] and one more */
    vd_row          *row;    /* [rows] */
    vd_panel_step   *panel;  /* two steps */
    vd_careful_step *careful;
    float           *sum[VD_SUMS];      /* [group, rows, VD_PANEL] each */
    float           *careful_sum[VD_SUMS]; /* [rows, VD_PANEL] each */
    float           *out;    /* [rows, VD_PANEL] */
    int32_t         *low;    /* [rows, VD_LANES] */
    uint8_t         *left;   /* [group, rows]: some lane left the window */
    uint8_t         *large;  /* [group]: some weight is 2 or more, Inf or NaN */
    int64_t          first_row, row_count, first_panel, panel_count;
} vd_linear_worker;

/* Lays a worker's memory out from base; returns its size. base NULL: only the size. */
static inline int64_t vd_lay_out_worker(const vd_linear_job *job, char *base, vd_linear_worker *w)
{
    int64_t       used  = 0;
    const int64_t plane = 4 * job->rows * VD_PANEL;
    w->steps   = vd_carve(base, &used, (job->block_steps * job->rows + 1) * (int64_t)sizeof(vd_row_step));
    w->row     = vd_carve(base, &used, job->rows * (int64_t)sizeof(vd_row));
    w->panel   = vd_carve(base, &used, 2 * sizeof(vd_panel_step));
    w->careful = vd_carve(base, &used, sizeof(vd_careful_step));
    w->out     = vd_carve(base, &used, plane);
    w->low     = vd_carve(base, &used, 4 * job->rows * VD_LANES);
    w->left    = vd_carve(base, &used, job->group * job->rows);
    w->large   = vd_carve(base, &used, job->group);
    for (int i = 0; i < job->sums; i++) {
        w->sum[i]         = vd_carve(base, &used, job->group * plane);
        w->careful_sum[i] = vd_carve(base, &used, plane);
    }
    return used;
}

static inline vd_linear_job vd_plan_linear(const vd_linear *op, int threads)
{
    vd_linear_job job = {.op = op, .leaves = vd_cut_leaves(op)};
    job.rows          = vd_max(1, vd_min(op->m, VD_TILE_ROWS));
    job.block_steps   = vd_max(1, vd_min(VD_TILE_CELLS / job.rows, job.leaves.steps));
    job.row_blocks    = (op->m + job.rows - 1) / job.rows;
    job.panels        = (op->n + VD_PANEL - 1) / VD_PANEL;
    /* several tasks a thread, so that none waits long for the last */
    const int64_t wanted = (4 * (int64_t)threads + job.row_blocks - 1) / vd_max(1, job.row_blocks);
    job.group  = vd_max(1, vd_min(VD_TILE_OUTPUTS / VD_PANEL, threads > 1 ? job.panels / wanted : job.panels));
    job.groups = (job.panels + job.group - 1) / job.group;
    job.sums   = job.leaves.tree ? VD_SUMS : job.leaves.folded ? 2 : 1;
    vd_linear_worker w;
    job.worker_bytes = vd_lay_out_worker(&job, NULL, &w);
    return job;
}

/* ---- Sums of leaves: VD_MODE_NEAREST ---- */

__attribute__((noinline)) static void vd_end_leaf(const vd_leaves *l, int64_t leaf, float *const sum[], int64_t at, int64_t n)
{
    float *chain = sum[0] + at, *total = sum[1] + at;
    for (int64_t i = 0; i < n; i++) {
        total[i] += chain[i];
        chain[i] = 0.0f;
    }
    if (!l->tree || (leaf + 1) % l->part_leaves != 0)
        return;
    int level = 2;
    for (int64_t part = leaf / l->part_leaves; part & 1; part >>= 1, level++)
        for (int64_t i = 0; i < n; i++)
            total[i] = sum[level][at + i] + total[i];
    if (level < VD_SUMS)
        for (int64_t i = 0; i < n; i++) {
            sum[level][at + i] = total[i];
            total[i]           = 0.0f;
        }
}

/* ---- The fast path ---- */

static inline vd_panel_source vd_find_panel(const vd_linear *op, int64_t panel, int down)
{
    return (vd_panel_source){
        .w       = (const char *)op->w + 2 * panel * VD_PANEL * op->k,
        .stride  = op->k,
        .outputs = vd_min(VD_PANEL, op->n - panel * VD_PANEL),
        .down    = down,
    };
}

static inline void vd_prepare_rows(const vd_linear_job *job, vd_linear_worker *w, int64_t first, int64_t last)
{
    const vd_linear *op = job->op;
    for (int64_t r = 0; r < w->row_count; r++) {
        const char *x = (const char *)op->x + 2 * (w->first_row + r) * op->x_stride;
        vd_step_at  s = vd_find_step(&job->leaves, first);
        for (int64_t i = first; i < last; i++, vd_next_step(&job->leaves, &s)) {
            vd_row_step *out = w->steps + (i - first) * w->row_count + r;
            if (w->row[r].kind == VD_ROW_SCALAR)
                memset(out, 0, sizeof *out);
            else if (!vd_prepare_row_step(x + 2 * s.k, s.count, w->row[r].shift, out) && w->row[r].kind == VD_ROW_FAST)
                w->row[r].kind = VD_ROW_CAREFUL;
        }
    }
}

/* Numbers of one block of K. */
typedef struct vd_range {
    int64_t first, end;
} vd_range;

enum { VD_AHEAD = 256 }; /* numbers: 512 bytes of each row */

/* Has the lines of two steps, some steps ahead, brought near: of this panel, at the block's end of the next one. */
static inline void vd_prefetch_ahead(const vd_panel_source *source, const vd_panel_source *next, int64_t k, vd_range block)
{
    if (k + VD_AHEAD < block.end)
        vd_prefetch_two_steps(source, k + VD_AHEAD);
    else if (next)
        vd_prefetch_two_steps(next, vd_min(block.first + k + VD_AHEAD - block.end, block.end - 1));
}

/* Steps of one panel for all rows of the block: `steps` whole ones, or one of `count`. */
static inline uint32_t vd_run_steps(const vd_panel_source *source, const vd_panel_source *next, int64_t k, int64_t count, int64_t steps,
                                    vd_range block, const vd_linear_worker *w, const vd_row_step *row, float *c)
{
    uint32_t any = 0;
    for (int64_t i = 0; i < steps; i++, row += w->row_count) {
        const bool two = source->outputs == VD_PANEL && count == VD_STEP && i + 1 < steps;
        vd_prefetch_ahead(source, next, k + i * VD_STEP, block);
        if (!two) {
            any |= vd_gather_panel_step(source, k + i * VD_STEP, count, w->panel);
            vd_run_step(w->panel, row, c, w->low, w->row_count);
            continue;
        }
        any |= vd_gather_two_steps(source, k + i * VD_STEP, w->panel);
        vd_run_step(w->panel, row, c, w->low, w->row_count);
        i++, row += w->row_count;
        vd_run_step(w->panel + 1, row, c, w->low, w->row_count);
    }
    return any;
}

static inline void vd_run_panel(const vd_linear_job *job, vd_linear_worker *w, int64_t slot, int64_t first, int64_t last, int down)
{
    const vd_panel_source source = vd_find_panel(job->op, w->first_panel + slot, down);
    const bool            whole  = source.outputs == VD_PANEL, more = w->first_panel + slot + 1 < job->panels;
    const vd_panel_source next   = vd_find_panel(job->op, w->first_panel + slot + more, 0);
    const int64_t         at     = slot * job->rows * VD_PANEL;
    const vd_row_step    *row    = w->steps;
    uint32_t              any    = 0;
    vd_step_at            s      = vd_find_step(&job->leaves, first);
    const vd_step_at      end    = vd_find_step(&job->leaves, last - 1);
    const vd_range        block  = {s.k, end.k + end.count};
    vd_reset_low(w->low, w->row_count);
    for (int64_t left = last - first; left > 0;) {
        /* whole steps before the end of the leaf, or the one that is not */
        const int64_t steps = vd_max(1, vd_min(left, (s.end - s.k) / VD_STEP));
        if (whole && s.count == VD_STEP && w->row_count == 1 && !down)
            any |= vd_run_single(&source, s.k, steps, row, w->sum[0] + at, w->low);
        else
            any |= vd_run_steps(&source, more ? &next : NULL, s.k, s.count, steps, block, w, row, w->sum[0] + at);
        row += steps * w->row_count;
        left -= steps;
        s.k += (steps - 1) * VD_STEP;
        vd_measure_step(&s);
        if (job->leaves.folded && s.ends_leaf) {
            vd_mode_set(VD_MODE_NEAREST);
            vd_end_leaf(&job->leaves, s.leaf, w->sum, at, w->row_count * VD_PANEL);
            vd_mode_set(VD_MODE_FLUSH);
        }
        vd_next_step(&job->leaves, &s);
    }
    vd_note_low(w->low, w->row_count, w->left + slot * job->rows);
    w->large[slot] |= (any & VD_TWO_OR_MORE) != 0;
}

/* All of K for the panels [slot, end) of the task, their numbers scaled by 2^-down. */
static inline void vd_run_panels(const vd_linear_job *job, vd_linear_worker *w, int64_t slot, int64_t end, int down)
{
    const int64_t plane = job->rows * VD_PANEL;
    for (int i = 0; i < job->sums; i++)
        memset(w->sum[i] + slot * plane, 0, 4 * (size_t)((end - slot) * plane));
    memset(w->left + slot * job->rows, 0, (size_t)((end - slot) * job->rows));
    memset(w->large + slot, 0, (size_t)(end - slot));
    vd_mode_set(VD_MODE_FLUSH);
    for (int64_t first = 0; first < job->leaves.steps; first += job->block_steps) {
        const int64_t last = vd_min(first + job->block_steps, job->leaves.steps);
        vd_prepare_rows(job, w, first, last);
        for (int64_t p = slot; p < end; p++)
            vd_run_panel(job, w, p, first, last, down);
    }
    vd_mode_set(VD_MODE_NEAREST);
}

/* ---- What the fast path cannot do ---- */

/* All of K for the rows marked in `wanted` against one panel, into careful_sum. */
static inline void vd_run_panel_carefully(const vd_linear_job *job, vd_linear_worker *w, int64_t slot, const uint8_t *wanted)
{
    const vd_linear      *op = job->op;
    const vd_panel_source s  = vd_find_panel(op, w->first_panel + slot, 0);
    for (int i = 0; i < job->sums; i++)
        memset(w->careful_sum[i], 0, 4 * (size_t)(job->rows * VD_PANEL));
    vd_step_at at = vd_find_step(&job->leaves, 0);
    for (int64_t i = 0; i < job->leaves.steps; i++, vd_next_step(&job->leaves, &at)) {
        uint16_t         t[VD_STEP][VD_PANEL] = {{0}};
        for (int64_t j = 0; j < s.outputs; j++)
            for (int64_t k = 0; k < at.count; k++)
                memcpy(&t[k][j], s.w + 2 * (j * s.stride + at.k + k), 2);
        vd_prepare_careful(t, w->careful);
        vd_mode_set(VD_MODE_TRUNCATE);
        for (int64_t r = 0; r < w->row_count; r++) {
            if (!wanted[r])
                continue;
            uint16_t a[VD_STEP] = {0};
            memcpy(a, (const char *)op->x + 2 * ((w->first_row + r) * op->x_stride + at.k), 2 * (size_t)at.count);
            vd_run_careful(w->careful, a, w->careful_sum[0] + r * VD_PANEL);
        }
        vd_mode_set(VD_MODE_NEAREST);
        if (job->leaves.folded && at.ends_leaf)
            vd_end_leaf(&job->leaves, at.leaf, w->careful_sum, 0, w->row_count * VD_PANEL);
    }
}

/* What is known of a panel once somebody has looked. */
typedef struct vd_panel_facts {
    vd_extremes all;
    uint64_t    special; /* bit i: output i holds Inf or NaN */
} vd_panel_facts;

static inline vd_panel_facts vd_look_at_panel(const vd_panel_source *s, int64_t k)
{
    vd_panel_facts f = {vd_no_extremes(), 0};
    for (int64_t i = 0; i < s->outputs; i++) {
        vd_extremes e = vd_no_extremes();
        vd_find_extremes(s->w + 2 * i * s->stride, 1, k, k, &e);
        f.special |= (uint64_t)(e.largest >= 0x7F80) << i;
        f.all.largest  = e.largest > f.all.largest ? e.largest : f.all.largest;
        f.all.smallest = e.smallest < f.all.smallest ? e.smallest : f.all.smallest;
    }
    return f;
}

/* y = round(out + b) for one row of a panel. */
__attribute__((noinline)) static void vd_write_row(const vd_linear *op, int64_t row, int64_t panel, const float *out)
{
    const int64_t first = panel * VD_PANEL, n = vd_min(VD_PANEL, op->n - first);
    const int     size = op->y_type == VD_BF16 ? 2 : 4, b_size = op->b_type == VD_BF16 ? 2 : 4;
    char         *y = (char *)op->y + size * (row * op->y_stride + first);
    const char   *b = op->b ? (const char *)op->b + b_size * first : NULL;
    for (int64_t i = 0; i < n; i += VD_W) {
        const int part = (int)vd_min(VD_W, n - i);
        vd_vf     v = vd_vf_load(out + i);
        if (b && op->b_type == VD_BF16)
            v = vd_vf_add(v, part == VD_W ? vd_vf_load_bf16(b + 2 * i) : vd_vf_load_bf16_part(b + 2 * i, part));
        else if (b)
            v = vd_vf_add(v, part == VD_W ? vd_vf_load(b + 4 * i) : vd_vf_load_part(b + 4 * i, part));
        if (op->y_type == VD_BF16 && part == VD_W)
            vd_vf_store_high(y + 2 * i, vd_v_round_bf16(v));
        else if (op->y_type == VD_BF16)
            vd_vf_store_high_part(y + 2 * i, vd_v_round_bf16(v), part);
        else if (part == VD_W)
            vd_vf_store(y + 4 * i, vd_v_canonical(v));
        else
            vd_vf_store_part(y + 4 * i, vd_v_canonical(v), part);
    }
}

/* Judges each row's fast result for one panel, replaces what is not proven right, writes y. */
static inline void vd_finish_panel(const vd_linear_job *job, vd_linear_worker *w, int64_t slot, int down, bool fast, const vd_panel_facts *known)
{
    const vd_linear *op     = job->op;
    const int64_t    panel  = w->first_panel + slot;
    const uint8_t   *left   = w->left + slot * job->rows;
    const float     *sum    = w->sum[job->leaves.folded] + slot * job->rows * VD_PANEL;
    const int64_t    first  = panel * VD_PANEL, outputs = vd_min(VD_PANEL, op->n - first);
    uint8_t          wanted[VD_TILE_ROWS];
    int64_t          fast_rows = 0, low_rows = 0, careful = 0, scalar = 0;
    vd_panel_facts   facts   = known ? *known : (vd_panel_facts){vd_no_extremes(), 0};
    for (int64_t r = 0; r < w->row_count; r++) {
        const vd_row *row   = w->row + r;
        const int32_t scale = row->shift + down;
        bool          right = fast && row->kind == VD_ROW_FAST && scale >= VD_SCALE_MIN && scale <= VD_SCALE_MAX;
        if (right && left[r]) {
            /* below the window, but exact all the same if every product is a multiple of the last bit there */
            if (!known) {
                const vd_panel_source source = vd_find_panel(op, panel, 0);
                facts = vd_look_at_panel(&source, op->k);
                known = &facts;
            }
            right = row->low + vd_smallest_exponent(facts.all) - down >= VD_LOWEST_SUM;
            low_rows += right;
        }
        if (row->kind == VD_ROW_ZERO) {
            memset(w->out + r * VD_PANEL, 0, 4 * VD_PANEL);
        } else if (right) {
            fast_rows++;
            vd_scale_row(sum + r * VD_PANEL, scale, w->out + r * VD_PANEL);
        }
        wanted[r] = !right && row->kind != VD_ROW_ZERO && row->kind != VD_ROW_SCALAR;
        careful += wanted[r];
    }
    if (careful) {
        vd_run_panel_carefully(job, w, slot, wanted);
        for (int64_t r = 0; r < w->row_count; r++)
            if (wanted[r])
                memcpy(w->out + r * VD_PANEL, w->careful_sum[job->leaves.folded] + r * VD_PANEL, 4 * VD_PANEL);
    }
    for (int64_t r = 0; r < w->row_count; r++) {
        const bool whole = w->row[r].kind == VD_ROW_SCALAR;
        for (int64_t j = 0; j < outputs && (whole || facts.special); j++)
            if (whole || facts.special >> j & 1) {
                w->out[r * VD_PANEL + j] = vd_linear_sum(op->order, op->splits, (const char *)op->x + 2 * (w->first_row + r) * op->x_stride,
                                                         (const char *)op->w + 2 * (first + j) * op->k, op->w_type, op->k);
                scalar++;
            }
        vd_write_row(op, w->first_row + r, panel, w->out + r * VD_PANEL);
    }
    if (job->tally) {
        const int64_t fast_outputs = fast_rows * outputs;
        vd_count(&job->tally->fast, fast_outputs);
        vd_count(&job->tally->low, low_rows * outputs);
        vd_count(&job->tally->scaled, down ? fast_outputs : 0);
        vd_count(&job->tally->careful, careful * outputs);
        vd_count(&job->tally->scalar, scalar);
    }
}

/* A panel with a weight of 2 or more, Inf or NaN: again, scaled, or carefully. */
static inline void vd_redo_panel(const vd_linear_job *job, vd_linear_worker *w, int64_t slot)
{
    const vd_panel_source source = vd_find_panel(job->op, w->first_panel + slot, 0);
    const vd_panel_facts  facts  = vd_look_at_panel(&source, job->op->k);
    const int             down   = facts.special ? 0 : vd_exponent_of(facts.all.largest);
    if (!facts.special)
        vd_run_panels(job, w, slot, slot + 1, down);
    vd_finish_panel(job, w, slot, down, !facts.special, &facts);
}

static void vd_run_linear_task(void *arg, int64_t index, int worker)
{
    const vd_linear_job *job  = arg;
    const vd_linear     *op   = job->op;
    const unsigned       mode = vd_mode_get();
    vd_linear_worker     w;
    vd_lay_out_worker(job, job->scratch + worker * job->worker_bytes, &w);
    /* neighbours in order share weights */
    w.first_row   = index % job->row_blocks * job->rows;
    w.row_count   = vd_min(job->rows, op->m - w.first_row);
    w.first_panel = index / job->row_blocks * job->group;
    w.panel_count = vd_min(job->group, job->panels - w.first_panel);
    for (int64_t r = 0; r < w.row_count; r++)
        vd_classify_row((const char *)op->x + 2 * (w.first_row + r) * op->x_stride, op->k, w.row + r);
    vd_run_panels(job, &w, 0, w.panel_count, 0);
    for (int64_t p = 0; p < w.panel_count; p++)
        if (!w.large[p])
            vd_finish_panel(job, &w, p, 0, true, NULL);
    for (int64_t p = 0; p < w.panel_count; p++)
        if (w.large[p])
            vd_redo_panel(job, &w, p);
    vd_mode_set(mode);
}

static inline void vd_run_linear(vd_exec *exec, const vd_linear *op, vd_tally *tally)
{
    vd_linear_job job = vd_plan_linear(op, exec->threads);
    job.tally         = tally;
    job.scratch       = exec->scratch;
    const int workers = vd_count_workers(exec, job.worker_bytes);
    if (workers > 0)
        vd_parallel(workers, job.row_blocks * job.groups, vd_run_linear_task, &job);
}

#endif
