/* tc16 against the tensor core's own results, and against a second implementation with each rule made wrong in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "contract/data.h"

/* The step once more, in another way: exact terms as doubles of integers over a common unit, with every rule a setting. */
typedef struct rules {
    int  bits;            /* fraction bits below the largest exponent */
    bool nearest_end;     /* the sum is rounded to nearest instead of towards zero */
    bool nearest_terms;   /* the terms too */
    bool zero_counts;     /* a product with a zero factor, and a zero c, take part in the largest exponent */
    bool zero_keeps_sign; /* a sum of zero keeps the sign of c */
    bool finite_overflow; /* the largest finite number for Inf */
    bool flush_inputs;    /* subnormal inputs are zeros */
    bool renormalise;     /* a product of 2 or more takes part with its own exponent */
    bool own_nan;         /* another NaN */
    int  group;           /* elements of a step */
} rules;

static const rules right = {.bits = 25, .group = 16};

static int exponent_of(float x) { return isfinite(x) && fabsf(x) >= 0x1p-126f ? ilogbf(x) : -126; }

/* Units of 2^-300 do not fit any machine number, so terms are kept as value · 2^(bits - e), which doubles hold exactly. */
static float other_step(const rules *r, float c, const uint16_t *a, const uint16_t *b)
{
    double plain = 0;
    bool   any = false, odd = c != c || isinf(c);
    int    e = -1000;
    for (int i = 0; i < r->group; i++) {
        float x = vd_from_bf16(a[i]), y = vd_from_bf16(b[i]);
        if (r->flush_inputs)
            x = fabsf(x) < 0x1p-126f ? 0 : x, y = fabsf(y) < 0x1p-126f ? 0 : y;
        odd = odd || x != x || y != y || isinf(x) || isinf(y);
        if ((x == 0 || y == 0) && !r->zero_counts)
            continue;
        int ep = exponent_of(x) + exponent_of(y);
        if (r->renormalise && x != 0 && y != 0 && fabs(ldexp((double)x, -exponent_of(x)) * ldexp((double)y, -exponent_of(y))) >= 2)
            ep++;
        e   = ep > e ? ep : e;
        any = any || (x != 0 && y != 0);
    }
    if (odd) {
        for (int i = 0; i < r->group; i++) {
            const float x = vd_from_bf16(a[i]), y = vd_from_bf16(b[i]);
            plain += (double)x * y; /* exact doubles: only real infinities are infinite */
        }
        plain += c;
        return plain != plain ? vd_float(r->own_nan ? 0x7FC00000u : VD_NAN_F32_BITS) : (float)plain;
    }
    if ((c != 0 || r->zero_counts) && exponent_of(c) > e)
        e = exponent_of(c);
    any = any || c != 0;
    if (!any)
        return r->zero_keeps_sign ? c : 0.0f;
    double sum = 0;
    for (int i = 0; i <= r->group; i++) {
        double term;
        if (i == r->group) {
            term = ldexp((double)c, r->bits - e);
        } else {
            float x = vd_from_bf16(a[i]), y = vd_from_bf16(b[i]);
            if (r->flush_inputs)
                x = fabsf(x) < 0x1p-126f ? 0 : x, y = fabsf(y) < 0x1p-126f ? 0 : y;
            term = ldexp((double)x * y, r->bits - e);
        }
        sum += r->nearest_terms ? rint(term) : trunc(term);
    }
    if (sum == 0)
        return r->zero_keeps_sign ? copysignf(0, c) : 0.0f;
    const double value = ldexp(sum, e - r->bits); /* at least 2^-290 and at most 31 bits: exact */
    if (fabs(value) >= 0x1p128)
        return copysignf(r->finite_overflow ? 0x1.fffffep127f : INFINITY, (float)sum);
    float f = (float)value;
    if (!r->nearest_end && fabs((double)f) > fabs(value))
        f = nextafterf(f, 0);
    return f == 0 ? (r->zero_keeps_sign ? copysignf(0, (float)sum) : 0.0f) : f;
}

static float other_chain(const rules *r, const uint16_t *a, const uint16_t *b, int64_t k)
{
    float c = 0;
    for (int64_t i = 0; i < k; i += r->group)
        c = other_step(r, c, a + i, b + i);
    return c;
}

/* Every tensor NAME.y of the file is x wᵀ. Returns the number of results that differ under these rules; NULL: the contract. */
static int64_t compare(const d_file *file, const rules *r, int64_t max_k, d_tally *tally)
{
    int64_t wrong = 0;
    for (int64_t t = 0; t < file->st.count; t++) {
        const vd_tensor *y    = &file->st.tensors[t];
        const size_t     name = strlen(y->name);
        if (strcmp(y->name + name - 2, ".y") != 0)
            continue;
        const vd_tensor *x = d_get(file, "%.*s.x", (int)name - 2, y->name), *w = d_get(file, "%.*s.w", (int)name - 2, y->name);
        const int64_t    m = x->shape[0], k = x->shape[1], n = y->shape[1];
        if (k > max_k)
            continue;
        float *got = malloc(sizeof(float) * (size_t)(m * n));
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                const uint16_t *a = (const uint16_t *)x->data + i * k, *b = (const uint16_t *)w->data + j * k;
                got[i * n + j] = r ? other_chain(r, a, b, k) : vd_tc16_chain(0.0f, a, b, k);
            }
        if (tally)
            d_count(tally, y->name, y->data, got, VD_F32, m * n);
        wrong += d_differ(y->data, got, VD_F32, m * n);
        free(got);
    }
    return wrong;
}

