/* The replay of tc16 against the contract's scalar step, on data made to leave every one of its ranges: exponents far apart, zeros,
 * cancellation, sums near overflow, subnormals, NaN and Inf. Every path is shown to have been taken.
 *
 * test_kernels_replay [STEPS [SEED]]: so many random steps of 16 per level (default 2 million; 100 million take about a minute a level). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "core/core.h"
#include "kernels/table.h"

#include "kernels/harness.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu/avx2/tc16.h"
#include "kernels/cpu/avx512/tc16.h"
#include "kernels/emulated.h"

enum { MAX_M = 70, MAX_N = 140, MAX_K = 1040 };

/* What a row of x or of w holds. */
typedef enum kind {
    UNIT,      /* one exponent */
    NORMAL,    /* a spread of a few exponents, as real data */
    WIDE,      /* 60 exponents */
    EXTREME,   /* any finite exponent */
    SPARSE,    /* mostly zeros of both signs */
    LATE,      /* zeros, then numbers */
    FULL,      /* largest significands, one sign */
    CONSTANT,
    TINY,      /* the smallest normal numbers and subnormals */
    SUBNORMAL, /* nothing else */
    HUGE_,     /* sums overflow */
    ZERO,
    SPECIAL,   /* NaN and Inf among normal numbers */
    KINDS
} kind;

static uint16_t draw(h_random *r, kind what, int base, int64_t i, int64_t k, uint16_t constant)
{
    const uint64_t u    = h_next(r);
    const uint16_t sign = (uint16_t)((u & 1) << 15), fraction = (uint16_t)(u >> 8 & 0x7F);
    int            e    = base;
    switch (what) {
    case UNIT: break;
    case NORMAL: e -= __builtin_ctzll(u >> 16 | 1ull << 40); break;
    case WIDE: e -= (int)(u >> 16) % 60; break;
    case EXTREME: e = (int)(u >> 16 & 0xFF) % 255; break;
    case SPARSE:
        if (u >> 20 & 15)
            return sign;
        break;
    case LATE:
        if (i < k / 3 || i % 48 < 16)
            return sign;
        break;
    case FULL: return (uint16_t)((e < 1 ? 1 : e) << 7 | (u >> 20 & 63 ? 0x7F : fraction));
    case CONSTANT: return constant;
    case TINY: e = (int)(u >> 16 & 3); break;
    case SUBNORMAL: e = 0; break;
    case HUGE_: e = 250 - (int)(u >> 16) % 60; break;
    case ZERO: return sign;
    default:
        if ((u >> 16 & 511) == 0)
            return (uint16_t)(sign | 0x7F80 | (u >> 30 & 1 ? fraction : 0));
        break;
    }
    e = e < 0 ? 0 : e > 254 ? 254 : e;
    return (uint16_t)(sign | e << 7 | fraction);
}

static void draw_matrix(h_random *r, uint16_t *p, int64_t rows, int64_t k, int low, int high)
{
    const int common = h_chance(r, 4) ? (int)h_range(r, 1, 254) : (int)h_range(r, low, high);
    const kind all = (kind)h_range(r, 0, 3 * KINDS); /* one kind, or NORMAL with others among them, so that fast and other rows mix */
    for (int64_t i = 0; i < rows; i++) {
        kind what = all < KINDS ? all : h_chance(r, all & 1 ? 4 : 400) ? (kind)h_range(r, 0, KINDS - 1) : NORMAL;
        if (what == SPECIAL && !h_chance(r, 8))
            what = NORMAL;
        const int      base     = all & 1 && h_chance(r, 8) ? common + (int)h_range(r, -40, 40) : common;
        const uint16_t constant = (uint16_t)((uint16_t)(base < 1 ? 1 : base > 253 ? 253 : base) << 7 | h_range(r, 100, 127));
        for (int64_t j = 0; j < k; j++)
            p[i * k + j] = draw(r, what, base, j, k, constant);
    }
}

/* Neighbouring products cancel, exactly or nearly. */
static void make_cancel(h_random *r, uint16_t *x, int64_t m, uint16_t *w, int64_t n, int64_t k)
{
    for (int64_t j = 0; j + 1 < k; j += 2) {
        for (int64_t i = 0; i < m; i++)
            x[i * k + j + 1] = x[i * k + j];
        for (int64_t i = 0; i < n; i++)
            w[i * k + j + 1] = (uint16_t)(w[i * k + j] ^ 0x8000 ^ (h_chance(r, 6) ? 1 : 0));
    }
}

