/* The gate's statistics on values whose answers can be worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "gate/stats.h"

static bool near(double a, double b, double relative) { return fabs(a - b) <= relative * fmax(fabs(a), fabs(b)); }

static void test_distance(void **state)
{
    (void)state;
    /* Row 0: (3, 4) against (3, 0): error 4, size 3. Row 1: equal. */
    const float y[] = {3, 4, 1, 2}, f[] = {3, 0, 1, 2};
    float       rows[2];
    vd_distance d;
    vd_distance_measure(VD_F32, y, f, 2, 2, rows, &d);
    assert_true(near(d.worst_row, 4.0 / 3, 1e-12));
    assert_int_equal(d.worst_row_index, 0);
    assert_true(near((double)rows[0], 4.0 / 3, 1e-7) && rows[1] == 0);
    assert_true(near(d.cosine, 1 - (9 + 5) / (sqrt(30) * sqrt(14)), 1e-12));
    assert_true(near(d.l2, 4 / sqrt(14), 1e-12));
    assert_true(near(d.gain, 1, 1e-12));
    assert_true(d.largest == 4 && d.largest_row == 0 && d.largest_col == 1 && d.largest_value == 4 && d.largest_reference == 0);
    assert_int_equal(d.nonfinite, 0);
    assert_int_equal(d.nonfinite_row, -1);
    /* Twice as large: the direction is right, the rows are off by their own size. */
    const float twice[] = {6, 0, 2, 4};
    vd_distance_measure(VD_F32, twice, f, 2, 2, rows, &d);
    assert_true(fabs(d.cosine) < 1e-15 && near(d.worst_row, 1, 1e-12) && near(d.gain, 2, 1e-12));
}

static void test_zero_rows(void **state)
{
    (void)state;
    const float f[] = {0, 0, 1, 0}, same[] = {0, 0, 1, 0}, other[] = {0, 1e-30f, 1, 0}, minus[] = {-0.0f, 0, 1, 0};
    vd_distance d;
    vd_distance_measure(VD_F32, same, f, 2, 2, NULL, &d);
    assert_true(d.worst_row == 0 && d.zero_rows == 0);
    vd_distance_measure(VD_F32, minus, f, 2, 2, NULL, &d);
    assert_true(d.worst_row == 0 && d.zero_rows == 0);
    vd_distance_measure(VD_F32, other, f, 2, 2, NULL, &d);
    assert_true(isinf(d.worst_row) && d.worst_row_index == 0 && d.zero_rows == 1);
    const float nothing[] = {0, 0, 0, 0};
    vd_distance_measure(VD_F32, nothing, nothing, 2, 2, NULL, &d);
    assert_true(d.cosine == 0 && d.worst_row == 0 && d.l2 == 0 && d.gain == 1);
    vd_distance_measure(VD_F32, nothing, f, 2, 2, NULL, &d);
    assert_true(d.cosine == 1 && d.worst_row == 1);
}

static void test_not_finite(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        float       y[] = {1, 2, 3, bad[i]}, rows[2];
        const float f[] = {1, 2, 3, 4};
        vd_distance d;
        vd_distance_measure(VD_F32, y, f, 2, 2, rows, &d);
        assert_int_equal(d.nonfinite, 1);
        assert_true(d.nonfinite_row == 1 && d.nonfinite_col == 1);
        assert_true(isinf(d.worst_row) && d.worst_row_index == 1 && isinf(d.cosine) && isinf(d.l2) && isinf(rows[1]) && rows[0] == 0);
    }
}

static void test_bf16(void **state)
{
    (void)state;
    const float f[] = {1.0078125f, -2, 1e-40f, 3e38f};
    uint16_t    y[4];
    vd_distance d;
    for (int i = 0; i < 4; i++)
        y[i] = vd_to_bf16(f[i]);
    vd_distance_measure(VD_BF16, y, f, 1, 4, NULL, &d);
    assert_true(d.nonfinite == 0 && d.worst_row < 0.004);
}

