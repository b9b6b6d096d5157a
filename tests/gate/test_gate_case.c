/* Cases: a good one is read right; malformed and dishonest ones are refused, each with its reason, and nothing is taken for granted. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gate/case.h"
#include "gate/case_copy.h"

static const char original[] = MODELS "/moss-small/case-f32";

static void expect(const case_copy *copy, vd_status status, const char *reason, const char *word)
{
    vd_case *c = NULL;
    vd_clear_error(copy->ctx);
    const vd_status got = vd_case_open(copy->ctx, copy->path, &c);
    if (got != status || strcmp(vd_error_reason(copy->ctx), reason) != 0 || (word && !strstr(vd_error_text(copy->ctx), word)))
        fail_msg("got %s, %s: \"%s\"; expected %s with \"%s\"", vd_status_name(got), vd_error_reason(copy->ctx), vd_error_text(copy->ctx), reason, word ? word : "");
    assert_null(c);
    vd_clear_error(copy->ctx);
}

static void test_good(void **state)
{
    (void)state;
    vd_context *ctx;
    vd_case    *c;
    const char *const cases[] = {MODELS "/moss-small/case-f32", MODELS "/moss-small/case-bf16"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(vd_open(NULL, &ctx), VD_OK);
        if (vd_case_open(ctx, cases[i], &c) != VD_OK)
            fail_msg("%s", vd_error_text(ctx));
        assert_int_equal(c->policy, i ? VD_POLICY_BF16 : VD_POLICY_F32);
        assert_int_equal(c->node_count, 12);
        assert_string_equal(c->nodes[0].name, "mod");
        assert_string_equal(c->nodes[11].name, "velocity");
        assert_string_equal(c->nodes[10].name, "x.6"); /* block 4 is skipped */
        assert_int_equal(c->nodes[10].block, 5);
        assert_int_equal(c->image_rows, i ? 96 : 20);
        assert_true(c->t == 910);
        assert_true(c->limit_runs >= 8);
        assert_non_null(c->model_path);
        assert_null(c->nodes[0].in);
        assert_non_null(c->nodes[4].in);
        char text[64];
        assert_non_null(vd_case_version(c, 0, text));
        assert_null(vd_case_version(c, 100, text));
        vd_case_close(ctx, c);
        vd_close(ctx);
    }
}

/* ---- case.json ---- */

typedef struct change {
    const char *path;   /* keys and indices joined by / */
    const char *value;  /* JSON; NULL: the key is removed */
    const char *reason;
    const char *word;   /* must be in the message */
} change;

