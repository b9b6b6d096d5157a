/* Attention in the orders attn/k128/pair and attn/k128/f32, written once over the vectors of vec_*.h. Before this header, a level defines
 * vd_v_product (vec_product.h).
 *
 * A task is a head and a range of queries. Tile of 128 keys after tile: keys are turned into panels (lanes over keys), values laid out as
 * panels (lanes over o's columns); then strip of queries after strip: scores by the micro-kernel, maximum, p, denominator's lanes, o scaled,
 * o's sums go on over the tile's keys. Only the two products run with subnormals flushed, and only where the order is `pair` without the
 * instruction; they are functions of their own, not inlined, so that no other arithmetic moves in.
 */
#ifndef VD_VEC_ATTENTION_H
#define VD_VEC_ATTENTION_H

#include "core/parallel.h"
#include "kernels/cpu/vec_product.h"

enum {
    VD_P_STRIDE     = VD_ATTN_TILE + 16,
    VD_KEY_PANELS   = VD_ATTN_TILE / VD_PANEL_WIDTH,
    VD_VALUE_FLOATS = VD_ATTN_TILE * VD_PANEL_WIDTH /* of a panel of values */
};

typedef struct vd_attn_job {
    const vd_attention *op;
    vd_cells            cells;
    bool                flush;
    int64_t             rows;       /* queries of a task */
    int64_t             columns;    /* panels of o's columns */
    int64_t             key_floats; /* of a panel of keys */
    float               scale;
    int64_t             bytes;
    char               *scratch;
} vd_attn_job;

typedef struct vd_attn_task {
    const vd_attn_job *job;
    int64_t            head, first_row, rows;
    float *keys, *values; /* panels of the tile */
    float *q;             /* [rows][VD_STRIP_STRIDE]: queries as cells */
    float *p;             /* strip: weights as cells */
    float *scores;        /* [VD_KEY_PANELS][strip][VD_PANEL_WIDTH] */
    float *weights;       /* [strip][VD_P_STRIDE]: t, then p unrounded */
    float *sums;          /* [columns][rows][VD_PANEL_WIDTH]: o so far */
    float *top, *lanes;   /* [rows], [rows][4] */
} vd_attn_task;

/* Values as panels: cell j of a panel holds key j (or the pair 2j, 2j + 1) of VD_PANEL_WIDTH columns. Keys from `keys` on are +0. */
static inline void vd_pack_values(float *to, const void *from, int64_t stride, int64_t keys, int64_t d, vd_cells kind)
{
    const vd_dtype type  = kind == VD_CELLS_F32 ? VD_F32 : VD_BF16;
    const int64_t  cells = vd_cells_count(kind, keys);
    for (int64_t j = 0; j < cells; j++) { /* along rows: those of a head's keys are pages apart */
        const int64_t key = kind == VD_CELLS_SWAPPED ? j ^ 1 : kind == VD_CELLS_PAIRS ? 2 * j : j;
        for (int64_t column = 0; column < d; column += VD_W) {
            vd_vf v = key < keys ? vd_v_load(from, type, key * stride + column, key * stride + d) : vd_vf_zero();
            if (kind == VD_CELLS_PAIRS) {
                const vd_vf odd = key + 1 < keys ? vd_v_load(from, type, (key + 1) * stride + column, (key + 1) * stride + d) : vd_vf_zero();
                v               = vd_vi_float(vd_vi_or(vd_vf_bits(odd), vd_vi_shr(vd_vf_bits(v), 16)));
            }
            vd_vf_store(to + column / VD_PANEL_WIDTH * VD_VALUE_FLOATS + j * VD_PANEL_WIDTH + column % VD_PANEL_WIDTH, v);
        }
    }
}

static __attribute__((noinline)) void vd_v_scores(const vd_attn_task *t, int64_t row, int64_t mr, int64_t panels)
{
    const int64_t cells = vd_cells_count(t->job->cells, t->job->op->d);
    vd_v_run_kernels((int)mr, panels, cells, t->q + row * VD_STRIP_STRIDE, t->keys, t->job->key_floats, t->scores, VD_STRIP_ROWS * VD_PANEL_WIDTH,
                     VD_SUM_NEW);
}

static __attribute__((noinline)) void vd_v_values(const vd_attn_task *t, int64_t row, int64_t mr, int64_t keys, bool first)
{
    const int64_t cells = vd_cells_count(t->job->cells, keys), c_panel = t->rows * VD_PANEL_WIDTH;
    vd_v_run_kernels((int)mr, t->job->columns, cells, t->p, t->values, VD_VALUE_FLOATS, t->sums + row * VD_PANEL_WIDTH, c_panel,
                     first ? VD_SUM_NEW : VD_SUM_ON);
}

