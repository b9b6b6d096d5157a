/* attn/k128 against cuDNN's attention on an H200 at every recorded length, and wrong frames that the recorded bytes must tell apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "contract/data.h"
#include "core/parallel.h"

enum { D = 128 };

/* The frame again, each rule a setting; only for planting wrong ones. (How the denominator's lanes are joined moves one bf16 output in some
 * hundred thousand: more than are recorded here; the fp32 variant in tests/kernels shows any change of it.) */
typedef struct rules {
    int  tile;
    bool round_sum;      /* the denominator adds rounded p */
    bool wide_values;    /* P not rounded for P·V */
} rules;

static void other_row(const rules *r, int64_t s, const uint16_t *q, const uint16_t *k, const uint16_t *v, uint16_t *o)
{
    float top = -INFINITY, lanes[4] = {0}, sums[D] = {0};
    for (int64_t first = 0; first < s; first += r->tile) {
        const int64_t keys = s - first < r->tile ? s - first : r->tile;
        float         raw[128], p[128], tile[4] = {0}, top_now = top;
        for (int64_t j = 0; j < keys; j++) {
            raw[j] = vd_tc16_chain(0.0f, q, k + (first + j) * D, D);
            top_now = fmaxf(top_now, raw[j] * vd_attention_scale(D));
        }
        for (int64_t j = 0; j < keys; j++) {
            p[j] = vd_ex2(raw[j] * vd_attention_scale(D) - top_now);
            tile[j % 8 / 2] += r->round_sum ? vd_round_bf16(p[j]) : p[j];
        }
        const float alpha = vd_ex2(top - top_now);
        for (int i = 0; i < 4; i++)
            lanes[i] = first ? fmaf(lanes[i], alpha, tile[i]) : tile[i];
        for (int c = 0; c < D; c++) {
            uint16_t a[128], b[128];
            float    sum = first ? sums[c] * alpha : 0;
            for (int64_t j = 0; j < keys; j++) {
                a[j] = vd_to_bf16(p[j]), b[j] = v[(first + j) * D + c];
                if (r->wide_values)
                    sum = fmaf(p[j], vd_from_bf16(b[j]), sum);
            }
            sums[c] = r->wide_values ? sum : vd_tc16_chain(sum, a, b, keys);
        }
        top = top_now;
    }
    const float l = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    for (int c = 0; c < D; c++)
        o[c] = vd_to_bf16(sums[c] * vd_rcp(l));
}

typedef struct job {
    const rules    *wrong;
    int64_t         s;
    const uint16_t *q, *k, *v;
    uint16_t       *o;
} job;

static void run_row(void *arg, int64_t row, int worker)
{
    (void)worker;
    const job *j = arg;
    float      sums[D];
    if (j->wrong)
        other_row(j->wrong, j->s, j->q + row * D, j->k, j->v, j->o + row * D);
    else
        vd_attention_row(VD_ATTN_K128, j->s, D, j->q + row * D, j->k, D, j->v, D, j->o + row * D, sums);
}

static int64_t compare(const d_file *file, const char *q_name, const char *prefix, const rules *wrong, d_tally *tally)
{
    const vd_tensor *q = d_get(file, "%s", q_name), *k = d_get(file, "%s.k", prefix), *v = d_get(file, "%s.v", prefix), *y = d_get(file, "%s.cudnn", prefix);
    int64_t          bad = 0;
    for (int64_t head = 0; head < q->shape[0]; head++) {
        const int64_t m = q->shape[1], s = k->shape[1];
        uint16_t     *o = malloc(2 * (size_t)(m * D));
        job           j = {wrong, s, (const uint16_t *)q->data + head * m * D, (const uint16_t *)k->data + head * s * D, (const uint16_t *)v->data + head * s * D, o};
        vd_parallel(vd_cpu_count(), m, run_row, &j);
        if (tally)
            d_count(tally, prefix, (const uint16_t *)y->data + head * m * D, o, VD_BF16, m * D);
        bad += d_differ((const uint16_t *)y->data + head * m * D, o, VD_BF16, m * D);
        free(o);
    }
    return bad;
}

