/* Contracts of sums: linears, rows, attention. Built-in data against the definition, and each kernel's order read back (order_probe.h). */
#include "audit/contract_check.h"

#include <stdio.h>
#include <string.h>

#define LARGE 0x1p60f /* absorbs whole sums of small values in fp32, and is a bf16 number */

static const char *const kind_names[VD_PROOF_KINDS] = {"ordinary data", "wide exponents", "NaN, Inf and other corner values", "random bits", "smallest numbers"};

static bool is_fp32(vd_order order) { return order == VD_FMA_CHAIN || order == VD_FMA_FOLD512 || order == VD_ATTN_K128_F32; }

/* ---- Linears ---- */

static int parts_of(vd_order order) { return order == VD_TC16_SPLIT ? 3 : order == VD_TC16_TREE8 ? 8 : 1; }
static int splits_of(vd_order order) { return order == VD_TC16_SPLIT ? 3 : 1; }

static vd_status run_linear(vd_proof *proof, vd_linear *op)
{
    vd_exec exec = vd_prove_exec(proof, proof->table->linear_scratch(op, proof->ctx->threads));
    if (!exec.scratch)
        return proof->ctx->status;
    proof->table->linear(&exec, op);
    return VD_OK;
}

static vd_status compare_linear(vd_proof *proof, vd_order order, int kind, int64_t m, int64_t n, int64_t k)
{
    const vd_dtype type = is_fp32(order) ? VD_F32 : VD_BF16;
    const int64_t  size = vd_dtype_size(type);
    char          *x = vd_prove_alloc(proof, m * k * size), *w = vd_prove_alloc(proof, n * k * size + 1);
    float         *b = vd_prove_alloc(proof, 4 * n), *y = vd_prove_alloc(proof, 4 * m * n), *expected = vd_prove_alloc(proof, 4 * m * n);
    if (!x || !w || !b || !y || !expected)
        return proof->ctx->status;
    char *odd = w + 1; /* weights may lie anywhere */
    vd_prove_fill(proof, kind, x, type, m * k);
    vd_prove_fill(proof, kind == 2 ? 0 : kind, w, type, n * k);
    memmove(odd, w, (size_t)(n * k * size));
    vd_prove_fill(proof, 0, b, VD_F32, n);
    vd_linear op = {.order = order, .splits = splits_of(order), .m = m, .n = n, .k = k, .x = x, .x_type = type, .x_stride = k, .w = odd, .w_type = type,
                    .b = b, .b_type = VD_F32, .y = y, .y_type = VD_F32, .y_stride = n};
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            expected[i * n + j] = vd_canonical(vd_linear_sum(order, op.splits, x + i * k * size, odd + j * k * size, type, k) + b[j]);
    const vd_status status = run_linear(proof, &op);
    vd_prove_same(proof, kind_names[kind], expected, y, VD_F32, m * n);
    return status;
}

/* The definition's tree: the same probes, each answered by the definition. */
static void define_tree(vd_order order, int64_t k, const void *probes, const void *ones, vd_dtype type, vd_order_tree *tree)
{
    for (int pair = 0; pair < vd_probe_pairs(&tree->places); pair++) {
        int i, j;
        vd_probe_pair(&tree->places, pair, &i, &j);
        const float left = vd_linear_sum(order, splits_of(order), (const char *)probes + pair * k * vd_dtype_size(type), ones, type, k);
        tree->sizes[i][j] = k - (int64_t)left;
    }
}

/* One probe's answer in all columns: they must agree, and be a count. */
static int64_t read_answer(const float *y, int64_t n, int64_t k)
{
    for (int64_t c = 0; c < n; c++)
        if (!(y[c] >= 0) || y[c] > (float)k || y[c] != y[0] || y[c] != rintf(y[c]))
            return -1;
    return k - (int64_t)y[0];
}

