/* The special-function unit at every recorded point, its edges, the coefficients' file, conversions, and the correctly rounded functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "contract/data.h"
#include "core/parallel.h"

/* popen is POSIX; gzip is on every Debian. */
static int8_t *read_gz(const char *name, int64_t count)
{
    char    command[4096];
    int8_t *data = malloc((size_t)count + 1);
    snprintf(command, sizeof command, "gzip -dc '%s/sfu/%s'", TEST_DATA, name);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    const size_t got = fread(data, 1, (size_t)count + 1, pipe);
    assert_int_equal(pclose(pipe), 0);
    assert_int_equal((int64_t)got, count);
    return data;
}

typedef struct job {
    const int8_t *offsets;
    int64_t       count, wrong[64];
    int           which; /* 0 ex2, 1 and 2 rsq, 3 rcp; + 8: with a wrong law */
} job;

static void run_part(void *arg, int64_t part, int worker)
{
    (void)worker;
    job    *j = arg;
    int64_t wrong = 0;
    for (int64_t i = j->count / 64 * part; i < j->count / 64 * (part + 1); i++) {
        const double u = (double)i;
        float        x, y, reference;
        switch (j->which & 7) {
        case 0: x = (float)(u * 0x1p-24), y = vd_ex2(x), reference = (float)exp2((double)x); break;
        case 1: x = (float)(1 + u * 0x1p-23), y = vd_rsq(x), reference = (float)(1 / sqrt((double)x)); break;
        case 2: x = (float)(2 + u * 0x1p-22), y = vd_rsq(x), reference = (float)(1 / sqrt((double)x)); break;
        default: x = (float)(1 + u * 0x1p-23), y = vd_rcp(x), reference = (float)(1 / (double)x); break;
        }
        if (j->which & 8)
            y = reference; /* wrong: correctly rounded */
        wrong += (int64_t)vd_bits(y) - (int64_t)vd_bits(reference) != j->offsets[i];
    }
    j->wrong[part] = wrong;
}

static void test_unit_exhaustively(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t     count;
    } files[4] = {{"ex2_2p24.i8.gz", 1 << 24}, {"rsq_e0.i8.gz", 1 << 23}, {"rsq_e1.i8.gz", 1 << 23}, {"rcp.i8.gz", 1 << 23}};
    for (int i = 0; i < 4; i++) {
        int8_t *offsets = read_gz(files[i].name, files[i].count);
        int64_t wrong[2] = {0};
        for (int plant = 0; plant < 2; plant++) {
            job j = {.offsets = offsets, .count = files[i].count, .which = i + 8 * plant};
            vd_parallel(vd_cpu_count(), 64, run_part, &j);
            for (int part = 0; part < 64; part++)
                wrong[plant] += j.wrong[part];
        }
        printf("%s: %lld of %lld differ (correctly rounded: %lld)\n", files[i].name, (long long)wrong[0], (long long)files[i].count, (long long)wrong[1]);
        assert_int_equal(wrong[0], 0);
        assert_int_not_equal(wrong[1], 0);
        free(offsets);
    }
}

