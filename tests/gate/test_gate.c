/* vd_gate as a caller sees it: a good run holds, a planted fault fails at its place with the right words, nothing can be judged by halves,
 * and no number depends on threads or level. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gate/case_copy.h"
#include "formats/file.h"
#include "gate/html_text.h"

static const char small[] = MODELS "/moss-small/case-f32", large[] = MODELS "/moss-small/case-bf16", model[] = MODELS "/moss-small";

static vd_gate_result *gate(vd_context *ctx, const char *path, const vd_gate_options *options, vd_status wanted)
{
    vd_gate_result *result = NULL;
    vd_clear_error(ctx);
    const vd_status status = vd_gate(ctx, path, NULL, options, &result);
    if (status != wanted)
        fail_msg("%s: %s", vd_status_name(status), vd_error_text(ctx));
    if (status == VD_OK || status == VD_FAILED)
        assert_non_null(result);
    else
        assert_null(result);
    return result;
}

static bool says(const vd_gate_result *r, const char *words)
{
    for (int64_t i = 0; i < r->cause_count; i++)
        if (strstr(r->causes[i], words))
            return true;
    return false;
}

static void test_holds(void **state)
{
    (void)state;
    const char *const paths[] = {small, large};
    vd_context       *ctx;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    for (int i = 0; i < 2; i++) {
        vd_gate_result *r = gate(ctx, paths[i], NULL, VD_OK);
        assert_int_equal(r->verdict, VD_VERDICT_PASS);
        assert_int_equal(r->node_count, 12);
        assert_int_equal(r->passed, 12);
        assert_int_equal(r->first_failed, -1);
        assert_int_equal(r->op_count, 0);
        assert_null(r->channel_errors);
        assert_null(r->planted);
        assert_true(r->limit_runs >= 8 && r->run_count >= 10 && r->fact_count > 10 && r->weight_count == 1);
        assert_non_null(strstr(r->weights[0].value, "hash"));
        for (int64_t k = 0; k < r->node_count; k++) {
            const vd_gate_node *n = &r->nodes[k];
            assert_int_equal(n->repeat_differs, 0);
            assert_true(n->cosine.limit == 1.25 * n->cosine.reference && n->cosine.warn == 1.10 * n->cosine.reference);
            assert_true(n->worst_row.torch_limit == 2 * n->worst_row.torch && n->worst_row.value == n->distance.worst_row);
            assert_true(n->worst_row.value <= n->worst_row.limit && n->cosine.value <= n->cosine.limit);
            assert_string_equal(n->why, "");
            assert_true((double)n->row_errors[n->distance.worst_row_index] == (double)(float)n->distance.worst_row);
        }
        assert_true(r->step.within && r->step.repeat_differs == 0 && r->step.distance.l2 > 0);
        vd_gate_result_free(ctx, r);
    }
    vd_close(ctx);
}

/* Where the case keeps a GPU's bytes, the bf16 policy returns them. */
static void test_bytes(void **state)
{
    (void)state;
    vd_context *ctx;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    vd_gate_result *r = gate(ctx, large, NULL, VD_OK);
    for (int64_t i = 0; i < r->node_count; i++) {
        if (!r->nodes[i].bytes_run)
            print_message("the case keeps no GPU's bytes of %s: not compared\n", r->nodes[i].name);
        else if (r->nodes[i].bytes_differ != 0)
            fail_msg("%s: %lld elements differ from the recorded GPU's", r->nodes[i].name, (long long)r->nodes[i].bytes_differ);
    }
    assert_true(!r->step.bytes_run || r->step.bytes_differ == 0);
    vd_gate_result_free(ctx, r);
    /* Another order of sums is honest: it holds, and its bytes are others. */
    vd_gate_options options;
    vd_gate_options_init(&options);
    options.arith = VD_ARITH_FMA, options.node_only = true;
    r = gate(ctx, large, &options, VD_OK);
    int64_t other = 0;
    for (int64_t i = 0; i < r->node_count; i++)
        other += r->nodes[i].bytes_differ > 0;
    assert_true(other > 0 || !r->nodes[0].bytes_run);
    assert_true(r->step.seconds == 0);
    vd_gate_result_free(ctx, r);
    vd_close(ctx);
}

