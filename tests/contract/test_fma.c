/* fma/chain, fma/fold512 and fma/pair: constructed cases for each rule, the processor's own flushing FMA as a witness, and the ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>

#include "contract/data.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static uint64_t next(uint64_t *s)
{
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

static void test_flush_rules(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        float       a, b, c;
        uint32_t    y;
    } cases[] = {
        {"a subnormal factor is a zero of its sign", -0x1p-130f, 0x1p100f, -0.0f, 0x80000000},
        {"and so is the other", 0x1p100f, 0x1p-127f, 0.0f, 0x00000000},
        {"a subnormal sum coming in is a zero of its sign", 0.0f, -1.0f, -0x1p-140f, 0x80000000},
        {"a subnormal result is a zero of its sign", 0x1p-70f, -0x1p-70f, 0.0f, 0x80000000},
        {"below 2^-126 even after rounding at full precision", -0x1.8p-75f, 0x1p-76f, 0x1p-126f, 0x00000000},
        {"rounded up to 2^-126 it stays", -0x1p-76f, 0x1p-77f, 0x1p-126f, 0x00800000},
        {"2^-126 exactly stays", 0x1p-63f, 0x1p-63f, 0.0f, 0x00800000},
        {"cancelling to 2^-126 exactly stays", -1.0f, 0x1p-126f, 0x1p-125f, 0x00800000},
        {"exact zero is +0", 1.0f, 1.0f, -1.0f, 0x00000000},
        {"one rounding only", 0x1.000006p0f, 0x1.000006p0f, -1.0f, 0x35400002},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t y = vd_bits(vd_fma_flush(cases[i].a, cases[i].b, cases[i].c));
        if (y != cases[i].y)
            fail_msg("%s: %#x, not %#x", cases[i].rule, y, cases[i].y);
    }
}

#if defined(__x86_64__)
__attribute__((target("fma"))) static float processor_fma(float a, float b, float c)
{
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(0x9FC0); /* to nearest even, subnormals are zeros in and out, no traps */
    volatile __m128 x = _mm_set_ss(a), y = _mm_set_ss(b), z = _mm_set_ss(c);
    volatile __m128 r = _mm_fmadd_ss(x, y, z);
    _mm_setcsr(saved);
    return _mm_cvtss_f32(r);
}

/* fma/pair is two of the processor's FMAs with flushing on: the definition and the instruction on crowded bits, the sliver just below 2^-126
 * among them. */
static void test_processor(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("fma")) {
        printf("not run: this CPU has no FMA\n");
        skip();
    }
    uint64_t s = 0x1234567;
    int64_t  differ = 0, plain = 0;
    for (int i = 0; i < 2000000; i++) {
        float a = vd_from_bf16((uint16_t)next(&s)), b = vd_from_bf16((uint16_t)next(&s)), c = vd_float((uint32_t)next(&s));
        if (i % 4) { /* around the smallest normal number */
            a = ldexpf(1 + (float)(next(&s) % 128) / 128, -63 - (int)(next(&s) % 16));
            b = ldexpf(-1 - (float)(next(&s) % 128) / 128, -63 - (int)(next(&s) % 16));
            c = vd_float(0x00800000u + (uint32_t)(next(&s) % 3) - 1 + (uint32_t)(next(&s) % 2) * 0x800000u);
        }
        const float x = vd_fma_flush(a, b, c), y = processor_fma(a, b, c);
        differ += vd_bits(vd_canonical(x)) != vd_bits(vd_canonical(y));
        const float f = fmaf(a, b, c); /* wrong: flush what fmaf returns */
        plain += vd_bits(vd_canonical(fabsf(f) < 0x1p-126f ? copysignf(0, f) : f)) != vd_bits(vd_canonical(y));
    }
    assert_int_equal(differ, 0);
    assert_int_not_equal(plain, 0);
}
#else
static void test_processor(void **state)
{
    (void)state;
    printf("not run: not an x86-64 CPU\n");
    skip();
}
#endif