static void test_unit_edges(void **state)
{
    (void)state;
    static const struct {
        float (*f)(float);
        uint32_t x, y;
    } edges[] = {
        {vd_ex2, 0x00000000, 0x3F800000}, {vd_ex2, 0x80000000, 0x3F800000}, {vd_ex2, 0x007FFFFF, 0x3F800000}, {vd_ex2, 0x80000001, 0x3F800000},
        {vd_ex2, 0x43000000, 0x7F800000}, {vd_ex2, 0x7F800000, 0x7F800000}, {vd_ex2, 0xFF800000, 0x00000000}, {vd_ex2, 0xC2FC0000, 0x00800000},
        {vd_ex2, 0xC2FC0001, 0x00000000}, {vd_ex2, 0xFF7FFFFF, 0x00000000}, {vd_ex2, 0x7FC00000, 0x7FFFFFFF}, {vd_ex2, 0xFFFFFFFF, 0x7FFFFFFF},
        {vd_ex2, 0x42FE0000, 0x7F000000}, {vd_ex2, 0x3F800000, 0x40000000}, {vd_ex2, 0xBF800000, 0x3F000000},
        {vd_rsq, 0x00000000, 0x7F800000}, {vd_rsq, 0x80000000, 0xFF800000}, {vd_rsq, 0x007FFFFF, 0x7F800000}, {vd_rsq, 0x80400000, 0xFF800000},
        {vd_rsq, 0xBF800000, 0x7FFFFFFF}, {vd_rsq, 0xFF800000, 0x7FFFFFFF}, {vd_rsq, 0x7F800000, 0x00000000}, {vd_rsq, 0x40800000, 0x3F000000},
        {vd_rsq, 0x00800000, 0x5F000000}, {vd_rsq, 0xFFC00000, 0x7FFFFFFF},
        {vd_rcp, 0x00000000, 0x7F800000}, {vd_rcp, 0x80000000, 0xFF800000}, {vd_rcp, 0x007FFFFF, 0x7F800000}, {vd_rcp, 0x80000001, 0xFF800000},
        {vd_rcp, 0x7F800000, 0x00000000}, {vd_rcp, 0xFF800000, 0x80000000}, {vd_rcp, 0x7F000000, 0x00000000}, {vd_rcp, 0xFF000000, 0x80000000},
        {vd_rcp, 0x7E800000, 0x00800000}, {vd_rcp, 0x7E800001, 0x00000000}, {vd_rcp, 0x3F800000, 0x3F800000}, {vd_rcp, 0xC0000000, 0xBF000000},
        {vd_rcp, 0x7FC00000, 0x7FFFFFFF},
        {vd_tanh, 0x80000000, 0x80000000}, {vd_tanh, 0x7F800000, 0x3F800000}, {vd_tanh, 0xFF800000, 0xBF800000}, {vd_tanh, 0xFFC00000, 0x7FFFFFFF},
        {vd_exp, 0x7F800000, 0x7F800000}, {vd_exp, 0xFF800000, 0x00000000}, {vd_exp, 0x80000000, 0x3F800000}, {vd_exp, 0x7FC00001, 0x7FFFFFFF},
        {vd_sigmoid, 0xFF800000, 0x00000000}, {vd_sigmoid, 0x7F800000, 0x3F800000}, {vd_silu, 0xC2C80000, 0x80000000}, {vd_silu, 0xFF800000, 0x7FFFFFFF},
        {vd_sin, 0x80000000, 0x80000000}, {vd_sin, 0x7F800000, 0x7FFFFFFF}, {vd_cos, 0x47CE4780, 0x7FFFFFFF}, {vd_cos, 0x00000000, 0x3F800000},
        {vd_log1p, 0xBF800000, 0xFF800000}, {vd_log1p, 0xBF800001, 0x7FFFFFFF}, {vd_log1p, 0x80000000, 0x80000000}, {vd_log1p, 0x00000001, 0x00000001},
        {vd_log1p, 0x7F800000, 0x7F800000}, {vd_softplus, 0x7F800000, 0x7F800000}, {vd_softplus, 0xFF800000, 0x00000000}, {vd_softplus, 0x41A80000, 0x41A80000},
    };
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        const uint32_t y = vd_bits(edges[i].f(vd_float(edges[i].x)));
        if (y != edges[i].y)
            fail_msg("edge %zu: f(%#x) = %#x, not %#x", i, edges[i].x, y, edges[i].y);
    }
}

/* Exact scaling carries the recorded points to all exponents. */
static void test_unit_scaling(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < 0x800000; f += 9973) {
        const float x = vd_float(0x3F800000 | f);
        for (int e = -120; e <= 120; e += 6) {
            assert_int_equal(vd_bits(vd_rcp(ldexpf(x, e))), vd_bits(ldexpf(vd_rcp(x), -e)));
            assert_int_equal(vd_bits(vd_rsq(ldexpf(x, e))), vd_bits(ldexpf(vd_rsq(x), -e / 2)));
            assert_int_equal(vd_bits(vd_rcp(-x)), vd_bits(-vd_rcp(x)));
        }
    }
    for (int64_t q = -126 * 8388608LL; q < 126 * 8388608LL; q += 999983) { /* x = q/2^23 is read as q, or by its ones' complement below 0 */
        const float x = (float)((double)q * 0x1p-23);
        const int64_t m = (int64_t)fabs((double)x * 8388608.0), used = x >= 0 ? m : m % 8388608 ? -m - 1 : -m;
        const int64_t whole = used >> 23; /* arithmetic shift: the floor */
        assert_int_equal(vd_bits(vd_ex2(x)), vd_bits(ldexpf(vd_ex2((float)((double)(used - whole * 8388608) * 0x1p-23)), (int)whole)));
    }
}