static const change changes[] = {
    {"schema", "\"verdit-case/2\"", "case-range", "verdit-case/1"},
    {"schema", "7", "case-type", "schema"},
    {"schema", NULL, "case-missing-key", "schema"},
    {"family", "\"flux\"", "case-range", "flux"},
    {"family", "\"moss_image\\u0000x\"", "case-type", "family"},
    {"colour", "1", "case-unknown-key", "colour"},
    {"config", "[]", "case-type", "config"},
    {"config/dim", NULL, "case-missing-key", "dim"},
    {"config/dim", "256.0", "case-type", "dim"},
    {"config/dim", "0", "case-range", "dim"},
    {"config/dim", "-256", "case-range", "dim"},
    {"config/dim", "9223372036854775807", "case-range", "dim"},
    {"config/dim", "255", "case-range", "255"},
    {"config/num_layers", "1000000", "case-range", "num_layers"},
    {"config/freq_dim", "63", "case-range", "freq_dim"},
    {"config/rope_base", "0", "case-range", "rope_base"},
    {"config/rope_base", "\"10000\"", "case-type", "rope_base"},
    {"config/extra", "1", "case-unknown-key", "extra"},
    {"model", "null", "case-type", "model"},
    {"model/path", "\"/etc\"", "unsafe-path", "/etc"},
    {"model/path", "\"\"", "unsafe-path", "path"},
    {"model/path", "3", "unsafe-path", "integer"},
    {"model/path", NULL, "case-missing-key", "path"},
    {"model/weights", "[]", "case-range", "weights"},
    {"model/weights", "{}", "case-type", "weights"},
    {"model/weights/0", "3", "case-type", "weights[0]"},
    {"model/weights/0/file", "\"../secret\"", "unsafe-path", "secret"},
    {"model/weights/0/file", "\"a\\\\b\"", "unsafe-path", "a"},
    {"model/weights/0/sha256", "\"abc\"", "case-range", "sha256"},
    {"model/weights/0/sha256", "\"0000000000000000000000000000000000000000000000000000000000000ABC\"", "case-range", "lower-case"},
    {"model/weights/0/bytes", "0", "case-range", "bytes"},
    {"branch", NULL, "case-missing-key", "branch"},
    {"step", "-1", "case-range", "step"},
    {"sigma", "0.5", "case-range", "1000 times"},
    {"t", "910.0000001", "case-range", "float32"},
    {"t", "-1", "case-range", "t is"},
    {"latent_size", "[4]", "case-range", "latent_size"},
    {"latent_size", "[4, 5, 6]", "case-range", "latent_size"},
    {"latent_size", "[4, 0]", "case-range", "latent_size"},
    {"latent_size", "[4, 5.5]", "case-range", "latent_size"},
    {"latent_size", "[4000000000, 4000000000]", "case-range", "latent_size"},
    {"latent_size", "[5, 4]", "shape-mismatch", "latents"},
    {"text_rows", "0", "case-range", "text_rows"},
    {"text_rows", "13", "case-nodes", "text.in"},
    {"skip", "[4, 4]", "case-range", "skip[1]"},
    {"skip", "[6]", "case-range", "skip[0]"},
    {"skip", "[-1]", "case-range", "skip[0]"},
    {"skip", "[true]", "case-range", "skip[0]"},
    {"skip", "[4.0]", "case-range", "skip[0]"},
    {"skip", "[]", "case-nodes", "x.5"},
    {"skip", "[3]", "case-nodes", "x.4"},
    {"skip", "[0, 1, 2, 3, 4, 5, 0]", "case-range", "skip lists 7"},
    {"seed", "-1", "case-range", "seed"},
    {"seed", "\"1\"", "case-range", "seed"},
    {"policy", "\"fp16\"", "case-range", "fp16"},
    {"policy", "\"bf16\"", "shape-mismatch", "F32"},
    {"versions", "[]", "case-type", "versions"},
    {"files/nodes", NULL, "case-missing-key", "nodes"},
    {"files/nodes/file", "\"sub/nodes.safetensors\"", "unsafe-path", "sub"},
    {"files/nodes/file", "\"..\"", "unsafe-path", ".."},
    {"files/nodes/sha256", "\"0000000000000000000000000000000000000000000000000000000000000000\"", "case-hash", "SHA-256"},
    {"files/more", "{}", "case-unknown-key", "more"},
    {"nodes", "[]", "case-nodes", "12"},
    {"nodes/0/name", "\"head_mod\"", "case-nodes", "mod"},
    {"nodes/3/rows", "11", "case-nodes", "11"},
    {"nodes/3/cols", "0", "case-range", "cols"},
    {"nodes/3", "null", "case-type", "nodes[3]"},
    {"nodes/11", NULL, "case-nodes", "11 nodes"},
    {"runs", "[]", "case-range", "runs"},
    {"runs/0", "1", "case-type", "run"},
    {"runs/0/name", "\"../x\"", "case-range", "../x"},
    {"runs/0/name", "\"cpu-math\"", "case-runs", "cpu-math"},
    {"runs/0/kind", "\"exact\"", "case-range", "exact"},
    {"runs/0/kind", "\"mixed\"", "case-runs", "two torch runs"},
    {"runs/0/device", "\"tpu\"", "case-range", "tpu"},
    {"runs/0/bytes", "1", "case-type", "bytes"},
    {"runs/0/bytes", "true", "missing-tensor", "cpu-default/mod.bytes"},
    {"runs/0/nodes/x.2", NULL, "case-runs", "11"},
    {"runs/0/nodes/x.9", "{\"cosine\": 0, \"worst_row\": 0, \"worst_row_index\": 0}", "case-runs", "13"},
    {"runs/3/nodes/x.2/cosine", "\"0\"", "case-type", "cosine"},
    {"runs/3/nodes/x.2/cosine", "3", "case-range", "cosine"},
    {"runs/3/nodes/x.2/worst_row", "-0.5", "case-range", "worst_row"},
    {"runs/3/nodes/x.2/worst_row", "0.5", "case-runs", "largest row error"}, /* a limit made wider by hand */
    {"runs/3/nodes/x.2/cosine", "2.0", "case-runs", "no honest run"},
    {"runs/3/nodes/x.2/cosine", "0.4", "case-runs", "row errors allow"},
    {"runs/3/nodes/x.2/worst_row_index", "32", "case-range", "worst_row_index"},
    {"runs/3/step", NULL, "case-missing-key", "step"},
    {"runs/3/step/l2", "-1", "case-range", "l2"},
};

