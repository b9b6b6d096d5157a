/* MOSS-Image's weights in the spellings that are met in the wild, and what is said of those that do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contract/contract.h"
#include "formats/file.h"
#include "formats/safetensors.h"
#include "models/moss_image/config.h"
#include "models/moss_image/moss_image.h"

#define BASE TEST_DATA "/hostile/base/moss/transformer"

enum { MORE = 8 };

/* The small valid model's tensors, to be renamed, joined or spoilt, and written to a folder of their own. */
typedef struct bench {
    vd_context *ctx;
    vd_tensors *from;
    vd_tensor  *tensors; /* [count], room for MORE */
    int64_t     count;
    vd_names    names;
    char        folder[64], weights[128], config[128];
    char        log[4096];
} bench;

static void collect(void *user, vd_log_level level, const char *text)
{
    bench *b = user;
    strncat(b->log, level == VD_LOG_WARNING ? "warning: " : "info: ", sizeof b->log - strlen(b->log) - 1);
    strncat(b->log, text, sizeof b->log - strlen(b->log) - 1);
    strncat(b->log, "\n", sizeof b->log - strlen(b->log) - 1);
}

static void copy_file(bench *b, const char *from, const char *to)
{
    char   *text;
    int64_t size;
    assert_int_equal(vd_file_read(b->ctx, from, 1 << 20, "test", &text, &size), VD_OK);
    assert_int_equal(vd_file_write_atomic(b->ctx, to, text, size), VD_OK);
    vd_free(b->ctx, text);
}

static int set_up(void **state)
{
    static bench b;
    vd_options   options;
    memset(&b, 0, sizeof b);
    vd_options_init(&options);
    options.log      = collect;
    options.log_user = &b;
    snprintf(b.folder, sizeof b.folder, "/tmp/verdit-load-XXXXXX");
    if (!mkdtemp(b.folder) || vd_open(&options, &b.ctx) != VD_OK)
        return -1;
    snprintf(b.weights, sizeof b.weights, "%s/model.safetensors", b.folder);
    snprintf(b.config, sizeof b.config, "%s/config.json", b.folder);
    copy_file(&b, BASE "/config.json", b.config);
    if (vd_tensors_open(b.ctx, BASE, &b.from) != VD_OK)
        return -1;
    b.count   = vd_tensors_count(b.from);
    b.tensors = vd_alloc(b.ctx, (b.count + MORE) * (int64_t)sizeof *b.tensors, "a list");
    for (int64_t i = 0; i < b.count; i++)
        b.tensors[i] = *vd_tensors_get(b.from, i);
    *state = &b;
    return 0;
}

static int tear_down(void **state)
{
    bench *b = *state;
    unlink(b->weights);
    unlink(b->config);
    vd_names_free(b->ctx, &b->names);
    vd_free(b->ctx, b->tensors);
    vd_tensors_close(b->ctx, b->from);
    vd_close(b->ctx);
    return rmdir(b->folder);
}

static const char *keep(bench *b, const char *name)
{
    assert_int_equal(vd_names_add(b->ctx, &b->names, name), VD_OK);
    return b->names.names[b->names.count - 1];
}

static vd_tensor *find(bench *b, const char *name)
{
    for (int64_t i = 0; i < b->count; i++)
        if (strcmp(b->tensors[i].name, name) == 0)
            return &b->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void drop(bench *b, const char *name) { *find(b, name) = b->tensors[--b->count]; }
static void rename_tensor(bench *b, const char *from, const char *to) { find(b, from)->name = keep(b, to); }

static void add_prefix(bench *b, const char *prefix)
{
    char name[256];
    for (int64_t i = 0; i < b->count; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, b->tensors[i].name);
        b->tensors[i].name = keep(b, name);
    }
}

static vd_status open_model(bench *b, const char *path, vd_moss_model **model)
{
    assert_int_equal(vd_tensors_write(b->ctx, b->weights, b->tensors, b->count, NULL, NULL, NULL), VD_OK);
    b->log[0] = 0;
    return vd_moss_open(b->ctx, path ? path : b->folder, model);
}

