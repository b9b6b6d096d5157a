#include <math.h>
#include <stdio.h>
#include <string.h>

#include "contract/contract.h"
#include "gate/gate_job.h"
#include "gate/stats.h"

/* Ours: a share of the largest of K honest runs. Theirs: twice the wider of two. docs/gates.md says where each comes from. */
static const double limit_factor = 1.25, warn_factor = 1.10, torch_factor = 2.0;
/* The whole step, one-sided. */
static const double step_l2_factor = 1.10, step_row_factor = 1.25, step_quantile_factor = 1.15;
/* Below this a node is float32 work, where the order of a sum decides the last bits and K runs on one library say nothing about another's:
 * references count as at least this (a bf16 rounding is hundreds of times larger). A row error of e is a cosine error of about e²/2. */
static const double least_row = 8e-6, least_cosine = 3.2e-11;
static const double quantiles[5] = {0.5, 0.8, 0.9, 0.99, 1};

static double ratio_of(double value, double reference)
{
    return value <= 0 ? 0 : reference > 0 ? value / reference : INFINITY;
}

static double mark_value(const vd_case_mark *mark, bool rows) { return rows ? mark->worst_row : mark->cosine; }

static void judge_statistic(const vd_case *c, int64_t index, bool rows, double value, vd_gate_statistic *out)
{
    memset(out, 0, sizeof *out);
    out->value         = value;
    out->reference_run = out->torch_run = "";
    for (int64_t k = 0; k < c->run_count; k++) {
        const vd_case_run *run  = &c->runs[k];
        const double       mark = fmax(mark_value(&run->marks[index], rows), 0);
        if (run->limit && (mark > out->reference || !*out->reference_run))
            out->reference = mark, out->reference_run = run->name;
        if (run->torch && !run->cuda && (mark > out->torch || !*out->torch_run))
            out->torch = mark, out->torch_run = run->name;
    }
    const double least = rows ? least_row : least_cosine;
    if (out->reference < least)
        out->reference = least, out->reference_run = "float32";
    if (out->torch < least)
        out->torch = least, out->torch_run = "float32";
    out->limit       = limit_factor * out->reference;
    out->warn        = warn_factor * out->reference;
    out->ratio       = ratio_of(value, out->reference);
    out->torch_limit = torch_factor * out->torch;
    out->torch_share = ratio_of(value, out->torch_limit);
    out->verdict     = !(out->ratio <= limit_factor) ? VD_VERDICT_FAIL : out->ratio > warn_factor || out->torch_share > 1 ? VD_VERDICT_WARN : VD_VERDICT_PASS;
}

int64_t vd_count_other_values(const vd_tensor *a, const vd_tensor *b)
{
    const int64_t elements = vd_tensor_elements(a);
    if (a->type == b->type)
        return vd_count_differing(a->data, b->data, elements, vd_dtype_size(a->type), NULL);
    int64_t differ = 0;
    for (int64_t i = 0; i < elements; i++)
        differ += vd_bits(vd_load(a->data, a->type, i)) != vd_bits(vd_load(b->data, b->type, i));
    return differ;
}

static const char *explain(vd_gate_job *job, const vd_gate_node *n)
{
    char   text[1024] = "";
    size_t at = 0;
    const struct { const char *name; const vd_gate_statistic *s; } both[] = {{"cosine error", &n->cosine}, {"worst row", &n->worst_row}};
    if (n->distance.nonfinite)
        at += (size_t)snprintf(text + at, sizeof text - at, "elements not finite: %lld, first row %lld, channel %lld", (long long)n->distance.nonfinite,
                               (long long)n->distance.nonfinite_row, (long long)n->distance.nonfinite_col);
    if (n->repeat_differs)
        at += (size_t)snprintf(text + at, sizeof text - at, "%selements that differ in the second run: %lld", at ? "; " : "", (long long)n->repeat_differs);
    if (n->distance.zero_rows)
        at += (size_t)snprintf(text + at, sizeof text - at, "%srows that should be zero and are not: %lld", at ? "; " : "", (long long)n->distance.zero_rows);
    for (int i = 0; i < 2 && !n->distance.nonfinite; i++) {
        const vd_gate_statistic *s = both[i].s;
        if (s->verdict == VD_VERDICT_PASS)
            continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %.3g is %.2f times the largest of %lld runs (%s at %.2f)", at ? "; " : "", both[i].name, s->value, s->ratio,
                               (long long)job->result->limit_runs, s->verdict == VD_VERDICT_FAIL ? "fails" : "warns", s->verdict == VD_VERDICT_FAIL ? limit_factor : warn_factor);
        if (s->torch_share > 1)
            at += (size_t)snprintf(text + at, sizeof text - at, " and %.2f times twice torch's", s->torch_share);
        if (i == 1)
            at += (size_t)snprintf(text + at, sizeof text - at, ", row %lld", (long long)n->distance.worst_row_index);
    }
    return vd_keep_format(job->keep, "%s", text);
}

