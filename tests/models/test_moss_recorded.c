/* torch's own bytes: the synthetic full-size MOSS-Image as recorded on an H200. Text rows, modulations, block 0 from all rows entering it,
 * everything inside block 20, the head. The run through all 42 blocks is `make test-long`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "formats/safetensors.h"
#include "models/moss_image/forward.h"
#include "models/synthetic.h"
#include "models/synthetic_model.h"

typedef struct fixture {
    vd_context    *ctx;
    vd_moss_config config;
    vd_safetensors run, x0, x20, t10;
} fixture;

static int set_up(void **state)
{
    static fixture f; /* one per program */
    assert_int_equal(vd_open(NULL, &f.ctx), VD_OK);
    assert_int_equal(vd_synth_config(f.ctx, "moss", NULL, &f.config), VD_OK);
    assert_int_equal(vd_safetensors_open(f.ctx, TEST_DATA "/moss/run.safetensors", &f.run), VD_OK);
    assert_int_equal(vd_safetensors_open(f.ctx, TEST_DATA "/moss/x0.safetensors", &f.x0), VD_OK);
    assert_int_equal(vd_safetensors_open(f.ctx, TEST_DATA "/moss/x20.safetensors", &f.x20), VD_OK);
    assert_int_equal(vd_safetensors_open(f.ctx, TEST_DATA "/moss/t10.safetensors", &f.t10), VD_OK);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    vd_safetensors_close(f->ctx, &f->run);
    vd_safetensors_close(f->ctx, &f->x0);
    vd_safetensors_close(f->ctx, &f->x20);
    vd_safetensors_close(f->ctx, &f->t10);
    vd_close(f->ctx);
    return 0;
}

/* What to compare: our node, the recorded tensor, and which part of ours it is. */
typedef struct pair {
    const char *node, *recorded;
    enum { ALL, SAMPLED_ROWS, HEAD_COLUMNS, SAMPLED_PIXELS } part;
    int64_t     head; /* HEAD_COLUMNS: columns head·128 … +127 */
    bool        seen;
} pair;

typedef struct checker {
    const fixture        *f;
    const vd_safetensors *recorded;
    pair                 *pairs;
    int                   count;
    int64_t               compared, different;
} checker;

static void compare(checker *c, const char *name, const void *ours, const void *theirs, int64_t bytes, int64_t unit)
{
    int64_t different = 0;
    for (int64_t i = 0; i < bytes; i += unit)
        different += memcmp((const char *)ours + i, (const char *)theirs + i, (size_t)unit) != 0;
    c->compared += bytes / unit;
    c->different += different;
    if (different)
        print_message("  %-18s %lld of %lld differ\n", name, (long long)different, (long long)(bytes / unit));
}

static int check(void *user, int sample, const vd_tensor *value)
{
    (void)sample;
    checker         *c    = user;
    const vd_tensor *rows = vd_safetensors_find(&c->f->run, "rows");
    for (int i = 0; i < c->count; i++) {
        pair *p = &c->pairs[i];
        if (strcmp(p->node, value->name) != 0)
            continue;
        const vd_tensor *t    = vd_safetensors_find(c->recorded, p->recorded);
        const int64_t    size = vd_dtype_size(value->type), cols = value->shape[value->rank - 1];
        assert_non_null(t);
        assert_int_equal(t->type, value->type);
        p->seen = true;
        if (p->part == ALL) {
            int64_t count = 1;
            for (int d = 0; d < value->rank; d++)
                count *= value->shape[d];
            compare(c, p->recorded, value->data, t->data, count * size, size);
        } else if (p->part == HEAD_COLUMNS) {
            assert_int_equal(t->shape[0], value->shape[0]);
            for (int64_t r = 0; r < t->shape[0]; r++)
                compare(c, p->recorded, (char *)value->data + (r * cols + p->head * 128) * size, (char *)t->data + r * 128 * size, 128 * size, size);
        } else if (p->part == SAMPLED_ROWS) {
            for (int64_t r = 0; r < t->shape[0]; r++) {
                int64_t row;
                memcpy(&row, (char *)rows->data + 8 * r, 8);
                compare(c, p->recorded, (char *)value->data + row * cols * size, (char *)t->data + r * cols * size, cols * size, size);
            }
        } else {
            const int64_t image = t->shape[1] * t->shape[2];
            for (int64_t r = 0; r < rows->shape[0]; r++) {
                int64_t row;
                memcpy(&row, (char *)rows->data + 8 * r, 8);
                for (int64_t ch = 0; row < image && ch < t->shape[0]; ch++)
                    compare(c, p->recorded, (char *)value->data + (ch * image + row) * 4, (char *)t->data + (ch * image + row) * 4, 4, 4);
            }
        }
    }
    return 0;
}

