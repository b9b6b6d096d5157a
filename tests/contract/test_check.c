/* The check of the contracts itself: every level passes; kernels that add in another order, and other faults, are caught by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/contract_check.h"
#include "core/core.h"

typedef struct seen {
    int         items, failed;
    bool        print;
    double      seconds;
    char        detail[1000];
} seen;

static int note(void *user, const vd_contract_item *item)
{
    seen *s = user;
    s->items++;
    s->seconds += item->seconds;
    if (!item->passed) {
        s->failed++;
        snprintf(s->detail, sizeof s->detail, "%s", item->detail);
    }
    if (s->print)
        printf("%-20s %-10s %s %4.0f ms  %s\n", item->id, item->level, item->passed ? "held" : "DID NOT HOLD", 1000 * item->seconds, item->detail);
    return 0;
}

static void test_levels(void **state)
{
    (void)state;
    for (int level = 0; level <= (int)vd_cpu_best_level(); level++) {
        const vd_options options = {.cpu = vd_cpu_level_name((vd_cpu_level)level)};
        vd_context      *ctx = NULL;
        seen             s = {.print = true};
        assert_int_equal(vd_open(&options, &ctx), VD_OK);
        const vd_status status = vd_contract_check(ctx, NULL, note, &s);
        printf("level %s: %d contracts, %d do not hold, %.2f s\n", options.cpu, s.items, s.failed, s.seconds);
        assert_int_equal(status, VD_OK);
        assert_true(s.items >= 32);
        assert_int_equal(s.failed, 0);
        vd_close(ctx);
    }
    for (int level = (int)vd_cpu_best_level() + 1; level < VD_CPU_LEVELS; level++)
        printf("level %s not run: this CPU lacks it\n", vd_cpu_level_name((vd_cpu_level)level));
}

/* ---- Kernels with a fault ---- */

static vd_kernels generic_table(void)
{
    vd_kernels table;
    vd_kernels_init_cpu(&table, VD_CPU_GENERIC);
    return table;
}

/* The sum of every output by another rule. */
static void linear_by(float (*sum)(const vd_linear *, const char *, const char *), const vd_linear *op)
{
    for (int64_t i = 0; i < op->m; i++)
        for (int64_t j = 0; j < op->n; j++) {
            const float s = sum(op, (const char *)op->x + i * op->x_stride * vd_dtype_size(op->x_type), (const char *)op->w + j * op->k * vd_dtype_size(op->w_type));
            vd_store((char *)op->y + (i * op->y_stride) * vd_dtype_size(op->y_type), op->y_type, j, op->b ? s + vd_load(op->b, op->b_type, j) : s);
        }
}

static float sum_fold(const vd_linear *op, const char *x, const char *w)
{
    const vd_order order = op->order == VD_TC16_CHAIN ? VD_TC16_FOLD512 : op->order == VD_FMA_CHAIN ? VD_FMA_FOLD512 : op->order;
    return vd_linear_sum(order, op->splits, x, w, op->w_type, op->k);
}

static float sum_two_accumulators(const vd_linear *op, const char *x, const char *w)
{
    if (op->order != VD_FMA_CHAIN)
        return vd_linear_sum(op->order, op->splits, x, w, op->w_type, op->k);
    float s[2] = {0};
    for (int64_t i = 0; i < op->k; i++)
        s[i & 1] = fmaf(vd_load(x, op->x_type, i), vd_load(w, op->w_type, i), s[i & 1]);
    return s[0] + s[1];
}

static float sum_even_first(const vd_linear *op, const char *x, const char *w)
{
    if (op->order != VD_FMA_PAIR)
        return vd_linear_sum(op->order, op->splits, x, w, op->w_type, op->k);
    float s = 0;
    for (int64_t i = 0; i < op->k; i++)
        s = vd_fma_flush(vd_load(x, VD_BF16, i), vd_load(w, VD_BF16, i), s);
    return s;
}

static float sum_tree8_as_chain(const vd_linear *op, const char *x, const char *w)
{
    if (op->order != VD_TC16_TREE8 || op->k % 8)
        return vd_linear_sum(op->order, op->splits, x, w, op->w_type, op->k);
    return vd_tc16_split(x, w, op->k, 8);
}

static float sum_steps_of_8(const vd_linear *op, const char *x, const char *w)
{
    if (op->order != VD_TC16_CHAIN)
        return vd_linear_sum(op->order, op->splits, x, w, op->w_type, op->k);
    float c = 0;
    for (int64_t i = 0; i < op->k; i += 8)
        c = vd_tc16_chain(c, x + 2 * i, w + 2 * i, op->k - i < 8 ? op->k - i : 8);
    return c;
}

