/* verdit gate: a verdict for every node of a case. */
#include "cli.h"

#include <math.h>
#include <string.h>

static void print_faults(const cli *c)
{
    json_t              *list = json_array();
    const vd_gate_fault *fault;
    for (int i = 0; (fault = vd_gate_list_fault(i)); i++) {
        if (c->json)
            json_array_append_new(list,
                                  json_pack("{ss ss ss ss}", "name", fault->name, "what", fault->what, "place", fault->place, "how", fault->how));
        else
            printf("%-18s %s\n%-18s   where: %s\n", fault->name, fault->what, "", fault->place);
    }
    if (c->json)
        cli_print_json(list);
    else
        json_decref(list);
}

static const char *describe_bytes(char text[48], const char *run, int64_t differ)
{
    if (!run || differ < 0)
        return "-";
    if (differ)
        snprintf(text, 48, "%lld differ", (long long)differ);
    else
        snprintf(text, 48, "equal");
    return text;
}

static void print_node(const vd_gate_node *n)
{
    char bytes[48];
    printf("%-10s %-7s  %9.2e  %8.2f  %9.2e  %6.2f  %10.2f  %s\n", n->name, n->verdict == VD_VERDICT_FAIL ? "FAIL" : vd_verdict_name(n->verdict),
           n->cosine.value, n->cosine.ratio, n->worst_row.value, n->worst_row.ratio, fmax(n->cosine.torch_share, n->worst_row.torch_share),
           describe_bytes(bytes, n->bytes_run, n->bytes_differ));
    if (n->why && *n->why) {
        fputs("           ", stdout);
        cli_show(stdout, n->why);
        puts("");
    }
}

static void print_step(const vd_gate_step *s)
{
    char bytes[48];
    printf("whole step, told and not gated: l2 error %.2e (%.2f ×), worst row %.2e (%.2f ×), %s; GPU's bytes: %s\n", s->distance.l2, s->l2_ratio,
           s->distance.worst_row, s->worst_row_ratio, s->within ? "no farther from float32 than honest runs" : "farther from float32 than honest runs",
           describe_bytes(bytes, s->bytes_run, s->bytes_differ));
    if (s->repeat_differs)
        printf("  a second run differs in %lld elements: that fails\n", (long long)s->repeat_differs);
}

static void print_result(const vd_gate_result *r, bool with_step)
{
    fputs("case   ", stdout);
    cli_show(stdout, r->case_path);
    fputs("\nmodel  ", stdout);
    cli_show(stdout, r->model_path);
    printf("\npolicy %s, arith %s, match %s; limits from %lld honest runs\n\n", vd_policy_name(r->policy), vd_arith_name(r->arith),
           vd_match_name(r->match), (long long)r->limit_runs);
    if (r->planted)
        printf("PLANTED %s: %s; must show at %s\n\n", r->planted->name, r->planted->what, r->planted_at);
    puts("node       verdict     cosine  cosine ×  worst row   row ×  of 2×torch  bytes of the recorded GPU run");
    for (int64_t i = 0; i < r->node_count; i++)
        print_node(&r->nodes[i]);
    if (with_step)
        print_step(&r->step);
    printf("×: the ratio to the largest of the %lld honest runs' values, fails above 1.25; of 2×torch: the share of twice torch's own distance\n\n",
           (long long)r->limit_runs);
    for (int64_t i = 0; i < r->op_count; i++)
        printf("  %-10s %-38s %lld of %lld elements differ, largest %lld ulp\n", r->ops[i].node, r->ops[i].what, (long long)r->ops[i].ulps.differ,
               (long long)r->ops[i].ulps.elements, (long long)r->ops[i].ulps.largest);
    for (int64_t i = 0; i < r->cause_count; i++) {
        fputs("  ", stdout);
        cli_show(stdout, r->causes[i]);
        puts("");
    }
    if (r->first_failed >= 0)
        printf("  again: %s\n", r->reproduce);
    printf("%lld passed, %lld warned, %lld failed. ", (long long)r->passed, (long long)r->warned, (long long)r->failed);
    cli_show(stdout, r->summary);
    puts("");
    if (r->planted)
        printf("the planted fault was %s\n", r->caught ? "caught where it was planted" : "NOT caught where it was planted");
}