/* Reads the order back from calls with all probes as rows, and from calls of one row. */
static vd_status probe_linear(vd_proof *proof, vd_order order, int64_t k)
{
    const vd_dtype type = is_fp32(order) ? VD_F32 : VD_BF16;
    vd_order_tree  promised = {.places = vd_probe_places(k, parts_of(order))}, read = promised;
    const int64_t  pairs = vd_probe_pairs(&read.places), size = vd_dtype_size(type), columns = 35;
    char          *x = vd_prove_alloc(proof, pairs * k * size), *w = vd_prove_alloc(proof, columns * k * size);
    float         *y = vd_prove_alloc(proof, 4 * pairs * columns);
    if (!x || !w || !y)
        return proof->ctx->status;
    for (int64_t i = 0; i < columns * k; i++)
        vd_store(w, type, i, 1.0f);
    for (int64_t pair = 0; pair < pairs; pair++) {
        int i, j;
        vd_probe_pair(&read.places, (int)pair, &i, &j);
        for (int64_t c = 0; c < k; c++)
            vd_store(x, type, pair * k + c, c == read.places.at[i] ? LARGE : c == read.places.at[j] ? -LARGE : 1.0f);
    }
    define_tree(order, k, x, w, type, &promised);
    for (int one_row = 0; one_row < 2; one_row++) {
        vd_linear op = {.order = order, .splits = splits_of(order), .m = one_row ? 1 : pairs, .n = columns, .k = k, .x = x, .x_type = type, .x_stride = k,
                        .w = w, .w_type = type, .y = y, .y_type = VD_F32, .y_stride = columns};
        vd_exec   exec = vd_prove_exec(proof, proof->table->linear_scratch(&op, proof->ctx->threads));
        if (!exec.scratch)
            return proof->ctx->status;
        for (int64_t pair = 0; pair < (one_row ? pairs : 1); pair++) {
            op.x = x + pair * k * size;
            op.y = y + pair * columns;
            proof->table->linear(&exec, &op);
        }
        for (int64_t pair = 0; pair < pairs; pair++) {
            int i, j;
            vd_probe_pair(&read.places, (int)pair, &i, &j);
            read.sizes[i][j] = read_answer(y + pair * columns, columns, k);
        }
        if (!vd_order_same(&promised, &read)) {
            char a[360], b[360];
            vd_order_print(&promised, a, sizeof a);
            vd_order_print(&read, b, sizeof b);
            vd_prove_fail(proof, "K = %lld, %s: the order read back is %s; promised is %s", (long long)k, one_row ? "one row" : "many rows", b, a);
        }
    }
    if (!proof->detail[0]) {
        char text[400];
        vd_order_print(&read, text, sizeof text);
        vd_prove_note(proof, "order read back at K = %lld: %s", (long long)k, text);
    }
    return VD_OK;
}

vd_status vd_prove_linear(vd_proof *proof, vd_order order)
{
    const int64_t uneven = order == VD_TC16_SPLIT ? 1104 : order == VD_TC16_TREE8 ? 4224 : 1100;
    const int64_t small  = order == VD_TC16_SPLIT ? 48 : order == VD_TC16_TREE8 ? 128 : 41;
    vd_status     status = probe_linear(proof, order, order == VD_TC16_SPLIT ? 1104 : order == VD_TC16_TREE8 ? 1152 : 1100);
    for (int kind = 0; kind < VD_PROOF_KINDS && status == VD_OK; kind++) {
        status = compare_linear(proof, order, kind, 3, 37, small);
        if (status == VD_OK)
            status = compare_linear(proof, order, kind, 1, 5, uneven);
    }
    return status;
}

/* ---- Rows ---- */

/* Squares are never negative, so nothing cancels. Here one value is large and two are small, each square below half the large one's last
 * bit, both together above it: they show exactly if they meet each other before either meets the large one. */
typedef struct row_probe {
    int64_t n, readout; /* a power of two at `readout`, too small to count, carries rstd to the output exactly */
    float   large, small;
} row_probe;