static void fold_for_chain(vd_exec *exec, const vd_linear *op) { (void)exec; linear_by(sum_fold, op); }
static void two_accumulators(vd_exec *exec, const vd_linear *op) { (void)exec; linear_by(sum_two_accumulators, op); }
static void even_first(vd_exec *exec, const vd_linear *op) { (void)exec; linear_by(sum_even_first, op); }
static void tree8_as_split(vd_exec *exec, const vd_linear *op) { (void)exec; linear_by(sum_tree8_as_chain, op); }
static void steps_of_8(vd_exec *exec, const vd_linear *op) { (void)exec; linear_by(sum_steps_of_8, op); }

/* Only single rows are added in another order: what a kernel for few rows might do. */
static void fold_single_rows(vd_exec *exec, const vd_linear *op)
{
    const vd_kernels table = generic_table();
    if (op->m == 1)
        linear_by(sum_fold, op);
    else
        table.linear(exec, op);
}

static void norm_by_chain(vd_exec *exec, const vd_rms_norm *op)
{
    (void)exec;
    for (int64_t i = 0; i < op->m; i++) {
        const char *x   = (const char *)op->x + i * op->x_stride * vd_dtype_size(op->x_type);
        float       sum = 0;
        for (int64_t k = 0; k < op->n; k++)
            sum += vd_load(x, op->x_type, k) * vd_load(x, op->x_type, k);
        const float r = vd_rsq(sum * (1.0f / (float)op->n) + op->eps);
        for (int64_t k = 0; k < op->n; k++)
            vd_store((char *)op->y + i * op->y_stride * vd_dtype_size(op->y_type), op->y_type, k,
                     vd_round(vd_load(x, op->x_type, k) * r, op->cast) * vd_load(op->w, op->w_type, k));
    }
}

static void norm_in_other_order(vd_exec *exec, const vd_rms_norm *op)
{
    const vd_kernels table = generic_table();
    vd_rms_norm      other = *op;
    other.order = op->order == VD_ROWSUM128 ? VD_ROWSUM512 : VD_ROWSUM128;
    table.rms_norm(exec, &other);
}

/* Attention with 64 keys a tile would be another frame; here the products, then the keys, come in another order. */
static void attention_by_pair(vd_exec *exec, const vd_attention *op)
{
    const vd_kernels table = generic_table();
    vd_attention     other = *op;
    other.order = op->order == VD_ATTN_K128 ? VD_ATTN_K128_PAIR : op->order == VD_ATTN_K128_PAIR ? VD_ATTN_K128 : op->order;
    table.attention(exec, &other);
}

/* Keys 2 and 5 change places: their lanes are other ones. */
static void swap_keys(vd_exec *exec, const vd_attention *op)
{
    const vd_kernels table = generic_table();
    const int64_t    size = vd_dtype_size(op->type), k_row = op->k_stride * size, v_row = op->v_stride * size;
    if (op->s < 6) {
        table.attention(exec, op);
        return;
    }
    char *k = malloc((size_t)(op->s * k_row)), *v = malloc((size_t)(op->s * v_row));
    for (int64_t key = 0; key < op->s; key++) {
        const int64_t from = key == 2 ? 5 : key == 5 ? 2 : key;
        memcpy(k + key * k_row, (const char *)op->k + from * k_row, (size_t)(op->heads * op->d * size));
        memcpy(v + key * v_row, (const char *)op->v + from * v_row, (size_t)(op->heads * op->d * size));
    }
    vd_attention other = *op;
    other.k = k, other.v = v;
    table.attention(exec, &other);
    free(k), free(v);
}

static void nearest_ex2(vd_exec *exec, const vd_map *op)
{
    const vd_kernels table = generic_table();
    table.map(exec, op);
    if (op->f == VD_EX2)
        for (int64_t i = 0; i < op->n; i++)
            vd_store(op->y, op->y_type, i, exp2f(vd_load(op->x, op->x_type, i)));
}

static void fused_residual(vd_exec *exec, const vd_gated_residual *op)
{
    const vd_kernels table = generic_table();
    table.gated_residual(exec, op);
    if (op->gate && op->x_type == VD_F32)
        for (int64_t i = 0; i < op->m * op->n; i++)
            vd_store(op->o, VD_F32, i, fmaf(vd_load(op->y, op->y_type, i), vd_load(op->gate, op->gate_type, i % op->n), vd_load(op->x, VD_F32, i)));
}