static void test_ulps(void **state)
{
    (void)state;
    const uint16_t one = 0x3F80;
    const uint16_t a[] = {one, one + 1, one - 3, 0x8000, 0x7FC0, one + 9, 0x8001}, b[] = {one, one, one, 0x0000, 0x7FC0, one, 0x0001};
    vd_ulps        u;
    vd_ulps_measure(VD_BF16, a, b, 1, 7, &u);
    assert_int_equal(u.elements, 7);
    assert_int_equal(u.differ, 6); /* -0 is not +0, NaN is not NaN */
    assert_int_equal(u.rows, 1);
    assert_int_equal(u.cols, 6);
    assert_int_equal(u.first_col, 1);
    assert_int_equal(u.largest, INT32_MAX);
    assert_int_equal(u.largest_col, 4);
    const int64_t histogram[9] = {0, 0, 2, 0, 2, 1, 0, 0, 2}; /* -3, -2 | equal, -0 against +0 | 1 | 9, NaN */
    for (int i = 0; i < 9; i++)
        assert_int_equal(u.histogram[i], histogram[i]);
    const float x[] = {1, 2}, y[] = {1, nextafterf(2, 3)};
    vd_ulps_measure(VD_F32, y, x, 2, 1, &u);
    assert_true(u.differ == 1 && u.largest == 1 && u.largest_row == 1 && near(u.mean, 0.5, 1e-12) && u.rows == 1 && u.cols == 1);
    vd_ulps_measure(VD_F32, x, x, 2, 1, &u);
    assert_true(u.differ == 0 && u.largest == 0 && u.mean == 0 && u.first_row == -1 && u.cols == 0);
}

static void test_differing(void **state)
{
    (void)state;
    const uint16_t a[] = {1, 2, 3, 4}, b[] = {1, 2, 5, 6};
    int64_t        first;
    assert_int_equal(vd_count_differing(a, b, 4, 2, &first), 2);
    assert_int_equal(first, 2);
    assert_int_equal(vd_count_differing(a, a, 4, 2, &first), 0);
    assert_int_equal(first, -1);
}

static void test_shape(void **state)
{
    (void)state;
    enum { ROWS = 20, COLS = 12 };
    float          f[ROWS * COLS], y[ROWS * COLS], channels[COLS];
    double         scratch[2 * (ROWS + COLS)];
    vd_error_shape shape;
    for (int i = 0; i < ROWS * COLS; i++)
        f[i] = (float)((i * 7919) % 23 - 11);
    memcpy(y, f, sizeof y);
    for (int j = 0; j < COLS; j++)
        y[7 * COLS + j] *= 1.05f;
    vd_error_shape_measure(VD_F32, y, f, ROWS, COLS, scratch, &shape);
    assert_true(shape.row == 7 && shape.row_share > 0.999999 && near(shape.row_gain, 1.05, 1e-6) && shape.row_cosine < 1e-9 && shape.rank1 > 0.999999);
    memcpy(y, f, sizeof y);
    for (int i = 0; i < ROWS; i++)
        y[i * COLS + 5] += 1;
    vd_error_shape_measure(VD_F32, y, f, ROWS, COLS, scratch, &shape);
    assert_true(shape.channel == 5 && shape.channel_share > 0.999999 && shape.rank1 > 0.999999 && shape.row_share < 0.06);
    vd_channel_errors(VD_F32, y, f, ROWS, COLS, channels);
    assert_true(channels[5] > 0 && channels[4] == 0);
    for (int i = 0; i < ROWS * COLS; i++)
        y[i] = -f[i];
    vd_error_shape_measure(VD_F32, y, f, ROWS, COLS, scratch, &shape);
    assert_true(near(shape.gain, -1, 1e-9));
    /* A checkerboard of signs from two independent patterns has no single direction. */
    for (int i = 0; i < ROWS * COLS; i++)
        y[i] = f[i] + (float)((((uint32_t)i * 2654435761u) >> 16) % 2 ? 1 : -1);
    vd_error_shape_measure(VD_F32, y, f, ROWS, COLS, scratch, &shape);
    assert_true(shape.rank1 < 0.5 && shape.rank1 > 1.0 / COLS);
    vd_error_shape_measure(VD_F32, f, f, ROWS, COLS, scratch, &shape);
    assert_true(shape.rank1 == 0 && shape.row_share == 0 && near(shape.gain, 1, 1e-12));
}

static void test_quantiles(void **state)
{
    (void)state;
    float    values[101];
    uint32_t x = 1;
    for (int n = 0; n <= 101; n++) {
        for (int i = 0; i < n; i++)
            values[i] = (float)((x = x * 1664525 + 1013904223) >> 20);
        vd_sort_errors(values, n);
        for (int i = 1; i < n; i++)
            assert_true(values[i - 1] <= values[i]);
    }
    for (int i = 0; i < 100; i++)
        values[i] = (float)(i + 1);
    assert_true(vd_quantile(values, 100, 0.5) == 50 && vd_quantile(values, 100, 0.99) == 99 && vd_quantile(values, 100, 1) == 100 && vd_quantile(values, 1, 0.5) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance), cmocka_unit_test(test_zero_rows), cmocka_unit_test(test_not_finite), cmocka_unit_test(test_bf16), cmocka_unit_test(test_ulps),
        cmocka_unit_test(test_differing), cmocka_unit_test(test_shape), cmocka_unit_test(test_quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