/* A large value whose square's last bit shows in rstd in either order. */
static row_probe find_row_probe(vd_order order, int64_t n)
{
    row_probe p = {.n = n, .readout = 700, .small = 0.6125f}; /* squared 0.375; the large squares are from 2^23 to 2^24 */
    for (int32_t m = 2897; m < 4096; m++) {
        const float square = (float)(m * m), rn = 1.0f / (float)n;
        const float a = order == VD_ROWSUM512 ? square / (float)n : square * rn, b = order == VD_ROWSUM512 ? (square + 1) / (float)n : (square + 1) * rn;
        if (vd_bits(vd_rsq(a)) != vd_bits(vd_rsq(b))) {
            p.large = (float)m;
            break;
        }
    }
    return p;
}

vd_status vd_prove_rowsum(vd_proof *proof, vd_order order)
{
    static const int64_t places[] = {0, 1, 2, 3, 4, 31, 33, 64, 96, 127, 128, 255, 256, 512, 640, 999};
    enum { PLACES = 16, PAIRS = (PLACES - 1) * (PLACES - 2) / 2 };
    const row_probe p = find_row_probe(order, 1000);
    float          *x = vd_prove_alloc(proof, 4 * PAIRS * p.n), *y = vd_prove_alloc(proof, 4 * PAIRS * p.n), *w = vd_prove_alloc(proof, 4 * p.n);
    if (!x || !y || !w)
        return proof->ctx->status;
    vd_exec exec = {.threads = proof->ctx->threads};
    for (int64_t i = 0; i < p.n; i++)
        w[i] = 1.0f;
    int64_t joined = 0;
    for (int i = 0; i < PLACES; i++) {
        float promised[PAIRS], got[PAIRS];
        int   count = 0;
        for (int j = 0; j < PLACES; j++)
            for (int k = j + 1; k < PLACES; k++) {
                if (j == i || k == i)
                    continue;
                float *row = x + count * p.n;
                memset(row, 0, (size_t)(4 * p.n));
                row[places[i]] = p.large;
                row[places[j]] = row[places[k]] = p.small;
                row[p.readout]  = 0x1p-60f;
                promised[count] = vd_rms_rstd(order, row, VD_F32, p.n, 0.0f) * 0x1p-60f;
                count++;
            }
        const vd_rms_norm op = {.order = order, .eps = 0, .m = PAIRS, .n = p.n, .cast = VD_F32, .x = x, .x_type = VD_F32, .x_stride = p.n, .w = w,
                                .w_type = VD_F32, .y = y, .y_type = VD_F32, .y_stride = p.n};
        proof->table->rms_norm(&exec, &op);
        for (int pair = 0; pair < PAIRS; pair++) {
            got[pair] = y[pair * p.n + p.readout];
            joined += promised[pair] != promised[0];
        }
        char what[64];
        snprintf(what, sizeof what, "order probes with the large value at %lld", (long long)places[i]);
        vd_prove_same(proof, what, promised, got, VD_F32, PAIRS);
    }
    if (joined == 0)
        vd_prove_fail(proof, "the order probes tell nothing apart");
    for (int kind = 0; kind < VD_PROOF_KINDS; kind++) {
        for (int64_t row = 0; row < 4; row++)
            vd_prove_fill(proof, kind, x + row * p.n, VD_F32, p.n);
        const vd_rms_norm op = {.order = order, .eps = 1e-6f, .m = 4, .n = p.n, .cast = VD_F32, .x = x, .x_type = VD_F32, .x_stride = p.n, .w = w,
                                .w_type = VD_F32, .y = y, .y_type = VD_F32, .y_stride = p.n};
        proof->table->rms_norm(&exec, &op);
        float *expected = x + 4 * p.n;
        for (int64_t row = 0; row < 4; row++)
            vd_rms_norm_row(order, 1e-6f, p.n, VD_F32, x + row * p.n, VD_F32, w, VD_F32, expected + row * p.n, VD_F32);
        vd_prove_same(proof, kind_names[kind], expected, y, VD_F32, 4 * p.n);
    }
    vd_prove_note(proof, "%d order probes at 16 of %lld places answer as promised", PLACES * PAIRS, (long long)p.n);
    return VD_OK;
}

