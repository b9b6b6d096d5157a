/* The generator's check numbers. Everything recorded from synthetic models stands on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "contract/contract.h"
#include "core/hash.h"
#include "models/synthetic.h"

static void check_values(const char *name, uint64_t seed, const int32_t *values, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(vd_synth_value(vd_synth_base(vd_fnv1a(name), seed), i), values[i]);
}

static void test_stream(void **state)
{
    (void)state;
    check_values("a", 1, (int32_t[]){16636, -4216, 22298, -8382, -5621, 30349}, 6);
    check_values("language_model.layers.0.linear_attn.A_log", 1, (int32_t[]){-25275, 6080, 521, 23206}, 4);
}

static float value_of(const vd_moss_config *config, const char *name, int64_t rows, int64_t columns, int64_t i)
{
    const vd_tensor t = {.name = name, .type = VD_BF16, .rank = columns ? 2 : 1, .shape = {rows, columns}};
    uint16_t        x;
    vd_synth_fill(config, 1, &t, i, 1, &x);
    return vd_load(&x, VD_BF16, 0);
}

static float expect(const char *name, int64_t i, float offset, float scale, float add, float times)
{
    const float x = offset + (float)vd_synth_value(vd_synth_base(vd_fnv1a(name), 1), i) * 0x1p-15f * scale;
    return vd_round((x + add) * times, VD_BF16);
}

/* Each rule of the family, against the rule written out again. */
static void test_rules(void **state)
{
    (void)state;
    vd_context *ctx;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    vd_moss_config c;
    assert_int_equal(vd_synth_config(ctx, "moss", NULL, &c), VD_OK);
    const char *q = "layers.3.proj.q.weight";
    assert_true(value_of(&c, q, 3072, 3072, 12345) == expect(q, 12345, 0, 1.0f / 32, 0, 1)); /* sqrt(1024) = 32 */
    assert_true(value_of(&c, "time_embedding.0.weight", 3072, 256, 9) == expect("time_embedding.0.weight", 9, 0, 1.0f / 8, 0, 1));
    assert_true(value_of(&c, "video_head_modulation.weight", 6144, 3072, 9) == expect("video_head_modulation.weight", 9, 0, 1.0f / 64, 0, 1));
    assert_true(value_of(&c, "layers.3.q_norm.weight", 128, 0, 77) == expect("layers.3.q_norm.weight", 77, 2, 0.25f, 0, 1));
    assert_true(value_of(&c, "layers.3.norm2.weight", 3072, 0, 5) == expect("layers.3.norm2.weight", 5, 1, 0.25f, 0, 4));
    assert_true(value_of(&c, "layers.3.norm2.weight", 3072, 0, 1356) == 0.0625f);
    assert_true(value_of(&c, "final_norm_video.weight", 3072, 0, 77) == 0.0625f);
    assert_true(value_of(&c, "video_embedder.bias", 3072, 0, 1356) == expect("video_embedder.bias", 1356, 0, 0.125f, 300, 1));
    assert_true(value_of(&c, "text_embedder.proj.bias", 3072, 0, 77) == expect("text_embedder.proj.bias", 77, 0, 0.125f, -140, 1));
    assert_true(value_of(&c, "time_embedding.0.bias", 3072, 0, 77) == expect("time_embedding.0.bias", 77, 0, 0.125f, 0, 1));
    assert_true(value_of(&c, "shared_block_modulation.bias", 18432, 0, 2 * 3072) ==
                expect("shared_block_modulation.bias", 2 * 3072, 0, 0.125f, 0.5f, 1));
    assert_true(value_of(&c, "shared_block_modulation.bias", 18432, 0, 3 * 3072) ==
                expect("shared_block_modulation.bias", 3 * 3072, 0, 0.125f, 0, 1));
    assert_true(value_of(&c, "shared_block_modulation.bias", 18432, 0, 18431) == expect("shared_block_modulation.bias", 18431, 0, 0.125f, 0.5f, 1));
    vd_close(ctx);
}

static void test_list(void **state)
{
    (void)state;
    vd_context *ctx;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    vd_moss_config c;
    vd_tensor     *tensors;
    int64_t        count, elements = 0;
    assert_int_equal(vd_synth_config(ctx, "moss", NULL, &c), VD_OK);
    assert_int_equal(vd_synth_list(ctx, &c, &tensors, &count), VD_OK);
    assert_int_equal(count, 463);
    for (int64_t i = 0; i < count; i++) {
        elements += vd_tensor_elements(&tensors[i]);
        assert_true(i == 0 || strcmp(tensors[i - 1].name, tensors[i].name) < 0);
    }
    assert_int_equal(elements, 5082308624);
    vd_free(ctx, tensors);
    vd_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stream), cmocka_unit_test(test_rules), cmocka_unit_test(test_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