static void apply(json_t *root, const change *c)
{
    char    path[128], *part, *rest = path;
    json_t *at = root;
    snprintf(path, sizeof path, "%s", c->path);
    while ((part = strtok_r(rest, "/", &rest)) != NULL && *rest)
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(part)) : json_object_get(at, part);
    assert_non_null(at);
    if (!c->value) {
        assert_int_equal(json_is_array(at) ? json_array_remove(at, (size_t)atoi(part)) : json_object_del(at, part), 0);
        return;
    }
    json_t *value = json_loads(c->value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(value);
    assert_int_equal(json_is_array(at) ? json_array_set_new(at, (size_t)atoi(part), value) : json_object_set_new(at, part, value), 0);
}

static void test_changed_json(void **state)
{
    (void)state;
    vd_context *ctx;
    case_copy   copy;
    vd_case    *c;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    case_copy_open(&copy, ctx, original);
    assert_int_equal(vd_case_open(ctx, copy.path, &c), VD_OK); /* the copy itself is good */
    vd_case_close(ctx, c);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        json_t *json = json_deep_copy(copy.json);
        apply(json, &changes[i]);
        case_copy_write(&copy, json);
        json_decref(json);
        expect(&copy, VD_BAD_FILE, changes[i].reason, changes[i].word);
    }
    case_copy_close(&copy);
    vd_close(ctx);
}

static void test_changed_text(void **state)
{
    (void)state;
    static const struct { const char *text, *reason; } texts[] = {
        {"", "case-json"}, {"null", "case-json"}, {"[]", "case-json"}, {"{", "case-json"}, {"{\"schema\": NaN}", "case-json"}, {"{} {}", "case-json"},
        {"{\"schema\":\"verdit-case/1\",\"schema\":\"verdit-case/1\"}", "duplicate-name"}, {"{\"schema\": \"\xff\"}", "case-json"}, {"{}", "case-missing-key"},
    };
    vd_context *ctx;
    case_copy   copy;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    case_copy_open(&copy, ctx, original);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        case_copy_write_text(&copy, texts[i].text);
        expect(&copy, VD_BAD_FILE, texts[i].reason, NULL);
    }
    /* Every prefix of a good text is refused, without reading beyond it. */
    char *whole = json_dumps(copy.json, JSON_COMPACT);
    for (size_t size = 1; size < strlen(whole); size += 997) {
        char *part = strndup(whole, size);
        case_copy_write_text(&copy, part);
        expect(&copy, VD_BAD_FILE, "case-json", NULL);
        free(part);
    }
    free(whole);
    case_copy_close(&copy);
    vd_close(ctx);
}