static void expect_caught(const char *name, const vd_kernels *table, const char *id)
{
    vd_context *ctx = NULL;
    seen        s = {0};
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    const vd_status status = vd_contract_check_table(ctx, table, id, note, &s);
    printf("%s: %s\n", name, s.failed ? s.detail : "NOT CAUGHT");
    assert_int_equal(status, VD_FAILED);
    assert_string_equal(vd_error_reason(ctx), "contract");
    assert_int_equal(s.failed, 1);
    vd_close(ctx);
}

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *name, *id;
        void (*linear)(vd_exec *, const vd_linear *);
    } linears[] = {
        {"fold512 where chain is promised", "tc16/chain", fold_for_chain},       {"fold512 where fma/chain is promised", "fma/chain@1", fold_for_chain},
        {"two accumulators", "fma/chain", two_accumulators},                     {"the even element first", "fma/pair", even_first},
        {"eight slices in a row where a tree is promised", "tc16/tree8", tree8_as_split}, {"steps of 8", "tc16/chain", steps_of_8},
        {"another order for single rows", "tc16/chain", fold_single_rows},
    };
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
        vd_kernels table = generic_table();
        table.linear     = linears[i].linear;
        expect_caught(linears[i].name, &table, linears[i].id);
    }
    vd_kernels table = generic_table();
    table.rms_norm   = norm_by_chain;
    expect_caught("one accumulator for a row", &table, "rowsum128");
    table.rms_norm = norm_in_other_order;
    expect_caught("rowsum512 where rowsum128 is promised", &table, "rowsum128");
    expect_caught("rowsum128 where rowsum512 is promised", &table, "rowsum512");
    table           = generic_table();
    table.attention = attention_by_pair;
    expect_caught("fma/pair inside where tc16 is promised", &table, "attn/k128");
    expect_caught("tc16 inside where fma/pair is promised", &table, "attn/k128/pair");
    table.attention = swap_keys;
    expect_caught("two keys in each other's lanes", &table, "attn/k128");
    expect_caught("two keys in each other's lanes, fp32", &table, "attn/k128/f32");
    table     = generic_table();
    table.map = nearest_ex2;
    expect_caught("a correctly rounded ex2", &table, "ex2");
    table                = generic_table();
    table.gated_residual = fused_residual;
    expect_caught("a fused residual", &table, "gated_residual");
}

static int stop(void *user, const vd_contract_item *item)
{
    (void)item;
    return ++*(int *)user == 2;
}

static void test_calls(void **state)
{
    (void)state;
    vd_context *ctx = NULL;
    int         items = 0;
    seen        s = {0};
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    assert_int_equal(vd_contract_check(ctx, "situ", note, &s), VD_OK);
    assert_int_equal(s.items, 1);
    assert_int_equal(vd_contract_check(ctx, NULL, stop, &items), VD_CANCELLED);
    assert_int_equal(items, 2);
    vd_clear_error(ctx);
    assert_int_equal(vd_contract_check(ctx, "tc16/chain@2", NULL, NULL), VD_BAD_ARGUMENT);
    vd_close(ctx);
}

/* The printed order of trees that are known. */
static void test_print(void **state)
{
    (void)state;
    vd_order_tree tree = {.places = {{0, 1, 2, 3}, 4}};
    char          text[100];
    int64_t       chain[4][4] = {{0, 2, 3, 4}, {0, 0, 3, 4}, {0, 0, 0, 4}}, pairs[4][4] = {{0, 2, 4, 4}, {0, 0, 4, 4}, {0, 0, 0, 2}};
    memset(tree.sizes, 0, sizeof tree.sizes);
    for (int i = 0; i < 4; i++)
        memcpy(tree.sizes[i], chain[i], sizeof chain[i]);
    vd_order_print(&tree, text, sizeof text);
    assert_string_equal(text, "0 → 1 → 2 → 3");
    for (int i = 0; i < 4; i++)
        memcpy(tree.sizes[i], pairs[i], sizeof pairs[i]);
    vd_order_print(&tree, text, sizeof text);
    assert_string_equal(text, "0 → 1 → (2 → 3)");
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            tree.sizes[i][j] = 4;
    vd_order_print(&tree, text, sizeof text);
    assert_string_equal(text, "{0 1 2 3}");
    vd_order_print(&tree, text, 5); /* cut, not overrun */
    assert_true(strlen(text) < 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels), cmocka_unit_test(test_faults), cmocka_unit_test(test_calls), cmocka_unit_test(test_print)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
