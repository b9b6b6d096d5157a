#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernels/cases.h"

static void test_tc16(void **state)
{
    (void)state;
    assert_int_equal(h_levels("linear tc16", offsetof(vd_kernels, linear), h_linear_tc16, 300), 0);
}

static void test_overflow(void **state)
{
    (void)state;
    assert_int_equal(h_levels("linear tc16, largest sums", offsetof(vd_kernels, linear), h_linear_overflow, 20), 0);
}

static void test_fma(void **state)
{
    (void)state;
    assert_int_equal(h_levels("linear fma", offsetof(vd_kernels, linear), h_linear_fma, 300), 0);
}

static void test_pair(void **state)
{
    (void)state;
    assert_int_equal(h_levels("linear fma/pair", offsetof(vd_kernels, linear), h_linear_pair, 300), 0);
}

static void test_sliver(void **state)
{
    (void)state;
    assert_int_equal(h_levels("linear fma/pair, flushing", offsetof(vd_kernels, linear), h_linear_sliver, 60), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tc16), cmocka_unit_test(test_overflow), cmocka_unit_test(test_fma), cmocka_unit_test(test_pair),
                                       cmocka_unit_test(test_sliver)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