static void test_recorded(void **state)
{
    (void)state;
    d_file  file  = d_open("tensor_core.safetensors");
    d_tally tally = {0};
    assert_int_equal(compare(&file, NULL, 1 << 20, &tally), 0);
    assert_true(tally.checked >= 100000);
    printf("tensor core: %lld of %lld differ\n", (long long)tally.wrong, (long long)tally.checked);
    d_close(&file);
}

/* The second implementation returns the recorded bytes too; with one rule changed it does not, so the data can tell. */
static void test_wrong_rules(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        rules       r;
    } wrong[] = {
        {"24 fraction bits", {.bits = 24, .group = 16}},
        {"26 fraction bits", {.bits = 26, .group = 16}},
        {"nearest at the end", {.bits = 25, .group = 16, .nearest_end = true}},
        {"nearest terms", {.bits = 25, .group = 16, .nearest_terms = true}},
        {"zeros count as exponents", {.bits = 25, .group = 16, .zero_counts = true}},
        {"-0 kept", {.bits = 25, .group = 16, .zero_keeps_sign = true}},
        {"largest finite for Inf", {.bits = 25, .group = 16, .finite_overflow = true}},
        {"subnormals flushed", {.bits = 25, .group = 16, .flush_inputs = true}},
        {"products renormalised", {.bits = 25, .group = 16, .renormalise = true}},
        {"another NaN", {.bits = 25, .group = 16, .own_nan = true}},
        {"steps of 8", {.bits = 25, .group = 8}},
    };
    d_file file = d_open("tensor_core.safetensors");
    assert_int_equal(compare(&file, &right, 48, NULL), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const int64_t caught = compare(&file, &wrong[i].r, 48, NULL);
        printf("%s: %lld results differ\n", wrong[i].name, (long long)caught);
        assert_true(caught > 0);
    }
    d_close(&file);
}

