/* What a forward promises whatever the model: the same bytes whole or in parts, alone or in a batch, all rows or a few, on any number of
 * threads and every level; and clear errors for what cannot be run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/core.h"
#include "models/moss_image/forward.h"
#include "models/moss_image/nodes.h"
#include "models/synthetic.h"
#include "models/synthetic_model.h"

enum { ROOM = 160 };

typedef struct fixture {
    vd_context    *ctx;
    vd_moss_config config;
    vd_moss_model *model;
    vd_tensor      inputs[2][3]; /* two requests: latents, text, t */
    float          t[2];
} fixture;

/* Tapped values of one sample, copied. */
typedef struct record {
    vd_context *ctx;
    int         sample;
    vd_tensor   values[ROOM];
    char        names[ROOM][VD_MOSS_NODE_NAME];
    int         count;
} record;

static int64_t bytes_of(const vd_tensor *t)
{
    int64_t n = vd_dtype_size(t->type);
    for (int d = 0; d < t->rank; d++)
        n *= t->shape[d];
    return n;
}

static int keep(void *user, int sample, const vd_tensor *value)
{
    record *r = user;
    if (sample != r->sample)
        return 0;
    assert_true(r->count < ROOM);
    snprintf(r->names[r->count], VD_MOSS_NODE_NAME, "%s", value->name);
    r->values[r->count]      = *value;
    r->values[r->count].name = r->names[r->count];
    r->values[r->count].data = memcpy(vd_alloc(r->ctx, bytes_of(value), value->name), value->data, (size_t)bytes_of(value));
    r->count++;
    return 0;
}

static const vd_tensor *find(const record *r, const char *name)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->names[i], name) == 0)
            return &r->values[i];
    fail_msg("no value %s", name);
    return NULL;
}

static void forget(record *r)
{
    for (int i = 0; i < r->count; i++)
        vd_free(r->ctx, r->values[i].data);
    r->count = 0;
}

static void assert_same(const vd_tensor *a, const vd_tensor *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(bytes_of(a), bytes_of(b));
    if (memcmp(a->data, b->data, (size_t)bytes_of(a)) != 0)
        fail_msg("%s differs", a->name);
}

static int set_up(void **state)
{
    static fixture f; /* one per program */
    assert_int_equal(vd_open(NULL, &f.ctx), VD_OK);
    assert_int_equal(vd_synth_config(f.ctx, "tiny", NULL, &f.config), VD_OK);
    f.model = make_model(f.ctx, &f.config, 1, "*");
    for (int i = 0; i < 2; i++) { /* of different sizes and times */
        f.t[i]         = i ? 500.25f : 910.0f;
        f.inputs[i][0] = make_latents(f.ctx, &f.config, 1 + (uint64_t)i, i ? 3 : 4, i ? 7 : 5);
        f.inputs[i][1] = make_text(f.ctx, &f.config, 1 + (uint64_t)i, i ? 11 : 6);
        f.inputs[i][2] = (vd_tensor){.name = "t", .type = VD_F32, .rank = 1, .shape = {1}, .data = &f.t[i]};
    }
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        vd_free(f->ctx, f->inputs[i][0].data);
        vd_free(f->ctx, f->inputs[i][1].data);
    }
    free_model(f->ctx, f->model);
    vd_close(f->ctx);
    return 0;
}

static vd_sample request(const fixture *f, int i) { return (vd_sample){.inputs = f->inputs[i], .input_count = 3}; }

static void run(fixture *f, vd_forward_options o, const vd_sample *samples, int count, record *r)
{
    o.tap = keep, o.tap_user = r;
    r->ctx = f->ctx;
    if (vd_moss_forward(f->ctx, f->model, &o, samples, count, NULL, NULL))
        fail_msg("%s", vd_error_text(f->ctx));
}

static void test_batch_is_alone(void **state)
{
    fixture        *f   = *state;
    const int64_t   skip = 2;
    const vd_sample both[3] = {request(f, 0), {.inputs = f->inputs[1], .input_count = 3, .skip = &skip, .skip_count = 1}, request(f, 0)};
    for (int policy = 0; policy < VD_POLICY_COUNT; policy++)
        for (int i = 0; i < 2; i++) {
            static record batch, alone;
            batch.sample = i, alone.sample = 0;
            const vd_forward_options o = {.policy = (vd_policy)policy, .taps = "*"};
            run(f, o, both, 3, &batch);
            run(f, o, &both[i], 1, &alone);
            assert_int_equal(batch.count, alone.count);
            for (int k = 0; k < alone.count; k++)
                assert_same(&alone.values[k], &batch.values[k]);
            forget(&batch), forget(&alone);
        }
}