static void run_and_check(fixture *f, const char *weights, const vd_safetensors *recorded, vd_forward_options options, vd_sample sample, pair *pairs, int count)
{
    vd_moss_model *model = make_model(f->ctx, &f->config, 1, weights);
    checker        c     = {.f = f, .recorded = recorded, .pairs = pairs, .count = count};
    options.tap = check, options.tap_user = &c;
    if (vd_moss_forward(f->ctx, model, &options, &sample, 1, NULL, NULL))
        fail_msg("%s", vd_error_text(f->ctx));
    for (int i = 0; i < count; i++)
        if (!pairs[i].seen)
            fail_msg("node %s was not seen", pairs[i].node);
    print_message("  %lld values compared, %lld differ\n", (long long)c.compared, (long long)c.different);
    assert_int_equal(c.different, 0);
    free_model(f->ctx, model);
}

static const vd_forward_options matched = {.match = VD_MATCH_TORCH_2_11_H200};

static void test_time(void **state)
{
    fixture           *f = *state;
    float              t = 910;
    vd_tensor          inputs[] = {{.name = "t", .type = VD_F32, .rank = 1, .shape = {1}, .data = &t}};
    vd_forward_options options  = matched;
    options.to = "head_mod", options.taps = "time,mod";
    pair pairs[] = {{"time", "time_out", ALL, 0, false}, {"mod", "mod", ALL, 0, false}, {"head_mod", "head", ALL, 0, false}};
    run_and_check(f, "time_embedding.*,*modulation*", &f->run, options, (vd_sample){.inputs = inputs, .input_count = 1}, pairs, 3);
}

/* rows=free is the chain where torch splits K: the time MLP's second linear has one row. So the two modes must differ there. */
static void test_modes_differ(void **state)
{
    fixture           *f = *state;
    float              t = 910;
    vd_tensor          inputs[] = {{.name = "t", .type = VD_F32, .rank = 1, .shape = {1}, .data = &t}};
    pair               pairs[]  = {{"time", "time_out", ALL, 0, false}};
    vd_moss_model     *model    = make_model(f->ctx, &f->config, 1, "time_embedding.*");
    checker            c        = {.f = f, .recorded = &f->run, .pairs = pairs, .count = 1};
    vd_forward_options options  = {.to = "time", .tap = check, .tap_user = &c};
    print_message("  (differences are wanted here)\n");
    assert_int_equal(vd_moss_forward(f->ctx, model, &options, &(vd_sample){.inputs = inputs, .input_count = 1}, 1, NULL, NULL), VD_OK);
    assert_int_not_equal(c.different, 0);
    free_model(f->ctx, model);
}

static void test_embedders(void **state)
{
    fixture           *f = *state;
    vd_tensor          inputs[] = {make_latents(f->ctx, &f->config, 1, 32, 32), make_text(f->ctx, &f->config, 1, 64)};
    vd_forward_options options  = matched;
    options.to = "x.0", options.taps = "video,text.1";
    pair pairs[] = {{"video", "video_rows", SAMPLED_ROWS, 0, false}, {"text.1", "text", ALL, 0, false}};
    run_and_check(f, "video_embedder.*,text_embedder.*", &f->run, options, (vd_sample){.inputs = inputs, .input_count = 2}, pairs, 2);
    pair whole[] = {{"x.0", "x0", ALL, 0, false}};
    run_and_check(f, "video_embedder.*,text_embedder.*", &f->x0, options, (vd_sample){.inputs = inputs, .input_count = 2}, whole, 1);
    vd_free(f->ctx, inputs[0].data);
    vd_free(f->ctx, inputs[1].data);
}

/* The default negative prompt's ten rows: cuBLAS splits K in most of these linears. */
static void test_ten_text_rows(void **state)
{
    fixture           *f = *state;
    vd_tensor          text    = make_text(f->ctx, &f->config, 1, 10);
    vd_forward_options options = matched;
    options.to = "text.1", options.taps = "text.0";
    pair pairs[] = {{"text.0", "text10.block0", ALL, 0, false}, {"text.1", "text10.block1", ALL, 0, false}};
    run_and_check(f, "text_embedder.*", &f->t10, options, (vd_sample){.inputs = &text, .input_count = 1}, pairs, 2);
    vd_free(f->ctx, text.data);
}

