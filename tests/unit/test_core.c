/* Context, errors, memory hooks, hashing, threads: what every other part stands on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/core.h"
#include "core/hash.h"
#include "core/parallel.h"

static void open_takes_defaults(void **state)
{
    (void)state;
    vd_context *ctx = NULL;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    assert_int_equal(ctx->threads, vd_cpu_count());
    assert_true(ctx->threads >= 1);
    assert_string_equal(vd_error_text(ctx), "");
    assert_string_equal(vd_error_reason(ctx), "");
    vd_close(ctx);
    vd_close(NULL);
}

static void open_names_a_bad_number_of_threads(void **state)
{
    (void)state;
    static const int bad[] = {-1, 1025, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char        number[16];
        vd_context *ctx = NULL;
        vd_options  options;
        vd_options_init(&options);
        options.threads = bad[i];
        assert_int_equal(vd_open(&options, &ctx), VD_BAD_ARGUMENT);
        snprintf(number, sizeof number, "%d", bad[i]);
        assert_non_null(strstr(vd_error_text(ctx), number));
        assert_non_null(strstr(vd_error_text(ctx), "1024"));
        assert_string_equal(vd_error_reason(ctx), "threads");
        vd_close(ctx);
    }
}

static void status_values_are_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(VD_OK, 0);
    assert_int_equal(VD_FAILED, 1);
    assert_int_equal(VD_BAD_ARGUMENT, 2);
    assert_int_equal(VD_BAD_FILE, 3);
    assert_int_equal(VD_UNSUPPORTED, 4);
    assert_int_equal(VD_NO_MEMORY, 5);
    assert_int_equal(VD_IO, 6);
    assert_int_equal(VD_INTERNAL, 70);
    assert_string_equal(vd_status_name(VD_BAD_FILE), "bad-file");
    assert_string_equal(vd_status_name((vd_status)42), "unknown");
}

static void first_failure_wins_until_cleared(void **state)
{
    (void)state;
    vd_context *ctx = NULL;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    assert_int_equal(vd_fail(ctx, VD_BAD_FILE, "first", "the first, %d", 1), VD_BAD_FILE);
    assert_int_equal(vd_fail(ctx, VD_IO, "second", "the second"), VD_BAD_FILE);
    assert_string_equal(vd_error_text(ctx), "the first, 1");
    assert_string_equal(vd_error_reason(ctx), "first");
    vd_clear_error(ctx);
    assert_string_equal(vd_error_text(ctx), "");
    assert_int_equal(vd_fail(ctx, VD_IO, "second", "the second"), VD_IO);
    vd_close(ctx);
}

/* A tensor's name may hold a terminal's escape codes: they are shown, not sent. UTF-8 passes. */
static void control_characters_are_shown(void **state)
{
    (void)state;
    vd_context *ctx = NULL;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    vd_fail(ctx, VD_BAD_FILE, "name", "tensor \"%s\"", "a\x1b[31m\r\t\x7f\x01 σ");
    assert_string_equal(vd_error_text(ctx), "tensor \"a\\x1b[31m\\x0d\\x09\\x7f\\x01 σ\"");
    vd_close(ctx);
}

static void long_texts_are_cut_not_overrun(void **state)
{
    (void)state;
    static char long_name[5000], escapes[5000];
    memset(long_name, 'n', sizeof long_name - 1);
    memset(escapes, '\x1b', sizeof escapes - 1);
    vd_context *ctx = NULL;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    vd_fail(ctx, VD_BAD_FILE, long_name, "tensor %s", long_name);
    assert_true(strlen(vd_error_text(ctx)) < sizeof ctx->text);
    assert_true(strlen(vd_error_text(ctx)) > 1000);
    assert_true(strlen(vd_error_reason(ctx)) < sizeof ctx->reason);
    vd_clear_error(ctx);
    vd_fail(ctx, VD_BAD_FILE, "name", "%s", escapes);
    assert_true(strlen(vd_error_text(ctx)) < sizeof ctx->text);
    assert_null(strchr(vd_error_text(ctx), '\x1b'));
    vd_close(ctx);
}

/* ---- Memory ---- */

typedef struct hooks {
    int64_t allocs, frees, fail_at;
} hooks;

static void *hook_alloc(void *user, size_t size)
{
    hooks *h = user;
    return ++h->allocs == h->fail_at ? NULL : aligned_alloc(64, (size + 63) / 64 * 64);
}

