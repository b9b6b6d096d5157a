/* Attention in the order attn/k128. A task is one head and one block of queries; inside, tiles of 128 keys: scores, softmax, values. Scores
 * are a linear layer whose weights are the keys; values are one whose weights lie key by key and whose sums go on over the tiles.
 * Include vec_*.h, vec_sfu.h and step_*.h first. */
#ifndef VD_REPLAY_ATTENTION_H
#define VD_REPLAY_ATTENTION_H

#include "core/core.h"
#include "core/parallel.h"
#include "kernels/cpu/replay/careful.h"
#include "kernels/cpu/replay/mode.h"
#include "kernels/cpu/replay/pack.h"
#include "kernels/cpu/replay/parts.h"
#include "kernels/cpu/tiles.h"
#include "kernels/table.h"

enum { VD_TILE_PANELS = VD_ATTN_TILE / VD_PANEL, VD_KEY_STEPS = VD_ATTN_TILE / VD_STEP };

typedef struct vd_attention_job {
    const vd_attention *op;
    vd_tally           *tally;
    char               *scratch;
    int64_t             worker_bytes, rows, blocks, d_steps, d_panels;
    float               scale;
} vd_attention_job;

typedef struct vd_attention_worker {
    vd_row_step     *q_steps; /* [d_steps, rows] and one more */
    vd_row_step     *p_steps; /* [VD_KEY_STEPS, rows] and one more */
    vd_row          *row;     /* [rows]: of q */
    vd_panel_step   *panel;
    vd_careful_step *careful;
    float           *t;       /* [rows, VD_ATTN_TILE]: scores, then p */
    uint16_t        *p;       /* [rows, VD_ATTN_TILE]: p as bf16 */
    float           *o;       /* [d_panels, rows, VD_PANEL]: the sums, not scaled */
    float           *c;       /* [rows, VD_PANEL]: one panel's chains */
    float           *careful_c;
    float           *sums;    /* [d]: for the contract */
    float           *top;     /* [rows] */
    float           *lanes;   /* [rows, 4] */
    int32_t         *low;     /* [rows, VD_LANES] */
    uint8_t         *left;    /* [rows]: some lane left the window */
    uint8_t         *wide;    /* [rows]: this tile's p could overflow the integer sum */
    uint8_t         *wanted;  /* [rows]: for the careful path */
    uint8_t         *whole;   /* [rows]: the contract does this row */
    int64_t          head, first_row, row_count;
    int64_t          first_key, keys; /* of the tile */
} vd_attention_worker;

static inline int64_t vd_lay_out_attention(const vd_attention_job *job, char *base, vd_attention_worker *w)
{
    int64_t       used = 0;
    const int64_t rows = job->rows;
    w->q_steps   = vd_carve(base, &used, (job->d_steps * rows + 1) * (int64_t)sizeof(vd_row_step));
    w->p_steps   = vd_carve(base, &used, (VD_KEY_STEPS * rows + 1) * (int64_t)sizeof(vd_row_step));
    w->row       = vd_carve(base, &used, rows * (int64_t)sizeof(vd_row));
    w->panel     = vd_carve(base, &used, sizeof(vd_panel_step));
    w->careful   = vd_carve(base, &used, sizeof(vd_careful_step));
    w->t         = vd_carve(base, &used, 4 * rows * VD_ATTN_TILE);
    w->p         = vd_carve(base, &used, 2 * rows * VD_ATTN_TILE);
    w->o         = vd_carve(base, &used, 4 * job->d_panels * rows * VD_PANEL);
    w->c         = vd_carve(base, &used, 4 * rows * VD_PANEL);
    w->careful_c = vd_carve(base, &used, 4 * rows * VD_PANEL);
    w->sums      = vd_carve(base, &used, 4 * job->op->d);
    w->top       = vd_carve(base, &used, 4 * rows);
    w->lanes     = vd_carve(base, &used, 16 * rows);
    w->low       = vd_carve(base, &used, 4 * rows * VD_LANES);
    w->left      = vd_carve(base, &used, rows);
    w->wide      = vd_carve(base, &used, rows);
    w->wanted    = vd_carve(base, &used, rows);
    w->whole     = vd_carve(base, &used, rows);
    return used;
}