typedef void    linear_fn(vd_exec *, const vd_linear *, vd_tally *);
typedef int64_t scratch_fn(const vd_linear *, int);

typedef void    attention_fn(vd_exec *, const vd_attention *, vd_tally *);
typedef int64_t attention_scratch_fn(const vd_attention *, int);

typedef struct level {
    const char           *name;
    vd_cpu_level          needs;
    linear_fn            *linear;
    scratch_fn           *scratch;
    attention_fn         *attention;
    attention_scratch_fn *attention_scratch;
} level;

static const level levels[] = {
    {"avx2", VD_CPU_AVX2, vd_avx2_tc16_linear, vd_avx2_tc16_linear_scratch, vd_avx2_tc16_attention, vd_avx2_tc16_attention_scratch},
    {"avx512 emulated", VD_CPU_AVX2, emulated_linear, emulated_linear_scratch, emulated_attention, emulated_attention_scratch},
    {"avx512", VD_CPU_AVX512, vd_avx512_tc16_linear, vd_avx512_tc16_linear_scratch, vd_avx512_tc16_attention, vd_avx512_tc16_attention_scratch},
};

static int64_t  wanted_steps = 2000000;
static uint64_t seed         = 1;

static void run(const level *l, const vd_linear *op, vd_tally *tally, int threads)
{
    vd_exec exec = {.threads = threads, .scratch_bytes = l->scratch(op, threads)};
    exec.scratch = aligned_alloc(64, (size_t)exec.scratch_bytes + 64);
    assert_non_null(exec.scratch);
    memset(exec.scratch, 0xA5, (size_t)exec.scratch_bytes);
    const unsigned mode = _mm_getcsr();
    l->linear(&exec, op, tally);
    assert_int_equal(_mm_getcsr() & ~0x3Fu, mode & ~0x3Fu); /* the flags are sticky, and the thread library's start sets some */
    free(exec.scratch);
}

/* One random problem; returns the number of steps that it holds. */
static int64_t try_one(const level *l, h_random *r, vd_tally *tally)
{
    static uint16_t x[MAX_M * MAX_K], w[MAX_N * MAX_K];
    static float    b[MAX_N], y[MAX_M * MAX_N];
    const uint64_t  state = r->state;
    const int64_t   k = h_chance(r, 3) ? h_range(r, 1, MAX_K) : 16 * h_range(r, 1, h_chance(r, 4) ? MAX_K / 16 : 8);
    const int64_t   m = h_chance(r, 2) ? h_range(r, 1, 4) : h_range(r, 1, MAX_M), n = h_range(r, 1, MAX_N);
    vd_linear       op = {.order = VD_TC16_CHAIN, .m = m, .n = n, .k = k, .x = x, .x_type = VD_BF16, .x_stride = k, .w = w, .w_type = VD_BF16,
                          .y = y, .y_type = VD_F32, .y_stride = n};
    switch (h_range(r, 0, 5)) {
    case 0: op.order = VD_TC16_FOLD512; break;
    case 1: op.order = VD_TC16_SPLIT, op.splits = (int)h_range(r, 1, 9); break;
    case 2:
        if (vd_tc16_tree8_fits(k))
            op.order = VD_TC16_TREE8;
        break;
    default: break;
    }
    draw_matrix(r, x, m, k, 117, 131);
    draw_matrix(r, w, n, k, 110, h_chance(r, 3) ? 140 : 126);
    if (h_chance(r, 4))
        make_cancel(r, x, m, w, n, k);
    const bool bias = h_chance(r, 8);
    for (int64_t j = 0; j < n && bias; j++)
        b[j] = h_normal(r);
    op.b      = bias ? b : NULL;
    op.b_type = VD_F32;
    run(l, &op, tally, (int)h_range(r, 1, 3));
    int64_t steps = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = vd_linear_sum(op.order, op.splits, x + i * k, w + j * k, VD_BF16, k);
            if (bias)
                sum += b[j];
            steps += (k + 15) / 16;
            if (vd_bits(vd_canonical(sum)) != vd_bits(y[i * n + j]))
                fail_msg("%s: m %lld n %lld k %lld order %s splits %d row %lld output %lld: %08x, not %08x (state %llu)", l->name, (long long)m,
                         (long long)n, (long long)k, vd_order_id(op.order), op.splits, (long long)i, (long long)j, vd_bits(y[i * n + j]),
                         vd_bits(vd_canonical(sum)), (unsigned long long)state);
        }
    return steps;
}

