/* verdit op: one operation alone, the list of them, or the conformance kit. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static int list_operations(const cli *c)
{
    int          count;
    const vd_op *ops  = vd_op_list(&count);
    json_t      *list = json_array();
    for (int i = 0; i < count && c->json; i++)
        json_array_append_new(
            list, json_pack("{ss ss ss ss}", "name", ops[i].name, "inputs", ops[i].inputs, "output", ops[i].output, "contracts", ops[i].contracts));
    if (c->json) {
        cli_print_json(list);
        return VD_OK;
    }
    json_decref(list);
    for (int i = 0; i < count; i++)
        printf("%-15s %s -> %s\n%-15s   %s\n", ops[i].name, ops[i].inputs, ops[i].output, "", ops[i].contracts);
    return VD_OK;
}

static int run_operation(cli *c, const char *name, const vd_op_options *o, const char *input, const char *output)
{
    vd_tensors *file;
    vd_tensor   out = {0};
    char        contract[32];
    vd_status   status = vd_tensors_open(c->ctx, input, &file);
    if (status != VD_OK)
        return cli_fail_library(c, status);
    status = vd_output_check(c->ctx, output, &input, 1);
    if (status != VD_OK) {
        vd_tensors_close(c->ctx, file);
        return cli_fail_library(c, status);
    }
    const int  count  = (int)vd_tensors_count(file);
    vd_tensor *inputs = cli_alloc((size_t)count, sizeof *inputs);
    for (int i = 0; i < count; i++)
        inputs[i] = *vd_tensors_get(file, i);
    status = vd_op_plan(c->ctx, name, o, inputs, count, &out, contract);
    if (status == VD_OK) {
        out.data = cli_alloc((size_t)vd_tensor_bytes(&out), 1);
        status   = vd_op_run(c->ctx, name, o, inputs, count, &out, contract);
    }
    const char *const metadata[] = {"contract", contract, "operation", name, NULL};
    if (status == VD_OK)
        status = vd_tensors_write(c->ctx, output, &out, 1, metadata, NULL, NULL);
    free(out.data);
    free(inputs);
    vd_tensors_close(c->ctx, file);
    if (status != VD_OK)
        return cli_fail_library(c, status);
    if (c->json) {
        json_t *shape = json_array();
        for (int i = 0; i < out.rank; i++)
            json_array_append_new(shape, json_integer(out.shape[i]));
        cli_print_json(json_pack("{ss ss so ss ss so}", "operation", name, "contract", contract, "output", cli_text(output), "tensor", out.name,
                                 "dtype", vd_dtype_name(out.type), "shape", shape));
        return VD_OK;
    }
    cli_show(stdout, output);
    printf(": %s %s [", out.name, vd_dtype_name(out.type));
    for (int i = 0; i < out.rank; i++)
        printf("%s%lld", i ? "," : "", (long long)out.shape[i]);
    printf("], %s under %s\n", name, contract);
    return VD_OK;
}

int cli_op(cli *c, int argc, char **argv)
{
    const char   *name = NULL, *input = NULL, *output = NULL, *kit = NULL;
    bool          list = false;
    vd_op_options o;
    vd_op_options_init(&o);
    const cli_argument arguments[] = {
        {"--input", 'i', CLI_TEXT, "FILE", .value = &input, .help = "safetensors with the operation's inputs by name"},
        {"--output", 'o', CLI_TEXT, "FILE", .value = &output, .help = "safetensors to write"},
        {"--contract", 0, CLI_TEXT, "ID", .value = &o.contract, .help = "the order of its sums: tc16/chain, fma/fold512, … (verdit op --list)"},
        {"--out", 0, CLI_TEXT, "bf16|f32", .value = &o.out, .help = "the output's type (default: the data's)"},
        {"--round", 0, CLI_TEXT, "bf16|f32", .value = &o.round, .help = "the type after each inner operation of norm_modulate, rotary, situ"},
        {"--form", 0, CLI_TEXT, "cast-before-weight|fused", .value = &o.form, .help = "rms_norm's form (default cast-before-weight)"},
        {"--eps", 0, CLI_NUMBER, "E", 0, 1, &o.eps, .help = "of the norms (default 1e-6)"},
        {"--kind", 0, CLI_TEXT, "moss|h3", .value = &o.kind, .help = "the sinusoid's (default moss)"},
        {"--dim", 0, CLI_INTEGER, "N", 2, 65536, &o.dim, .help = "the sinusoid's width (default 256)"},
        {"--list", 0, CLI_FLAG, .value = &list, .help = "list operations, inputs and contracts"},
        {"--kit", 0, CLI_TEXT, "DIR", .value = &kit, .help = "write the conformance kit: inputs and right bytes of every operation"},
    };
    const cli_argument positionals[] = {
        {"NAME", 0, CLI_TEXT, .value = &name, .optional = true, .help = "linear, attention, rms_norm, … (verdit op --list)"}};
    const cli_spec spec = {
        .usage            = "NAME -i FILE -o FILE [--contract ID] [--out bf16|f32] …",
        .about            = "Computes one operation under a named contract; the bytes are the same on every machine.\n"
                            "--kit writes what another backend needs to check itself against the contracts.",
        .examples         = "  verdit op --kit /tmp/kit\n"
                            "  verdit op linear -i /tmp/kit/linear-chain-k16.in.safetensors -o /tmp/y.safetensors --contract tc16/chain\n"
                            "  verdit op rms_norm -i /tmp/kit/rms_norm-fused-128.in.safetensors -o /tmp/n.safetensors --form fused --eps 1e-6\n",
        .common           = CLI_WITH_DEVICE,
        .arguments        = arguments,
        .argument_count   = sizeof arguments / sizeof *arguments,
        .positionals      = positionals,
        .positional_count = 1,
    };
    if (!cli_parse(c, &spec, argc, argv))
        return c->exit;
    if (list)
        return list_operations(c);
    if (kit && (name || input || output))
        return cli_fail_usage(c, "--kit writes every operation; it takes no NAME, -i or -o");
    if (!kit && (!name || !input || !output))
        return cli_fail_usage(c, "%s is missing", !name ? "the operation's NAME" : !input ? "-i" : "-o");
    if (!cli_open(c))
        return c->exit;
    if (!kit)
        return run_operation(c, name, &o, input, output);
    const vd_status status = vd_op_write_kit(c->ctx, kit);
    if (status != VD_OK)
        return cli_fail_library(c, status);
    cli_end_progress(c);
    if (c->json)
        cli_print_json(json_pack("{so}", "kit", cli_text(kit)));
    else
        printf("%s: conformance kit; README.md there says how to use it\n", kit);
    return VD_OK;
}