/* Each node alone, from the values of the nodes that it reads, is the node of the whole run: so any cut of the range is. */
static void test_every_node_alone(void **state)
{
    fixture *f = *state;
    for (int policy = 0; policy < VD_POLICY_COUNT; policy++) {
        static record whole, alone;
        const vd_sample whole_request = request(f, 0);
        run(f, (vd_forward_options){.policy = (vd_policy)policy, .taps = "*"}, &whole_request, 1, &whole);
        assert_int_equal(whole.count, vd_moss_node_count(f->config.layers));
        for (int64_t i = VD_MOSS_X0 + 1; i < vd_moss_node_count(f->config.layers); i++) {
            char      name[VD_MOSS_NODE_NAME];
            int64_t   reads[3];
            vd_tensor inputs[3];
            const int count = vd_moss_node_inputs(i, f->config.layers, false, reads);
            vd_moss_node_name(i, f->config.layers, name);
            for (int k = 0; k < count; k++) {
                char input[VD_MOSS_NODE_NAME];
                vd_moss_node_name(reads[k], f->config.layers, input);
                inputs[k] = *find(&whole, input);
            }
            const vd_sample part = {.inputs = inputs, .input_count = count, .h = 4, .w = 5, .text_rows = 6};
            run(f, (vd_forward_options){.policy = (vd_policy)policy, .from = name, .to = name}, &part, 1, &alone);
            assert_int_equal(alone.count, 1);
            assert_same(find(&whole, name), &alone.values[0]);
            forget(&alone);
        }
        forget(&whole);
    }
}

static void test_chosen_rows(void **state)
{
    fixture      *f      = *state;
    const int64_t rows[] = {17, 0, 5, 19, 5}; /* in any order, also twice; image rows of the 20 */
    static record whole, few;
    vd_sample     s = request(f, 0);
    for (int policy = 0; policy < VD_POLICY_COUNT; policy++) {
        run(f, (vd_forward_options){.policy = (vd_policy)policy, .taps = "x.*,b3.att"}, &s, 1, &whole);
        s.rows = rows, s.row_count = 5;
        run(f, (vd_forward_options){.policy = (vd_policy)policy, .taps = "x.*,b3.att"}, &s, 1, &few);
        s.rows = NULL;
        assert_same(find(&whole, "x.3"), find(&few, "x.3")); /* all rows leave the blocks before the last */
        static const char *const names[] = {"x.4", "b3.att"};
        for (int n = 0; n < 2; n++)
            for (int i = 0; i < 5; i++) {
                const vd_tensor *a = find(&whole, names[n]), *b = find(&few, names[n]);
                const size_t     row = (size_t)(a->shape[1] * vd_dtype_size(a->type));
                assert_int_equal(b->shape[0], 5);
                assert_memory_equal((char *)a->data + (size_t)rows[i] * row, (char *)b->data + (size_t)i * row, row);
            }
        const vd_tensor *v = find(&whole, "velocity"), *vr = find(&few, "velocity"); /* a picture, and rows */
        for (int i = 0; i < 5; i++)
            for (int64_t c = 0; c < f->config.latent_channels; c++)
                assert_memory_equal((float *)v->data + c * 20 + rows[i], (float *)vr->data + i * f->config.latent_channels + c, 4);
        forget(&whole), forget(&few);
    }
}

/* Blocks left out behind the last one that is computed pass the chosen rows. */
static void test_chosen_rows_and_skip(void **state)
{
    fixture      *f      = *state;
    const int64_t rows[] = {3, 7}, skip[] = {2, 3};
    static record whole, few;
    vd_sample     s = request(f, 0);
    s.skip = skip, s.skip_count = 2;
    run(f, (vd_forward_options){.taps = "x.*"}, &s, 1, &whole);
    s.rows = rows, s.row_count = 2;
    run(f, (vd_forward_options){.taps = "x.*"}, &s, 1, &few);
    for (int n = 2; n <= 4; n++) {
        char name[VD_MOSS_NODE_NAME];
        snprintf(name, sizeof name, "x.%d", n);
        const vd_tensor *a = find(&whole, name), *b = find(&few, name);
        const size_t     row = (size_t)(a->shape[1] * vd_dtype_size(a->type));
        assert_int_equal(b->shape[0], 2);
        for (int i = 0; i < 2; i++)
            assert_memory_equal((char *)a->data + (size_t)rows[i] * row, (char *)b->data + (size_t)i * row, row);
    }
    const vd_tensor *v = find(&whole, "velocity"), *vr = find(&few, "velocity");
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; c < f->config.latent_channels; c++)
            assert_memory_equal((float *)v->data + c * 20 + rows[i], (float *)vr->data + i * f->config.latent_channels + c, 4);
    forget(&whole), forget(&few);
}