static void test_pair_order(void **state)
{
    (void)state;
    /* 2^24 + 1: the odd element comes first, so 1 is added to 0, then 2^24; the other way round the 1 would be lost against 2^24 + 2^0 (a tie) */
    const uint16_t even_big[4] = {0x4B80, 0x3F80, 0xCB80, 0}, ones[4] = {0x3F80, 0x3F80, 0x3F80, 0x3F80};
    assert_int_equal(vd_bits(vd_fma_pair(0.0f, even_big, ones, 3)), 0);          /* ((1 + 2^24) − 2^24): the 1 is lost in a tie */
    const uint16_t odd_big[4] = {0x3F80, 0x4B80, 0x3F80, 0xCB80};
    assert_int_equal(vd_bits(vd_fma_pair(0.0f, odd_big, ones, 4)), 0x3F800000);  /* 2^24 + 1 → 2^24; − 2^24 → 0; + 1 */
    const uint16_t plain[4] = {0x4B80, 0x3F80, 0x3F80, 0xCB80};
    assert_int_equal(vd_bits(vd_fma_pair(0.0f, plain, ones, 4)), 0x3F800000);
    /* K odd: zeros complete the last pair, so a −0 becomes +0 before the last element comes */
    const uint16_t tiny[1] = {0x8000};
    assert_int_equal(vd_bits(vd_fma_pair(-0.0f, tiny, ones, 1)), 0);
    const uint16_t two[2] = {0x8000, 0x8000};
    assert_int_equal(vd_bits(vd_fma_pair(-0.0f, two, ones, 2)), 0x80000000);
    const uint16_t nan[2] = {0xFF81, 0x3F80};
    assert_int_equal(vd_bits(vd_fma_pair(0.0f, nan, ones, 2)), VD_NAN_F32_BITS);
}

static void test_chain_and_fold(void **state)
{
    (void)state;
    enum { K = 1300 };
    static float    a[K], b[K];
    static uint16_t b16[K];
    uint64_t        s = 99;
    int             fold_moves = 0, fused_moves = 0;
    for (int round = 0; round < 20; round++) {
        float chain = 0, leaves = 0, unfused = 0;
        for (int i = 0; i < K; i++) {
            a[i]   = (float)(int32_t)next(&s) * 0x1p-31f;
            b[i]   = (float)(int32_t)next(&s) * 0x1p-31f;
            b16[i] = vd_to_bf16(b[i]);
        }
        for (int i = 0; i < K; i++)
            chain = fmaf(a[i], b[i], chain), unfused += a[i] * b[i];
        for (int i = 0; i < K; i += 512)
            leaves += vd_fma_chain(0.0f, a + i, b + i, VD_F32, K - i < 512 ? K - i : 512);
        assert_int_equal(vd_bits(vd_fma_chain(0.0f, a, b, VD_F32, K)), vd_bits(chain));
        assert_int_equal(vd_bits(vd_fma_fold512(a, b, VD_F32, K)), vd_bits(leaves));
        fold_moves += vd_bits(chain) != vd_bits(leaves);
        fused_moves += vd_bits(chain) != vd_bits(unfused);
        for (int i = 0; i < K; i++)
            b[i] = vd_from_bf16(b16[i]);
        assert_int_equal(vd_bits(vd_fma_chain(0.5f, a, b16, VD_BF16, K)), vd_bits(vd_fma_chain(0.5f, a, b, VD_F32, K)));
        assert_int_equal(vd_bits(vd_fma_fold512(a, b16, VD_BF16, K)), vd_bits(vd_fma_fold512(a, b, VD_F32, K)));
    }
    assert_true(fold_moves > 0 && fused_moves > 0);
    const float tiny[1] = {-0x1p-100f}, small[1] = {0x1p-49f};
    assert_int_equal(vd_bits(vd_fma_chain(0.0f, tiny, small, VD_F32, 1)), 0x80000001); /* subnormals kept */
}

static void test_ids(void **state)
{
    (void)state;
    for (int i = 1; i < VD_ORDER_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", vd_order_id((vd_order)i));
        assert_int_equal(vd_order_find(name), i);
        *strchr(name, '@') = 0;
        assert_int_equal(vd_order_find(name), i);
        strcat(name, "@2");
        assert_int_equal(vd_order_find(name), VD_ORDER_NONE);
    }
    assert_null(vd_order_id(VD_ORDER_NONE));
    assert_null(vd_order_id(VD_ORDER_COUNT));
    assert_int_equal(vd_order_find("tc16/chai"), VD_ORDER_NONE);
    assert_int_equal(vd_order_find(""), VD_ORDER_NONE);
    assert_int_equal(vd_order_find(NULL), VD_ORDER_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flush_rules), cmocka_unit_test(test_processor), cmocka_unit_test(test_pair_order),
                                       cmocka_unit_test(test_chain_and_fold), cmocka_unit_test(test_ids)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