/* Opens it and compares every weight of a few kinds with the publisher's spelling. */
static void assert_opens(bench *b, const char *path, const char *logged)
{
    vd_moss_model *model, *base;
    const vd_status status = open_model(b, path, &model);
    if (status != VD_OK)
        fail_msg("%s", vd_error_text(b->ctx));
    if (logged ? !strstr(b->log, logged) : b->log[0])
        fail_msg("logged \"%s\", wanted \"%s\"", b->log, logged ? logged : "nothing");
    assert_int_equal(vd_moss_open(b->ctx, BASE, &base), VD_OK);
    const int64_t dim = base->config.dim, square = 2 * dim * dim;
    for (int64_t i = 0; i < base->config.layers; i++) {
        const vd_moss_block *x = &model->weights.blocks[i], *y = &base->weights.blocks[i];
        assert_memory_equal(x->q.data, y->q.data, (size_t)square);
        assert_memory_equal(x->k.data, y->k.data, (size_t)square);
        assert_memory_equal(x->v.data, y->v.data, (size_t)square);
        assert_memory_equal(x->o.data, y->o.data, (size_t)square);
        assert_memory_equal(x->norm2.data, y->norm2.data, (size_t)(2 * dim));
        assert_memory_equal(x->down.data, y->down.data, (size_t)(2 * dim * base->config.ffn_dim));
    }
    assert_memory_equal(model->weights.time2.data, base->weights.time2.data, (size_t)square);
    assert_memory_equal(model->weights.time2_bias.data, base->weights.time2_bias.data, (size_t)(2 * dim));
    assert_memory_equal(model->weights.final_linear.data, base->weights.final_linear.data, (size_t)(2 * dim * base->config.latent_channels));
    assert_int_equal(model->weights.bands.type, VD_F32);
    assert_memory_equal(model->weights.bands.data, base->weights.bands.data, (size_t)(4 * vd_moss_bands(&base->config)));
    assert_int_equal(vd_moss_weight_bytes(model), vd_moss_weight_bytes(base));
    vd_moss_close(b->ctx, model);
    vd_moss_close(b->ctx, base);
}

static void assert_refused(bench *b, vd_status status, const char *reason, const char *const *parts)
{
    vd_moss_model *model;
    assert_int_equal(open_model(b, NULL, &model), status);
    assert_null(model);
    assert_string_equal(vd_error_reason(b->ctx), reason);
    for (; *parts; parts++)
        if (!strstr(vd_error_text(b->ctx), *parts))
            fail_msg("\"%s\" does not say \"%s\"", vd_error_text(b->ctx), *parts);
    vd_clear_error(b->ctx);
}

#define SAYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- Accepted ---- */

static void test_publisher(void **state) { assert_opens(*state, NULL, NULL); }

static void test_file_beside_config(void **state)
{
    bench *b = *state;
    assert_opens(b, b->weights, NULL);
}

static void test_pipeline_folder(void **state)
{
    bench *b = *state;
    assert_opens(b, TEST_DATA "/hostile/base/moss", NULL);
}

static void test_prefixes(void **state)
{
    add_prefix(*state, "model.diffusion_model.");
    assert_opens(*state, NULL, "info: ");
}

static void test_short_prefix_and_other_parts(void **state)
{
    bench *b = *state;
    drop(b, "rope.bands");
    add_prefix(b, "diffusion_model.");
    b->tensors[b->count++] = (vd_tensor){.name = "vae.decoder.bias", .type = VD_F32, .rank = 1, .shape = {1}, .data = b->tensors[0].data};
    assert_opens(b, NULL, "warning: ");
    assert_non_null(strstr(b->log, "1 tensors do not begin with diffusion_model."));
    assert_non_null(strstr(b->log, "recomputed from rope_base"));
}

