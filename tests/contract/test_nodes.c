/* torch's nodes on an H200: norms, modulation, rotary, SiTU, residuals, sinusoids, functions of all bf16 numbers; each with a wrong rule that
 * the recorded bytes must tell apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "contract/data.h"

static const uint16_t *bf16(const d_file *file, const char *name) { return d_get(file, "%s", name)->data; }
static const float    *f32(const d_file *file, const char *name) { return d_get(file, "%s", name)->data; }

static void test_functions_of_bf16(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float (*f)(float);
    } functions[] = {{"u.tanh", vd_tanh}, {"u.sigmoid", vd_sigmoid}, {"u.silu", vd_silu}, {"u.exp", vd_exp}, {"u.softplus", vd_softplus},
                     {"u.div4", vd_div4}, {"u.div25", vd_div25}};
    d_file   file  = d_open("nodes.safetensors");
    d_tally  tally = {0};
    uint16_t *got  = malloc(2 * 65536);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        for (int x = 0; x < 65536; x++)
            got[x] = vd_to_bf16(functions[i].f(vd_from_bf16((uint16_t)x)));
        d_count(&tally, functions[i].name, bf16(&file, functions[i].name), got, VD_BF16, 65536);
    }
    for (int k = 4; k <= 25; k += 21) {
        for (int x = 0; x < 65536; x++)
            got[x] = vd_to_bf16((float)k * vd_from_bf16((uint16_t)x));
        d_count(&tally, k == 4 ? "u.mul4" : "u.mul25", bf16(&file, k == 4 ? "u.mul4" : "u.mul25"), got, VD_BF16, 65536);
    }
    assert_int_equal(tally.wrong, 0);
    assert_int_equal(tally.checked, 9 * 65536);
    /* wrong: the correctly rounded sigmoid, which is not 0 where exp(-x) overflows */
    for (int x = 0; x < 65536; x++)
        got[x] = vd_to_bf16((float)(1 / (1 + exp(-(double)vd_from_bf16((uint16_t)x)))));
    assert_int_not_equal(d_differ(bf16(&file, "u.sigmoid"), got, VD_BF16, 65536), 0);
    free(got);
    d_close(&file);
}

static void test_norm_and_modulate(void **state)
{
    (void)state;
    d_file          file = d_open("nodes.safetensors");
    d_tally         tally = {0};
    const int64_t   m = d_get(&file, "norm.x")->shape[0], n = 3072;
    const uint16_t *x = bf16(&file, "norm.x"), *w = bf16(&file, "norm.w"), *scale = bf16(&file, "mod.scale"), *shift = bf16(&file, "mod.shift");
    uint16_t       *y = malloc(2 * (size_t)(m * n)), *z = malloc(2 * (size_t)(m * n));
    float          *mean = malloc(4 * (size_t)m), *rstd = malloc(4 * (size_t)m), *other = malloc(4 * (size_t)m);
    for (int64_t i = 0; i < m; i++) {
        mean[i]  = vd_rowsum128(x + i * n, VD_BF16, n) * (1.0f / (float)n);
        rstd[i]  = vd_rms_rstd(VD_ROWSUM128, x + i * n, VD_BF16, n, 1e-6f);
        other[i] = vd_rowsum512(x + i * n, VD_BF16, n) / (float)n;
        vd_rms_norm_row(VD_ROWSUM128, 1e-6f, n, VD_BF16, x + i * n, VD_BF16, w, VD_BF16, y + i * n, VD_BF16);
        vd_norm_modulate_row(1e-6f, n, VD_BF16, x + i * n, VD_BF16, w, VD_BF16, scale, shift, VD_BF16, z + i * n, VD_BF16);
    }
    d_count(&tally, "norm.mean", f32(&file, "norm.mean"), mean, VD_F32, m);
    d_count(&tally, "norm.rstd", f32(&file, "norm.rstd"), rstd, VD_F32, m);
    d_count(&tally, "norm.y", bf16(&file, "norm.y"), y, VD_BF16, m * n);
    d_count(&tally, "norm.y_3rows", bf16(&file, "norm.y_3rows"), y, VD_BF16, 3 * n);
    d_count(&tally, "mod.y", bf16(&file, "mod.y"), z, VD_BF16, m * n);
    assert_int_equal(tally.wrong, 0);
    /* wrong: the fused norm's order; the fused norm's roundings; one rounding at the end of the modulation */
    assert_int_not_equal(d_differ(f32(&file, "norm.mean"), other, VD_F32, m), 0);
    for (int64_t i = 0; i < m; i++) {
        vd_rms_norm_row(VD_ROWSUM128, 1e-6f, n, VD_F32, x + i * n, VD_BF16, w, VD_BF16, y + i * n, VD_BF16);
        vd_norm_modulate_row(1e-6f, n, VD_F32, x + i * n, VD_BF16, w, VD_BF16, scale, shift, VD_BF16, z + i * n, VD_BF16);
    }
    assert_int_not_equal(d_differ(bf16(&file, "norm.y"), y, VD_BF16, m * n), 0);
    assert_int_not_equal(d_differ(bf16(&file, "mod.y"), z, VD_BF16, m * n), 0);
    free(y), free(z), free(mean), free(rstd), free(other);
    d_close(&file);
}