/* To bf16. A weight is in [0, 1], or a NaN whose lowest half is clear or that is negative, which the addition leaves a NaN. */
static inline vd_vf vd_v_round_weight(vd_vf p)
{
    const vd_vi u = vd_vf_bits(p);
    const vd_vi r = vd_vi_add(u, vd_vi_add(vd_vi_set1(0x7FFF), vd_vi_and(vd_vi_shr(u, 16), vd_vi_set1(1))));
    return vd_vi_float(vd_vi_and(r, vd_vi_set1((int32_t)0xFFFF0000)));
}

/* One row of scores to t, its maximum, p, and p as cells of the strip. Returns α. */
static inline float vd_v_weigh(const vd_attn_task *t, int64_t row, int64_t m, int64_t keys, float scale)
{
    const vd_cells kind    = t->job->cells;
    float         *weights = t->weights + m * VD_P_STRIDE, *strip = t->p + m * VD_STRIP_STRIDE;
    const float    top = t->top[row];
    vd_vf          most   = vd_vf_set1(top);
    const int64_t  padded = (keys + VD_PANEL_WIDTH - 1) / VD_PANEL_WIDTH * VD_PANEL_WIDTH; /* scores beyond the end are of zero keys */
    for (int64_t j = 0; j < padded; j += VD_W) {
        const vd_vf s = vd_vf_load(t->scores + (j / VD_PANEL_WIDTH * VD_STRIP_ROWS + m) * VD_PANEL_WIDTH + j % VD_PANEL_WIDTH);
        vd_vf       x = vd_vf_mul(s, vd_vf_set1(scale));
        vd_vf_store(weights + j, x);
        if (keys - j < VD_W) /* keys beyond the end are no maximum */
            x = vd_vf_select(vd_vm_below((int)vd_max(0, keys - j)), x, vd_vf_set1(top));
        most = vd_vf_max(x, most); /* a NaN is no maximum */
    }
    const float now = vd_vf_max_lane(most);
    for (int64_t j = 0; j < padded; j += VD_W)
        vd_vf_store(weights + j, vd_vf_sub(vd_vf_load(weights + j), vd_vf_set1(now)));
    vd_v_ex2_weights(weights, padded);
    for (int64_t j = 0; j < padded; j += VD_W) {
        vd_vf p = vd_vf_load(weights + j);
        if (keys - j < VD_W) { /* beyond the end: weights of nothing */
            p = vd_vf_select(vd_vm_below((int)vd_max(0, keys - j)), p, vd_vf_zero());
            vd_vf_store(weights + j, p);
        }
        if (kind == VD_CELLS_F32)
            vd_vf_store(strip + j, p);
        else if (kind == VD_CELLS_SWAPPED)
            vd_vf_store(strip + j, vd_vf_swap_pairs(vd_v_round_weight(p)));
        else
            vd_vf_store_high((uint16_t *)(void *)strip + j, vd_v_round_weight(p));
    }
    t->top[row] = now;
    return top == now && fabsf(now) < INFINITY ? 1.0f : vd_ex2(top - now);
}

/* The denominator's lanes of two rows: key j belongs to lane (j mod 8)/2, each lane ascending. */
static inline void vd_v_add_lanes(const float *a, const float *b, int64_t keys, __m128 *lanes_a, __m128 *lanes_b)
{
    __m256 sum = _mm256_setzero_ps(); /* a0 a1 b0 b1 | a2 a3 b2 b3 */
    for (int64_t j = 0; j < keys; j += 8) {
        const __m256 x = _mm256_loadu_ps(a + j), y = _mm256_loadu_ps(b + j);
        sum            = _mm256_add_ps(sum, _mm256_shuffle_ps(x, y, 0x88));
        sum            = _mm256_add_ps(sum, _mm256_shuffle_ps(x, y, 0xDD));
    }
    const __m128 low = _mm256_castps256_ps128(sum), high = _mm256_extractf128_ps(sum, 1);
    *lanes_a = _mm_movelh_ps(low, high);
    *lanes_b = _mm_movehl_ps(high, low);
}

static __attribute__((noinline)) void vd_v_softmax(const vd_attn_task *t, int64_t row, int64_t mr, int64_t keys, bool first)
{
    float       alpha[VD_STRIP_ROWS + 1];
    for (int64_t m = 0; m < mr; m++)
        alpha[m] = vd_v_weigh(t, row + m, m, keys, t->job->scale);
    for (int64_t m = 0; m < mr; m += 2) {
        const int64_t other = m + 1 < mr ? m + 1 : m;
        __m128        lanes[2];
        vd_v_add_lanes(t->weights + m * VD_P_STRIDE, t->weights + other * VD_P_STRIDE, keys, &lanes[0], &lanes[1]);
        for (int64_t i = m; i <= other; i++) {
            float *to = t->lanes + 4 * (row + i);
            _mm_storeu_ps(to, first ? lanes[i - m] : _mm_fmadd_ps(_mm_loadu_ps(to), _mm_set1_ps(alpha[i]), lanes[i - m]));
        }
    }
    for (int64_t m = 0; m < mr && !first; m++)
        for (int64_t p = 0; p < t->job->columns && alpha[m] != 1.0f; p++) { /* times 1 changes nothing */
            float *to = t->sums + (p * t->rows + row + m) * VD_PANEL_WIDTH;
            vd_vf_store(to, vd_vf_mul(vd_vf_load(to), vd_vf_set1(alpha[m])));
            vd_vf_store(to + VD_W, vd_vf_mul(vd_vf_load(to + VD_W), vd_vf_set1(alpha[m])));
        }
}