static void test_planted(void **state)
{
    (void)state;
    static const struct { const char *plant, *node, *op, *words; } list[] = {
        {"row-5%@b2", "x.3", "x.3", "1.05 times as large"}, {"row-5%@text.1", "text.1", "text.1", "text row 6"},
        {"rope-pair@b1", "x.2", "b1.q_rot", "axis h, band 0"}, {"stale-30%@b3", "x.4", "b3.down", "ffn_down"},
        {"shift-scale@b0", "x.1", "b0.a", "shift and scale"}, {"block-neighbour@b2", "x.3", "b2.a", "another block's weights"},
        {"rope-interleaved@b2", "x.3", "b2.q", "q and k wrong, v right"}, {"heads@b2", "x.3", "b2.att", "order of heads"},
        {"channel@b2", "x.3", "b2.down", "one channel is off: 85"}, {"block-missing@b5", "x.6", "x.6", "a block left out"},
        {"nan@x.2", "x.2", "x.2", "not finite"}, {"sign", "velocity", "velocity", "the other way"}, {"t-bf16", "mod", "time", "timestep"},
        {"text-shift", "text.in", "text.in", "order of text rows"}, {"last-key@b2", "x.3", "b2.att", "mask"}, {"up-gate@b2", "x.3", "b2.ug", "halves"},
        {"flicker@x.2", "x.2", NULL, "a race"},
    };
    vd_context     *ctx;
    vd_gate_options options;
    vd_gate_options_init(&options);
    options.node_only = true;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        options.plant     = list[i].plant;
        vd_gate_result *r = gate(ctx, small, &options, VD_FAILED);
        assert_true(r->verdict == VD_VERDICT_FAIL && r->failed >= 1 && r->first_failed >= 0);
        assert_string_equal(r->nodes[r->first_failed].name, list[i].node);
        assert_string_equal(r->planted_at, list[i].node);
        assert_true(r->caught);
        assert_non_null(strstr(vd_error_text(ctx), list[i].node));
        assert_non_null(strstr(r->reproduce, list[i].plant));
        const char *first = NULL;
        for (int64_t k = 0; k < r->op_count && !first; k++)
            if (r->ops[k].ulps.differ)
                first = r->ops[k].node;
        if (list[i].op ? !first || strcmp(first, list[i].op) != 0 : first != NULL)
            fail_msg("%s: the first wrong operation is %s, not %s", list[i].plant, first ? first : "none", list[i].op ? list[i].op : "none");
        if (!says(r, list[i].words)) {
            for (int64_t k = 0; k < r->cause_count; k++)
                print_message("  %s\n", r->causes[k]);
            fail_msg("%s: no sentence has \"%s\"", list[i].plant, list[i].words);
        }
        vd_gate_result_free(ctx, r);
    }
    /* Below power: the gate holds, and says so. */
    options.plant     = "norm-eps";
    vd_gate_result *r = gate(ctx, small, &options, VD_OK);
    assert_true(r->planted && !r->caught && says(r, "below this case's power"));
    vd_gate_result_free(ctx, r);
    vd_close(ctx);
}

static void test_same_everywhere(void **state)
{
    (void)state;
    static const struct { int threads; const char *cpu; } ways[] = {{1, NULL}, {3, NULL}, {2, "generic"}};
    double values[12][2];
    for (int i = 0; i < 3; i++) {
        vd_options      options;
        vd_gate_options gate_options;
        vd_context     *ctx;
        vd_options_init(&options);
        vd_gate_options_init(&gate_options);
        gate_options.node_only = true;
        options.threads = ways[i].threads, options.cpu = ways[i].cpu;
        assert_int_equal(vd_open(&options, &ctx), VD_OK);
        vd_gate_result *r = gate(ctx, small, &gate_options, VD_OK);
        for (int k = 0; k < 12; k++) {
            const double now[2] = {r->nodes[k].cosine.value, r->nodes[k].worst_row.value};
            if (i > 0)
                assert_memory_equal(now, values[k], sizeof now);
            memcpy(values[k], now, sizeof now);
        }
        vd_gate_result_free(ctx, r);
        vd_close(ctx);
    }
}

