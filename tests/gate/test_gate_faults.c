/* Every fault of the catalogue, planted in the embedded model: caught by the gate that should catch it, at its place; or, where it is below
 * this case's power, known to be. docs/gates.md has this program's table: run it with --table to print it anew.
 *
 * Only the node where a fault must show is run here (all others run the true model; test_gate.c gates whole cases). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gate/gate_job.h"

typedef enum outcome { CAUGHT, REPEAT, BELOW, UNSUPPORTED } outcome;

/* What is expected on case-bf16 and on case-f32. CAUGHT: cosine error or worst row beyond its limit, or not finite. REPEAT: only the second
 * run shows it. BELOW: within the limits; the recorded bytes may show it. */
static const struct expected {
    const char *fault;
    outcome     bf16, f32;
} table[] = {
    {"row-1%", CAUGHT, CAUGHT},         {"row-5%", CAUGHT, CAUGHT},        {"massive-row-5%", CAUGHT, CAUGHT}, {"row-lost", CAUGHT, CAUGHT},
    {"nan", CAUGHT, CAUGHT},            {"flicker", REPEAT, REPEAT},       {"minus-zero", REPEAT, REPEAT},     {"norm-eps", BELOW, BELOW},
    {"norm-eps@all", BELOW, BELOW},     {"qk-eps", BELOW, BELOW},          {"qk-eps@all", BELOW, BELOW},       {"rope-pair", CAUGHT, CAUGHT},
    {"rope-base", CAUGHT, CAUGHT},      {"rope-axes", CAUGHT, CAUGHT},     {"rope-coarse", BELOW, BELOW},    {"rope-interleaved", CAUGHT, CAUGHT},
    {"text-positions", CAUGHT, CAUGHT}, {"block-missing", CAUGHT, CAUGHT}, {"block-doubled", CAUGHT, CAUGHT},  {"block-neighbour", CAUGHT, CAUGHT},
    {"stale-1%", BELOW, CAUGHT},         {"stale-3%", CAUGHT, CAUGHT},      {"stale-10%", CAUGHT, CAUGHT},      {"stale-30%", CAUGHT, CAUGHT},
    {"channel", CAUGHT, CAUGHT},        {"weight-bit", BELOW, BELOW},      {"weight-high-bit", CAUGHT, CAUGHT}, {"shift-scale", CAUGHT, CAUGHT},
    {"gate-dropped", CAUGHT, CAUGHT},   {"up-gate", CAUGHT, CAUGHT},       {"silu", CAUGHT, CAUGHT},           {"partial-sums", BELOW, BELOW},
    {"softmax-scale", BELOW, CAUGHT},  {"padding-key", BELOW, CAUGHT},   {"last-key", CAUGHT, CAUGHT},       {"heads", CAUGHT, CAUGHT},
    {"t-bf16", CAUGHT, CAUGHT},         {"sin-cos", CAUGHT, CAUGHT},       {"sinusoid-f32", BELOW, BELOW},    {"text-shift", CAUGHT, CAUGHT},
    {"image-order", CAUGHT, CAUGHT},    {"sign", CAUGHT, CAUGHT},
};

enum { FAULTS = sizeof table / sizeof table[0] };

typedef struct bench {
    vd_context    *ctx;
    vd_keep        keep;
    vd_gate_result result;
    vd_gate_job    job;
    vd_gate_node   node;   /* judged last */
} bench;

static void bench_open(bench *b, const char *name)
{
    char path[512];
    memset(b, 0, sizeof *b);
    assert_int_equal(vd_open(NULL, &b->ctx), VD_OK);
    b->keep.ctx = b->ctx;
    snprintf(path, sizeof path, "%s/moss-small/%s", MODELS, name);
    b->job = (vd_gate_job){.ctx = b->ctx, .result = &b->result, .keep = &b->keep};
    if (vd_case_open(b->ctx, path, &b->job.c) != VD_OK || vd_moss_open(b->ctx, b->job.c->model_path, &b->job.model) != VD_OK)
        fail_msg("%s", vd_error_text(b->ctx));
    b->result.limit_runs = b->job.c->limit_runs;
}