static void test_heads(void **state)
{
    (void)state;
    enum { ROWS = 40, HEADS = 24, D = 128, ALL = ROWS * HEADS * D };
    d_file          file = d_open("nodes.safetensors");
    d_tally         tally = {0};
    const uint16_t *x = bf16(&file, "qnorm.x"), *w = bf16(&file, "qnorm.w"), *qy = bf16(&file, "qnorm.y"), *c = bf16(&file, "rope.c"), *s = bf16(&file, "rope.s");
    uint16_t       *y = malloc(2 * ALL), *rotated = malloc(2 * ALL), *both = malloc(2 * ALL), *once = malloc(2 * ALL);
    for (int64_t h = 0; h < ROWS * HEADS; h++) {
        const int64_t row = h / HEADS;
        vd_rms_norm_row(VD_ROWSUM128, 1e-6f, D, VD_BF16, x + h * D, VD_BF16, w, VD_BF16, y + h * D, VD_BF16);
        vd_rotary_head(D, VD_BF16, qy + h * D, VD_BF16, c + row * D, s + row * D, VD_BF16, rotated + h * D, VD_BF16);
        vd_head_norm_rotary_head(D, 1e-6f, VD_BF16, VD_BF16, x + h * D, VD_BF16, w, VD_BF16, c + row * D, s + row * D, VD_BF16, both + h * D, VD_BF16);
        vd_rotary_head(D, VD_F32, qy + h * D, VD_BF16, c + row * D, s + row * D, VD_BF16, once + h * D, VD_BF16);
    }
    d_count(&tally, "qnorm.y", qy, y, VD_BF16, ALL);
    d_count(&tally, "rope.y", bf16(&file, "rope.y"), rotated, VD_BF16, ALL);
    d_count(&tally, "rope.y from qnorm.x", bf16(&file, "rope.y"), both, VD_BF16, ALL);
    assert_int_equal(tally.wrong, 0);
    assert_int_not_equal(d_differ(bf16(&file, "rope.y"), once, VD_BF16, ALL), 0); /* wrong: one rounding */
    free(y), free(rotated), free(both), free(once);
    d_close(&file);
}