static inline vd_attention_job vd_plan_attention(const vd_attention *op)
{
    vd_attention_job job = {.op = op, .scale = vd_attention_scale(op->d)};
    job.rows     = vd_max(1, vd_min(op->m, VD_TILE_ROWS));
    job.blocks   = (op->m + job.rows - 1) / job.rows;
    job.d_steps  = (op->d + VD_STEP - 1) / VD_STEP;
    job.d_panels = (op->d + VD_PANEL - 1) / VD_PANEL;
    vd_attention_worker w;
    job.worker_bytes = vd_lay_out_attention(&job, NULL, &w);
    return job;
}

static inline const char *vd_head_row(const void *p, int64_t row, int64_t stride, int64_t head, int64_t d)
{
    return (const char *)p + 2 * (row * stride + head * d);
}

/* How far a tile of keys or values must be scaled down: magnitudes of 2 and more are outside the fast kernel's range. */
static inline int vd_find_down(vd_extremes e) { return e.largest >> 7 > 127 ? (e.largest >> 7) - 127 : 0; }

/* ---- Scores ---- */

static inline void vd_score_carefully(const vd_attention_job *job, const vd_attention_worker *w, const vd_panel_source *s)
{
    const vd_attention *op = job->op;
    memset(w->careful_c, 0, 4 * (size_t)(w->row_count * VD_PANEL));
    for (int64_t k = 0; k < op->d; k += VD_STEP) {
        const int64_t count = vd_min(VD_STEP, op->d - k);
        uint16_t      t[VD_STEP][VD_PANEL] = {{0}};
        for (int64_t j = 0; j < s->outputs; j++)
            for (int64_t i = 0; i < count; i++)
                memcpy(&t[i][j], s->w + 2 * (j * s->stride + k + i), 2);
        vd_prepare_careful(t, w->careful);
        vd_mode_set(VD_MODE_TRUNCATE);
        for (int64_t r = 0; r < w->row_count; r++) {
            uint16_t a[VD_STEP] = {0};
            if (!w->wanted[r])
                continue;
            memcpy(a, vd_head_row(op->q, w->first_row + r, op->q_stride, w->head, op->d) + 2 * k, 2 * (size_t)count);
            vd_run_careful(w->careful, a, w->careful_c + r * VD_PANEL);
        }
        vd_mode_set(VD_MODE_NEAREST);
    }
}

