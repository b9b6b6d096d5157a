/* The conformance kit: inputs and right bytes for every operation and contract, for people with other backends. The bytes come from the
 * generic level, which calls the contracts' own definitions. Inputs are functions of names, so a kit is the same everywhere. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/op.h"
#include "contract/functions.h"
#include "core/hash.h"
#include "formats/file.h"
#include "formats/json.h"
#include "models/synthetic.h"

/* What a tensor is filled with. */
typedef enum filling {
    NORMAL,   /* -4 … 4 */
    UNIT,     /* -1 … 1 */
    WIDE,     /* exponents from 2^-20 to 2^20, both signs */
    SPECIAL,  /* NORMAL with, one in 32: NaN, Inf, -0, subnormals, the largest numbers */
    RARE,     /* SPECIAL, one in 256: longer sums keep some finite results */
    PATTERNS, /* BF16: all 65,536 bit patterns */
    ANGLES,   /* within the range of sin and cos */
    TIMES,    /* 0 … 1000 */
    SHARES    /* 0 … 1 */
} filling;

typedef struct kit_tensor {
    const char *name;
    vd_dtype    type;
    filling     fill;
    int         rank;
    int64_t     shape[3];
} kit_tensor;

enum { KIT_INPUTS = 5 };

typedef struct kit_case {
    const char   *name;   /* of its files; "linear-tc16-chain-tail" */
    const char   *shared; /* input file, if several cases share one */
    const char   *operation;
    vd_op_options options;
    kit_tensor    inputs[KIT_INPUTS]; /* until a NULL name */
} kit_case;

typedef struct kit {
    vd_context *ctx;
    const char *dir;
    vd_kernels  kernels;
    json_t     *cases;
    vd_names    written; /* to be removed when something fails */
} kit;

/* ---- Values ---- */

static float make_special(uint32_t pick)
{
    static const uint32_t specials[] = {0x7FC00000, 0xFFC10000, 0x7F800000, 0xFF800000, 0x80000000, 0x00000000, 0x00010000, 0x807F0000,
                                        0x00800000, 0x7F7F0000, 0xFF7F0000, 0x00400000, 0x80010000, 0x3F800000, 0xBF800000, 0x7F000000};
    return vd_float(specials[pick % 16]);
}

static float make_value(filling fill, int64_t i, int32_t v)
{
    const uint32_t u = (uint32_t)(v + 32768);
    switch (fill) {
    case UNIT: return (float)v * 0x1p-15f;
    case WIDE: return vd_float((u & 1) << 31 | (107 + (u >> 1) % 41) << 23 | ((u * 2654435761u) >> 9 & 0x7F0000));
    case SPECIAL: return u % 32 == 5 ? make_special(u >> 5) : (float)v * 0x1p-13f;
    case RARE: return u % 256 == 5 ? make_special(u >> 8) : (float)v * 0x1p-13f;
    case PATTERNS: return vd_from_bf16((uint16_t)i);
    case ANGLES: return i % 3 == 0 ? (float)v * 3.0f : i % 3 == 1 ? (float)v * 0x1p-10f : (float)v * 0x1p-15f;
    case TIMES: return i == 0 ? 1000.0f : i == 1 ? 0.0f : (float)u * 1000.0f * 0x1p-16f;
    case SHARES: return i == 0 ? 1.0f : (float)u * 0x1p-16f;
    case NORMAL: break;
    }
    return (float)v * 0x1p-13f;
}

/* NaN patterns must arrive as they are, so nothing is converted that need not be. */
static void fill_tensor(const kit_case *k, const kit_tensor *t, void *to, int64_t count)
{
    char name[128];
    snprintf(name, sizeof name, "kit.%s.%s", k->shared ? k->shared : k->name, t->name);
    const uint64_t base = vd_synth_base(vd_fnv1a(name), 1);
    for (int64_t i = 0; i < count; i++) {
        const float    x    = make_value(t->fill, i, vd_synth_value(base, i));
        const uint32_t bits = vd_bits(x);
        if (t->type == VD_F32) {
            memcpy((char *)to + 4 * i, &bits, 4);
        } else {
            const uint16_t half = t->fill == PATTERNS ? (uint16_t)i : x != x ? (uint16_t)(bits >> 16) : vd_to_bf16(x);
            memcpy((char *)to + 2 * i, &half, 2);
        }
    }
}