/* ---- Tensors ---- */

static void test_changed_tensors(void **state)
{
    (void)state;
    static float zeros[64 * 256], wrong[64 * 256];
    vd_context  *ctx;
    case_copy    copy;
    wrong[3] = NAN;
    const struct { const char *file, *name; vd_tensor with; bool removed; const char *reason, *word; } list[] = {
        {"inputs", "t", {.type = VD_F32, .rank = 1, .shape = {1}, .data = zeros}, false, "case-range", "t is 0"},
        {"inputs", "t", {.type = VD_F32, .rank = 0, .data = zeros}, false, "shape-mismatch", "tensor t"},
        {"inputs", "text", {0}, true, "missing-tensor", "text"},
        {"inputs", "text", {.type = VD_F32, .rank = 2, .shape = {12, 128}, .data = zeros}, false, "shape-mismatch", "BF16"},
        {"inputs", "noise", {.type = VD_F32, .rank = 1, .shape = {4}, .data = zeros}, false, "unexpected-tensor", "4 tensors"},
        {"nodes", "x.2.f32", {0}, true, "missing-tensor", "x.2.f32"},
        {"nodes", "x.2.in", {0}, true, "missing-tensor", "x.2.in"},
        {"nodes", "mod.used", {0}, true, "missing-tensor", "mod.used"},
        {"nodes", "x.2.f32", {.type = VD_F32, .rank = 2, .shape = {31, 256}, .data = zeros}, false, "shape-mismatch", "31"},
        {"nodes", "x.2.in", {.type = VD_BF16, .rank = 2, .shape = {32, 256}, .data = zeros}, false, "shape-mismatch", "F32"},
        {"nodes", "head_mod.f32", {.type = VD_F32, .rank = 2, .shape = {2, 128}, .data = wrong}, false, "shape-mismatch", "128"},
        {"nodes", "x.5.f32", {.type = VD_F32, .rank = 2, .shape = {32, 256}, .data = zeros}, false, "unexpected-tensor", "tensors"},
        {"runs", "heads/x.3.row_errors", {0}, true, "missing-tensor", "heads/x.3.row_errors"},
        {"runs", "heads/x.3.row_errors", {.type = VD_F32, .rank = 1, .shape = {32}, .data = zeros}, false, "case-runs", "largest row error"},
        {"runs", "heads/x.3.row_errors", {.type = VD_F32, .rank = 1, .shape = {32}, .data = wrong}, false, "case-range", "row 3"},
        {"runs", "heads/step", {0}, true, "missing-tensor", "heads/step"},
        {"runs", "heads/step", {.type = VD_F32, .rank = 2, .shape = {20, 16}, .data = wrong}, false, "case-range", "heads/step holds nan"},
        {"nodes", "step.f32", {.type = VD_F32, .rank = 2, .shape = {20, 16}, .data = wrong}, false, "case-range", "step.f32 holds nan"},
        {"nodes", "step.f32", {.type = VD_F32, .rank = 2, .shape = {20, 16}, .data = zeros}, false, "case-range", "infinite"},
        {"nodes", "x.2.f32", {.type = VD_F32, .rank = 2, .shape = {32, 256}, .data = wrong}, false, "case-range", "x.2.f32 holds nan"},
        {"nodes", "x.2.in", {.type = VD_F32, .rank = 2, .shape = {32, 256}, .data = wrong}, false, "case-range", "x.2.in holds nan"},
        {"nodes", "mod.used", {.type = VD_F32, .rank = 2, .shape = {6, 256}, .data = wrong}, false, "case-range", "mod.used holds nan"},
        {"inputs", "latents", {.type = VD_F32, .rank = 3, .shape = {16, 4, 5}, .data = wrong}, false, "case-range", "latents holds nan"},
        {"runs", "other/step", {.type = VD_F32, .rank = 2, .shape = {20, 16}, .data = zeros}, false, "unexpected-tensor", "tensors"},
    };
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    case_copy_open(&copy, ctx, original);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        json_t *json = case_copy_change_tensor(&copy, list[i].file, list[i].name, list[i].removed ? NULL : &list[i].with);
        case_copy_write(&copy, json);
        json_decref(json);
        expect(&copy, VD_BAD_FILE, list[i].reason, list[i].word);
        case_copy_restore(&copy, original);
    }
    /* A flipped byte is seen by the hash before anything else is believed. */
    char  path[128];
    FILE *file;
    snprintf(path, sizeof path, "%s/nodes.safetensors", copy.path);
    assert_non_null(file = fopen(path, "r+b"));
    fseek(file, -5, SEEK_END);
    fputc(0x55, file);
    fclose(file);
    expect(&copy, VD_BAD_FILE, "case-hash", "not the recorded one");
    assert_int_equal(remove(path), 0);
    expect(&copy, VD_IO, "no-such-file", "nodes.safetensors");
    case_copy_close(&copy);
    vd_close(ctx);
}