/* Scores of all rows against one panel of the tile's keys, true to scale, into t from column `first` on. */
static inline void vd_score_panel(const vd_attention_job *job, const vd_attention_worker *w, int64_t first, vd_extremes facts)
{
    const vd_attention   *op     = job->op;
    const int             down   = vd_find_down(facts);
    const vd_panel_source source = {
        .w       = vd_head_row(op->k, w->first_key + first, op->k_stride, w->head, op->d),
        .stride  = op->k_stride,
        .outputs = vd_min(VD_PANEL, w->keys - first),
        .down    = down,
    };
    int64_t careful = 0, low = 0;
    memset(w->c, 0, 4 * (size_t)(w->row_count * VD_PANEL));
    memset(w->left, 0, (size_t)w->row_count);
    vd_reset_low(w->low, w->row_count);
    vd_mode_set(VD_MODE_FLUSH);
    for (int64_t i = 0; i < job->d_steps; i++) {
        vd_gather_panel_step(&source, i * VD_STEP, vd_min(VD_STEP, op->d - i * VD_STEP), w->panel);
        vd_run_step(w->panel, w->q_steps + i * w->row_count, w->c, w->low, w->row_count);
    }
    vd_mode_set(VD_MODE_NEAREST);
    vd_note_low(w->low, w->row_count, w->left);
    for (int64_t r = 0; r < w->row_count; r++) {
        const vd_row *row   = w->row + r;
        const int32_t scale = row->shift + down;
        float        *out   = w->t + r * VD_ATTN_TILE + first;
        bool          right = row->kind == VD_ROW_FAST && scale >= VD_SCALE_MIN && scale <= VD_SCALE_MAX;
        if (right && w->left[r]) {
            right = row->low + vd_smallest_exponent(facts) - down >= VD_LOWEST_SUM;
            low += right;
        }
        if (row->kind == VD_ROW_ZERO)
            memset(out, 0, 4 * VD_PANEL);
        else if (right)
            vd_scale_row(w->c + r * VD_PANEL, scale, out);
        w->wanted[r] = !right && row->kind != VD_ROW_ZERO && !w->whole[r];
        careful += w->wanted[r];
    }
    if (careful) {
        vd_score_carefully(job, w, &source);
        for (int64_t r = 0; r < w->row_count; r++)
            if (w->wanted[r])
                memcpy(w->t + r * VD_ATTN_TILE + first, w->careful_c + r * VD_PANEL, 4 * VD_PANEL);
    }
    if (job->tally) {
        vd_count(&job->tally->fast, (w->row_count - careful) * source.outputs);
        vd_count(&job->tally->low, low * source.outputs);
        vd_count(&job->tally->scaled, down ? (w->row_count - careful) * source.outputs : 0);
        vd_count(&job->tally->careful, careful * source.outputs);
    }
}

/* ---- Softmax of one row's tile: VD_MODE_NEAREST ---- */

/* Turns scores into p (fp32 and bf16), updates the running maximum and the lanes, returns α. A score that is Inf or NaN: *whole is set. */
__attribute__((noinline)) static float vd_soften_row(const vd_attention_job *job, const vd_attention_worker *w, int64_t r)
{
    float      *t = w->t + r * VD_ATTN_TILE;
    uint16_t   *p = w->p + r * VD_ATTN_TILE;
    const vd_vf scale = vd_vf_set1(job->scale);
    vd_vf       top = vd_vf_set1(w->top[r]), largest = vd_vf_zero();
    for (int64_t j = w->keys; j < VD_ATTN_TILE; j++)
        t[j] = 0.0f;
    for (int j = 0; j < VD_ATTN_TILE; j += VD_W) {
        const vd_vf v = vd_vf_mul(vd_vf_load(t + j), scale);
        vd_vf_store(t + j, v);
        /* magnitudes as integers, so that NaN counts too */
        const vd_vi bits = vd_vi_and(vd_vf_bits(v), vd_vi_set1(0x7FFFFFFF));
        largest = vd_vi_float(vd_vi_select(vd_vi_gt(bits, vd_vf_bits(largest)), bits, vd_vf_bits(largest)));
    }
    uint32_t bits[VD_W];
    vd_vf_store(bits, largest);
    for (int j = 0; j < VD_W; j++)
        if (bits[j] > 0x7F7FFFFF) {
            w->whole[r] = 1;
            return 1.0f;
        }
    for (int64_t j = w->keys; j < VD_ATTN_TILE; j++)
        t[j] = -INFINITY; /* p = 0 */
    for (int j = 0; j < VD_ATTN_TILE; j += VD_W)
        top = vd_vf_max(vd_vf_load(t + j), top);
    const float now = vd_vf_max_lane(top), alpha = w->first_key ? vd_ex2(w->top[r] - now) : 1.0f;
    const vd_vf shift = vd_vf_set1(now);
    for (int j = 0; j < VD_ATTN_TILE; j += VD_W) {
        const vd_vf v = vd_v_ex2(vd_vf_sub(vd_vf_load(t + j), shift));
        vd_vf_store(t + j, v);
        vd_vf_store_high(p + j, vd_v_round_bf16(v));
    }
    /* four lanes: key j belongs to lane j mod 8 / 2 */
    __m128 tile = _mm_setzero_ps();
    for (int j = 0; j < VD_ATTN_TILE; j += 8) {
        const __m128 a = _mm_loadu_ps(t + j), b = _mm_loadu_ps(t + j + 4);
        tile = _mm_add_ps(tile, _mm_shuffle_ps(a, b, 0x88));
        tile = _mm_add_ps(tile, _mm_shuffle_ps(a, b, 0xDD));
    }
    float *lanes = w->lanes + 4 * r;
    _mm_storeu_ps(lanes, w->first_key ? _mm_fmadd_ps(_mm_loadu_ps(lanes), _mm_set1_ps(alpha), tile) : tile);
    w->top[r] = now;
    return alpha;
}