static vd_sample sampled_rows(fixture *f, const vd_tensor *inputs, int64_t rows[10])
{
    memcpy(rows, vd_safetensors_find(&f->run, "rows")->data, 80);
    return (vd_sample){.inputs = inputs, .input_count = 2, .h = 32, .w = 32, .text_rows = 64, .rows = rows, .row_count = 10};
}

static void test_block_0(void **state)
{
    fixture           *f = *state;
    int64_t            rows[10];
    vd_tensor          inputs[] = {*vd_safetensors_find(&f->x0, "x0"), *vd_safetensors_find(&f->run, "mod")};
    vd_forward_options options  = matched;
    inputs[0].name = "x";
    options.from = "b0.a", options.to = "x.1";
    pair pairs[] = {{"x.1", "x.1", ALL, 0, false}};
    run_and_check(f, "layers.0.*", &f->run, options, sampled_rows(f, inputs, rows), pairs, 1);
}

static void test_block_20(void **state)
{
    fixture           *f = *state;
    int64_t            rows[10];
    vd_tensor          inputs[] = {*vd_safetensors_find(&f->x20, "x20"), *vd_safetensors_find(&f->run, "mod")};
    vd_forward_options options  = matched;
    inputs[0].name = "x.20";
    options.from = "b20.a", options.to = "x.21", options.taps = "b20.*";
    pair pairs[] = {
        {"b20.a", "b20.a", SAMPLED_ROWS, 0, false},      {"b20.q", "b20.q", ALL, 0, false},
        {"b20.k", "b20.k", SAMPLED_ROWS, 0, false},      {"b20.v", "b20.v", SAMPLED_ROWS, 0, false},
        {"b20.q_rot", "b20.att_q.h0", HEAD_COLUMNS, 0, false},   {"b20.q_rot", "b20.att_q.h13", HEAD_COLUMNS, 13, false},
        {"b20.k_rot", "b20.att_k.h0", HEAD_COLUMNS, 0, false},   {"b20.k_rot", "b20.att_k.h13", HEAD_COLUMNS, 13, false},
        {"b20.v", "b20.att_v.h0", HEAD_COLUMNS, 0, false},       {"b20.v", "b20.att_v.h13", HEAD_COLUMNS, 13, false},
        {"b20.att", "b20.att", ALL, 0, false},           {"b20.o", "b20.o", ALL, 0, false},
        {"b20.b", "b20.b", ALL, 0, false},               {"b20.ug", "b20.ug", ALL, 0, false},
        {"b20.situ", "b20.situ", ALL, 0, false},         {"b20.down", "b20.down", ALL, 0, false},
        {"x.21", "x.21", ALL, 0, false},
    };
    run_and_check(f, "layers.20.*", &f->run, options, sampled_rows(f, inputs, rows), pairs, sizeof pairs / sizeof *pairs);
}

static void test_head(void **state)
{
    fixture         *f      = *state;
    const vd_tensor *rows   = vd_safetensors_find(&f->run, "rows"), *last = vd_safetensors_find(&f->run, "x.42");
    uint16_t        *x      = vd_alloc(f->ctx, 1088 * f->config.dim * 2, "rows"); /* the sampled rows in their places, zeros elsewhere */
    vd_tensor        inputs[] = {{.name = "x", .type = VD_BF16, .rank = 2, .shape = {1088, f->config.dim}, .data = x}, *vd_safetensors_find(&f->run, "head")};
    for (int64_t r = 0; r < 10; r++) {
        int64_t row;
        memcpy(&row, (char *)rows->data + 8 * r, 8);
        memcpy(x + row * f->config.dim, (char *)last->data + r * f->config.dim * 2, (size_t)f->config.dim * 2);
    }
    inputs[1].name = "head_mod";
    vd_forward_options options = matched;
    options.from = "velocity";
    pair pairs[] = {{"velocity", "velocity", SAMPLED_PIXELS, 0, false}};
    run_and_check(f, "final_*", &f->run, options, (vd_sample){.inputs = inputs, .input_count = 2, .h = 32, .w = 32, .text_rows = 64}, pairs, 1);
    vd_free(f->ctx, x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time),    cmocka_unit_test(test_modes_differ), cmocka_unit_test(test_embedders), cmocka_unit_test(test_ten_text_rows),
        cmocka_unit_test(test_block_0), cmocka_unit_test(test_block_20),     cmocka_unit_test(test_head),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