/* Asks for a part of the next tile's keys and values, whose rows lie pages apart. */
static inline void vd_v_fetch_ahead(const vd_attn_task *t, int64_t key, int64_t part, int64_t parts)
{
    const vd_attention *op   = t->job->op;
    const int64_t       rows = vd_max(0, vd_min(VD_ATTN_TILE, op->s - key)), bytes = op->d * vd_dtype_size(op->type);
    const int64_t       row  = t->rows * (part + 1) / parts;
    for (int64_t m = row; m < vd_min(t->rows, row + VD_STRIP_ROWS); m++) /* the next strip's queries */
        for (int64_t i = 0; i < op->d; i += 16)
            _mm_prefetch((const char *)(t->q + m * VD_STRIP_STRIDE + i), _MM_HINT_T0);
    for (int64_t r = rows * part / parts; r < rows * (part + 1) / parts; r++) {
        const char *k = vd_v_at(op->k, op->type, (key + r) * op->k_stride + t->head * op->d);
        const char *v = vd_v_at(op->v, op->type, (key + r) * op->v_stride + t->head * op->d);
        for (int64_t i = 0; i < bytes; i += 64) {
            _mm_prefetch(k + i, _MM_HINT_T1);
            _mm_prefetch(v + i, _MM_HINT_T1);
        }
    }
}

static inline void vd_v_attention_tile(const vd_attn_task *t, int64_t first_key, int64_t keys)
{
    const vd_attention *op    = t->job->op;
    const vd_cells      kind  = t->job->cells;
    const int64_t       strips = (t->rows + VD_STRIP_ROWS - 1) / VD_STRIP_ROWS, panels = (keys + VD_PANEL_WIDTH - 1) / VD_PANEL_WIDTH;
    const unsigned      csr = t->job->flush ? VD_CSR_FLUSH : VD_CSR_PLAIN;
    const void         *k = vd_v_at(op->k, op->type, first_key * op->k_stride + t->head * op->d);
    for (int64_t p = 0; p < panels; p++)
        vd_pack_panel(t->keys + p * t->job->key_floats, VD_PANEL_WIDTH, vd_v_at(k, op->type, p * VD_PANEL_WIDTH * op->k_stride),
                      op->k_stride * vd_dtype_size(op->type), keys - p * VD_PANEL_WIDTH, kind, op->d);
    vd_pack_values(t->values, vd_v_at(op->v, op->type, first_key * op->v_stride + t->head * op->d), op->v_stride, keys, op->d, kind);
    for (int64_t s = 0; s < strips; s++) {
        const int64_t row = t->rows * s / strips, mr = t->rows * (s + 1) / strips - row;
        vd_v_fetch_ahead(t, first_key + VD_ATTN_TILE, s, strips);
        _mm_setcsr(csr);
        vd_v_scores(t, row, mr, panels);
        _mm_setcsr(VD_CSR_PLAIN);
        vd_v_softmax(t, row, mr, keys, first_key == 0);
        _mm_setcsr(csr);
        vd_v_values(t, row, mr, keys, first_key == 0);
        _mm_setcsr(VD_CSR_PLAIN);
    }
}

static inline void vd_v_attention_finish(const vd_attn_task *t)
{
    const vd_attention *op = t->job->op;
    for (int64_t m = 0; m < t->rows; m++) {
        const float *l = t->lanes + 4 * m;
        const vd_vf  r = vd_vf_set1(vd_rcp((l[0] + l[1]) + (l[2] + l[3])));
        void        *o = vd_v_to(op->o, op->type, (t->first_row + m) * op->o_stride + t->head * op->d);
        for (int64_t c = 0; c < op->d; c += VD_W) {
            const vd_vf sum = vd_vf_load(t->sums + (c / VD_PANEL_WIDTH * t->rows + m) * VD_PANEL_WIDTH + c % VD_PANEL_WIDTH);
            vd_v_store(o, op->type, c, op->d, vd_vf_mul(sum, r));
        }
    }
}