/* ---- One case ---- */

static vd_status remember(kit *k, const char *path) { return vd_names_add(k->ctx, &k->written, path); }

static vd_status write_tensors(kit *k, const char *file, const vd_tensor *tensors, int count, const char *const *metadata)
{
    char     *path   = vd_path_join(k->ctx, k->dir, file);
    vd_status status = path ? vd_tensors_write(k->ctx, path, tensors, count, metadata, NULL, NULL) : k->ctx->status;
    if (status == VD_OK)
        status = remember(k, path);
    vd_free(k->ctx, path);
    return status;
}

/* NULL without memory. */
static json_t *describe(const kit_case *k, const char *input, const char *output, const char *contract, const vd_tensor *out, const char *digits)
{
    const vd_op_options *o       = &k->options;
    json_t              *options = json_pack("{ss* ss* ss* ss*}", "out", o->out, "round", o->round, "form", o->form, "kind", o->kind);
    if ((o->eps > 0 && json_object_set_new(options, "eps", json_real(o->eps)) != 0) ||
        (o->dim && json_object_set_new(options, "dim", json_integer(o->dim)) != 0)) {
        json_decref(options);
        return NULL;
    }
    return json_pack("{ss ss ss so ss ss ss ss}", "name", k->name, "operation", k->operation, "contract", contract, "options", options, "input",
                     input, "output", output, "tensor", out->name, "sha256", digits);
}

static vd_status make_case(kit *k, const kit_case *c)
{
    vd_context   *ctx = k->ctx;
    vd_tensor     inputs[KIT_INPUTS], out = {0};
    char          input[128], output[128], contract[32], digits[VD_HASH_TEXT];
    int           count   = 0;
    vd_op_options options = c->options; /* a case without an eps takes the usual one */
    options.eps           = options.eps > 0 ? options.eps : 1e-6;
    snprintf(input, sizeof input, "%s.in.safetensors", c->shared ? c->shared : c->name);
    snprintf(output, sizeof output, "%s.out.safetensors", c->name);
    vd_status status = VD_OK;
    for (; status == VD_OK && count < KIT_INPUTS && c->inputs[count].name; count++) {
        const kit_tensor *t = &c->inputs[count];
        inputs[count]       = (vd_tensor){.name = t->name, .type = t->type, .rank = t->rank};
        memcpy(inputs[count].shape, t->shape, sizeof t->shape);
        inputs[count].data = vd_alloc(ctx, vd_tensor_bytes(&inputs[count]), "a kit's input");
        if (inputs[count].data)
            fill_tensor(c, t, inputs[count].data, vd_tensor_elements(&inputs[count]));
        else
            status = ctx->status;
    }
    if (status == VD_OK)
        status = vd_op_call(ctx, NULL, c->operation, &options, inputs, count, &out, contract);
    if (status == VD_OK && !(out.data = vd_alloc(ctx, vd_tensor_bytes(&out), "a kit's output")))
        status = ctx->status;
    if (status == VD_OK)
        status = vd_op_call(ctx, &k->kernels, c->operation, &options, inputs, count, &out, contract);
    if (status == VD_OK)
        status = vd_hash_bytes(ctx, out.data, vd_tensor_bytes(&out), digits);
    char *path = vd_path_join(ctx, k->dir, input);
    if (status == VD_OK && path && vd_path_find(path) == VD_PATH_NONE)
        status = write_tensors(k, input, inputs, count, NULL);
    if (status == VD_OK)
        status = write_tensors(k, output, &out, 1, (const char *const[]){"contract", contract, "operation", c->operation, NULL});
    if (status == VD_OK && json_array_append_new(k->cases, describe(c, input, output, contract, &out, digits)) != 0)
        status = vd_fail(ctx, VD_NO_MEMORY, "no-memory", "no memory for the kit's list");
    vd_free(ctx, path);
    vd_free(ctx, out.data);
    for (int i = 0; i < count; i++)
        vd_free(ctx, inputs[i].data);
    return status;
}