static void test_situ_and_residuals(void **state)
{
    (void)state;
    enum { ROWS = 48, N = 512, ALL = ROWS * N };
    d_file          file = d_open("nodes.safetensors");
    d_tally         tally = {0};
    const uint16_t *u = bf16(&file, "situ.u"), *g = bf16(&file, "situ.g"), *x = bf16(&file, "res.x"), *y = bf16(&file, "res.y"), *gate = bf16(&file, "res.g");
    const float    *x32 = f32(&file, "res32.x"), *gate32 = f32(&file, "res32.g");
    uint16_t       *situ = malloc(2 * ALL), *res = malloc(2 * ALL), *once = malloc(2 * ALL);
    float          *res32 = malloc(4 * ALL), *fused = malloc(4 * ALL);
    for (int i = 0; i < ALL; i++) {
        const float a = vd_from_bf16(u[i]), b = vd_from_bf16(g[i]), c = vd_from_bf16(y[i]);
        situ[i]  = vd_to_bf16(vd_situ_value(a, b, VD_BF16));
        once[i]  = vd_to_bf16(vd_situ_value(a, b, VD_F32));
        res[i]   = vd_to_bf16(vd_gated_residual_value(vd_from_bf16(x[i]), c, vd_from_bf16(gate[i % N]), VD_BF16));
        res32[i] = vd_gated_residual_value(x32[i], c, gate32[i % N], VD_F32);
        fused[i] = fmaf(c, gate32[i % N], x32[i]);
    }
    d_count(&tally, "situ.y", bf16(&file, "situ.y"), situ, VD_BF16, ALL);
    d_count(&tally, "res.o", bf16(&file, "res.o"), res, VD_BF16, ALL);
    d_count(&tally, "res32.o", f32(&file, "res32.o"), res32, VD_F32, ALL);
    assert_int_equal(tally.wrong, 0);
    assert_int_not_equal(d_differ(bf16(&file, "situ.y"), once, VD_BF16, ALL), 0);   /* wrong: one rounding */
    assert_int_not_equal(d_differ(f32(&file, "res32.o"), fused, VD_F32, ALL), 0);    /* wrong: product and sum fused */
    free(situ), free(res), free(once), free(res32), free(fused);
    d_close(&file);
}

static void test_rotary_table(void **state)
{
    (void)state;
    enum { COUNT = 16 };
    d_file        file = d_open("nodes.safetensors");
    d_tally       tally = {0};
    const int64_t all = vd_tensor_elements(d_get(&file, "rope.phase"));
    const float  *phase = f32(&file, "rope.phase");
    float         bands[COUNT], *c = malloc(4 * (size_t)all), *s = malloc(4 * (size_t)all), *plain = malloc(4 * (size_t)all);
    vd_rope_bands(10000.0, COUNT, bands);
    d_count(&tally, "rope.bands", f32(&file, "rope.bands"), bands, VD_F32, COUNT);
    for (int64_t i = 0; i < all; i++)
        c[i] = vd_cos(phase[i]), s[i] = vd_sin(phase[i]), plain[i] = (float)sin((double)phase[i]);
    d_count(&tally, "rope.cos", f32(&file, "rope.cos"), c, VD_F32, all);
    d_count(&tally, "rope.sin", f32(&file, "rope.sin"), s, VD_F32, all);
    assert_int_equal(tally.wrong, 0);
    assert_int_not_equal(d_differ(f32(&file, "rope.sin"), plain, VD_F32, all), 0); /* wrong: the correctly rounded sine */
    /* the table's layout: axis by axis, both halves alike */
    const float positions[2] = {3.0f, -0.5f};
    float       row_c[4 * COUNT], row_s[4 * COUNT];
    assert_true(vd_rotary_table_row(positions, 2, bands, COUNT, VD_F32, row_c, row_s));
    for (int p = 0; p < 2 * COUNT; p++) {
        assert_int_equal(vd_bits(row_c[p]), vd_bits(vd_cos(positions[p / COUNT] * bands[p % COUNT])));
        assert_int_equal(vd_bits(row_s[p]), vd_bits(vd_sin(positions[p / COUNT] * bands[p % COUNT])));
        assert_int_equal(vd_bits(row_s[p]), vd_bits(row_s[p + 2 * COUNT]));
    }
    vd_rope_bands(-1.0, 1, row_c);
    assert_int_equal(vd_bits(row_c[0]), VD_NAN_F32_BITS);
    const float far[1] = {105615.0f};
    assert_false(vd_rotary_table_row(far, 1, bands, COUNT, VD_F32, row_c, row_s));
    free(c), free(s), free(plain);
    d_close(&file);
}