/* ---- Values ---- */

static inline void vd_add_values_carefully(const vd_attention_worker *w, const vd_panel_source *s)
{
    for (int64_t k = 0; k < w->keys; k += VD_STEP) {
        const int64_t count = vd_min(VD_STEP, w->keys - k);
        uint16_t      t[VD_STEP][VD_PANEL] = {{0}};
        for (int64_t i = 0; i < count; i++)
            memcpy(t[i], s->w + 2 * (k + i) * s->stride, 2 * (size_t)s->outputs);
        vd_prepare_careful(t, w->careful);
        vd_mode_set(VD_MODE_TRUNCATE);
        for (int64_t r = 0; r < w->row_count; r++)
            if (w->wanted[r])
                vd_run_careful(w->careful, w->p + r * VD_ATTN_TILE + k, w->careful_c + r * VD_PANEL);
        vd_mode_set(VD_MODE_NEAREST);
    }
}

/* The panel's sums go on over the tile. */
static inline void vd_add_values(const vd_attention_job *job, const vd_attention_worker *w, int64_t panel, vd_extremes facts)
{
    const vd_attention   *op     = job->op;
    const int             down   = vd_find_down(facts);
    const vd_panel_source source = {
        .w       = vd_head_row(op->v, w->first_key, op->v_stride, w->head, op->d) + 2 * panel * VD_PANEL,
        .stride  = op->v_stride,
        .outputs = vd_min(VD_PANEL, op->d - panel * VD_PANEL),
        .down    = down,
    };
    float  *o = w->o + panel * w->row_count * VD_PANEL;
    int64_t careful = 0, low = 0;
    memset(w->left, 0, (size_t)w->row_count);
    vd_reset_low(w->low, w->row_count);
    for (int64_t r = 0; r < w->row_count; r++) {
        vd_scale_row(o + r * VD_PANEL, -down, w->c + r * VD_PANEL);
        /* a sum of 2^24 or more, in the panel's scale, Inf or NaN: careful */
        vd_vi large = vd_vi_set1(0);
        for (int i = 0; i < VD_PANEL; i += VD_W) {
            const vd_vi field = vd_vi_and(vd_vi_load(w->c + r * VD_PANEL + i), vd_vi_set1(0x7F800000));
            large             = vd_vi_select(vd_vi_gt(field, large), field, large);
        }
        uint32_t fields[VD_W];
        vd_vf_store(fields, vd_vi_float(large));
        w->wanted[r] = 0;
        for (int j = 0; j < VD_W; j++)
            w->wanted[r] |= fields[j] >= (127u + 24) << 23;
    }
    vd_mode_set(VD_MODE_FLUSH);
    for (int64_t k = 0; k < w->keys; k += VD_STEP) {
        vd_gather_values_step(&source, k, vd_min(VD_STEP, w->keys - k), w->panel);
        vd_run_step(w->panel, w->p_steps + k / VD_STEP * w->row_count, w->c, w->low, w->row_count);
    }
    vd_mode_set(VD_MODE_NEAREST);
    vd_note_low(w->low, w->row_count, w->left);
    for (int64_t r = 0; r < w->row_count; r++) {
        bool right = !w->wanted[r] && !w->wide[r] && down <= VD_SCALE_MAX;
        if (right && w->left[r]) {
            /* nothing is cut below the window if every product is a multiple of its last bit, and the sum is, being 0 */
            vd_extremes p = vd_no_extremes();
            vd_find_extremes(w->p + r * VD_ATTN_TILE, 1, VD_ATTN_TILE, 0, &p);
            right = w->first_key == 0 && vd_smallest_exponent(p) + vd_smallest_exponent(facts) - down >= VD_LOWEST_SUM;
            low += right;
        }
        w->wanted[r] = !right && !w->whole[r];
        careful += w->wanted[r];
        if (w->wanted[r])
            memcpy(w->careful_c + r * VD_PANEL, o + r * VD_PANEL, 4 * VD_PANEL);
        else if (right)
            vd_scale_row(w->c + r * VD_PANEL, down, o + r * VD_PANEL);
    }
    if (careful) {
        vd_add_values_carefully(w, &source);
        for (int64_t r = 0; r < w->row_count; r++)
            if (w->wanted[r])
                memcpy(o + r * VD_PANEL, w->careful_c + r * VD_PANEL, 4 * VD_PANEL);
    }
    if (job->tally) {
        vd_count(&job->tally->fast, (w->row_count - careful) * source.outputs);
        vd_count(&job->tally->low, low * source.outputs);
        vd_count(&job->tally->scaled, down ? (w->row_count - careful) * source.outputs : 0);
        vd_count(&job->tally->careful, careful * source.outputs);
    }
}