static void test_refused(void **state)
{
    (void)state;
    vd_context     *ctx;
    vd_gate_options options;
    case_copy       copy;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    vd_gate_options_init(&options);
    options.policy = VD_POLICY_BF16;
    gate(ctx, small, &options, VD_UNSUPPORTED);
    assert_string_equal(vd_error_reason(ctx), "policy");
    options.policy = VD_POLICY_F32, options.node_only = true;
    vd_gate_result_free(ctx, gate(ctx, small, &options, VD_OK));
    options.arith = VD_ARITH_COUNT;
    gate(ctx, small, &options, VD_BAD_ARGUMENT);
    vd_gate_options_init(&options);
    options.plant = "nothing";
    gate(ctx, small, &options, VD_BAD_ARGUMENT);
    vd_gate_options_init(&options);
    options.arith = VD_ARITH_FMA, options.match = VD_MATCH_TORCH_2_11_H200; /* what a forward refuses, a gate refuses */
    gate(ctx, large, &options, VD_UNSUPPORTED);
    assert_string_equal(vd_error_reason(ctx), "match");
    gate(ctx, MODELS "/moss-small/nowhere", NULL, VD_IO);
    /* Not the recorded model: by configuration, by size, by hash; no model at all. */
    case_copy_open(&copy, ctx, small);
    gate(ctx, copy.path, NULL, VD_IO); /* its model lay beside the original */
    const struct { const char *key; json_t *value; const char *word; } changes[] = {
        {"bytes", json_integer(5), "bytes"}, {"sha256", json_string("0123456789012345678901234567890123456789012345678901234567890123"), "SHA-256"},
        {"file", json_string("other.safetensors"), "other.safetensors"},
    };
    for (int i = 0; i < 3; i++) {
        json_t         *json = json_deep_copy(copy.json);
        vd_gate_result *r    = NULL;
        json_object_set_new(json_array_get(json_object_get(json_object_get(json, "model"), "weights"), 0), changes[i].key, changes[i].value);
        case_copy_write(&copy, json);
        json_decref(json);
        vd_clear_error(ctx);
        assert_int_equal(vd_gate(ctx, copy.path, model, NULL, &r), VD_BAD_FILE);
        assert_string_equal(vd_error_reason(ctx), "case-model");
        assert_non_null(strstr(vd_error_text(ctx), changes[i].word));
    }
    json_t         *json = json_deep_copy(copy.json);
    vd_gate_result *r    = NULL;
    json_object_set_new(json_object_get(json, "model"), "path", json_null());
    case_copy_write(&copy, json);
    vd_clear_error(ctx);
    assert_int_equal(vd_gate(ctx, copy.path, NULL, NULL, &r), VD_BAD_ARGUMENT);
    assert_non_null(strstr(vd_error_text(ctx), "-m"));
    json_object_set_new(json_object_get(json, "config"), "rope_base", json_integer(20000));
    case_copy_write(&copy, json);
    vd_clear_error(ctx);
    assert_int_equal(vd_gate(ctx, copy.path, model, NULL, &r), VD_BAD_FILE);
    assert_non_null(strstr(vd_error_text(ctx), "rope_base"));
    json_decref(json);
    /* The copy with the model named holds: only the place differs. */
    case_copy_restore(&copy, small);
    vd_clear_error(ctx);
    options = (vd_gate_options){.policy = -1, .node_only = true};
    assert_int_equal(vd_gate(ctx, copy.path, model, &options, &r), VD_OK);
    vd_gate_result_free(ctx, r);
    case_copy_close(&copy);
    vd_close(ctx);
}

/* Limits that are made narrower fail the true model: the gate can fail without any fault. */
static void test_can_fail(void **state)
{
    (void)state;
    vd_context     *ctx;
    case_copy       copy;
    vd_gate_result *r = NULL;
    vd_gate_options options;
    vd_gate_options_init(&options);
    options.node_only = true;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    case_copy_open(&copy, ctx, small);
    json_t     *json = json_deep_copy(copy.json), *run;
    size_t      i;
    json_array_foreach(json_object_get(json, "runs"), i, run)
        json_object_set_new(json_object_get(json_object_get(run, "nodes"), "x.3"), "cosine", json_real(1e-8));
    case_copy_write(&copy, json);
    json_decref(json);
    assert_int_equal(vd_gate(ctx, copy.path, model, &options, &r), VD_FAILED);
    assert_string_equal(r->nodes[r->first_failed].name, "x.3");
    assert_true(says(r, "every operation returns its contract's bytes"));
    vd_gate_result_free(ctx, r);
    /* And a fault planted where the case fails by itself, or behind it, is not caught. */
    const struct { const char *plant, *words; } list[] = {{"norm-eps@x.3", "fails without norm-eps as well"}, {"row-5%@x.3", "fails without row-5% as well"},
                                                          {"row-5%@x.4", "does not touch"}};
    for (i = 0; i < sizeof list / sizeof *list; i++) {
        options.plant = list[i].plant;
        vd_clear_error(ctx);
        assert_int_equal(vd_gate(ctx, copy.path, model, &options, &r), VD_FAILED);
        assert_true(!r->caught && says(r, list[i].words) && !says(r, "below this case's power"));
        vd_gate_result_free(ctx, r);
    }
    options.plant = "row-5%@x.2"; /* before it: caught as ever */
    vd_clear_error(ctx);
    assert_int_equal(vd_gate(ctx, copy.path, model, &options, &r), VD_FAILED);
    assert_true(r->caught);
    vd_gate_result_free(ctx, r);
    case_copy_close(&copy);
    vd_close(ctx);
}

