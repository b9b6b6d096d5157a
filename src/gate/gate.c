/* vd_gate: opens case and model, runs every node alone twice and the whole step twice, judges, finds the cause, writes the reports. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "contract/contract.h"
#include "formats/file.h"
#include "gate/gate_job.h"
#include "gate/stats.h"
#include "models/model.h"

/* A result and everything that it points to. */
typedef struct owned_result {
    vd_gate_result result; /* first: the caller holds its address */
    vd_keep        keep;
} owned_result;

enum { HASH_BELOW = 256 << 20, MOST_FACTS = 64 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void vd_gate_options_init(vd_gate_options *options)
{
    memset(options, 0, sizeof *options);
    options->policy = -1;
}

const char *vd_verdict_name(vd_verdict verdict)
{
    return verdict == VD_VERDICT_PASS ? "pass" : verdict == VD_VERDICT_WARN ? "warn" : "fail";
}

/* ---- Model and weights ---- */

static vd_status compare_config(vd_context *ctx, const vd_case *c, const vd_moss_model *model)
{
    static const char *const names[] = {"dim", "ffn_dim", "num_heads", "num_layers", "text_dim", "freq_dim", "latent_channels"};
    const vd_moss_config    *a = &c->config, *b = &model->config;
    const int64_t            pairs[][2] = {{a->dim, b->dim}, {a->ffn_dim, b->ffn_dim}, {a->heads, b->heads}, {a->layers, b->layers}, {a->text_dim, b->text_dim},
                                           {a->freq_dim, b->freq_dim}, {a->latent_channels, b->latent_channels}};
    for (int i = 0; i < 7; i++)
        if (pairs[i][0] != pairs[i][1])
            return vd_fail(ctx, VD_BAD_FILE, "case-model", "%s: %s is %lld in the case and %lld in the model %s: this is not the model that was recorded, give it with -m", c->path,
                           names[i], (long long)pairs[i][0], (long long)pairs[i][1], model->path);
    if (a->rope_base != b->rope_base)
        return vd_fail(ctx, VD_BAD_FILE, "case-model", "%s: rope_base is %.17g in the case and %.17g in the model %s: this is not the model that was recorded, give it with -m",
                       c->path, a->rope_base, b->rope_base, model->path);
    return VD_OK;
}

/* Every weight file of the case must be the recorded one: by size always, by hash where that is quick or asked for. */
static vd_status check_weight(vd_gate_job *job, const vd_case_weight *weight, vd_gate_fact *fact)
{
    vd_context *ctx  = job->ctx;
    const char *path = NULL;
    vd_mapping  map  = {0};
    char        text[VD_HASH_TEXT] = "";
    for (int64_t i = 0; i < vd_tensors_file_count(job->model->files); i++)
        if (strcmp(vd_path_name(vd_tensors_file(job->model->files, i)), weight->file) == 0)
            path = vd_tensors_file(job->model->files, i);
    if (!path)
        return vd_fail(ctx, VD_BAD_FILE, "case-model", "%s: the case was recorded from a weight file %s, which the model %s does not have; give that model with -m", job->c->path,
                       vd_quote(weight->file).text, job->model->path);
    vd_status status = vd_file_map(ctx, path, &map);
    if (status == VD_OK && map.size != weight->bytes)
        status = vd_fail(ctx, VD_BAD_FILE, "case-model", "%s has %lld bytes; the case was recorded from %lld: give the recorded model with -m", path, (long long)map.size,
                         (long long)weight->bytes);
    const bool hash = status == VD_OK && (job->options->hash || map.size <= HASH_BELOW);
    if (hash)
        status = vd_hash_bytes(ctx, map.data, map.size, text);
    if (status == VD_OK && hash && strcmp(text, weight->sha256) != 0)
        status = vd_fail(ctx, VD_BAD_FILE, "case-model", "%s: SHA-256 is %s; the case was recorded from %s: the weights differ, give the recorded model with -m", path, text,
                         weight->sha256);
    vd_file_unmap(&map);
    if (status != VD_OK)
        return status;
    fact->name  = vd_keep_format(job->keep, "%s", weight->file);
    fact->value = vd_keep_format(job->keep, "%s: %lld bytes, SHA-256 %s", hash ? "hash" : "size", (long long)weight->bytes, weight->sha256);
    return fact->name && fact->value ? VD_OK : ctx->status;
}

static vd_status open_model(vd_gate_job *job, const char *model_path)
{
    const vd_case *c    = job->c;
    const char    *path = model_path ? model_path : c->model_path;
    if (!path)
        return vd_fail(job->ctx, VD_BAD_ARGUMENT, "case-model", "%s does not say where its model is; give the model's folder with -m", c->path);
    if (vd_moss_open(job->ctx, path, &job->model) != VD_OK || compare_config(job->ctx, c, job->model) != VD_OK)
        return job->ctx->status;
    vd_gate_fact *facts = vd_keep_alloc(job->keep, c->weight_count * (int64_t)sizeof *facts, "the list of weight files");
    if (!facts)
        return job->ctx->status;
    for (int64_t i = 0; i < c->weight_count; i++)
        if (check_weight(job, &c->weights[i], &facts[i]) != VD_OK)
            return job->ctx->status;
    job->result->weights = facts, job->result->weight_count = c->weight_count;
    job->result->model_path = vd_keep_format(job->keep, "%s", path);
    return job->result->model_path ? VD_OK : job->ctx->status;
}

/* ---- What the report tells beside the verdicts ---- */

static void add_fact(vd_gate_job *job, vd_gate_fact *facts, const char *name, char *value)
{
    if (value && job->result->fact_count < MOST_FACTS)
        facts[job->result->fact_count++] = (vd_gate_fact){vd_keep_format(job->keep, "%s", name), value};
}

static vd_status tell_facts(vd_gate_job *job)
{
    static const char *const files[] = {"inputs file", "nodes file", "runs file"};
    const vd_case           *c = job->c;
    const vd_moss_config    *m = &c->config;
    vd_keep                 *k = job->keep;
    const vd_moss_hooks     *h = job->fault ? vd_fault_hooks(job->fault) : NULL;
    vd_kernels               kernels;
    vd_gate_fact            *facts = vd_keep_alloc(k, MOST_FACTS * (int64_t)sizeof *facts, "a report's facts");
    if (!facts || vd_kernels_select(job->ctx, &kernels) != VD_OK)
        return job->ctx->status;
    job->result->facts = facts;
    add_fact(job, facts, "branch", vd_keep_format(k, "%s, step %lld", c->branch, (long long)c->step));
    add_fact(job, facts, "t", vd_keep_format(k, "%.9g (sigma %.9g), received as float32 0x%08x", (double)c->t, c->sigma, vd_bits(c->t)));
    add_fact(job, facts, "sizes", vd_keep_format(k, "latent %lld x %lld, %lld image rows + %lld text rows = %lld", (long long)c->h, (long long)c->w, (long long)c->image_rows,
                                                 (long long)c->text_rows, (long long)c->joint_rows));
    add_fact(job, facts, "model", vd_keep_format(k, "dim %lld, ffn_dim %lld, heads %lld, layers %lld, text_dim %lld, freq_dim %lld, latent_channels %lld", (long long)m->dim,
                                                 (long long)m->ffn_dim, (long long)m->heads, (long long)m->layers, (long long)m->text_dim, (long long)m->freq_dim,
                                                 (long long)m->latent_channels));
    char  *skip = vd_keep_alloc(k, 24 * c->skip_count + 8, "a report's facts");
    size_t at   = 0;
    for (int64_t i = 0; skip && i < c->skip_count; i++)
        at += (size_t)snprintf(skip + at, (size_t)(24 * c->skip_count + 8) - at, "%s%lld", i ? ", " : "", (long long)c->skip[i]);
    if (skip && c->skip_count == 0)
        snprintf(skip, 8, "none");
    add_fact(job, facts, "skipped blocks", skip);
    add_fact(job, facts, "norm eps", vd_keep_format(k, "%.9g in norms, %.9g in q and k norms%s", h && h->norm_eps != 0 ? (double)h->norm_eps : 1e-6,
                                                    h && h->qk_eps != 0 ? (double)h->qk_eps : 1e-6, h && (h->norm_eps != 0 || h->qk_eps != 0) ? " where planted" : ""));
    add_fact(job, facts, "rotary", vd_keep_format(k, "base %.9g, axes r f h w, %lld bands each, half-split, image rows at f = %lld",
                                                  job->fault ? vd_fault_model(job->fault)->config.rope_base : m->rope_base, (long long)vd_moss_bands(m), (long long)c->text_rows));
    add_fact(job, facts, "softmax scale", vd_keep_format(k, "1/sqrt(%lld)", (long long)vd_moss_head_dim(m)));
    add_fact(job, facts, "modulation order", vd_keep_format(k, "shift_a, scale_a, gate_a, shift_f, scale_f, gate_f; head: shift, scale"));
    add_fact(job, facts, "kernels", vd_keep_format(k, "cpu, level %s, %d threads; the second run one more", kernels.level, job->ctx->threads));
    add_fact(job, facts, "verdit", vd_keep_format(k, "%s", VERDIT_VERSION));
    for (int i = 0; i < 3; i++)
        add_fact(job, facts, files[i], vd_keep_format(k, "%s, SHA-256 %s", c->files[i].file, c->files[i].sha256));
    char        text[64];
    const char *name;
    for (int64_t i = 0; (name = vd_case_version(c, i, text)) != NULL && i < 32; i++)
        add_fact(job, facts, vd_keep_format(k, "recorded with %s", name), vd_keep_format(k, "%s", text));
    return job->ctx->status;
}

static vd_status tell_runs(vd_gate_job *job)
{
    const vd_case *c    = job->c;
    vd_gate_run   *runs = vd_keep_alloc(job->keep, c->run_count * (int64_t)sizeof *runs, "the report's runs");
    if (!runs)
        return job->ctx->status;
    for (int64_t k = 0; k < c->run_count; k++) {
        const vd_case_run *run = &c->runs[k];
        runs[k] = (vd_gate_run){.name = vd_keep_format(job->keep, "%s", run->name), .kind = run->torch ? "torch" : "mixed", .what = vd_keep_format(job->keep, "%s", run->what),
                                .device = run->cuda ? "cuda" : "cpu", .limit = run->limit, .step_l2 = run->step_l2, .step_cosine = run->step_cosine,
                                .step_worst_row = run->step_worst_row};
        if (!runs[k].name || !runs[k].what)
            return job->ctx->status;
    }
    job->result->runs = runs, job->result->run_count = c->run_count, job->result->limit_runs = c->limit_runs;
    return VD_OK;
}

/* An argument as a shell needs it. */
static char *quoted(vd_keep *keep, const char *text)
{
    if (*text && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=@%+:,") == strlen(text))
        return vd_keep_format(keep, "%s", text);
    char *out = vd_keep_alloc(keep, (int64_t)strlen(text) * 4 + 3, "a command");
    char *to  = out;
    if (!out)
        return NULL;
    *to++ = '\'';
    for (; *text; text++) {
        if (*text == '\'')
            memcpy(to, "'\\''", 4), to += 4;
        else
            *to++ = *text;
    }
    *to++ = '\'';
    return out;
}

static vd_status tell_command(vd_gate_job *job, const char *model_path)
{
    const vd_gate_options *o = job->options;
    char *c = quoted(job->keep, job->c->path), *m = model_path ? quoted(job->keep, model_path) : NULL, *p = o->plant ? quoted(job->keep, o->plant) : NULL;
    if (!c)
        return job->ctx->status;
    job->result->latent_height = job->c->h, job->result->latent_width = job->c->w;
    job->result->case_path     = vd_keep_format(job->keep, "%s", job->c->path);
    job->result->reproduce = vd_keep_format(job->keep, "verdit gate %s%s%s%s%s%s%s%s%s%s%s", c, m ? " -m " : "", m ? m : "", o->arith == VD_ARITH_TC16 ? "" : " --arith ",
                                            o->arith == VD_ARITH_TC16 ? "" : vd_arith_name(o->arith), o->match == VD_MATCH_NONE ? "" : " --match ",
                                            o->match == VD_MATCH_NONE ? "" : vd_match_name(o->match), p ? " --plant " : "", p ? p : "", o->hash ? " --hash" : "", o->node_only ? " --no-step" : "");
    return job->result->case_path && job->result->reproduce ? VD_OK : job->ctx->status;
}

/* ---- The work ---- */

/* The second run goes over one thread more: repeating bytes must not be an accident of how the work was cut. */
static vd_status run_again(vd_gate_job *job, const vd_case_node *node, bool planted, const char *wanted, vd_values *out)
{
    const int threads = job->ctx->threads;
    job->ctx->threads = threads < 1024 ? threads + 1 : threads - 1;
    const vd_status status = vd_run_node(job, node, 1, planted, wanted, NULL, out);
    job->ctx->threads = threads;
    return status;
}

static vd_status gate_node(vd_gate_job *job, const vd_case_node *node, bool planted, vd_gate_node *out)
{
    vd_values    first = {0}, second = {0};
    const double start  = now();
    vd_status    status = vd_run_node(job, node, 0, planted, node->name, NULL, &first);
    out->seconds        = now() - start;
    if (status == VD_OK)
        status = run_again(job, node, planted, node->name, &second);
    const vd_tensor *a = vd_values_find(&first, node->name), *b = vd_values_find(&second, node->name);
    if (status == VD_OK && (!a || !b || a->shape[0] != node->rows || a->shape[1] != node->cols))
        status = vd_fail(job->ctx, VD_INTERNAL, "gate", "node %s did not come out of the forward as [%lld, %lld]; please report this", node->name, (long long)node->rows,
                         (long long)node->cols);
    if (status == VD_OK) {
        out->repeat_differs = vd_count_other_values(a, b);
        status              = vd_judge_node(job, node, a, out);
    }
    vd_values_free(job->ctx, &first);
    vd_values_free(job->ctx, &second);
    return status;
}

static vd_status gate_step(vd_gate_job *job)
{
    vd_gate_step *out   = &job->result->step;
    vd_values     first = {0}, second = {0};
    const double  start  = now();
    vd_status     status = vd_run_node(job, NULL, 0, true, "velocity", NULL, &first);
    out->seconds         = now() - start;
    if (status == VD_OK)
        status = run_again(job, NULL, true, "velocity", &second);
    const vd_tensor *a = vd_values_find(&first, "velocity"), *b = vd_values_find(&second, "velocity");
    if (status == VD_OK && (!a || !b))
        status = vd_fail(job->ctx, VD_INTERNAL, "gate", "the whole step gave no velocity; please report this");
    if (status == VD_OK) {
        out->repeat_differs = vd_count_other_values(a, b);
        status              = vd_judge_step(job, a, out);
    }
    vd_values_free(job->ctx, &first);
    vd_values_free(job->ctx, &second);
    if (status == VD_OK && out->bytes_run) {
        for (const vd_gate_run *run = job->result->runs; run < job->result->runs + job->result->run_count; run++)
            if (strcmp(run->name, out->bytes_run) == 0)
                out->bytes_run = run->name;
    }
    return status;
}

/* Names of runs inside statistics belong to the case: the result needs its own. */
static const char *own_name(const vd_gate_result *result, const char *name)
{
    for (int64_t k = 0; name && k < result->run_count; k++)
        if (strcmp(result->runs[k].name, name) == 0)
            return result->runs[k].name;
    return name ? "float32" : NULL;
}

static vd_status gate_all(vd_gate_job *job)
{
    vd_gate_result *result = job->result;
    const vd_case  *c      = job->c;
    const int64_t   total = c->node_count + (job->options->node_only ? 0 : 1);
    job->nodes            = vd_keep_alloc(job->keep, c->node_count * (int64_t)sizeof *job->nodes, "the gate's nodes");
    if (!job->nodes)
        return job->ctx->status;
    result->nodes = job->nodes, result->first_failed = -1;
    for (int64_t i = 0; i < c->node_count; i++) {
        vd_gate_node *node = &job->nodes[i];
        if (vd_report_progress(job->ctx, "node", i, total) != VD_OK || gate_node(job, &c->nodes[i], true, node) != VD_OK)
            return job->ctx->status;
        vd_gate_statistic *statistics[] = {&node->cosine, &node->worst_row};
        for (int k = 0; k < 2; k++) {
            statistics[k]->reference_run = own_name(result, statistics[k]->reference_run);
            statistics[k]->torch_run     = own_name(result, statistics[k]->torch_run);
        }
        node->bytes_run = own_name(result, node->bytes_run);
        result->node_count++;
        result->passed += node->verdict == VD_VERDICT_PASS;
        result->warned += node->verdict == VD_VERDICT_WARN;
        result->failed += node->verdict == VD_VERDICT_FAIL;
        if (node->verdict == VD_VERDICT_FAIL && result->first_failed < 0)
            result->first_failed = i;
    }
    if (!job->options->node_only && (vd_report_progress(job->ctx, "node", c->node_count, total) != VD_OK || gate_step(job) != VD_OK))
        return job->ctx->status;
    result->verdict = result->failed || result->step.repeat_differs ? VD_VERDICT_FAIL : result->warned ? VD_VERDICT_WARN : VD_VERDICT_PASS;
    return vd_report_progress(job->ctx, "node", total, total);
}

/* Whether the run whose bytes the nodes are compared with is among those that set the limits. */
static bool sets_limits(const vd_gate_result *r)
{
    for (int64_t i = 0; i < r->node_count; i++)
        for (int64_t k = 0; r->nodes[i].bytes_run && k < r->run_count; k++)
            if (r->runs[k].limit && strcmp(r->runs[k].name, r->nodes[i].bytes_run) == 0)
                return true;
    return false;
}

/* A fault is caught where its node fails with it and holds without it: a node that fails anyway says nothing about the fault. */
static vd_status judge_catch(vd_gate_job *job)
{
    vd_gate_node without = {0};
    if (gate_node(job, &job->c->nodes[job->result->first_failed], false, &without) != VD_OK)
        return job->ctx->status;
    job->result->caught = without.verdict != VD_VERDICT_FAIL;
    job->fails_anyway   = !job->result->caught;
    return VD_OK;
}

static vd_status sum_up(vd_gate_job *job)
{
    vd_gate_result *r     = job->result;
    int64_t         equal = 0, compared = 0;
    double          most = 0;
    for (int64_t i = 0; i < r->node_count; i++) {
        most = fmax(most, fmax(r->nodes[i].cosine.ratio, r->nodes[i].worst_row.ratio));
        compared += r->nodes[i].bytes_differ >= 0;
        equal += r->nodes[i].bytes_differ == 0;
    }
    char bytes[192] = "";
    int  at         = 0;
    if (compared)
        at = snprintf(bytes, sizeof bytes, "; %lld of %lld equal the GPU's bytes", (long long)equal, (long long)compared);
    if (equal && sets_limits(r))
        snprintf(bytes + at, sizeof bytes - (size_t)at, " (that run is one of the %lld: a ratio up to 1 is no news)", (long long)r->limit_runs);
    if (r->failed) {
        const vd_gate_node *n = &r->nodes[r->first_failed];
        const char         *fail = r->failed == 1 ? "fails," : "fail, first";
        const bool          distance = !n->distance.nonfinite && (n->cosine.verdict == VD_VERDICT_FAIL || n->worst_row.verdict == VD_VERDICT_FAIL);
        if (distance)
            r->summary = vd_keep_format(job->keep, "%lld of %lld nodes %s %s: cosine × %.3g, row × %.3g (limit 1.25) against %lld honest runs",
                                        (long long)r->failed, (long long)r->node_count, fail, n->name, n->cosine.ratio, n->worst_row.ratio, (long long)r->limit_runs);
        else
            r->summary = vd_keep_format(job->keep, "%lld of %lld nodes %s %s: %s", (long long)r->failed, (long long)r->node_count, fail, n->name, n->why);
    } else if (r->verdict == VD_VERDICT_FAIL)
        r->summary = vd_keep_format(job->keep, "every node alone holds, but a second run of the whole step differs in %lld elements", (long long)r->step.repeat_differs);
    else
        r->summary = vd_keep_format(job->keep, "%lld of %lld nodes hold%s, largest ratio %.2f (limit 1.25) against %lld honest runs%s", (long long)(r->passed + r->warned),
                                    (long long)r->node_count, r->warned ? " with warnings" : "", most, (long long)r->limit_runs, bytes);
    if (job->fault && r->summary) {
        r->planted    = vd_fault_kind_of(job->fault);
        r->planted_at = vd_keep_format(job->keep, "%s", vd_fault_node(job->fault));
        if (r->planted_at && r->first_failed >= 0 && strcmp(r->nodes[r->first_failed].name, r->planted_at) == 0)
            return judge_catch(job);
    }
    return job->ctx->status;
}

static vd_status check_options(vd_context *ctx, const vd_gate_options *o, const vd_case *c)
{
    vd_forward_options forward;
    if (o->policy < -1 || o->policy >= VD_POLICY_COUNT)
        return vd_fail(ctx, VD_BAD_ARGUMENT, "options", "policy %d is no known value", o->policy);
    vd_forward_options_init(&forward);
    forward.policy = c->policy, forward.arith = o->arith, forward.match = o->match;
    if (vd_model_check_choices(ctx, &forward) != VD_OK)
        return ctx->status;
    if (o->policy >= 0 && o->policy != (int)c->policy)
        return vd_fail(ctx, VD_UNSUPPORTED, "policy", "%s was recorded for policy %s; it cannot judge %s, whose rounding points are others: record a case with --policy %s", c->path,
                       vd_policy_name(c->policy), vd_policy_name((vd_policy)o->policy), vd_policy_name((vd_policy)o->policy));
    return VD_OK;
}

vd_status vd_gate(vd_context *ctx, const char *case_path, const char *model_path, const vd_gate_options *options, vd_gate_result **out)
{
    vd_gate_options defaults;
    vd_gate_options_init(&defaults);
    *out = NULL;
    owned_result *owned = vd_alloc(ctx, sizeof *owned, "a gate's result");
    if (!owned)
        return ctx->status;
    owned->keep.ctx   = ctx;
    vd_gate_job  job  = {.ctx = ctx, .options = options ? options : &defaults, .result = &owned->result, .keep = &owned->keep};
    const double start = now();
    vd_status    status = vd_case_open(ctx, case_path, &job.c);
    if (status == VD_OK)
        status = check_options(ctx, job.options, job.c);
    if (status == VD_OK) {
        owned->result.policy = job.c->policy, owned->result.arith = job.options->arith, owned->result.match = job.options->match;
        status               = open_model(&job, model_path);
    }
    if (status == VD_OK)
        status = vd_gate_check_reports(&job);
    if (status == VD_OK && job.options->plant)
        status = vd_fault_open(ctx, job.options->plant, job.c, job.model, &job.fault);
    if (status == VD_OK)
        status = tell_command(&job, model_path);
    if (status == VD_OK)
        status = tell_runs(&job);
    if (status == VD_OK)
        status = tell_facts(&job);
    if (status == VD_OK)
        status = gate_all(&job);
    if (status == VD_OK)
        status = sum_up(&job);
    if (status == VD_OK)
        status = vd_find_cause(&job);
    owned->result.seconds = now() - start;
    if (status == VD_OK)
        status = vd_gate_write_reports(&job);
    vd_fault_close(ctx, job.fault);
    vd_moss_close(ctx, job.model);
    vd_case_close(ctx, job.c);
    if (status != VD_OK) {
        vd_gate_result_free(ctx, &owned->result);
        return status;
    }
    *out = &owned->result;
    return owned->result.verdict == VD_VERDICT_FAIL ? vd_fail(ctx, VD_FAILED, "gate", "%s: %s", case_path, owned->result.summary) : VD_OK;
}

void vd_gate_result_free(vd_context *ctx, vd_gate_result *result)
{
    owned_result *owned = (owned_result *)result;
    if (owned)
        vd_keep_free(&owned->keep);
    vd_free(ctx, owned);
}

void vd_gate_text_free(vd_context *ctx, char *text) { vd_free(ctx, text); }