/* A cosine limit is bound by the rows': a tenth more than was recorded is refused at every node of every run, a thousandth more where the
 * bytes are kept; and a run is no yardstick when its rows err by their own length. */
static void test_bound(void **state)
{
    (void)state;
    static const char bf16[] = MODELS "/moss-small/case-bf16";
    static float      huge[256];
    vd_context       *ctx;
    case_copy         copy;
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    case_copy_open(&copy, ctx, bf16);
    json_t     *runs = json_object_get(copy.json, "runs"), *node;
    const char *name;
    for (size_t k = 0; k < json_array_size(runs); k += k == 3 ? 1 : 3) {
        json_t      *run   = json_array_get(runs, k);
        const double times = json_is_true(json_object_get(run, "bytes")) ? 1.001 : 1.1;
        json_object_foreach(json_object_get(run, "nodes"), name, node) {
            const double cosine = json_number_value(json_object_get(node, "cosine"));
            if (cosine < 1e-9)
                continue;
            json_object_set_new(node, "cosine", json_real(cosine * times));
            case_copy_write(&copy, copy.json);
            expect(&copy, VD_BAD_FILE, "case-runs", name);
            json_object_set_new(node, "cosine", json_real(cosine));
        }
    }
    /* Rows, maximum and cosine error all forged together. */
    for (int i = 0; i < 256; i++)
        huge[i] = 1.5f;
    const vd_tensor with = {.type = VD_F32, .rank = 1, .shape = {40}, .data = huge};
    json_t         *json = case_copy_change_tensor(&copy, "runs", "heads/text.0.row_errors", &with), *run;
    size_t          i;
    json_array_foreach(json_object_get(json, "runs"), i, run)
        if (strcmp(json_string_value(json_object_get(run, "name")), "heads") == 0)
            json_object_set_new(json_object_get(json_object_get(run, "nodes"), "text.0"), "worst_row", json_real(1.5));
    case_copy_write(&copy, json);
    json_decref(json);
    expect(&copy, VD_BAD_FILE, "case-runs", "no honest run");
    case_copy_close(&copy);
    vd_close(ctx);
}

static void test_places(void **state)
{
    (void)state;
    vd_context *ctx;
    case_copy   copy = {0};
    assert_int_equal(vd_open(NULL, &ctx), VD_OK);
    copy.ctx = ctx;
    snprintf(copy.path, sizeof copy.path, "/nonexistent-verdit-case");
    expect(&copy, VD_IO, "no-such-file", "does not exist");
    snprintf(copy.path, sizeof copy.path, "/dev/null");
    vd_case *c;
    assert_int_not_equal(vd_case_open(ctx, copy.path, &c), VD_OK);
    vd_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good), cmocka_unit_test(test_changed_json), cmocka_unit_test(test_changed_text), cmocka_unit_test(test_changed_tensors), cmocka_unit_test(test_bound), cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