/* ---- Attention ---- */

/* Every head is a probe: q [heads·d], k and v [s, heads·d], one query row. */
typedef struct heads {
    int64_t  count, s, d;
    vd_dtype type;
    char    *q, *k, *v, *o, *expected;
    float   *sums;
} heads;

static vd_status make_heads(vd_proof *proof, vd_order order, int64_t count, int64_t s, int64_t d, heads *h)
{
    *h = (heads){.count = count, .s = s, .d = d, .type = is_fp32(order) ? VD_F32 : VD_BF16};
    const int64_t row = count * d * vd_dtype_size(h->type);
    h->q = vd_prove_alloc(proof, row), h->k = vd_prove_alloc(proof, s * row), h->v = vd_prove_alloc(proof, s * row);
    h->o = vd_prove_alloc(proof, row), h->expected = vd_prove_alloc(proof, row), h->sums = vd_prove_alloc(proof, 4 * d);
    return h->q && h->k && h->v && h->o && h->expected && h->sums ? VD_OK : proof->ctx->status;
}

static vd_status compare_heads(vd_proof *proof, vd_order order, const char *what, heads *h)
{
    const int64_t width = h->count * h->d, size = vd_dtype_size(h->type);
    vd_attention  op = {.order = order, .m = 1, .s = h->s, .heads = h->count, .d = h->d, .type = h->type, .q = h->q, .q_stride = width, .k = h->k,
                        .k_stride = width, .v = h->v, .v_stride = width, .o = h->o, .o_stride = width};
    vd_exec       exec = vd_prove_exec(proof, proof->table->attention_scratch(&op, proof->ctx->threads));
    if (!exec.scratch)
        return proof->ctx->status;
    proof->table->attention(&exec, &op);
    for (int64_t head = 0; head < h->count; head++) {
        const int64_t at = head * h->d * size;
        vd_attention_row(order, h->s, h->d, h->q + at, h->k + at, width, h->v + at, width, h->expected + at, h->sums);
    }
    vd_prove_same(proof, what, h->expected, h->o, h->type, width);
    return VD_OK;
}

/* Elements of the outputs that are not all alike: probes must be able to tell. */
static bool tells_apart(const heads *h)
{
    for (int64_t i = 1; i < h->count * h->d; i++)
        if (vd_bits(vd_load(h->expected, h->type, i)) != vd_bits(vd_load(h->expected, h->type, 0)))
            return true;
    return false;
}

/* P·V: all scores are 0, so every p is 1; in column c of v one probe: large, −large, and a small value that survives or does not. */
static vd_status probe_values(vd_proof *proof, vd_order order)
{
    static const int64_t at[] = {0, 1, 2, 15, 16, 31, 127, 128, 143, 255, 256, 299};
    enum { PLACES = 12, D = 128, PROBES = PLACES * (PLACES - 1) / 2 * (PLACES - 2), HEADS = (PROBES + D - 1) / D };
    heads           h;
    const vd_status status = make_heads(proof, order, HEADS, 300, D, &h);
    if (status != VD_OK)
        return status;
    int64_t column = 0;
    for (int i = 0; i < PLACES; i++)
        for (int j = i + 1; j < PLACES; j++)
            for (int k = 0; k < PLACES; k++) {
                if (k == i || k == j)
                    continue;
                vd_store(h.v, h.type, at[i] * HEADS * D + column, LARGE);
                vd_store(h.v, h.type, at[j] * HEADS * D + column, -LARGE);
                vd_store(h.v, h.type, at[k] * HEADS * D + column, 1.0f);
                column++;
            }
    const vd_status run = compare_heads(proof, order, "order probes over keys", &h);
    if (run == VD_OK && !tells_apart(&h))
        vd_prove_fail(proof, "the order probes over keys tell nothing apart");
    return run;
}

