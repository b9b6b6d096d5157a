#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernels/cases.h"

static void test_k128(void **state)
{
    (void)state;
    assert_int_equal(h_levels("attention attn/k128", offsetof(vd_kernels, attention), h_attention_k128, 200), 0);
}

static void test_pair(void **state)
{
    (void)state;
    assert_int_equal(h_levels("attention attn/k128/pair", offsetof(vd_kernels, attention), h_attention_pair, 200), 0);
}

static void test_f32(void **state)
{
    (void)state;
    assert_int_equal(h_levels("attention attn/k128/f32", offsetof(vd_kernels, attention), h_attention_f32, 200), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_k128), cmocka_unit_test(test_pair), cmocka_unit_test(test_f32)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
