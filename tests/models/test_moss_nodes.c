/* Names, order and inputs of the nodes; patterns of names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "models/moss_image/nodes.h"

static void test_names_lead_back(void **state)
{
    (void)state;
    for (int64_t layers = 1; layers <= 42; layers += 41)
        for (int64_t i = 0; i < vd_moss_node_count(layers); i++) {
            char name[VD_MOSS_NODE_NAME];
            vd_moss_node_name(i, layers, name);
            assert_int_equal(vd_moss_node_find(name, layers), i);
        }
}

static void test_names_that_are_none(void **state)
{
    static const char *const none[] = {"", "x", "x.", "x.01", "x.43", "x.-1", "x.1a", "b42.a", "b0.x", "b.a", "b0", "b00.a", "velocity ", "TIME", "x.99999999999999999999"};
    (void)state;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(vd_moss_node_find(none[i], 42), -1);
    assert_int_equal(vd_moss_node_find("x.0", 42), VD_MOSS_X0);
}

/* Every input of a node comes before it, so one pass back from the last node finds all that it needs. */
static void test_inputs_come_before(void **state)
{
    (void)state;
    for (int64_t i = 0; i < vd_moss_node_count(3); i++)
        for (int skipped = 0; skipped < 2; skipped++) {
            int64_t   inputs[3];
            const int count = vd_moss_node_inputs(i, 3, skipped, inputs);
            assert_in_range(count, 0, 3);
            for (int k = 0; k < count; k++)
                assert_in_range(inputs[k], 0, i - 1);
        }
    int64_t inputs[3];
    assert_int_equal(vd_moss_node_inputs(vd_moss_node_find("x.2", 3), 3, true, inputs), 1);
    assert_int_equal(inputs[0], vd_moss_node_find("x.1", 3));
}

static void test_patterns(void **state)
{
    (void)state;
    assert_true(vd_moss_name_matches("time", "time"));
    assert_true(vd_moss_name_matches("mod,x.*,b2.q", "x.12"));
    assert_true(vd_moss_name_matches("*", "b0.q_rot"));
    assert_true(vd_moss_name_matches("b*.q", "b10.q"));
    assert_true(vd_moss_name_matches(",,x.1", "x.1"));
    assert_false(vd_moss_name_matches("b*.q", "b10.q_rot"));
    assert_false(vd_moss_name_matches("x.1", "x.12"));
    assert_false(vd_moss_name_matches("x.12", "x.1"));
    assert_false(vd_moss_name_matches("", "x.1"));
    assert_false(vd_moss_name_matches(NULL, "x.1"));
    assert_true(vd_moss_name_matches("**x**.*1*", "x.21"));
    assert_false(vd_moss_name_matches("*a*b", "xaxc"));
    assert_true(vd_moss_name_matches("*ab", "aab"));
    char stars[4001]; /* hostile: must take no time */
    memset(stars, '*', 4000);
    stars[3999] = 'z', stars[4000] = 0;
    assert_false(vd_moss_name_matches(stars, "b10.q_rot"));
    assert_true(vd_moss_name_listed("x.*,b2.q", "b2.q"));
    assert_false(vd_moss_name_listed("x.*,b2.q", "x.1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_lead_back), cmocka_unit_test(test_names_that_are_none), cmocka_unit_test(test_inputs_come_before), cmocka_unit_test(test_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