static void test_fused_qkv(void **state)
{
    bench        *b    = *state;
    const int64_t dim  = 32, square = 2 * dim * dim;
    char         *data = vd_alloc(b->ctx, 2 * 3 * square, "fused weights");
    for (int layer = 0; layer < 2; layer++) {
        char name[64], *fused = data + layer * 3 * square;
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "layers.%d.proj.%c.weight", layer, "qkv"[i]);
            memcpy(fused + i * square, find(b, name)->data, (size_t)square);
            drop(b, name);
        }
        snprintf(name, sizeof name, "layers.%d.proj.qkv.weight", layer);
        b->tensors[b->count++] = (vd_tensor){.name = keep(b, name), .type = VD_BF16, .rank = 2, .shape = {3 * dim, dim}, .data = data};
        b->tensors[b->count - 1].data = fused;
    }
    assert_opens(b, NULL, "fused q, k, v");
    find(b, "layers.1.proj.qkv.weight")->shape[0] = 95;
    assert_refused(b, VD_BAD_FILE, "shape-mismatch", SAYS("layers.1.proj.qkv.weight is [95,32], must be [96,32]", "of another shape (1)"));
    vd_free(b->ctx, data);
}

static void test_fused_beside_its_parts(void **state)
{
    bench *b = *state;
    b->tensors[b->count] = *find(b, "layers.0.proj.q.weight");
    b->tensors[b->count++].name = "layers.0.proj.qkv.weight";
    assert_refused(b, VD_BAD_FILE, "unexpected-tensor", SAYS("unexpected (1): \"layers.0.proj.qkv.weight\""));
}

static void test_mlx_export(void **state)
{
    bench *b = *state;
    rename_tensor(b, "time_embedding.2.weight", "time_embedding.1.weight");
    rename_tensor(b, "time_embedding.2.bias", "time_embedding.1.bias");
    drop(b, "rope.bands");
    assert_opens(b, NULL, "time_embedding.1 for .2");
}

static void test_rounded_bands(void **state)
{
    bench         *b = *state;
    const uint16_t rounded[2] = {0x3f80, 0x3c24}; /* 1, 0.01 rounded to nearest even */
    *find(b, "rope.bands") = (vd_tensor){.name = "rope.bands", .type = VD_BF16, .rank = 1, .shape = {2}, .data = (void *)(uintptr_t)rounded};
    assert_opens(b, NULL, "rounded to BF16");
}

/* The published sizes' words, as the model's own definition gives them. */
static void test_band_words(void **state)
{
    static const uint32_t words[16] = {0x3f800000, 0x3f0ff59a, 0x3ea1e89b, 0x3e361887, 0x3dcccccd, 0x3d6655c2, 0x3d0186e3, 0x3c91ad39,
                                       0x3c23d70a, 0x3bb8449c, 0x3b4f3e38, 0x3ae91528, 0x3a83126f, 0x3a136a16, 0x39a5cb60, 0x393a7753};
    const vd_moss_config config = {.dim = 3072, .heads = 24, .rope_base = 10000};
    float                bands[16];
    (void)state;
    vd_rope_bands(config.rope_base, vd_moss_bands(&config), bands);
    assert_memory_equal(bands, words, sizeof words);
}

/* ---- Refused ---- */

static void test_wrong_bands(void **state)
{
    bench         *b = *state;
    const uint32_t bands[2] = {0x3f800000, 0x3c23d70b}; /* one unit in the last place */
    find(b, "rope.bands")->data = (void *)(uintptr_t)bands;
    assert_refused(b, VD_BAD_FILE, "rope-bands", SAYS("rope.bands[1] is 0x3c23d70b", "0x3c23d70a", "10000"));
    const uint16_t cut[2] = {0x3f80, 0x3c23};
    find(b, "rope.bands")->type = VD_BF16;
    find(b, "rope.bands")->data = (void *)(uintptr_t)cut;
    assert_refused(b, VD_BAD_FILE, "rope-bands", SAYS("0x3c230000"));
}