static void test_threads_and_levels(void **state)
{
    fixture        *f = *state;
    const vd_sample s = request(f, 1);
    for (int arith = 0; arith < VD_ARITH_COUNT; arith++) {
        static record want, got;
        const vd_forward_options o = {.arith = (vd_arith)arith, .taps = "*"};
        vd_kernels               table;
        vd_kernels_init_cpu(&table, VD_CPU_GENERIC);
        vd_forward_options tapped = o;
        tapped.tap = keep, tapped.tap_user = &want, want.ctx = got.ctx = f->ctx;
        assert_int_equal(vd_moss_forward(f->ctx, f->model, &tapped, &s, 1, NULL, &table), VD_OK);
        tapped.tap_user = &got;
        for (int level = VD_CPU_GENERIC; level < VD_CPU_LEVELS; level++)
            for (int threads = 1; threads <= 3 && level <= (int)vd_cpu_best_level(); threads++) {
                const int before = f->ctx->threads;
                f->ctx->threads  = threads;
                vd_kernels_init_cpu(&table, (vd_cpu_level)level);
                assert_int_equal(vd_moss_forward(f->ctx, f->model, &tapped, &s, 1, NULL, &table), VD_OK);
                f->ctx->threads = before;
                assert_int_equal(want.count, got.count);
                for (int k = 0; k < want.count; k++)
                    assert_same(&want.values[k], &got.values[k]);
                forget(&got);
            }
        forget(&want);
    }
}

/* A skipped block passes its rows; a prompt's text rows can be kept. */
static void test_skip_and_reuse(void **state)
{
    fixture      *f = *state;
    const int64_t skip = 1;
    static record a, b;
    vd_sample     s = request(f, 0);
    s.skip = &skip, s.skip_count = 1;
    run(f, (vd_forward_options){.taps = "*"}, &s, 1, &a);
    assert_memory_equal(find(&a, "x.1")->data, find(&a, "x.2")->data, (size_t)bytes_of(find(&a, "x.1")));
    vd_tensor inputs[] = {f->inputs[0][0], f->inputs[0][2], *find(&a, "text.1")};
    s.inputs = inputs;
    run(f, (vd_forward_options){.taps = "*"}, &s, 1, &b);
    assert_same(find(&a, "velocity"), find(&b, "velocity"));
    assert_int_equal(a.count, b.count + 3); /* text.in, text.0 and text.1 were not computed */
    forget(&a), forget(&b);
}

/* The model as it is against one with a disturbance: hooks must reach the numbers, or planted faults would be caught by luck. */
static void alter(void *user, int sample, vd_tensor *value)
{
    (void)sample;
    if (strcmp(value->name, user) == 0)
        ((uint16_t *)value->data)[0] ^= 0x8000;
}

static void test_hooks_reach(void **state)
{
    fixture        *f = *state;
    static char     places[][12] = {"mod", "video", "b1.q", "b2.situ", "x.3", "rope.cos"};
    const vd_sample s = request(f, 0);
    static record   clean, hooked;
    run(f, (vd_forward_options){0}, &s, 1, &clean);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const vd_forward_options o     = {.tap = keep, .tap_user = &hooked};
        const vd_moss_hooks      hooks = {.alter = alter, .user = places[i], .eps_block = -1};
        hooked.ctx = f->ctx;
        assert_int_equal(vd_moss_forward(f->ctx, f->model, &o, &s, 1, &hooks, NULL), VD_OK);
        if (memcmp(clean.values[0].data, hooked.values[0].data, (size_t)bytes_of(&clean.values[0])) == 0)
            fail_msg("a change at %s did not reach the velocity", places[i]);
        forget(&hooked);
    }
    forget(&clean);
}

static void refuse(fixture *f, vd_forward_options o, vd_sample s, vd_status status, const char *reason)
{
    vd_clear_error(f->ctx);
    assert_int_equal(vd_moss_forward(f->ctx, f->model, &o, &s, 1, NULL, NULL), status);
    assert_string_equal(vd_error_reason(f->ctx), reason);
    vd_clear_error(f->ctx);
}