/* Scores: one probe a head, over d. Key 0 scores 0, key 1 scores 8 if the small value survives, else 0. */
static vd_status probe_scores(vd_proof *proof, vd_order order)
{
    static const int64_t at[] = {0, 1, 2, 3, 15, 16, 17, 31, 64, 65, 127};
    enum { PLACES = 11, D = 128, PROBES = PLACES * (PLACES - 1) / 2 * (PLACES - 2) };
    heads           h;
    const vd_status status = make_heads(proof, order, PROBES, 2, D, &h);
    if (status != VD_OK)
        return status;
    int64_t head = 0;
    for (int i = 0; i < PLACES; i++)
        for (int j = i + 1; j < PLACES; j++)
            for (int k = 0; k < PLACES; k++) {
                if (k == i || k == j)
                    continue;
                const int64_t row = (PROBES + head) * D; /* key 1 */
                vd_store(h.k, h.type, row + at[i], LARGE);
                vd_store(h.k, h.type, row + at[j], -LARGE);
                vd_store(h.k, h.type, row + at[k], 8.0f);
                for (int64_t c = 0; c < D; c++) {
                    vd_store(h.q, h.type, head * D + c, 1.0f);
                    vd_store(h.v, h.type, row + c, 1.0f);
                }
                head++;
            }
    const vd_status run = compare_heads(proof, order, "order probes over the head", &h);
    if (run == VD_OK && !tells_apart(&h))
        vd_prove_fail(proof, "the order probes over the head tell nothing apart");
    return run;
}

/* The denominator: keys 0 and 1 have p = 1, two others 0.37·2^-22 each, which show in the sum (2 or its next) only if they meet first. The
 * values make O = 1 + 3·2^-8, so that O·r lies exactly between two bf16 numbers and the sum's last bit decides. */
static vd_status probe_denominator(vd_proof *proof, vd_order order)
{
    static const int64_t at[] = {2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 127, 128, 130, 138};
    enum { PLACES = 14, D = 16, S = 140, PROBES = PLACES * (PLACES - 1) / 2 };
    heads           h;
    const vd_status status = make_heads(proof, order, PROBES, S, D, &h);
    if (status != VD_OK)
        return status;
    int64_t head = 0;
    for (int i = 0; i < PLACES; i++)
        for (int j = i + 1; j < PLACES; j++, head++) {
            vd_store(h.q, h.type, head * D, 1.0f);
            for (int64_t key = 0; key < S; key++) {
                const bool small = key == at[i] || key == at[j];
                vd_store(h.k, h.type, (key * PROBES + head) * D, key < 2 ? 0.0f : small ? -65.0f : -20000.0f);
                for (int64_t c = 0; c < D; c++)
                    vd_store(h.v, h.type, (key * PROBES + head) * D + c, key == 0 ? 1.0f : key == 1 ? 0x1.8p-7f : 0.0f);
            }
        }
    const vd_status run = compare_heads(proof, order, "order probes of the denominator", &h);
    if (run == VD_OK && !tells_apart(&h))
        vd_prove_fail(proof, "the order probes of the denominator tell nothing apart");
    return run;
}

vd_status vd_prove_attention(vd_proof *proof, vd_order order)
{
    vd_status status = probe_values(proof, order);
    if (status == VD_OK)
        status = probe_scores(proof, order);
    if (status == VD_OK)
        status = probe_denominator(proof, order);
    for (int kind = 0; kind < VD_PROOF_KINDS && status == VD_OK; kind++) {
        heads h;
        if ((status = make_heads(proof, order, 2, 131, 32, &h)) != VD_OK)
            return status;
        vd_prove_fill(proof, kind == 2 ? 0 : kind, h.q, h.type, 2 * 32);
        vd_prove_fill(proof, kind == 2 ? 0 : kind, h.k, h.type, 131 * 2 * 32);
        vd_prove_fill(proof, kind, h.v, h.type, 131 * 2 * 32);
        status = compare_heads(proof, order, kind_names[kind], &h);
    }
    vd_prove_note(proof, "orders over keys, over the head and of the denominator read back as promised");
    return status;
}