/* ---- The cases ---- */

static vd_status make_linears(kit *k)
{
    static const struct {
        const char *tag;
        int64_t     m, n, k;
        filling     fill;
        bool        bias;
        const char *out;
    } shapes[] = {
        {"k16", 1, 5, 16, NORMAL, false, NULL},   {"tail", 3, 7, 40, NORMAL, true, NULL},   {"leaves", 3, 5, 1040, NORMAL, false, "f32"},
        {"wide", 4, 4, 2048, WIDE, false, "f32"}, {"special", 8, 9, 48, RARE, true, "f32"}, {"tree", 3, 5, 1024, WIDE, true, NULL},
        {"odd", 2, 3, 517, NORMAL, false, "f32"},
    };
    static const struct {
        const char *contract, *tag;
        vd_dtype    x, w;
        int64_t     divides; /* K must be a multiple */
    } orders[] = {
        {"tc16/chain", "chain", VD_BF16, VD_BF16, 1},      {"tc16/fold512", "fold512", VD_BF16, VD_BF16, 1},
        {"tc16/split2", "split2", VD_BF16, VD_BF16, 2},    {"tc16/split4", "split4", VD_BF16, VD_BF16, 4},
        {"tc16/tree8", "tree8", VD_BF16, VD_BF16, 128},    {"fma/pair", "pair", VD_BF16, VD_BF16, 1},
        {"fma/chain", "fmachain", VD_F32, VD_F32, 1},      {"fma/fold512", "fmafold", VD_F32, VD_F32, 1},
        {"fma/fold512", "fmafoldw16", VD_F32, VD_BF16, 1},
    };
    vd_status status = VD_OK;
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        for (size_t s = 0; status == VD_OK && s < sizeof shapes / sizeof *shapes; s++) {
            if (shapes[s].k % orders[o].divides)
                continue;
            char     name[64];
            kit_case c = {.name      = name,
                          .operation = "linear",
                          .options   = {.contract = orders[o].contract, .out = shapes[s].out},
                          .inputs    = {{"x", orders[o].x, shapes[s].fill, 2, {shapes[s].m, shapes[s].k}},
                                        {"w", orders[o].w, shapes[s].fill, 2, {shapes[s].n, shapes[s].k}}}};
            if (shapes[s].bias)
                c.inputs[2] = (kit_tensor){"b", orders[o].w, NORMAL, 1, {shapes[s].n}};
            snprintf(name, sizeof name, "linear-%s-%s", orders[o].tag, shapes[s].tag);
            status = make_case(k, &c);
        }
    }
    return status;
}

static vd_status make_attentions(kit *k)
{
    static const struct {
        const char *tag;
        int64_t     h, m, s, d;
        filling     fill;
    } shapes[] = {{"short", 2, 3, 5, 32, NORMAL},
                  {"tiles", 1, 3, 300, 128, UNIT},
                  {"exact", 2, 2, 128, 128, NORMAL},
                  {"one", 1, 1, 1, 64, NORMAL},
                  {"special", 2, 4, 140, 32, RARE}};
    static const struct {
        const char *contract, *tag;
        vd_dtype    type;
    } orders[]       = {{"attn/k128", "k128", VD_BF16}, {"attn/k128/pair", "pair", VD_BF16}, {"attn/k128/f32", "f32", VD_F32}};
    vd_status status = VD_OK;
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        for (size_t s = 0; status == VD_OK && s < sizeof shapes / sizeof *shapes; s++) {
            char           name[64];
            const vd_dtype type = orders[o].type;
            const int64_t  h = shapes[s].h, m = shapes[s].m, keys = shapes[s].s, d = shapes[s].d;
            const kit_case c = {.name      = name,
                                .operation = "attention",
                                .options   = {.contract = orders[o].contract},
                                .inputs    = {{"q", type, shapes[s].fill, 3, {h, m, d}},
                                              {"k", type, shapes[s].fill, 3, {h, keys, d}},
                                              {"v", type, shapes[s].fill, 3, {h, keys, d}}}};
            snprintf(name, sizeof name, "attention-%s-%s", orders[o].tag, shapes[s].tag);
            status = make_case(k, &c);
        }
    }
    return status;
}