static inline void vd_v_attention_task(void *arg, int64_t index, int worker)
{
    const vd_attn_job  *job = arg;
    const vd_attention *op  = job->op;
    vd_attn_task        t   = {.job = job, .head = index % op->heads, .first_row = index / op->heads * job->rows};
    t.rows    = vd_min(job->rows, op->m - t.first_row);
    t.keys    = (float *)(void *)(job->scratch + worker * job->bytes);
    t.values  = t.keys + VD_KEY_PANELS * job->key_floats;
    t.q       = t.values + job->columns * VD_VALUE_FLOATS;
    t.p       = t.q + t.rows * VD_STRIP_STRIDE;
    t.scores  = t.p + VD_STRIP_ROWS * VD_STRIP_STRIDE;
    t.weights = t.scores + VD_STRIP_ROWS * VD_ATTN_TILE;
    t.sums    = t.weights + VD_STRIP_ROWS * VD_P_STRIDE;
    t.lanes   = t.sums + job->columns * VD_PANEL_WIDTH * t.rows;
    t.top     = t.lanes + 4 * t.rows;
    for (int64_t m = 0; m < t.rows; m++) {
        t.top[m] = -INFINITY;
        vd_pack_row(t.q + m * VD_STRIP_STRIDE, vd_v_at(op->q, op->type, (t.first_row + m) * op->q_stride + t.head * op->d), job->cells, op->d);
    }
    const unsigned csr = _mm_getcsr();
    for (int64_t first = 0; first < op->s; first += VD_ATTN_TILE)
        vd_v_attention_tile(&t, first, vd_min(VD_ATTN_TILE, op->s - first));
    vd_v_attention_finish(&t);
    _mm_setcsr(csr);
}

/* Heads wider than the panels are made for: the contract itself, row by row. */
static inline void vd_v_attention_wide_task(void *arg, int64_t index, int worker)
{
    const vd_attn_job  *job = arg;
    const vd_attention *op  = job->op;
    const int64_t       row = index / op->heads, head = index % op->heads;
    vd_attention_row(op->order, op->s, op->d, vd_v_at(op->q, op->type, row * op->q_stride + head * op->d), vd_v_at(op->k, op->type, head * op->d),
                     op->k_stride, vd_v_at(op->v, op->type, head * op->d), op->v_stride, vd_v_to(op->o, op->type, row * op->o_stride + head * op->d),
                     (float *)(void *)(job->scratch + worker * job->bytes));
}

static inline vd_attn_job vd_v_plan_attention(const vd_attention *op, int threads, bool native)
{
    vd_attn_job job = {.op = op, .cells = op->order == VD_ATTN_K128_F32 ? VD_CELLS_F32 : native ? VD_CELLS_PAIRS : VD_CELLS_SWAPPED};
    job.flush   = job.cells == VD_CELLS_SWAPPED;
    job.scale   = vd_attention_scale(op->d);
    job.columns = (op->d + VD_PANEL_WIDTH - 1) / VD_PANEL_WIDTH;
    job.key_floats = (vd_cells_count(job.cells, op->d) + VD_W - 1) / VD_W * VD_W * VD_PANEL_WIDTH;
    /* equal ranges of queries, of at most VD_ATTN_ROWS; fewer where threads would idle */
    int64_t ranges = (op->m + VD_ATTN_ROWS - 1) / VD_ATTN_ROWS;
    while (threads > 1 && ranges * op->heads < 2 * threads && op->m / ranges > 64)
        ranges++;
    job.rows = vd_max(1, (op->m + ranges - 1) / vd_max(1, ranges));
    if (op->d > VD_FMA_CELLS)
        job.bytes = op->d * (int64_t)sizeof(float);
    else
        job.bytes = (VD_KEY_PANELS * job.key_floats + job.columns * VD_VALUE_FLOATS + VD_STRIP_ROWS * (VD_STRIP_STRIDE + VD_ATTN_TILE + VD_P_STRIDE) +
                     job.rows * (VD_STRIP_STRIDE + job.columns * VD_PANEL_WIDTH + 5)) * (int64_t)sizeof(float);
    job.bytes = (job.bytes + 63) / 64 * 64;
    return job;
}

static inline void vd_v_attention(vd_exec *exec, const vd_attention *op, bool native)
{
    vd_attn_job job = vd_v_plan_attention(op, exec->threads, native);
    job.scratch     = exec->scratch;
    if (op->d > VD_FMA_CELLS)
        vd_parallel(exec->threads, op->m * op->heads, vd_v_attention_wide_task, &job);
    else
        vd_parallel(exec->threads, op->heads * ((op->m + job.rows - 1) / job.rows), vd_v_attention_task, &job);
}

static inline int64_t vd_v_attention_scratch(const vd_attention *op, int threads, bool native)
{
    return vd_v_plan_attention(op, threads, native).bytes * threads;
}

#endif