vd_status vd_judge_node(vd_gate_job *job, const vd_case_node *node, const vd_tensor *value, vd_gate_node *out)
{
    const vd_case *c     = job->c;
    const int64_t  index = node - c->nodes;
    float         *errors = vd_keep_alloc(job->keep, node->rows * (int64_t)sizeof(float), "row errors"),
          *reference = errors ? vd_keep_alloc(job->keep, node->rows * (int64_t)sizeof(float), "row errors") : NULL;
    if (!errors || !reference)
        return job->ctx->status;
    out->name = vd_keep_format(job->keep, "%s", node->name);
    out->rows = node->rows, out->cols = node->cols;
    out->type = value->type;
    vd_distance_measure(value->type, value->data, node->f, node->rows, node->cols, errors, &out->distance);
    judge_statistic(c, index, false, out->distance.cosine, &out->cosine);
    judge_statistic(c, index, true, out->distance.worst_row, &out->worst_row);
    out->bytes_differ = -1;
    for (int64_t k = 0; k < c->run_count; k++) {
        const vd_case_mark *mark = &c->runs[k].marks[index];
        for (int64_t i = 0; c->runs[k].limit && i < node->rows; i++)
            reference[i] = fmaxf(reference[i], mark->row_errors[i]);
        if (mark->bytes && !out->bytes_run) {
            out->bytes_run    = c->runs[k].name;
            out->bytes_differ = vd_count_other_values(value, mark->bytes);
        }
    }
    out->row_errors = errors, out->row_reference = reference;
    out->verdict    = out->cosine.verdict > out->worst_row.verdict ? out->cosine.verdict : out->worst_row.verdict;
    if (out->distance.nonfinite || out->distance.zero_rows || out->repeat_differs)
        out->verdict = VD_VERDICT_FAIL;
    out->why = explain(job, out);
    return out->name && out->why ? VD_OK : job->ctx->status;
}

/* Sorted row errors of one whole step against float32's. */
static void step_rows(const vd_case *c, vd_dtype type, const void *step, float *rows, vd_distance *out)
{
    vd_distance_measure(type, step, c->step_f, c->image_rows, c->config.latent_channels, rows, out);
    vd_sort_errors(rows, c->image_rows);
}

vd_status vd_judge_step(vd_gate_job *job, const vd_tensor *value, vd_gate_step *out)
{
    const vd_case *c    = job->c;
    float         *rows = vd_alloc(job->ctx, c->image_rows * (int64_t)sizeof *rows, "row errors");
    double         most[5] = {0};
    if (!rows)
        return job->ctx->status;
    out->bytes_differ = -1;
    for (int64_t k = 0; k < c->run_count; k++) {
        vd_distance distance;
        if (c->runs[k].step_bytes && !out->bytes_run) {
            out->bytes_run    = c->runs[k].name;
            out->bytes_differ = vd_count_other_values(value, c->runs[k].step_bytes);
        }
        if (!c->runs[k].limit)
            continue;
        step_rows(c, VD_F32, c->runs[k].step, rows, &distance);
        out->l2_reference        = fmax(out->l2_reference, distance.l2);
        out->worst_row_reference = fmax(out->worst_row_reference, distance.worst_row);
        for (int i = 0; i < 5; i++)
            most[i] = fmax(most[i], (double)vd_quantile(rows, c->image_rows, quantiles[i]));
    }
    step_rows(c, value->type, value->data, rows, &out->distance);
    out->l2_ratio        = ratio_of(out->distance.l2, out->l2_reference);
    out->worst_row_ratio = ratio_of(out->distance.worst_row, out->worst_row_reference);
    out->within          = out->l2_ratio <= step_l2_factor && out->worst_row_ratio <= step_row_factor;
    for (int i = 0; i < 5; i++) {
        out->quantile[i]       = (double)vd_quantile(rows, c->image_rows, quantiles[i]);
        out->quantile_ratio[i] = ratio_of(out->quantile[i], most[i]);
        out->within            = out->within && out->quantile_ratio[i] <= step_quantile_factor;
    }
    vd_free(job->ctx, rows);
    return VD_OK;
}