static void test_recorded(void **state)
{
    (void)state;
    static const char *const lengths[] = {"s200h24", "s300h24", "s1000h2", "s1088h24", "s4352h24"};
    d_file                   file = d_open("attention.safetensors"), nodes = d_open("nodes.safetensors");
    d_tally                  tally = {0};
    compare(&nodes, "att.q", "att", NULL, &tally);
    for (int i = 0; i < 5; i++) {
        char q[32];
        snprintf(q, sizeof q, "%s.q", lengths[i]);
        compare(&file, q, lengths[i], NULL, &tally);
    }
    assert_int_equal(tally.wrong, 0);
    assert_int_equal(tally.checked, 2 * 96 * D + 6 * 32 * D);
    d_close(&file);
    d_close(&nodes);
}

static void test_wrong_frames(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        rules       r;
    } wrong[] = {
        {"tiles of 64", {.tile = 64}},
        {"rounded denominator", {.tile = 128, .round_sum = true}},
        {"unrounded P", {.tile = 128, .wide_values = true}},
    };
    static const rules right = {.tile = 128};
    d_file             file  = d_open("attention.safetensors");
    assert_int_equal(compare(&file, "s300h24.q", "s300h24", &right, NULL), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int64_t caught = 0;
        static const char *const lengths[] = {"s300h24", "s1000h2", "s1088h24"};
        for (int l = 0; l < 3; l++) {
            char q[32];
            snprintf(q, sizeof q, "%s.q", lengths[l]);
            caught += compare(&file, q, lengths[l], &wrong[i].r, NULL);
        }
        printf("%s: %lld outputs differ\n", wrong[i].name, (long long)caught);
        assert_int_not_equal(caught, 0);
    }
    d_close(&file);
}

static void test_rules(void **state)
{
    (void)state;
    assert_int_equal(vd_bits(vd_attention_scale(128)), 0x3E0293EE);
    /* One key: the output is v; a NaN or +Inf score gives NaN; −Inf beside a finite score has no weight. */
    uint16_t q[16] = {0x3F80}, k[2 * 16] = {0x3F80}, v[2 * 16], o[16];
    float    sums[16], v32[16], o32[16], q32[16] = {1}, k32[16] = {1};
    for (int i = 0; i < 32; i++)
        v[i] = (uint16_t)(0x3F80 + i);
    for (int i = 0; i < 16; i++)
        v32[i] = (float)(i - 4);
    vd_attention_row(VD_ATTN_K128, 1, 16, q, k, 16, v, 16, o, sums);
    assert_memory_equal(o, v, sizeof o);
    vd_attention_row(VD_ATTN_K128_PAIR, 1, 16, q, k, 16, v, 16, o, sums);
    assert_memory_equal(o, v, sizeof o);
    vd_attention_row(VD_ATTN_K128_F32, 1, 16, q32, k32, 16, v32, 16, o32, sums);
    assert_memory_equal(o32, v32, sizeof o32);
    k[16] = 0xFF80; /* −Inf */
    vd_attention_row(VD_ATTN_K128, 2, 16, q, k, 16, v, 16, o, sums);
    assert_memory_equal(o, v, sizeof o);
    k[16] = 0x7F80; /* +Inf: Inf − Inf */
    vd_attention_row(VD_ATTN_K128, 2, 16, q, k, 16, v, 16, o, sums);
    assert_int_equal(o[0], VD_NAN_BF16_BITS);
    k[16] = 0xFFC1;
    vd_attention_row(VD_ATTN_K128, 2, 16, q, k, 16, v, 16, o, sums);
    assert_int_equal(o[5], VD_NAN_BF16_BITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded), cmocka_unit_test(test_wrong_frames), cmocka_unit_test(test_rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