static int stop_at_third(void *user, const char *what, int64_t done, int64_t total)
{
    (void)what, (void)done, (void)total;
    return ++*(int *)user == 3;
}

static void test_cancelled(void **state)
{
    (void)state;
    int        calls = 0;
    vd_options options;
    vd_context *ctx;
    vd_options_init(&options);
    options.progress = stop_at_third, options.progress_user = &calls;
    assert_int_equal(vd_open(&options, &ctx), VD_OK);
    vd_gate_options gate_options;
    vd_gate_options_init(&gate_options);
    gate_options.html_path = "/tmp/verdit-cancelled.html";
    gate(ctx, small, &gate_options, VD_CANCELLED);
    assert_int_equal(access(gate_options.html_path, F_OK), -1);
    vd_close(ctx);
}

/* Nothing of a report is written when it cannot be written whole. */
static void test_unwritable(void **state)
{
    (void)state;
    vd_context     *ctx;
    vd_gate_options options;
    vd_gate_options_init(&options);
    options.node_only = true;
    options.html_path = "/nonexistent-verdit/report.html";
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    gate(ctx, small, &options, VD_IO);
    options.html_path = NULL, options.json_path = "/dev/null";
    gate(ctx, small, &options, VD_IO);
    vd_close(ctx);
}

static void copy_file(vd_context *ctx, const char *from, const char *to)
{
    vd_mapping map;
    assert_int_equal(vd_file_map(ctx, from, &map), VD_OK);
    assert_int_equal(vd_file_write_atomic(ctx, to, map.data, map.size), VD_OK);
    vd_file_unmap(&map);
}

/* Reports never replace what the gate reads, nor each other, and one that cannot be written leaves none: all that before the work. */
static void test_report_paths(void **state)
{
    (void)state;
    static const char *const parts[] = {"config.json", "diffusion_pytorch_model.safetensors"};
    vd_context     *ctx;
    vd_gate_options options;
    case_copy       copy;
    vd_gate_result *r = NULL;
    char            folder[] = "/tmp/verdit-model-XXXXXX", path[256], from[256], before[65], after[65];
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    vd_gate_options_init(&options);
    options.node_only = true;
    case_copy_open(&copy, ctx, small);
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        snprintf(from, sizeof from, "%s/transformer/%s", model, parts[i]);
        copy_file(ctx, from, path);
    }
    static const char *const targets[] = {"M/config.json", "M/diffusion_pytorch_model.safetensors", "C/case.json", "C/inputs.safetensors", "C/nodes.safetensors",
                                          "C/runs.safetensors", "C/./case.json"};
    for (size_t i = 0; i < 2 * sizeof targets / sizeof *targets; i++) {
        snprintf(path, sizeof path, "%s%s", targets[i / 2][0] == 'M' ? folder : copy.path, targets[i / 2] + 1);
        options.html_path = i % 2 ? path : NULL, options.json_path = i % 2 ? NULL : path;
        assert_int_equal(vd_hash_file(ctx, path, before), VD_OK);
        vd_clear_error(ctx);
        assert_int_equal(vd_gate(ctx, copy.path, folder, &options, &r), VD_IO);
        assert_string_equal(vd_error_reason(ctx), "output-path");
        assert_null(r);
        assert_int_equal(vd_hash_file(ctx, path, after), VD_OK);
        assert_string_equal(before, after);
    }
    /* One file under two names, and one report that has no place. */
    snprintf(path, sizeof path, "%s/r.json", folder);
    snprintf(from, sizeof from, "%s/../%s/r.json", folder, strrchr(folder, '/') + 1);
    options.json_path = path, options.html_path = from;
    vd_clear_error(ctx);
    assert_int_equal(vd_gate(ctx, copy.path, folder, &options, &r), VD_BAD_ARGUMENT);
    assert_int_equal(access(path, F_OK), -1);
    options.html_path = "/nonexistent-verdit/report.html";
    vd_clear_error(ctx);
    assert_int_equal(vd_gate(ctx, copy.path, folder, &options, &r), VD_IO);
    assert_int_equal(access(path, F_OK), -1);
    /* A place beside the case's files is a place. */
    snprintf(from, sizeof from, "%s/r.html", copy.path);
    options.html_path = from;
    vd_clear_error(ctx);
    assert_int_equal(vd_gate(ctx, copy.path, folder, &options, &r), VD_OK);
    vd_gate_result_free(ctx, r);
    assert_int_equal(unlink(from), 0);
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0); /* no aside files */
    case_copy_close(&copy);
    vd_close(ctx);
}