static void bench_close(bench *b)
{
    vd_fault_close(b->ctx, b->job.fault);
    vd_moss_close(b->ctx, b->job.model);
    vd_case_close(b->ctx, b->job.c);
    vd_keep_free(&b->keep);
    vd_close(b->ctx);
}

static const vd_case_node *find_node(const bench *b, const char *name)
{
    for (int64_t i = 0; i < b->job.c->node_count; i++)
        if (strcmp(b->job.c->nodes[i].name, name) == 0)
            return &b->job.c->nodes[i];
    fail_msg("no node %s", name);
    return NULL;
}

static outcome judge(bench *b, const char *name)
{
    const vd_case_node *node = find_node(b, name);
    vd_values           first = {0}, second = {0};
    memset(&b->node, 0, sizeof b->node);
    if (vd_run_node(&b->job, node, 0, true, name, NULL, &first) != VD_OK || vd_run_node(&b->job, node, 1, true, name, NULL, &second) != VD_OK)
        fail_msg("%s", vd_error_text(b->ctx));
    const vd_tensor *a = vd_values_find(&first, name), *c = vd_values_find(&second, name);
    assert_non_null(a);
    assert_non_null(c);
    b->node.repeat_differs = vd_count_other_values(a, c);
    assert_int_equal(vd_judge_node(&b->job, node, a, &b->node), VD_OK);
    vd_values_free(b->ctx, &first);
    vd_values_free(b->ctx, &second);
    const bool far = b->node.cosine.verdict == VD_VERDICT_FAIL || b->node.worst_row.verdict == VD_VERDICT_FAIL || b->node.distance.nonfinite;
    assert_int_equal(b->node.verdict == VD_VERDICT_FAIL, far || b->node.repeat_differs);
    return far ? CAUGHT : b->node.repeat_differs ? REPEAT : BELOW;
}

static outcome plant(bench *b, const char *fault)
{
    vd_fault_close(b->ctx, b->job.fault);
    b->job.fault = NULL;
    vd_clear_error(b->ctx);
    const vd_status status = vd_fault_open(b->ctx, fault, b->job.c, b->job.model, &b->job.fault);
    if (status == VD_UNSUPPORTED)
        return UNSUPPORTED;
    if (status != VD_OK)
        fail_msg("%s", vd_error_text(b->ctx));
    return judge(b, vd_fault_node(b->job.fault));
}

static void check_all(const char *name, bool f32)
{
    bench b;
    int   wrong = 0;
    bench_open(&b, name);
    for (int i = 0; i < FAULTS; i++) {
        const outcome got = plant(&b, table[i].fault), wanted = f32 ? table[i].f32 : table[i].bf16;
        if (got == wanted)
            continue;
        wrong++;
        print_message("%s in %s: cosine %.3f, worst row %.3f times the runs' largest, %lld differ in the second run: outcome %d, expected %d\n", table[i].fault, name,
                      b.node.cosine.ratio, b.node.worst_row.ratio, (long long)b.node.repeat_differs, (int)got, (int)wanted);
    }
    bench_close(&b);
    assert_int_equal(wrong, 0);
}

static void test_bf16(void **state) { (void)state, check_all("case-bf16", false); }
static void test_f32(void **state) { (void)state, check_all("case-f32", true); }

/* The catalogue and the table above name the same faults. */
static void test_complete(void **state)
{
    (void)state;
    const vd_gate_fault *fault;
    for (int i = 0; (fault = vd_gate_list_fault(i)) != NULL; i++) {
        bool found = false;
        for (int k = 0; k < FAULTS; k++)
            found |= strcmp(table[k].fault, fault->name) == 0;
        if (!found)
            fail_msg("%s is in the catalogue and not in this test", fault->name);
        assert_true(*fault->what && *fault->how && *fault->place);
    }
    assert_null(vd_gate_list_fault(-1));
}