static vd_status make_rows(kit *k)
{
    static const kit_case cases[] = {
        {"rms_norm-128", NULL, "rms_norm", {0}, {{"x", VD_BF16, NORMAL, 2, {5, 128}}, {"w", VD_BF16, NORMAL, 1, {128}}}},
        {"rms_norm-3072", NULL, "rms_norm", {0}, {{"x", VD_BF16, NORMAL, 2, {2, 3072}}, {"w", VD_BF16, NORMAL, 1, {3072}}}},
        {"rms_norm-odd", NULL, "rms_norm", {.eps = 1e-5}, {{"x", VD_BF16, WIDE, 2, {3, 301}}, {"w", VD_BF16, NORMAL, 1, {301}}}},
        {"rms_norm-f32", NULL, "rms_norm", {0}, {{"x", VD_F32, NORMAL, 2, {3, 333}}, {"w", VD_BF16, NORMAL, 1, {333}}}},
        {"rms_norm-special", NULL, "rms_norm", {0}, {{"x", VD_BF16, RARE, 2, {16, 64}}, {"w", VD_BF16, RARE, 1, {64}}}},
        {"rms_norm-fused-128", NULL, "rms_norm", {.form = "fused"}, {{"x", VD_BF16, NORMAL, 2, {5, 128}}, {"w", VD_BF16, NORMAL, 1, {128}}}},
        {"rms_norm-fused-5376", NULL, "rms_norm", {.form = "fused"}, {{"x", VD_BF16, NORMAL, 2, {2, 5376}}, {"w", VD_BF16, NORMAL, 1, {5376}}}},
        {"rms_norm-fused-f32", NULL, "rms_norm", {.form = "fused"}, {{"x", VD_F32, NORMAL, 2, {3, 620}}, {"w", VD_F32, NORMAL, 1, {620}}}},
        {"norm_modulate-3072",
         NULL,
         "norm_modulate",
         {0},
         {{"x", VD_BF16, NORMAL, 2, {2, 3072}},
          {"w", VD_BF16, NORMAL, 1, {3072}},
          {"scale", VD_BF16, NORMAL, 1, {3072}},
          {"shift", VD_BF16, NORMAL, 1, {3072}}}},
        {"norm_modulate-f32",
         NULL,
         "norm_modulate",
         {.out = "bf16"},
         {{"x", VD_F32, NORMAL, 2, {3, 200}},
          {"w", VD_BF16, NORMAL, 1, {200}},
          {"scale", VD_F32, NORMAL, 1, {200}},
          {"shift", VD_F32, NORMAL, 1, {200}}}},
        {"norm_modulate-special",
         NULL,
         "norm_modulate",
         {0},
         {{"x", VD_BF16, RARE, 2, {9, 72}},
          {"w", VD_BF16, NORMAL, 1, {72}},
          {"scale", VD_BF16, SPECIAL, 1, {72}},
          {"shift", VD_BF16, SPECIAL, 1, {72}}}},
        {"rotary-128",
         NULL,
         "rotary",
         {0},
         {{"x", VD_BF16, NORMAL, 3, {3, 2, 128}}, {"cos", VD_BF16, UNIT, 2, {3, 128}}, {"sin", VD_BF16, UNIT, 2, {3, 128}}}},
        {"rotary-f32",
         NULL,
         "rotary",
         {0},
         {{"x", VD_F32, NORMAL, 3, {3, 2, 24}}, {"cos", VD_F32, UNIT, 2, {3, 24}}, {"sin", VD_F32, UNIT, 2, {3, 24}}}},
        {"rotary-f32-table",
         NULL,
         "rotary",
         {.round = "f32"},
         {{"x", VD_BF16, NORMAL, 3, {3, 2, 24}}, {"cos", VD_F32, UNIT, 2, {3, 24}}, {"sin", VD_F32, UNIT, 2, {3, 24}}}},
        {"rotary-special",
         NULL,
         "rotary",
         {0},
         {{"x", VD_BF16, SPECIAL, 3, {5, 3, 40}}, {"cos", VD_BF16, UNIT, 2, {5, 40}}, {"sin", VD_BF16, UNIT, 2, {5, 40}}}},
        {"situ-u-patterns", NULL, "situ", {0}, {{"u", VD_BF16, PATTERNS, 2, {256, 256}}, {"g", VD_BF16, NORMAL, 2, {256, 256}}}},
        {"situ-g-patterns", NULL, "situ", {0}, {{"u", VD_BF16, NORMAL, 2, {256, 256}}, {"g", VD_BF16, PATTERNS, 2, {256, 256}}}},
        {"situ-round-f32", NULL, "situ", {.round = "f32"}, {{"u", VD_BF16, SPECIAL, 2, {8, 101}}, {"g", VD_BF16, SPECIAL, 2, {8, 101}}}},
        {"situ-f32", NULL, "situ", {0}, {{"u", VD_F32, SPECIAL, 2, {8, 101}}, {"g", VD_F32, SPECIAL, 2, {8, 101}}}},
        {"gated_residual-bf16",
         NULL,
         "gated_residual",
         {0},
         {{"x", VD_BF16, NORMAL, 2, {7, 101}}, {"y", VD_BF16, NORMAL, 2, {7, 101}}, {"gate", VD_BF16, NORMAL, 1, {101}}}},
        {"gated_residual-f32",
         NULL,
         "gated_residual",
         {0},
         {{"x", VD_F32, NORMAL, 2, {7, 101}}, {"y", VD_BF16, NORMAL, 2, {7, 101}}, {"gate", VD_F32, NORMAL, 1, {101}}}},
        {"gated_residual-no-gate", NULL, "gated_residual", {0}, {{"x", VD_BF16, WIDE, 2, {7, 101}}, {"y", VD_BF16, WIDE, 2, {7, 101}}}},
        {"gated_residual-special",
         NULL,
         "gated_residual",
         {0},
         {{"x", VD_BF16, SPECIAL, 2, {17, 40}}, {"y", VD_BF16, SPECIAL, 2, {17, 40}}, {"gate", VD_BF16, SPECIAL, 1, {40}}}},
        {"sinusoid-moss", NULL, "sinusoid", {.kind = "moss"}, {{"t", VD_F32, TIMES, 1, {12}}}},
        {"sinusoid-moss-34", NULL, "sinusoid", {.kind = "moss", .dim = 34}, {{"t", VD_F32, TIMES, 1, {3}}}},
        {"sinusoid-h3", NULL, "sinusoid", {.kind = "h3"}, {{"t", VD_F32, SHARES, 1, {12}}}},
    };
    vd_status status = VD_OK;
    for (size_t i = 0; status == VD_OK && i < sizeof cases / sizeof *cases; i++)
        status = make_case(k, &cases[i]);
    return status;
}