static void hook_free(void *user, void *pointer)
{
    ((hooks *)user)->frees++;
    free(pointer);
}

static vd_context *open_hooked(hooks *h)
{
    vd_context *ctx = NULL;
    vd_options  options;
    vd_options_init(&options);
    options.alloc       = hook_alloc;
    options.free        = hook_free;
    options.memory_user = h;
    if (vd_open(&options, &ctx) != VD_OK)
        return NULL;
    return ctx;
}

static void memory_goes_through_the_host(void **state)
{
    (void)state;
    hooks       h   = {0};
    vd_context *ctx = open_hooked(&h);
    assert_non_null(ctx);
    unsigned char *p = vd_alloc(ctx, 100, "a test");
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(p[i], 0);
    memset(p, 7, 100);
    p = vd_realloc(ctx, p, 100, 200, "a test");
    assert_non_null(p);
    assert_int_equal(p[99], 7);
    assert_int_equal(p[100], 0);
    vd_free(ctx, p);
    vd_free(ctx, NULL);
    p = vd_alloc(ctx, 0, "nothing");
    assert_non_null(p);
    vd_free(ctx, p);
    char *text = vd_format(ctx, "%d of %s", 3, "four");
    assert_string_equal(text, "3 of four");
    char *copy = vd_copy_string(ctx, text);
    assert_string_equal(copy, text);
    vd_free(ctx, copy);
    vd_free(ctx, text);
    vd_close(ctx);
    assert_int_equal(h.allocs, h.frees);
    assert_int_equal(h.allocs, 6);
}

static void no_memory_names_the_thing(void **state)
{
    (void)state;
    hooks h = {.fail_at = 1};
    assert_null(open_hooked(&h));
    h               = (hooks){.fail_at = 2};
    vd_context *ctx = open_hooked(&h);
    assert_null(vd_alloc(ctx, 12345, "the stream"));
    assert_int_equal(ctx->status, VD_NO_MEMORY);
    assert_non_null(strstr(vd_error_text(ctx), "the stream"));
    assert_non_null(strstr(vd_error_text(ctx), "12345"));
    vd_clear_error(ctx);
    /* Sizes that wrapped, or exceed the address space, are never asked of the host. */
    const int64_t before = h.allocs;
    assert_null(vd_alloc(ctx, -1, "a negative size"));
    assert_int_equal(h.allocs, before);
    vd_close(ctx);
    /* A failed realloc leaves the old block to its owner. */
    h          = (hooks){.fail_at = 3};
    ctx        = open_hooked(&h);
    void *old  = vd_alloc(ctx, 8, "old");
    void *more = vd_realloc(ctx, old, 8, 16, "new");
    assert_null(more);
    vd_free(ctx, old);
    vd_close(ctx);
    assert_int_equal(h.allocs - 1, h.frees);
    assert_string_equal(vd_error_text(NULL), "out of memory");
}

static void sizes_are_checked(void **state)
{
    (void)state;
    int64_t out = 0;
    assert_true(vd_mul_fits(INT64_C(3037000499), INT64_C(3037000499), &out));
    assert_false(vd_mul_fits(INT64_C(3037000500), INT64_C(3037000500), &out));
    assert_true(vd_add_fits(INT64_MAX - 1, 1, &out));
    assert_false(vd_add_fits(INT64_MAX, 1, &out));
    for (int type = 0; type < VD_DTYPE_COUNT; type++) {
        assert_true(vd_dtype_size((vd_dtype)type) > 0);
        assert_string_not_equal(vd_dtype_name((vd_dtype)type), "?");
    }
    assert_int_equal(vd_dtype_size(VD_DTYPE_COUNT), 0);
    assert_int_equal(vd_dtype_size((vd_dtype)-1), 0);
}

/* ---- Progress, log ---- */

static int stop_at_two(void *user, const char *what, int64_t done, int64_t total)
{
    (void)what, (void)total;
    *(int64_t *)user = done;
    return done == 2;
}