static bool has(const level *l)
{
    if (vd_cpu_best_level() >= l->needs)
        return true;
    print_message("not run on %s: this machine has no such level\n", l->name);
    return false;
}

static void report(const level *l, const char *what, int64_t steps, int64_t problems, const vd_tally *t)
{
    print_message("%s: %lld steps in %lld %s, 0 differ; fast %lld (below the window %lld, scaled %lld), careful %lld, contract %lld\n", l->name,
                  (long long)steps, (long long)problems, what, (long long)t->fast, (long long)t->low, (long long)t->scaled, (long long)t->careful,
                  (long long)t->scalar);
}

static void random_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (!has(levels + i))
            continue;
        h_random r     = {seed};
        vd_tally tally = {0};
        int64_t  steps = 0, problems = 0;
        while (steps < wanted_steps || problems < 100) { /* 100 problems take every path */
            steps += try_one(levels + i, &r, &tally);
            problems++;
        }
        report(levels + i, "problems", steps, problems, &tally);
        assert_true(tally.fast && tally.low && tally.scaled && tally.careful && tally.scalar);
    }
}

/* One random attention; returns the number of steps that it holds. */
static int64_t attend_once(const level *l, h_random *r, vd_tally *tally)
{
    enum { MOST_M = 70, MOST_S = 300, MOST_D = 136 };
    static uint16_t q[MOST_M * 2 * MOST_D], k[MOST_S * 2 * MOST_D], v[MOST_S * 2 * MOST_D], o[MOST_M * 2 * MOST_D], right[MOST_D];
    static float    sums[MOST_D];
    const uint64_t  state = r->state;
    const int64_t   m = h_chance(r, 4) ? h_range(r, 1, MOST_M) : h_range(r, 1, 8), s = h_range(r, 1, MOST_S), heads = h_range(r, 1, 2);
    const int64_t   d = h_chance(r, 2) ? 128 : h_chance(r, 2) ? 16 * h_range(r, 1, 8) : h_range(r, 1, MOST_D);
    vd_attention    op = {.order = VD_ATTN_K128, .m = m, .s = s, .heads = heads, .d = d, .type = VD_BF16, .q = q, .q_stride = heads * d, .k = k,
                          .k_stride = heads * d, .v = v, .v_stride = heads * d, .o = o, .o_stride = heads * d};
    draw_matrix(r, q, m * heads, d, 120, h_chance(r, 3) ? 134 : 128);
    draw_matrix(r, k, s * heads, d, 120, 130);
    draw_matrix(r, v, s * heads, d, 110, h_chance(r, 3) ? 150 : 130);
    vd_exec exec = {.threads = (int)h_range(r, 1, 3)};
    exec.scratch_bytes = l->attention_scratch(&op, exec.threads);
    exec.scratch       = aligned_alloc(64, (size_t)exec.scratch_bytes + 64);
    assert_non_null(exec.scratch);
    memset(exec.scratch, 0xA5, (size_t)exec.scratch_bytes);
    l->attention(&exec, &op, tally);
    free(exec.scratch);
    for (int64_t i = 0; i < m * heads; i++) {
        const int64_t at = i / heads * heads * d + i % heads * d, head = i % heads * d;
        vd_attention_row(VD_ATTN_K128, s, d, q + at, k + head, heads * d, v + head, heads * d, right, sums);
        if (memcmp(right, o + at, 2 * (size_t)d) != 0)
            fail_msg("%s: attention m %lld s %lld heads %lld d %lld: row %lld of head %lld differs (state %llu)", l->name, (long long)m, (long long)s,
                     (long long)heads, (long long)d, (long long)(i / heads), (long long)(i % heads), (unsigned long long)state);
    }
    return m * heads * s * ((d + 15) / 16) + m * heads * d * ((s + 15) / 16);
}

