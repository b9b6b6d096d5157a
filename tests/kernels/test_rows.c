#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernels/cases.h"

static const struct {
    const char *name;
    size_t      offset;
    h_case     *test;
} entries[] = {
    {"rms_norm", offsetof(vd_kernels, rms_norm), h_rms_norm_case},
    {"norm_modulate", offsetof(vd_kernels, norm_modulate), h_norm_modulate_case},
    {"rotary", offsetof(vd_kernels, rotary), h_rotary_case},
    {"head_norm_rotary", offsetof(vd_kernels, head_norm_rotary), h_head_norm_rotary_case},
    {"situ", offsetof(vd_kernels, situ), h_situ_case},
    {"gated_residual", offsetof(vd_kernels, gated_residual), h_gated_residual_case},
    {"map", offsetof(vd_kernels, map), h_map_case},
    {"transpose", offsetof(vd_kernels, transpose), h_transpose_case},
};

static void test_rows(void **state)
{
    (void)state;
    int64_t failures = 0;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        failures += h_levels(entries[i].name, entries[i].offset, entries[i].test, 500);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