static vd_status make_functions(kit *k)
{
    static const char *const names[] = {"silu", "tanh", "sigmoid", "exp", "softplus", "ex2", "rsq", "rcp", "sin", "cos"};
    vd_status                status  = VD_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const bool angle = i >= 8;
        char       bf16[32], f32[32];
        snprintf(bf16, sizeof bf16, "%s-bf16", names[i]);
        snprintf(f32, sizeof f32, "%s-f32", names[i]);
        const kit_case cases[] = {
            {bf16, angle ? "angles-bf16" : "patterns-bf16", names[i], {0}, {{"x", VD_BF16, angle ? ANGLES : PATTERNS, 2, {angle ? 16 : 256, 256}}}},
            {f32, angle ? "angles-f32" : "values-f32", names[i], {0}, {{"x", VD_F32, angle ? ANGLES : SPECIAL, 2, {41, 101}}}},
        };
        for (int t = 0; t < 2 && status == VD_OK; t++)
            status = make_case(k, &cases[t]);
    }
    return status;
}

/* ---- The whole ---- */

static const char readme[] =
    "# Conformance kit\n"
    "\n"
    "Inputs and right bytes for single operations of diffusion transformers, each under a named contract: a fixed order of sums and a fixed\n"
    "place for every rounding. They let you check a backend of your own without weights and without Verdit.\n"
    "\n"
    "`manifest.json` lists the cases: `operation`, `contract` (a name and a version), `options`, the `input` file, the `output` file, the name of "
    "the\n"
    "output `tensor`, and the SHA-256 of its bytes. Files are safetensors; everything is row-major.\n"
    "\n"
    "    for every case:\n"
    "        compute the operation from the tensors in `input`\n"
    "        compare with `tensor` in `output`, byte for byte\n"
    "\n"
    "Bytes, not tolerances: -0 and +0 differ. Every NaN is 0x7FFFFFFF in F32 and 0x7FFF in BF16. `patterns` inputs hold all 65,536 BF16 numbers;\n"
    "`special` inputs hold NaN, infinities, zeros of both signs, subnormals and the largest numbers; `tail`, `odd` and `k16` have sizes that are no\n"
    "multiple of a tile. A case that differs tells where to look: if only `special` cases differ, it is the corner cases; if only `leaves`, `wide` "
    "and\n"
    "`tree` cases differ, it is the order of the sum.\n"
    "\n"
    "With Verdit at hand, `verdit op OPERATION -i INPUT -o MINE.safetensors --contract CONTRACT …` gives the same bytes for inputs of your own.\n";

