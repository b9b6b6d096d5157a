/* The harness itself: a right table passes every case, and each planted fault is caught. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cases.h"

/* The generic level under another name, so that it runs as a level of its own. */
static vd_kernels right_table(void)
{
    vd_kernels table;
    vd_kernels_init_cpu(&table, VD_CPU_GENERIC);
    return table;
}

static void generic_linear(vd_exec *exec, const vd_linear *op)
{
    const vd_kernels table = right_table();
    table.linear(exec, op);
}

static void fold_for_chain(vd_exec *exec, const vd_linear *op)
{
    vd_linear other = *op;
    if (op->order == VD_TC16_CHAIN)
        other.order = VD_TC16_FOLD512;
    if (op->order == VD_FMA_CHAIN)
        other.order = VD_FMA_FOLD512;
    generic_linear(exec, &other);
}

static void leave_out_last_column(vd_exec *exec, const vd_linear *op)
{
    vd_linear other = *op;
    other.n -= op->n > 1;
    generic_linear(exec, &other);
}

static void write_past_row(vd_exec *exec, const vd_linear *op)
{
    generic_linear(exec, op);
    if (op->m > 1 && op->y_stride > op->n)
        memset((char *)op->y + op->n * vd_dtype_size(op->y_type), 0, 1);
}

static void write_to_input(vd_exec *exec, const vd_linear *op)
{
    generic_linear(exec, op);
    uintptr_t address;
    memcpy(&address, &op->x, sizeof address); /* const is what the fault ignores */
    *(volatile unsigned char *)address ^= 1;
}

static void depend_on_threads(vd_exec *exec, const vd_linear *op)
{
    generic_linear(exec, op);
    if (exec->threads == 3)
        vd_store(op->y, op->y_type, 0, 1.0f);
}

/* fma/pair by fmaf, flushed afterwards on the grid of subnormals. */
static void flush_after_fmaf(vd_exec *exec, const vd_linear *op)
{
    generic_linear(exec, op);
    for (int64_t i = 0; i < op->m && op->order == VD_FMA_PAIR; i++)
        for (int64_t j = 0; j < op->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < op->k; k++) {
                sum = fmaf(vd_load(op->x, VD_BF16, i * op->x_stride + (k ^ 1)), vd_load(op->w, VD_BF16, j * op->k + (k ^ 1)), sum);
                sum = fabsf(sum) < 0x1p-126f ? copysignf(0, sum) : sum;
            }
            vd_store(op->y, op->y_type, i * op->y_stride + j, op->b ? sum + vd_load(op->b, op->b_type, j) : sum);
        }
}

static void keep_other_nan(vd_exec *exec, const vd_linear *op)
{
    generic_linear(exec, op);
    for (int64_t i = 0; i < op->m; i++)
        for (int64_t j = 0; j < op->n; j++)
            if (op->y_type == VD_BF16) {
                uint16_t *y = (uint16_t *)op->y + i * op->y_stride + j;
                *y = *y == VD_NAN_BF16_BITS ? 0x7FC0 : *y;
            }
}

static void drop_negative_zero(vd_exec *exec, const vd_transpose *op)
{
    const vd_kernels table = right_table();
    table.transpose(exec, op);
    for (int64_t i = 0; i < op->n; i++)
        for (int64_t j = 0; j < op->m; j++)
            if (op->y_type == VD_F32)
                ((float *)op->y)[i * op->y_stride + j] += 0.0f;
}

static void skip_last_key(vd_exec *exec, const vd_attention *op)
{
    const vd_kernels table = right_table();
    vd_attention     other = *op;
    other.s -= op->s > 128 && op->s % 128 == 1;
    table.attention(exec, &other);
}

static void norm_in_other_order(vd_exec *exec, const vd_rms_norm *op)
{
    const vd_kernels table = right_table();
    vd_rms_norm      other = *op;
    if (op->n % 4 == 0 && op->order == VD_ROWSUM512 && op->cast == VD_F32)
        other.order = VD_ROWSUM128;
    table.rms_norm(exec, &other);
}

static void test_right(void **state)
{
    (void)state;
    const vd_kernels table  = right_table();
    h_case *const    all[] = {h_linear_tc16, h_linear_fma, h_linear_pair, h_linear_overflow, h_linear_sliver, h_attention_k128, h_attention_pair, h_attention_f32,
                              h_rms_norm_case, h_norm_modulate_case, h_rotary_case, h_head_norm_rotary_case, h_situ_case, h_gated_residual_case,
                              h_map_case, h_transpose_case};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_int_equal(h_planted("right", &table, all[i], 25), 0);
}

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*linear)(vd_exec *, const vd_linear *);
        h_case *test;
        int     cases;
    } faults[] = {
        {"fold512 where chain is asked", fold_for_chain, h_linear_tc16, 240},
        {"fold512 where fma/chain is asked", fold_for_chain, h_linear_fma, 240},
        {"last column left out", leave_out_last_column, h_linear_tc16, 20},
        {"a byte in the gap between rows", write_past_row, h_linear_pair, 60},
        {"an input changed", write_to_input, h_linear_fma, 20},
        {"bytes that depend on the number of threads", depend_on_threads, h_linear_tc16, 60},
        {"flushing after the rounding to subnormals", flush_after_fmaf, h_linear_sliver, 60},
        {"another NaN", keep_other_nan, h_linear_tc16, 100},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        vd_kernels table = right_table();
        table.linear     = faults[i].linear;
        const int64_t caught = h_planted(faults[i].name, &table, faults[i].test, faults[i].cases);
        printf("%s: %lld cases fail\n", faults[i].name, (long long)caught);
        assert_int_not_equal(caught, 0);
    }
    vd_kernels table = right_table();
    table.attention  = skip_last_key;
    assert_int_not_equal(h_planted("a key left out", &table, h_attention_pair, 150), 0);
    table           = right_table();
    table.transpose = drop_negative_zero;
    assert_int_not_equal(h_planted("-0 lost", &table, h_transpose_case, 150), 0);
    table          = right_table();
    table.rms_norm = norm_in_other_order;
    assert_int_not_equal(h_planted("rowsum128 where rowsum512 is asked", &table, h_rms_norm_case, 150), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_right), cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