static uint64_t next(uint64_t *s)
{
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

/* The two implementations on random bits: every pattern, and patterns crowded in a few exponents so that they meet. */
static void test_random_steps(void **state)
{
    (void)state;
    uint64_t s = 88172645463325252u;
    int64_t  differ = 0;
    for (int i = 0; i < 150000; i++) {
        const int base = (int)(next(&s) % 230) + 1, spread = 1 + (int)(next(&s) % 24);
        uint16_t  a[16], b[16];
        float     c = vd_float((uint32_t)next(&s));
        for (int j = 0; j < 16; j++) {
            a[j] = (uint16_t)next(&s);
            b[j] = (uint16_t)next(&s);
            if (i % 8) { /* crowded */
                a[j] = (uint16_t)((a[j] & 0x807F) | (base + (int)(next(&s) % (uint64_t)spread)) << 7);
                b[j] = (uint16_t)((b[j] & 0x807F) | (127 + (int)(next(&s) % (uint64_t)spread) - spread / 2) << 7);
                if (next(&s) % 8 == 0)
                    a[j] &= 0x8000;
                if (next(&s) % 64 == 0)
                    b[j] &= 0x807F; /* subnormal */
            }
        }
        if (i % 8)
            c = next(&s) % 4 ? ldexpf(c == c ? vd_float((vd_bits(c) & 0x807FFFFFu) | 0x3F800000u) : 1, base - 127 + (int)(next(&s) % 30) - 15) : 0;
        const float x = vd_tc16_step(c, a, b), y = other_step(&right, c, a, b);
        differ += vd_bits(x) != vd_bits(y);
    }
    assert_int_equal(differ, 0);
}

/* Named consequences of the rules. */
static void test_consequences(void **state)
{
    (void)state;
    const uint16_t one = 0x3F80, big = 0x7F00, inf = 0x7F80, nan = 0x7FC0, tiny = 0x0001;
    uint16_t       a[32] = {0}, b[32] = {0};
    /* a zero factor has no exponent: it hides nothing */
    a[0] = big, b[0] = 0, a[1] = tiny, b[1] = one;
    assert_int_equal(vd_bits(vd_tc16_step(0.0f, a, b)), 0x00010000);
    /* the order within a step is free: 2^26 + 1 - 2^26 is 0 whatever comes first, since 1 is below the quantum 2^(26 - 25) */
    static const int places[3][3] = {{0, 1, 2}, {2, 0, 1}, {15, 3, 8}};
    for (int i = 0; i < 3; i++) {
        memset(a, 0, sizeof a), memset(b, 0, sizeof b);
        a[places[i][0]] = a[places[i][1]] = a[places[i][2]] = one;
        b[places[i][0]] = 0x4C80, b[places[i][1]] = one, b[places[i][2]] = 0xCC80;
        assert_int_equal(vd_bits(vd_tc16_chain(0.0f, a, b, 32)), 0);
    }
    /* the step that an element belongs to is not: in the next step the 1 survives */
    a[3] = 0, a[16] = one, b[16] = one;
    assert_int_equal(vd_bits(vd_tc16_chain(0.0f, a, b, 32)), 0x3F800000);
    memset(a, 0, sizeof a), memset(b, 0, sizeof b);
    /* a cut step is zeros in both factors, even beside Inf and NaN */
    a[0] = inf, b[0] = one;
    assert_int_equal(vd_bits(vd_tc16_chain(0.0f, a, b, 1)), 0x7F800000);
    a[1] = nan, b[1] = one;
    assert_int_equal(vd_bits(vd_tc16_chain(0.0f, a, b, 1)), 0x7F800000);
    assert_int_equal(vd_bits(vd_tc16_chain(0.0f, a, b, 2)), VD_NAN_F32_BITS);
    /* Inf times zero; Infs of both signs; -0 alone gives +0; overflow is Inf */
    a[1] = inf, b[1] = 0;
    assert_int_equal(vd_bits(vd_tc16_step(0.0f, a, b)), VD_NAN_F32_BITS);
    a[1] = inf, b[1] = 0xBF80;
    assert_int_equal(vd_bits(vd_tc16_step(0.0f, a, b)), VD_NAN_F32_BITS);
    assert_int_equal(vd_bits(vd_tc16_step(-INFINITY, a, b)), VD_NAN_F32_BITS);
    memset(a, 0, sizeof a), memset(b, 0, sizeof b);
    assert_int_equal(vd_bits(vd_tc16_step(-0.0f, a, b)), 0);
    a[0] = big, b[0] = big;
    assert_int_equal(vd_bits(vd_tc16_step(0.0f, a, b)), 0x7F800000);
    /* the step of a replay whose sum overflows 32 bits */
    for (int i = 0; i < 16; i++)
        a[i] = b[i] = 0x3FFF;
    assert_int_equal(vd_bits(vd_tc16_step(1.9921875f, a, b)), vd_bits(other_step(&right, 1.9921875f, a, b)));
}

/* splitS, fold512 and tree8 against their written-out sums. */
static void test_orders(void **state)
{
    (void)state;
    enum { K = 4096 };
    static uint16_t a[K], b[K];
    uint64_t        s = 7;
    int             moved = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < K; i++)
            a[i] = (uint16_t)((next(&s) & 0x807F) | (120 + next(&s) % 8) << 7), b[i] = (uint16_t)((next(&s) & 0x807F) | (120 + next(&s) % 8) << 7);
        float fold = 0, split = 0, part[8];
        for (int i = 0; i < K; i += 512)
            fold += vd_tc16_chain(0, a + i, b + i, 512);
        assert_int_equal(vd_bits(vd_tc16_fold512(a, b, K)), vd_bits(fold));
        for (int i = 0; i < 4; i++)
            split += vd_tc16_chain(0, a + 1024 * i, b + 1024 * i, 1024);
        assert_int_equal(vd_bits(vd_tc16_split(a, b, K, 4)), vd_bits(split));
        assert_int_equal(vd_bits(vd_tc16_split(a, b, K, 1)), vd_bits(vd_tc16_chain(0, a, b, K)));
        for (int i = 0; i < 8; i++) /* 3968/8 = 496 = one leaf */
            part[i] = vd_tc16_chain(0, a + 496 * i, b + 496 * i, 496);
        assert_int_equal(vd_bits(vd_tc16_tree8(a, b, 3968)), vd_bits(((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]))));
        for (int i = 0; i < 8; i++) /* 2688/8 = 336; 336 divides itself; two leaves of 272 make 544 = 4352/8 */
            part[i] = vd_tc16_chain(0, a + 336 * i, b + 336 * i, 336);
        assert_int_equal(vd_bits(vd_tc16_tree8(a, b, 2688)), vd_bits(((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]))));
        /* the last leaf may be shorter, and not a multiple of 16 */
        assert_int_equal(vd_bits(vd_tc16_fold512(a, b, 1000)), vd_bits(vd_tc16_chain(0, a, b, 512) + vd_tc16_chain(0, a + 512, b + 512, 488)));
        moved += vd_bits(fold) != vd_bits(vd_tc16_chain(0, a, b, K));
    }
    assert_true(moved > 0);
    assert_true(vd_tc16_tree8_fits(128) && vd_tc16_tree8_fits(3072) && !vd_tc16_tree8_fits(64) && !vd_tc16_tree8_fits(0) && !vd_tc16_tree8_fits(3088));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded), cmocka_unit_test(test_wrong_rules), cmocka_unit_test(test_random_steps),
                                       cmocka_unit_test(test_consequences), cmocka_unit_test(test_orders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
