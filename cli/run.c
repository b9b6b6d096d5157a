/* verdit run: one forward, from files to files, with receipts. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* "b0.*" for several --tap options is one list for the library. */
static char *join(cli *c, const cli_texts *texts)
{
    size_t size = 1;
    for (int i = 0; i < texts->count; i++)
        size += strlen(texts->items[i]) + 1;
    char *list = cli_keep(c, size, 1);
    for (int i = 0; i < texts->count; i++) {
        strcat(list, i ? "," : "");
        strcat(list, texts->items[i]);
    }
    return list;
}

static void print_result(const cli *c, const vd_run_options *o)
{
    for (int i = 0; i < o->count; i++) {
        vd_tensors *file;
        if (vd_tensors_open(c->ctx, o->outputs[i], &file) != VD_OK)
            continue;
        cli_show(stdout, o->outputs[i]);
        fputs(":", stdout);
        const int64_t count = vd_tensors_count(file);
        for (int64_t k = 0; k < count && k < 6; k++) {
            const vd_tensor *t = vd_tensors_get(file, k);
            printf("%s %s %s [", k ? "," : "", t->name, vd_dtype_name(t->type));
            for (int d = 0; d < t->rank; d++)
                printf("%s%lld", d ? "," : "", (long long)t->shape[d]);
            fputs("]", stdout);
        }
        if (count > 6)
            printf(", … (%lld tensors)", (long long)count);
        puts("");
        vd_tensors_close(c->ctx, file);
    }
    printf("policy %s, arith %s, match %s", vd_policy_name(o->forward.policy), vd_arith_name(o->forward.arith), vd_match_name(o->forward.match));
    if (o->repeats > 1)
        printf("; %d runs gave the same bytes", o->repeats);
    printf("; receipt%s beside the output\n", o->count > 1 ? "s" : "");
}

static void set_beside(json_t *object, const char *output)
{
    const size_t size = strlen(output) + sizeof ".receipt.json";
    char        *path = cli_alloc(size, 1);
    snprintf(path, size, "%s.receipt.json", output);
    json_object_set_new(object, "receipt", cli_text(path));
    free(path);
}

static json_t *make_result(const vd_run_options *o)
{
    json_t *outputs = json_array();
    for (int i = 0; i < o->count; i++) {
        json_t *one = json_pack("{so}", "output", cli_text(o->outputs[i]));
        if (o->receipts)
            json_object_set_new(one, "receipt", cli_text(o->receipts[i]));
        else
            set_beside(one, o->outputs[i]);
        json_array_append_new(outputs, one);
    }
    return json_pack("{ss ss ss si so}", "policy", vd_policy_name(o->forward.policy), "arith", vd_arith_name(o->forward.arith), "match",
                     vd_match_name(o->forward.match), "repeats", o->repeats, "outputs", outputs);
}

