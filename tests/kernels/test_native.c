/* fma/pair by the instruction VDPBF16PS itself, on every CPU that has it: a level may leave the instruction alone where two fused multiply-adds
 * are faster, so the level tests need not meet it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernels/cases.h"

#if defined(__x86_64__)
#include "kernels/cpu/avx512bf16/avx512bf16.h"

static vd_kernels native_table(void)
{
    vd_kernels table;
    vd_kernels_init_cpu(&table, VD_CPU_AVX512BF16);
    table.linear            = vd_avx512bf16_linear;
    table.linear_scratch    = vd_avx512bf16_linear_scratch;
    table.attention         = vd_avx512bf16_attention;
    table.attention_scratch = vd_avx512bf16_attention_scratch;
    return table;
}

static void run(const char *name, h_case *test, int64_t cases)
{
    if (vd_cpu_best_level() < VD_CPU_AVX512BF16) {
        printf("%s: not run: this CPU lacks AVX512_BF16\n", name);
        skip();
    }
    const vd_kernels table    = native_table();
    const int64_t    failures = h_planted(name, &table, test, cases);
    printf("%s: %lld of %lld cases fail\n", name, (long long)failures, (long long)cases);
    assert_int_equal(failures, 0);
}

static void test_linear(void **state)
{
    (void)state;
    run("native fma/pair", h_linear_pair, 300);
}

static void test_flush(void **state)
{
    (void)state;
    run("native fma/pair, flushing", h_linear_sliver, 60);
}

static void test_attention(void **state)
{
    (void)state;
    run("native attn/k128/pair", h_attention_pair, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear), cmocka_unit_test(test_flush), cmocka_unit_test(test_attention)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    printf("the instruction VDPBF16PS: not run: this is no x86 CPU\n");
    return 0;
}
#endif