/* ---- One head and block of queries ---- */

static inline void vd_run_tile(const vd_attention_job *job, const vd_attention_worker *w)
{
    const vd_attention *op = job->op;
    vd_extremes         k = vd_no_extremes(), v = vd_no_extremes();
    vd_find_extremes(vd_head_row(op->k, w->first_key, op->k_stride, w->head, op->d), w->keys, op->d, op->k_stride, &k);
    vd_find_extremes(vd_head_row(op->v, w->first_key, op->v_stride, w->head, op->d), w->keys, op->d, op->v_stride, &v);
    if (k.largest >= 0x7F80 || v.largest >= 0x7F80) {
        memset(w->whole, 1, (size_t)w->row_count); /* NaN or Inf among keys or values: the contract does every row */
        return;
    }
    for (int64_t first = 0; first < w->keys; first += VD_PANEL)
        vd_score_panel(job, w, first, k);
    for (int64_t r = 0; r < w->row_count; r++) {
        if (!w->whole[r]) {
            const float alpha = vd_soften_row(job, w, r);
            for (int64_t panel = 0; panel < job->d_panels && w->first_key && alpha != 1.0f; panel++) {
                float *o = w->o + (panel * w->row_count + r) * VD_PANEL;
                for (int i = 0; i < VD_PANEL; i += VD_W)
                    vd_vf_store(o + i, vd_vf_mul(vd_vf_load(o + i), vd_vf_set1(alpha)));
            }
        }
        if (w->whole[r])
            memset(w->p + r * VD_ATTN_TILE, 0, 2 * VD_ATTN_TILE);
        w->wide[r] = 0;
        for (int64_t i = 0; i * VD_STEP < w->keys; i++)
            w->wide[r] |= !vd_prepare_row_step(w->p + r * VD_ATTN_TILE + i * VD_STEP, VD_STEP, 0, w->p_steps + i * w->row_count + r);
    }
    for (int64_t panel = 0; panel < job->d_panels; panel++)
        vd_add_values(job, w, panel, v);
}