static void test_all_lists_in_one_message(void **state)
{
    bench *b = *state;
    drop(b, "layers.1.proj.o.weight");
    drop(b, "rope.bands");
    rename_tensor(b, "layers.0.proj.k.weight", "layers.0.proj.key.weight");
    find(b, "video_embedder.weight")->shape[0] = 31;
    find(b, "layers.0.norm1.weight")->type = VD_F16;
    assert_refused(b, VD_BAD_FILE, "missing-tensor",
                   SAYS("dim 32, ffn_dim 48, 2 heads, 2 layers", "missing (3): layers.0.proj.k.weight, layers.1.proj.o.weight, rope.bands",
                        "of another shape (1): video_embedder.weight is [31,16], must be [32,16]", "unexpected (1): \"layers.0.proj.key.weight\"",
                        "not BF16 (1): layers.0.norm1.weight is F16"));
}

static void test_other_dtypes(void **state)
{
    bench *b = *state;
    float  wide[32 * 16] = {0};
    find(b, "video_embedder.weight")->data = wide;
    find(b, "video_embedder.weight")->type = VD_F32;
    assert_refused(b, VD_UNSUPPORTED, "unsupported-dtype", SAYS("video_embedder.weight is F32", "Convert"));
}

static void test_another_rank(void **state)
{
    bench *b = *state;
    find(b, "final_norm_video.weight")->rank = 2;
    find(b, "final_norm_video.weight")->shape[1] = 1;
    assert_refused(b, VD_BAD_FILE, "shape-mismatch", SAYS("final_norm_video.weight is [32,1], must be [32]"));
}

static void test_lora(void **state)
{
    bench *b = *state;
    b->count = 0;
    b->tensors[b->count++] = (vd_tensor){.name = "diffusion_model.layers.0.proj.q.lora_A.weight", .type = VD_BF16, .rank = 2, .shape = {1, 1}, .data = b->folder};
    assert_refused(b, VD_BAD_FILE, "missing-tensor", SAYS("missing (63)", "and 51 more", "a LoRA"));
}

static void test_no_config(void **state)
{
    bench *b = *state;
    unlink(b->config);
    assert_refused(b, VD_BAD_FILE, "missing-config", SAYS("config.json does not exist"));
}

/* Sizes at the edge of what is read: no product overflows, nothing of that size is allocated. */
static void test_largest_sizes(void **state)
{
    bench      *b = *state;
    char        text[400];
    const char *head = "{\"_class_name\":\"MOSSImageTransformer\",\"rope_base\":10000,";
    snprintf(text, sizeof text, "%s\"dim\":%d,\"ffn_dim\":%d,\"num_heads\":%d,\"num_layers\":%d,\"text_dim\":%d,\"freq_dim\":%d,\"latent_channels\":%d}", head,
             VD_MOSS_MAX_DIM, VD_MOSS_MAX_FFN, VD_MOSS_MAX_DIM / 8, VD_MOSS_MAX_LAYERS, VD_MOSS_MAX_OTHER, VD_MOSS_MAX_OTHER, VD_MOSS_MAX_OTHER);
    assert_int_equal(vd_file_write_atomic(b->ctx, b->config, text, (int64_t)strlen(text)), VD_OK);
    assert_refused(b, VD_BAD_FILE, "missing-tensor", SAYS("4096 layers", "of another shape", "[1048576,1048576]"));
    vd_moss_model model = {0};
    assert_int_equal(vd_moss_config_read(b->ctx, b->config, &model.config), VD_OK);
    assert_true(vd_moss_weight_bytes(&model) > (int64_t)1 << 50);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_publisher),   CASE(test_file_beside_config), CASE(test_pipeline_folder), CASE(test_prefixes),    CASE(test_short_prefix_and_other_parts),
        CASE(test_fused_qkv),   CASE(test_fused_beside_its_parts), CASE(test_mlx_export),  CASE(test_rounded_bands), CASE(test_band_words),
        CASE(test_wrong_bands), CASE(test_all_lists_in_one_message), CASE(test_other_dtypes), CASE(test_another_rank), CASE(test_lora),
        CASE(test_no_config),   CASE(test_largest_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