static void test_escapes(void **state)
{
    (void)state;
    vd_context *ctx;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    vd_html h = {.ctx = ctx};
    vd_html_add(&h, "<script>\"&'\x1b[31m\xff\xc0\xaf\xed\xa0\x80 \xce\xb1");
    assert_string_equal(h.data, "&lt;script&gt;&quot;&amp;&#39;\xEF\xBF\xBD[31m\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD \xce\xb1");
    vd_free(ctx, h.data);
    vd_close(ctx);
}

/* ---- Memory that fails ---- */

typedef struct budget {
    int64_t calls, fail_at, held;
} budget;

static void *count_alloc(void *user, size_t size)
{
    budget *b = user;
    if (++b->calls == b->fail_at)
        return NULL;
    void *p = aligned_alloc(64, (size + 63) / 64 * 64);
    b->held += p != NULL;
    return p;
}

static void count_free(void *user, void *pointer)
{
    ((budget *)user)->held--;
    free(pointer);
}

/* At a stride through all allocations of a whole failing gate with both reports: each failure is reported, and nothing is left behind. */
static void test_memory(void **state)
{
    (void)state;
    char    folder[] = "/tmp/verdit-gate-XXXXXX", html[64], json[64];
    int64_t total = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(html, sizeof html, "%s/r.html", folder);
    snprintf(json, sizeof json, "%s/r.json", folder);
    for (int64_t at = 0; at == 0 || at <= total; at = at == 0 ? 1 : at < 40 ? at + 1 : at + total / 60 + 1) {
        budget          b = {.fail_at = at};
        vd_options      options;
        vd_gate_options gate_options;
        vd_gate_result *r   = NULL;
        vd_context     *ctx = NULL;
        vd_options_init(&options);
        vd_gate_options_init(&gate_options);
        options.alloc = count_alloc, options.free = count_free, options.memory_user = &b, options.threads = 1;
        gate_options.plant = "rope-pair", gate_options.html_path = html, gate_options.json_path = json, gate_options.node_only = true;
        vd_status status = vd_open(&options, &ctx);
        if (status == VD_OK)
            status = vd_gate(ctx, small, NULL, &gate_options, &r);
        if (at == 0)
            total = b.calls;
        if (status != (at == 0 ? VD_FAILED : VD_NO_MEMORY))
            fail_msg("allocation %lld of %lld: %s: %s", (long long)at, (long long)total, vd_status_name(status), vd_error_text(ctx));
        if (at != 0)
            assert_null(r);
        if (r)
            vd_gate_result_free(ctx, r);
        vd_close(ctx);
        assert_int_equal(b.held, 0);
        if (at == 0 || access(html, F_OK) == 0) {
            unlink(html);
            unlink(json);
        }
    }
    unlink(json);
    assert_int_equal(rmdir(folder), 0); /* no aside files */
    assert_true(total > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holds), cmocka_unit_test(test_bytes), cmocka_unit_test(test_planted), cmocka_unit_test(test_same_everywhere), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_can_fail), cmocka_unit_test(test_cancelled), cmocka_unit_test(test_unwritable), cmocka_unit_test(test_report_paths), cmocka_unit_test(test_escapes), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