int cli_run(cli *c, int argc, char **argv)
{
    cli_texts          inputs = {0}, outputs = {0}, receipts = {0}, taps = {0};
    cli_numbers        skip = {0}, rows = {0};
    const char        *from = NULL, *to = NULL;
    int64_t            size[2] = {0}, text_rows = 0, repeats = 1;
    bool               hash        = false;
    const cli_argument arguments[] = {
        {"--input", 'i', CLI_TEXTS, "FILE", .value = &inputs,
         .help = "safetensors: latents, text, t, or nodes by name; again for each sample of a batch"},
        {"--output", 'o', CLI_TEXTS, "FILE", .value = &outputs, .help = "safetensors to write, one per input"},
        {"--from", 0, CLI_TEXT, "NODE", .value = &from, .help = "the first node to compute; its rows come as x or under their name"},
        {"--to", 0, CLI_TEXT, "NODE", .value = &to, .help = "the last one (default velocity)"},
        {"--tap", 0, CLI_TEXTS, "NODES", .value = &taps, .help = "nodes to write too: --tap 'x.*,b2.q' (* is any run of characters)"},
        {"--skip", 0, CLI_LIST, "BLOCKS", 0, 1 << 20, &skip, .help = "blocks left out: --skip 22"},
        {"--rows", 0, CLI_LIST, "ROWS", 0, 1 << 24, &rows, .help = "only these joint rows leave the last block (image rows first, then text)"},
        {"--size", 0, CLI_SIZE, "HxW", 1, 65536, size, .help = "the latent's size where latents are not given"},
        {"--text-rows", 0, CLI_INTEGER, "T", 1, 1 << 24, &text_rows, .help = "text rows where text is not given"},
        {"--repeat", 0, CLI_INTEGER, "N", 1, 1000, &repeats, .help = "run N times and compare every byte"},
        {"--hash", 0, CLI_FLAG, .value = &hash, .help = "hash every weight file for the receipt (files up to 256 MB always are)"},
        {"--receipt", 0, CLI_TEXTS, "FILE", .value = &receipts, .help = "where the receipt goes (default OUTPUT.receipt.json), one per output"},
    };
    const cli_spec spec = {
        .usage     = "-m DIR -i FILE -o FILE [--from NODE] [--to NODE] [--tap NODES]",
        .about     = "Runs a model once: latents [C,h,w] F32, text [T,text_dim] BF16, t [1] F32 (1000 times sigma) in, velocity [C,h,w] F32 out.\n"
                     "Nodes: time, mod, head_mod, video, text.in, text.0, text.1, x.0 (rows entering block 0), x.N (after N blocks), velocity;\n"
                     "inside block N: bN.a .q .k .v .q_rot .k_rot .att .o .mid .b .ug .situ .down.\n"
                     "The bytes depend on inputs, weights, --policy, --arith and --match, on nothing else. Each output gets a receipt that\n"
                     "verdit verify can check on another machine.",
        .examples  = "  verdit run -m models/moss-small -i models/moss-small/case-bf16/inputs.safetensors -o /tmp/out.safetensors\n"
                     "  verdit run -m models/moss-small -i models/moss-small/case-bf16/inputs.safetensors -o /tmp/x3.safetensors --tap 'x.3,mod'\n"
                     "one block; its input file holds x.3 (or x), the rows entering block 3, and t or mod:\n"
                     "  verdit run -m models/moss-small -i /tmp/x3.safetensors -o /tmp/x4.safetensors --from b3.a --to x.4 --size 8x12 --match torch2.11-h200\n"
                     "a batch:\n"
                     "  verdit run -m models/moss-small -i models/moss-small/case-bf16/inputs.safetensors -o /tmp/a.safetensors \\\n"
                     "    -i models/moss-small/case-f32/inputs.safetensors -o /tmp/b.safetensors\n",
        .common    = CLI_WITH_MODEL | CLI_WITH_NUMBERS | CLI_WITH_DEVICE,
        .arguments = arguments,
        .argument_count = sizeof arguments / sizeof *arguments,
    };
    if (!cli_parse(c, &spec, argc, argv))
        return c->exit;
    if (!c->model)
        return cli_fail_usage(c, "-m is missing: the model's folder");
    if (!inputs.count || inputs.count != outputs.count)
        return cli_fail_usage(c, "%d inputs and %d outputs; give as many -o as -i, and at least one", inputs.count, outputs.count);
    if (receipts.count && receipts.count != outputs.count)
        return cli_fail_usage(c, "%d receipts for %d outputs; give one --receipt per output, or none", receipts.count, outputs.count);
    if (!cli_open(c))
        return c->exit;
    vd_run_options o;
    vd_run_options_init(&o);
    o.model                = c->model;
    o.inputs               = inputs.items;
    o.outputs              = outputs.items;
    o.receipts             = receipts.items;
    o.count                = inputs.count;
    o.forward.policy       = (vd_policy)c->policy;
    o.forward.arith        = (vd_arith)c->arith;
    o.forward.match        = (vd_match)c->match;
    o.forward.from         = from;
    o.forward.to           = to;
    o.forward.taps         = taps.count ? join(c, &taps) : NULL;
    o.h                    = size[0];
    o.w                    = size[1];
    o.text_rows            = text_rows;
    o.skip                 = skip.items;
    o.skip_count           = skip.count;
    o.rows                 = rows.items;
    o.row_count            = rows.count;
    o.repeats              = (int)repeats;
    o.hash_weights         = hash;
    o.command              = cli_command(c);
    const vd_status status = vd_run(c->ctx, &o);
    if (status != VD_OK)
        return cli_fail_library(c, status);
    cli_end_progress(c);
    if (c->json)
        cli_print_json(make_result(&o));
    else
        print_result(c, &o);
    return VD_OK;
}