static vd_status write_text(kit *k, const char *file, const char *text)
{
    char     *path   = vd_path_join(k->ctx, k->dir, file);
    vd_status status = path ? vd_file_write_atomic(k->ctx, path, text, (int64_t)strlen(text)) : k->ctx->status;
    if (status == VD_OK)
        status = remember(k, path);
    vd_free(k->ctx, path);
    return status;
}

static vd_status write_manifest(kit *k)
{
    json_t *manifest = json_pack("{si ss ss sO}", "schema", 1, "kind", "verdit-kit", "library", VERDIT_VERSION, "cases", k->cases);
    char   *text     = manifest ? vd_json_print(k->ctx, manifest, true, NULL) : NULL;
    if (!manifest)
        vd_fail(k->ctx, VD_NO_MEMORY, "no-memory", "no memory for the kit's list");
    const vd_status status = text ? write_text(k, "manifest.json", text) : k->ctx->status;
    vd_free(k->ctx, text);
    json_decref(manifest);
    return status;
}

vd_status vd_op_write_kit(vd_context *ctx, const char *dir)
{
    vd_clear_error(ctx);
    kit k = {.ctx = ctx, .dir = dir};
    if (mkdir(dir, 0777) != 0)
        return errno == EEXIST ? vd_fail(ctx, VD_IO, "exists", "%s is already there; a kit is made in a new folder", dir)
                               : vd_fail(ctx, VD_IO, "make-folder", "%s: the folder could not be made: %s", dir, strerror(errno));
    vd_kernels_init_cpu(&k.kernels, VD_CPU_GENERIC);
    k.cases                           = json_array();
    vd_status (*const parts[])(kit *) = {make_linears, make_attentions, make_rows, make_functions};
    vd_status status                  = VD_OK;
    for (int i = 0; i < 4 && status == VD_OK; i++) {
        status = vd_report_progress(ctx, "parts", i, 4);
        if (status == VD_OK)
            status = parts[i](&k);
    }
    if (status == VD_OK)
        status = write_text(&k, "README.md", readme);
    if (status == VD_OK)
        status = write_manifest(&k);
    if (status != VD_OK) {
        for (int64_t i = 0; i < k.written.count; i++)
            unlink(k.written.names[i]);
        rmdir(dir);
    }
    vd_names_free(ctx, &k.written);
    json_decref(k.cases);
    return status;
}