static void random_attention(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (!has(levels + i))
            continue;
        h_random r     = {seed + 1000};
        vd_tally tally = {0};
        int64_t  steps = 0, problems = 0;
        while (steps < wanted_steps / 2 || problems < 20) {
            steps += attend_once(levels + i, &r, &tally);
            problems++;
        }
        report(levels + i, "attentions", steps, problems, &tally);
        assert_true(tally.fast && tally.low && tally.scaled && tally.careful && tally.scalar);
    }
}

/* Step 1 leaves c just below 2·2^E, step 2 adds sixteen products of 255·255: random data does not find the integer sum's overflow. */
static void integer_sum_near_overflow(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (!has(levels + i))
            continue;
        for (int last = 24; last < 128; last++) {
            uint16_t x[32] = {0}, w[70 * 32];
            float    y[70];
            x[0] = 0x3FFF; /* 1.9921875 */
            for (int k = 16; k < 32; k++)
                x[k] = 0x3FFF;
            x[31] = (uint16_t)(0x3F80 | last);
            for (int j = 0; j < 70; j++)
                for (int k = 0; k < 32; k++)
                    w[j * 32 + k] = (uint16_t)(k ? j % 2 ? 0xBFFF : 0x3FFF : j % 2 ? 0xBF80 : 0x3F80);
            const vd_linear op = {.order = VD_TC16_CHAIN, .m = 1, .n = 70, .k = 32, .x = x, .x_type = VD_BF16, .x_stride = 32, .w = w,
                                  .w_type = VD_BF16, .y = y, .y_type = VD_F32, .y_stride = 70};
            vd_tally tally = {0};
            run(levels + i, &op, &tally, 1);
            for (int j = 0; j < 70; j++)
                assert_int_equal(vd_bits(y[j]), vd_bits(vd_tc16_chain(0.0f, x, w + 32 * j, 32)));
            /* 15·255 + 128 + last against the limit, 3984 */
            assert_true(last < 31 ? tally.fast == 70 : tally.careful == 70 && !tally.fast);
        }
    }
}

/* The same inside attention: key 0 scores a little more than the others, whose p then has the largest significand; its value leaves O just
 * below 2·2^E, and the next sixteen keys' values are 1.99. */
static void attention_sum_near_overflow(void **state)
{
    (void)state;
    enum { S = 32, D = 72 };
    uint16_t q[D] = {0x3F80}, k[S * D] = {0}, v[S * D] = {0}, o[D], right[D];
    float    sums[D];
    k[0] = 0x3E00; /* 1/8; a score of 1/8·log2 e/√72 = 0.021 */
    for (int j = 1; j < S; j++)
        k[j * D] = 0x3DC0; /* 3/32: a difference of 0.0053 */
    for (int i = 0; i < D; i++) {
        v[i] = 0x3F7F;
        for (int j = 16; j < S; j++)
            v[j * D + i] = i % 2 ? 0xBFFF : 0x3FFF;
        v[i] |= i % 2 ? 0x8000 : 0;
    }
    vd_attention_row(VD_ATTN_K128, S, D, q, k, D, v, D, right, sums);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (!has(levels + i))
            continue;
        const vd_attention op = {.order = VD_ATTN_K128, .m = 1, .s = S, .heads = 1, .d = D, .type = VD_BF16, .q = q, .q_stride = D, .k = k,
                                 .k_stride = D, .v = v, .v_stride = D, .o = o, .o_stride = D};
        vd_exec  exec  = {.threads = 1, .scratch_bytes = levels[i].attention_scratch(&op, 1)};
        vd_tally tally = {0};
        exec.scratch   = aligned_alloc(64, (size_t)exec.scratch_bytes + 64);
        assert_non_null(exec.scratch);
        levels[i].attention(&exec, &op, &tally);
        free(exec.scratch);
        assert_memory_equal(o, right, sizeof o);
        assert_true(tally.careful >= D); /* the values */
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        wanted_steps = atoll(argv[1]);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integer_sum_near_overflow),
        cmocka_unit_test(attention_sum_near_overflow),
        cmocka_unit_test(random_steps),
        cmocka_unit_test(random_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("not run: the replay kernels are for x86-64");
    return 0;
}

#endif