/* A fault changes its own node and no other: neighbours keep the true model's bytes. */
static void test_only_there(void **state)
{
    (void)state;
    static const char *const faults[] = {"row-5%@x.2", "block-neighbour@b1", "rope-pair@x.2", "stale-30%@b1", "shift-scale@b1", "up-gate@x.2", "heads@b1"};
    bench                    b;
    bench_open(&b, "case-f32");
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        assert_int_equal(plant(&b, faults[i]), CAUGHT);
        assert_string_equal(vd_fault_node(b.job.fault), "x.2");
        assert_int_equal(judge(&b, "x.1"), BELOW);
        assert_int_equal(judge(&b, "x.3"), BELOW);
        assert_int_equal(judge(&b, "velocity"), BELOW);
        assert_int_equal(judge(&b, "mod"), BELOW);
    }
    bench_close(&b);
}

static void test_every_place(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, "case-f32");
    for (int64_t i = 0; i < b.job.c->node_count; i++) {
        char text[64];
        snprintf(text, sizeof text, "row-5%%@%s", b.job.c->nodes[i].name);
        assert_int_equal(plant(&b, text), CAUGHT);
        assert_string_equal(vd_fault_node(b.job.fault), b.job.c->nodes[i].name);
    }
    bench_close(&b);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct { const char *text, *word; } list[] = {
        {"row-7%", "row-5%"},          {"", "faults:"},               {"row-5%@x.5", "places"},     {"row-5%@x.99", "places"}, {"row-5%@", "places"},
        {"row-5%@b4", "skipped"},      {"row-5%@b1x", "places"},      {"block-missing@video", "places"}, {"sign@x.1", "velocity"},  {"t-bf16@head_mod", "mod"},
        {"rope-axes@b1", "all blocks"}, {"norm-eps@everything", "all"}, {"row-5%@b99999999999999999999", "places"},
        {"row-5%@b03", "places"},      {"row-5%@b+3", "places"},      {"row-5%@b 3", "places"},     {"row-5%@x.03", "places"}, {"row-5%@b3.a", "places"},  {"row-5%@b", "places"},
    };
    bench b;
    bench_open(&b, "case-f32");
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        vd_fault *fault = NULL;
        vd_clear_error(b.ctx);
        assert_int_equal(vd_fault_open(b.ctx, list[i].text, b.job.c, b.job.model, &fault), VD_BAD_ARGUMENT);
        assert_null(fault);
        if (!strstr(vd_error_text(b.ctx), list[i].word))
            fail_msg("%s: %s", list[i].text, vd_error_text(b.ctx));
    }
    /* A timestep that bf16 holds cannot be spoiled by rounding: said, not passed over. */
    vd_fault *fault = NULL;
    b.job.c->t = 912;
    vd_clear_error(b.ctx);
    assert_int_equal(vd_fault_open(b.ctx, "t-bf16", b.job.c, b.job.model, &fault), VD_UNSUPPORTED);
    b.job.c->t = 910;
    vd_clear_error(b.ctx);
    bench_close(&b);
}

static void print_table(const char *name)
{
    static const char *const outcomes[] = {"G2", "G0", "below power", "not applicable"};
    bench                    b;
    bench_open(&b, name);
    printf("| fault | at | caught by | cosine × | worst row × | share of 2 × torch | elements that differ from the GPU's |\n|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < FAULTS; i++) {
        const outcome got = plant(&b, table[i].fault);
        if (got == UNSUPPORTED)
            continue;
        printf("| `%s` | `%s` | %s | %.3g | %.3g | %.3g | %lld of %lld |\n", table[i].fault, vd_fault_node(b.job.fault), got == BELOW && b.node.verdict == VD_VERDICT_WARN ? "warned" : outcomes[got], b.node.cosine.ratio, b.node.worst_row.ratio,
               fmax(b.node.cosine.torch_share, b.node.worst_row.torch_share), (long long)b.node.bytes_differ, (long long)(b.node.rows * b.node.cols));
    }
    bench_close(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete), cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16), cmocka_unit_test(test_only_there), cmocka_unit_test(test_every_place),
        cmocka_unit_test(test_refused),
    };
    if (argc == 3 && strcmp(argv[1], "--table") == 0) {
        print_table(argv[2]);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