static void check_table(const json_t *root, const char *name, const int32_t (*rows)[3], size_t count)
{
    static const char *const columns[3] = {"C0", "C1", "C2"};
    for (int c = 0; c < 3; c++) {
        const json_t *list = json_object_get(json_object_get(root, name), columns[c]);
        assert_int_equal(json_array_size(list), count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(json_integer_value(json_array_get(list, i)), rows[i][c]);
    }
}

static void test_tables(void **state)
{
    (void)state;
    json_t *root = json_load_file(TEST_DATA "/sfu/tables.json", 0, NULL);
    assert_non_null(root);
    check_table(root, "ex2", vd_sfu_ex2, 64);
    check_table(root, "rsq", vd_sfu_rsq, 128);
    check_table(root, "rcp", vd_sfu_rcp, 128);
    json_decref(root);
}

static void test_conversions(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {
        {0x3F800000, 0x3F80}, {0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {0x3F808001, 0x3F81}, {0x7F7F8000, 0x7F80}, {0x7F7F7FFF, 0x7F7F}, {0xFF7FFFFF, 0xFF80},
        {0x7F800000, 0x7F80}, {0x7F800001, 0x7FFF}, {0xFFC00000, 0x7FFF}, {0x80000000, 0x8000}, {0x00008000, 0x0000}, {0x00008001, 0x0001}, {0x80018000, 0x8002},
        {0x007FFFFF, 0x0080},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(vd_to_bf16(vd_float(cases[i][0])), cases[i][1]);
    for (int x = 0; x < 65536; x++) {
        const bool nan = (x & 0x7FFF) > 0x7F80;
        assert_int_equal(vd_to_bf16(vd_from_bf16((uint16_t)x)), nan ? (int)VD_NAN_BF16_BITS : x);
    }
    assert_int_equal(vd_bits(vd_round_bf16(vd_float(0x7F800001))), VD_NAN_F32_BITS);
    unsigned char odd[9] = {0}; /* stores and loads at odd addresses, and the one NaN */
    vd_store(odd + 1, VD_F32, 1, vd_float(0xFFC12345));
    assert_int_equal(vd_bits(vd_load(odd + 1, VD_F32, 1)), VD_NAN_F32_BITS);
}

/* log1p against long double where that has 64 bits: near no boundary, the two must agree; and the guess of one ulp away must not. */
static void test_log1p(void **state)
{
    (void)state;
    int64_t checked = 0, differ = 0, plain = 0;
    for (uint32_t u = 0x00000001; u < 0x7F800000; u += 14653) {
        for (int sign = 0; sign < 2; sign++) {
            const float x = vd_float(u | (uint32_t)sign << 31);
            if (x <= -1)
                continue;
            const long double exact = log1pl((long double)x);
            const float       near  = (float)exact;
            /* skip what long double cannot decide: within 2^-60 of a boundary */
            const float lower = (float)(exact * (1 - 0x1p-60L)), upper = (float)(exact * (1 + 0x1p-60L));
            if (vd_bits(lower) != vd_bits(upper))
                continue;
            checked++;
            differ += vd_bits(vd_log1p(x)) != vd_bits(near);
            plain += vd_bits(logf(1 + x)) != vd_bits(near);
        }
    }
    printf("log1p: %lld of %lld differ (log of the rounded sum: %lld)\n", (long long)differ, (long long)checked, (long long)plain);
    assert_int_equal(differ, 0);
    assert_int_not_equal(plain, 0);
    assert_true(checked > 100000);
}

/* The pairs themselves: sin² + cos² = 1, e^ln x = x, to far below what a rounding to fp32 can see. */
static void test_pairs(void **state)
{
    (void)state;
    for (double a = -900; a < 1000; a += 7.31) {
        const vd_dd s = vd_dd_trig(a, 0), c = vd_dd_trig(a, 1);
        const vd_dd one = vd_dd_add(vd_dd_add(vd_dd_mul(s, s), vd_dd_mul(c, c)), vd_dd_make(-1, 0));
        assert_true(fabs(one.hi) < 0x1p-94);
        assert_true(fabs(s.hi - sin(a)) < 1e-15 && fabs(c.hi - cos(a)) < 1e-15);
    }
    for (double x = 0.01; x < 1e9; x *= 1.37) {
        const vd_dd y = vd_dd_exp(vd_dd_log(vd_dd_make(x, 0)));
        assert_true(fabs((y.hi - x) + y.lo) < x * 0x1p-90);
    }
    /* the last rounding is not misled by the first: 1 + 2^-24 + a little, and the same less a little */
    assert_int_equal(vd_bits(vd_dd_to_float(vd_dd_make(1 + 0x1p-24, 0x1p-80))), 0x3F800001);
    assert_int_equal(vd_bits(vd_dd_to_float(vd_dd_make(1 + 0x1p-24, -0x1p-80))), 0x3F800000);
    assert_int_equal(vd_bits(vd_dd_to_float(vd_dd_make(-(1 + 0x1p-24), -0x1p-80))), 0xBF800001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unit_exhaustively), cmocka_unit_test(test_unit_edges), cmocka_unit_test(test_unit_scaling), cmocka_unit_test(test_tables),
        cmocka_unit_test(test_conversions), cmocka_unit_test(test_log1p), cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