__attribute__((noinline)) static void vd_write_attention_row(const vd_attention_job *job, const vd_attention_worker *w, int64_t r)
{
    const vd_attention *op    = job->op;
    const float        *lanes = w->lanes + 4 * r;
    const vd_vf         over  = vd_vf_set1(vd_rcp((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])));
    char               *out   = (char *)op->o + 2 * ((w->first_row + r) * op->o_stride + w->head * op->d);
    for (int64_t c = 0; c < op->d; c += VD_W) {
        const int64_t panel = c / VD_PANEL;
        const vd_vf   y     = vd_v_round_bf16(vd_vf_mul(vd_vf_load(w->o + (panel * w->row_count + r) * VD_PANEL + c % VD_PANEL), over));
        if (op->d - c >= VD_W)
            vd_vf_store_high(out + 2 * c, y);
        else
            vd_vf_store_high_part(out + 2 * c, y, (int)(op->d - c));
    }
}

static void vd_run_attention_task(void *arg, int64_t index, int worker)
{
    const vd_attention_job *job  = arg;
    const vd_attention     *op   = job->op;
    const unsigned          mode = vd_mode_get();
    vd_attention_worker     w;
    vd_mode_set(VD_MODE_NEAREST);
    vd_lay_out_attention(job, job->scratch + worker * job->worker_bytes, &w);
    w.head      = index / job->blocks; /* neighbours in order share keys and values */
    w.first_row = index % job->blocks * job->rows;
    w.row_count = vd_min(job->rows, op->m - w.first_row);
    for (int64_t r = 0; r < w.row_count; r++) {
        const char *q = vd_head_row(op->q, w.first_row + r, op->q_stride, w.head, op->d);
        vd_classify_row(q, op->d, w.row + r);
        w.whole[r] = w.row[r].kind == VD_ROW_SCALAR;
        for (int64_t i = 0; i < job->d_steps; i++) {
            vd_row_step  *out   = w.q_steps + i * w.row_count + r;
            const int64_t count = vd_min(VD_STEP, op->d - i * VD_STEP);
            if (w.whole[r])
                memset(out, 0, sizeof *out);
            else if (!vd_prepare_row_step(q + 2 * i * VD_STEP, count, w.row[r].shift, out) && w.row[r].kind == VD_ROW_FAST)
                w.row[r].kind = VD_ROW_CAREFUL;
        }
        w.top[r] = -INFINITY;
    }
    memset(w.o, 0, 4 * (size_t)(job->d_panels * w.row_count * VD_PANEL));
    for (w.first_key = 0; w.first_key < op->s; w.first_key += VD_ATTN_TILE) {
        w.keys = vd_min(VD_ATTN_TILE, op->s - w.first_key);
        vd_run_tile(job, &w);
    }
    int64_t whole = 0;
    for (int64_t r = 0; r < w.row_count; r++)
        if (w.whole[r]) {
            vd_attention_row(op->order, op->s, op->d, vd_head_row(op->q, w.first_row + r, op->q_stride, w.head, op->d),
                             vd_head_row(op->k, 0, op->k_stride, w.head, op->d), op->k_stride, vd_head_row(op->v, 0, op->v_stride, w.head, op->d),
                             op->v_stride, (char *)op->o + 2 * ((w.first_row + r) * op->o_stride + w.head * op->d), w.sums);
            whole++;
        } else
            vd_write_attention_row(job, &w, r);
    if (job->tally)
        vd_count(&job->tally->scalar, whole * op->d);
    vd_mode_set(mode);
}

static inline void vd_run_attention(vd_exec *exec, const vd_attention *op, vd_tally *tally)
{
    vd_attention_job job = vd_plan_attention(op);
    job.tally            = tally;
    job.scratch          = exec->scratch;
    const int workers = vd_count_workers(exec, job.worker_bytes);
    if (workers > 0)
        vd_parallel(workers, op->heads * job.blocks, vd_run_attention_task, &job);
}

#endif