int cli_gate(cli *c, int argc, char **argv)
{
    const char     *case_path = NULL, *policy = NULL;
    bool            node_only = false;
    vd_gate_options o;
    vd_gate_options_init(&o);
    const cli_argument arguments[] = {
        {"--model", 'm', CLI_TEXT, "DIR", .value = &c->model, .help = "the model (default: where the case says)"},
        {"--policy", 0, CLI_TEXT, "bf16|f32|f32-situ", .value = &policy, .help = "must be the case's (default)"},
        {"--arith", 0, CLI_CHOICE, "tc16|fma", .value = &c->arith, .help = "bf16 products: tc16 (default) or fma"},
        {"--match", 0, CLI_CHOICE, "none|torch2.11-h200", .value = &c->match, .help = "few-row linears as cuBLAS splits them"},
        {"--html", 0, CLI_TEXT, "FILE", .value = &o.html_path, .help = "write the report as one self-contained page"},
        {"--report", 0, CLI_TEXT, "FILE", .value = &o.json_path, .help = "write the report as JSON (--json prints it instead)"},
        {"--plant", 0, CLI_TEXT, "FAULT[@PLACE]", .value = &o.plant, .help = "plant a fault, which must be caught there; --plant list shows them"},
        {"--no-step", 0, CLI_FLAG, .value = &node_only, .help = "leave the whole step out"},
        {"--hash", 0, CLI_FLAG, .value = &o.hash, .help = "hash weight files above 256 MB too"},
    };
    const cli_argument positionals[] = {{"CASE", 0, CLI_TEXT, .value = &case_path, .optional = true, .help = "a case's folder (docs/cases.md)"}};
    const cli_spec     spec          = {
                     .usage     = "CASE [-m DIR] [--html FILE] [--plant FAULT[@PLACE]]",
                     .about     = "Runs every node of a recorded case alone and judges its distance to float32 against honest runs of the published module.\n"
                                               "Says which nodes equal a GPU's bytes, where recorded. On failure: the first wrong node and the likely cause.\n"
                                               "Exit 0: every node held. 1: one did not.",
                     .examples  = "  verdit gate models/moss-small/case-bf16\n"
                                               "  verdit gate models/moss-small/case-f32 --html /tmp/report.html\n"
                                               "  verdit gate models/moss-small/case-bf16 --plant row-5%@b3   # must fail, and there\n",
                     .common    = CLI_WITH_DEVICE,
                     .arguments = arguments,
                     .argument_count   = sizeof arguments / sizeof *arguments,
                     .positionals      = positionals,
                     .positional_count = 1,
    };
    if (!cli_parse(c, &spec, argc, argv))
        return c->exit;
    if (o.plant && !strcmp(o.plant, "list")) {
        print_faults(c);
        return VD_OK;
    }
    if (!case_path)
        return cli_fail_usage(c, "CASE is missing: a case's folder");
    vd_policy chosen;
    if (policy && !vd_policy_find(policy, &chosen))
        return cli_fail_usage(c, "--policy is '%s'; it must be one of: bf16 f32 f32-situ", policy);
    if (!cli_open(c))
        return c->exit;
    if (policy)
        o.policy = (int)chosen;
    o.arith     = (vd_arith)c->arith;
    o.match     = (vd_match)c->match;
    o.node_only = node_only;
    vd_gate_result *result;
    const vd_status status = vd_gate(c->ctx, case_path, c->model, &o, &result);
    cli_end_progress(c);
    if (!result)
        return cli_fail_library(c, status);
    if (c->json) {
        char *text = vd_gate_result_json(c->ctx, result);
        if (text)
            fputs(text, stdout);
        vd_gate_text_free(c->ctx, text);
    } else {
        print_result(result, !node_only);
    }
    vd_gate_result_free(c->ctx, result);
    return (int)status;
}