static void progress_can_cancel(void **state)
{
    (void)state;
    int64_t     seen = -1;
    vd_context *ctx  = NULL;
    vd_options  options;
    vd_options_init(&options);
    options.progress      = stop_at_two;
    options.progress_user = &seen;
    assert_int_equal(vd_open(&options, &ctx), VD_OK);
    assert_int_equal(vd_report_progress(ctx, "blocks", 1, 3), VD_OK);
    assert_int_equal(vd_report_progress(ctx, "blocks", 2, 3), VD_CANCELLED);
    assert_int_equal(seen, 2);
    assert_non_null(strstr(vd_error_text(ctx), "blocks"));
    vd_close(ctx);
}

static void keep_text(void *user, vd_log_level level, const char *text)
{
    assert_int_equal(level, VD_LOG_WARNING);
    snprintf(user, 64, "%s", text);
}

static void log_reaches_the_host_escaped(void **state)
{
    (void)state;
    char        text[64] = "";
    vd_context *ctx      = NULL;
    vd_options  options;
    vd_options_init(&options);
    options.log      = keep_text;
    options.log_user = text;
    assert_int_equal(vd_open(&options, &ctx), VD_OK);
    vd_log(ctx, VD_LOG_WARNING, "odd name %s", "\x1b]0;");
    assert_string_equal(text, "odd name \\x1b]0;");
    vd_close(ctx);
}

/* ---- Hashing: the published vectors of FIPS 180-4, and FNV-1a's ---- */

static void hashes_match_published_vectors(void **state)
{
    (void)state;
    static const char *const vectors[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char        digits[VD_HASH_TEXT];
    vd_context *ctx = NULL;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        assert_int_equal(vd_hash_bytes(ctx, vectors[i][0], (int64_t)strlen(vectors[i][0]), digits), VD_OK);
        assert_string_equal(digits, vectors[i][1]);
    }
    /* A million times "a", in uneven pieces. */
    static char piece[997];
    memset(piece, 'a', sizeof piece);
    vd_hasher *hasher = vd_hash_open(ctx);
    for (int64_t left = 1000000; left > 0; left -= (int64_t)sizeof piece)
        vd_hash_feed(hasher, piece, vd_min(left, sizeof piece));
    assert_int_equal(vd_hash_close(ctx, hasher, digits), VD_OK);
    assert_string_equal(digits, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    hasher = vd_hash_open(ctx);
    vd_hash_feed(hasher, "x", 1);
    assert_int_equal(vd_hash_close(ctx, hasher, NULL), VD_OK);
    assert_true(vd_fnv1a("") == UINT64_C(0xcbf29ce484222325));
    assert_true(vd_fnv1a("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(vd_fnv1a("foobar") == UINT64_C(0x85944171f73967e8));
    vd_close(ctx);
}

/* ---- Threads ---- */

typedef struct visits {
    unsigned char seen[4099];
    int           threads, bad_worker;
} visits;

static void visit(void *arg, int64_t index, int worker)
{
    visits *v = arg;
    v->seen[index]++; /* only this task writes here: the test runs under sanitizers too */
    if (worker < 0 || worker >= v->threads)
        v->bad_worker = 1;
}

static void every_task_runs_once(void **state)
{
    (void)state;
    static const int64_t counts[] = {-1, 0, 1, 2, 3, 7, 64, 1000, 4096, 4099};
    static visits        v;
    for (int threads = 1; threads <= 9; threads++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int again = 0; again < 5; again++) { /* the bad-luck build differs from call to call */
                memset(&v, 0, sizeof v);
                v.threads = threads;
                vd_parallel(threads, counts[c], visit, &v);
                assert_false(v.bad_worker);
                for (int64_t i = 0; i < (int64_t)sizeof v.seen; i++)
                    if (v.seen[i] != (i < counts[c]))
                        fail_msg("%d threads, %d tasks: task %d ran %d times", threads, (int)counts[c], (int)i, v.seen[i]);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_takes_defaults),
        cmocka_unit_test(open_names_a_bad_number_of_threads),
        cmocka_unit_test(status_values_are_exit_codes),
        cmocka_unit_test(first_failure_wins_until_cleared),
        cmocka_unit_test(control_characters_are_shown),
        cmocka_unit_test(long_texts_are_cut_not_overrun),
        cmocka_unit_test(memory_goes_through_the_host),
        cmocka_unit_test(no_memory_names_the_thing),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(progress_can_cancel),
        cmocka_unit_test(log_reaches_the_host_escaped),
        cmocka_unit_test(hashes_match_published_vectors),
        cmocka_unit_test(every_task_runs_once),
    };
    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