static void test_sinusoids(void **state)
{
    (void)state;
    static const float times[3] = {1000.0f, 910.0f, 24.0f};
    d_file             file = d_open("nodes.safetensors"), h3 = d_open("h3_functions.safetensors");
    d_tally            tally = {0};
    float              e[3 * 256], single[3 * 256];
    for (int i = 0; i < 3; i++) {
        vd_sinusoid_moss(times[i], 256, e + 256 * i);
        for (int k = 0; k < 128; k++) { /* wrong: the phase in fp32 */
            const float phase = times[i] * (float)pow(10000.0, -k / 128.0);
            single[256 * i + k]       = vd_cos(phase);
            single[256 * i + 128 + k] = vd_sin(phase);
        }
    }
    d_count(&tally, "time.e", f32(&file, "time.e"), e, VD_F32, 3 * 256);
    assert_int_not_equal(d_differ(f32(&file, "time.e"), single, VD_F32, 3 * 256), 0);
    const float *t = f32(&h3, "timestep");
    for (int i = 0; i < 3; i++)
        vd_sinusoid_h3(t[i], 256, e + 256 * i);
    d_count(&tally, "h3 time.feat", f32(&h3, "time.feat"), e, VD_F32, 3 * 256);
    assert_int_equal(tally.wrong, 0);
    vd_sinusoid_moss(NAN, 4, e);
    assert_int_equal(vd_bits(e[0]), VD_NAN_F32_BITS);
    vd_sinusoid_moss(0x1p30f, 4, e);
    assert_int_equal(vd_bits(e[2]), VD_NAN_F32_BITS);
    vd_sinusoid_moss(0.0f, 4, e);
    assert_true(vd_bits(e[0]) == 0x3F800000 && vd_bits(e[3]) == 0);
    d_close(&file);
    d_close(&h3);
}

/* torch's fused norm: bf16 and fp32 rows, three widths. */
static void test_fused_norm(void **state)
{
    (void)state;
    static const int widths[3] = {128, 3072, 5376};
    d_file           file = d_open("rmsnorm.safetensors");
    d_tally          tally = {0};
    for (int i = 0; i < 3; i++) {
        char             name[32];
        const int64_t    n = widths[i], m = d_get(&file, "h%d.x", widths[i])->shape[0];
        const uint16_t  *x = d_get(&file, "h%d.x", widths[i])->data, *w = d_get(&file, "h%d.w", widths[i])->data;
        const vd_tensor *y = d_get(&file, "h%d.y", widths[i]), *rstd = d_get(&file, "h%d.rstd", widths[i]), *y32 = d_get(&file, "h%d.y32", widths[i]);
        uint16_t        *got = malloc(2 * (size_t)(m * n));
        float           *got_rstd = malloc(4 * (size_t)m), *wrong = malloc(4 * (size_t)m), *got32 = malloc(4 * (size_t)(16 * n)), *wide = malloc(4 * (size_t)(2 * n));
        for (int64_t row = 0; row < m; row++) {
            got_rstd[row] = vd_rms_rstd(VD_ROWSUM512, x + row * n, VD_BF16, n, 1e-6f);
            wrong[row]    = vd_rms_rstd(VD_ROWSUM128, x + row * n, VD_BF16, n, 1e-6f);
            vd_rms_norm_row(VD_ROWSUM512, 1e-6f, n, VD_BF16, x + row * n, VD_BF16, w, VD_BF16, got + row * n, VD_BF16);
            for (int64_t k = 0; k < n && row < 16; k++)
                wide[k] = vd_from_bf16(x[row * n + k]), wide[n + k] = vd_from_bf16(w[k]);
            if (row < 16)
                vd_rms_norm_row(VD_ROWSUM512, 1e-6f, n, VD_F32, wide, VD_F32, wide + n, VD_F32, got32 + row * n, VD_F32);
        }
        snprintf(name, sizeof name, "h%d.rstd", widths[i]);
        d_count(&tally, name, rstd->data, got_rstd, VD_F32, m);
        snprintf(name, sizeof name, "h%d.y", widths[i]);
        d_count(&tally, name, y->data, got, VD_BF16, m * n);
        snprintf(name, sizeof name, "h%d.y32", widths[i]);
        d_count(&tally, name, y32->data, got32, VD_F32, 16 * n);
        if (n == 3072)
            assert_int_not_equal(d_differ(rstd->data, wrong, VD_F32, m), 0); /* wrong: the other order */
        free(got), free(got_rstd), free(wrong), free(got32), free(wide);
    }
    assert_int_equal(tally.wrong, 0);
    d_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions_of_bf16), cmocka_unit_test(test_norm_and_modulate), cmocka_unit_test(test_heads),
        cmocka_unit_test(test_situ_and_residuals), cmocka_unit_test(test_rotary_table), cmocka_unit_test(test_sinusoids), cmocka_unit_test(test_fused_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