static void test_refusals(void **state)
{
    fixture        *f = *state;
    const vd_sample good = request(f, 0);
    vd_sample       s = good;
    const int64_t   twice[] = {1, 1}, outside = 4, far_row = 26, text_row = 20;
    vd_tensor       inputs[3];
    float           bad_t = -1;
    refuse(f, (vd_forward_options){.from = "b9.a"}, good, VD_BAD_ARGUMENT, "node");
    refuse(f, (vd_forward_options){.from = "x.2", .to = "x.1"}, good, VD_BAD_ARGUMENT, "range");
    refuse(f, (vd_forward_options){.from = "b1.a"}, good, VD_BAD_ARGUMENT, "input-missing"); /* the rows entering block 1 */
    refuse(f, (vd_forward_options){.taps = "x.*,b9.q"}, good, VD_BAD_ARGUMENT, "tap");
    refuse(f, (vd_forward_options){.taps = "velocity", .to = "x.2"}, good, VD_BAD_ARGUMENT, "tap");
    refuse(f, (vd_forward_options){.taps = "b*.z"}, good, VD_BAD_ARGUMENT, "tap");
    s.skip = twice, s.skip_count = 2;
    refuse(f, (vd_forward_options){0}, s, VD_BAD_ARGUMENT, "skip");
    s.skip = &outside, s.skip_count = 1;
    refuse(f, (vd_forward_options){0}, s, VD_BAD_ARGUMENT, "skip");
    s = good, s.skip = twice, s.skip_count = 1;
    refuse(f, (vd_forward_options){.to = "b1.q"}, s, VD_BAD_ARGUMENT, "skip");
    s = good, s.rows = &far_row, s.row_count = 1;
    refuse(f, (vd_forward_options){.to = "x.2"}, s, VD_BAD_ARGUMENT, "rows");
    s.rows = &text_row; /* a text row has no velocity */
    refuse(f, (vd_forward_options){0}, s, VD_BAD_ARGUMENT, "rows");
    refuse(f, (vd_forward_options){.to = "mod"}, s, VD_BAD_ARGUMENT, "rows"); /* no block: one row of one */
    s = good, s.input_count = 2;
    refuse(f, (vd_forward_options){0}, s, VD_BAD_ARGUMENT, "input-missing"); /* t */
    memcpy(inputs, f->inputs[0], sizeof inputs);
    s = good, s.inputs = inputs;
    inputs[2].data = &bad_t;
    refuse(f, (vd_forward_options){0}, s, VD_BAD_ARGUMENT, "timestep");
    inputs[2] = f->inputs[0][2], inputs[1].shape[1]--;
    refuse(f, (vd_forward_options){0}, s, VD_BAD_ARGUMENT, "shape-mismatch");
    inputs[1].shape[1]++, inputs[0].type = VD_BF16;
    refuse(f, (vd_forward_options){0}, s, VD_BAD_ARGUMENT, "shape-mismatch");
    inputs[0].type = VD_F32, s.h = 5;
    refuse(f, (vd_forward_options){0}, s, VD_BAD_ARGUMENT, "shape-mismatch");
    /* The last node given; rows chosen of what is given. */
    static float velocity[32 * 20], x4[26 * 64];
    vd_tensor    more[4] = {f->inputs[0][0], f->inputs[0][1], f->inputs[0][2], {.name = "velocity", .type = VD_F32, .rank = 3, .shape = {32, 4, 5}, .data = velocity}};
    s = good, s.inputs = more, s.input_count = 4;
    refuse(f, (vd_forward_options){0}, s, VD_BAD_ARGUMENT, "range");
    more[3] = (vd_tensor){.name = "x.4", .type = VD_F32, .rank = 2, .shape = {26, 64}, .data = x4};
    s.rows = twice, s.row_count = 1;
    refuse(f, (vd_forward_options){.taps = "b2.q"}, s, VD_UNSUPPORTED, "rows");
    /* A value that the policy's type cannot hold is refused, not rounded in silence. */
    float     x[26 * 64] = {1.0f, 1.00001f};
    vd_tensor given[]    = {{.name = "x", .type = VD_F32, .rank = 2, .shape = {26, 64}, .data = x}, f->inputs[0][2]};
    refuse(f, (vd_forward_options){.from = "b1.a", .to = "x.2"}, (vd_sample){.inputs = given, .input_count = 2, .h = 4, .w = 5, .text_rows = 6}, VD_BAD_ARGUMENT, "not-representable");
    refuse(f, (vd_forward_options){.from = "b1.a", .to = "x.2", .policy = VD_POLICY_F32}, (vd_sample){.inputs = given, .input_count = 2, .h = 4, .w = 4, .text_rows = 6}, VD_BAD_ARGUMENT, "shape-mismatch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_is_alone), cmocka_unit_test(test_every_node_alone), cmocka_unit_test(test_chosen_rows), cmocka_unit_test(test_chosen_rows_and_skip), cmocka_unit_test(test_threads_and_levels),
        cmocka_unit_test(test_skip_and_reuse), cmocka_unit_test(test_hooks_reach),      cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
