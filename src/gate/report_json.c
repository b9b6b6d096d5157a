/* The result as JSON: docs/report.schema.json. A number that is not finite is null. */
#include <math.h>

#include "formats/file.h"
#include "formats/json.h"
#include "gate/gate_job.h"

/* Builds on while memory lasts; one look at `failed` at the end is enough. */
typedef struct builder {
    bool failed;
} builder;

static json_t *made(builder *b, json_t *value)
{
    b->failed |= value == NULL;
    return value;
}

static void put(builder *b, json_t *object, const char *key, json_t *value)
{
    b->failed |= json_object_set_new(object, key, made(b, value)) != 0;
}

static void add(builder *b, json_t *array, json_t *value) { b->failed |= json_array_append_new(array, made(b, value)) != 0; }
static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }
static json_t *integer(int64_t x) { return json_integer(x); }

/* Text from files may hold anything; what is not UTF-8 is left out rather than lost with the report. */
static json_t *text(const char *s)
{
    if (!s)
        return json_null();
    json_t *value = json_string(s);
    return value ? value : json_string("(not UTF-8)");
}

static json_t *statistic(builder *b, const vd_gate_statistic *s)
{
    json_t *o = made(b, json_object());
    put(b, o, "value", number(s->value));
    put(b, o, "ratio", number(s->ratio));
    put(b, o, "reference", number(s->reference));
    put(b, o, "reference_run", text(s->reference_run));
    put(b, o, "limit", number(s->limit));
    put(b, o, "warn", number(s->warn));
    put(b, o, "torch", number(s->torch));
    put(b, o, "torch_run", text(s->torch_run));
    put(b, o, "torch_limit", number(s->torch_limit));
    put(b, o, "torch_share", number(s->torch_share));
    put(b, o, "verdict", text(vd_verdict_name(s->verdict)));
    return o;
}

static json_t *bytes(builder *b, const char *run, int64_t differ)
{
    if (!run || differ < 0)
        return json_null();
    json_t *o = made(b, json_object());
    put(b, o, "run", text(run));
    put(b, o, "differ", integer(differ));
    put(b, o, "equal", json_boolean(differ == 0));
    return o;
}

static void put_distance(builder *b, json_t *o, const vd_distance *d)
{
    put(b, o, "l2", number(d->l2));
    put(b, o, "gain", number(d->gain));
    put(b, o, "bias", number(d->bias));
    put(b, o, "worst_row_index", integer(d->worst_row_index));
    put(b, o, "largest", number(d->largest));
    put(b, o, "largest_row", integer(d->largest_row));
    put(b, o, "largest_col", integer(d->largest_col));
    put(b, o, "nonfinite", integer(d->nonfinite));
}

static json_t *node(builder *b, const vd_gate_node *n)
{
    json_t *o = made(b, json_object());
    put(b, o, "name", text(n->name));
    put(b, o, "rows", integer(n->rows));
    put(b, o, "cols", integer(n->cols));
    put(b, o, "type", text(vd_dtype_name(n->type)));
    put(b, o, "verdict", text(vd_verdict_name(n->verdict)));
    put(b, o, "why", text(n->why));
    put(b, o, "cosine", statistic(b, &n->cosine));
    put(b, o, "worst_row", statistic(b, &n->worst_row));
    put_distance(b, o, &n->distance);
    put(b, o, "repeat_differs", integer(n->repeat_differs));
    put(b, o, "bytes", bytes(b, n->bytes_run, n->bytes_differ));
    put(b, o, "seconds", number(n->seconds));
    return o;
}

static json_t *step(builder *b, const vd_gate_step *s)
{
    static const char *const names[] = {"0.5", "0.8", "0.9", "0.99", "1"};
    if (s->seconds <= 0)
        return json_null();
    json_t *o = made(b, json_object()), *quantiles = made(b, json_object());
    put(b, o, "cosine", number(s->distance.cosine));
    put(b, o, "worst_row", number(s->distance.worst_row));
    put_distance(b, o, &s->distance);
    put(b, o, "l2_ratio", number(s->l2_ratio));
    put(b, o, "worst_row_ratio", number(s->worst_row_ratio));
    for (int i = 0; i < 5; i++) {
        json_t *q = made(b, json_object());
        put(b, q, "value", number(s->quantile[i]));
        put(b, q, "ratio", number(s->quantile_ratio[i]));
        put(b, quantiles, names[i], q);
    }
    put(b, o, "row_quantiles", quantiles);
    put(b, o, "within", json_boolean(s->within));
    put(b, o, "repeat_differs", integer(s->repeat_differs));
    put(b, o, "bytes", bytes(b, s->bytes_run, s->bytes_differ));
    put(b, o, "seconds", number(s->seconds));
    return o;
}

static json_t *run(builder *b, const vd_gate_run *r)
{
    json_t *o = made(b, json_object());
    put(b, o, "name", text(r->name));
    put(b, o, "kind", text(r->kind));
    put(b, o, "device", text(r->device));
    put(b, o, "what", text(r->what));
    put(b, o, "limit", json_boolean(r->limit));
    put(b, o, "step_l2", number(r->step_l2));
    put(b, o, "step_cosine", number(r->step_cosine));
    put(b, o, "step_worst_row", number(r->step_worst_row));
    return o;
}

static json_t *op(builder *b, const vd_gate_op *p)
{
    json_t *o = made(b, json_object()), *histogram = made(b, json_array());
    put(b, o, "node", text(p->node));
    put(b, o, "what", text(p->what));
    put(b, o, "elements", integer(p->ulps.elements));
    put(b, o, "differ", integer(p->ulps.differ));
    put(b, o, "rows", integer(p->ulps.rows));
    put(b, o, "columns", integer(p->ulps.cols));
    put(b, o, "largest_ulp", integer(p->ulps.largest));
    put(b, o, "mean_ulp", number(p->ulps.mean));
    for (int i = 0; i < 9; i++)
        add(b, histogram, integer(p->ulps.histogram[i]));
    put(b, o, "histogram", histogram);
    return o;
}

static json_t *planted(builder *b, const vd_gate_result *r)
{
    if (!r->planted)
        return json_null();
    json_t *o = made(b, json_object());
    put(b, o, "fault", text(r->planted->name));
    put(b, o, "what", text(r->planted->what));
    put(b, o, "how", text(r->planted->how));
    put(b, o, "node", text(r->planted_at));
    put(b, o, "caught", json_boolean(r->caught));
    return o;
}

static json_t *facts(builder *b, const vd_gate_fact *list, int64_t count)
{
    json_t *o = made(b, json_object());
    for (int64_t i = 0; i < count; i++)
        put(b, o, list[i].name, text(list[i].value));
    return o;
}

static json_t *report(builder *b, const vd_gate_result *r)
{
    json_t *o = made(b, json_object()), *limits = made(b, json_object()), *counts = made(b, json_object()), *list;
    put(b, o, "schema", text("verdit-report/1"));
    put(b, o, "verdict", text(vd_verdict_name(r->verdict)));
    put(b, o, "summary", text(r->summary));
    put(b, o, "case", text(r->case_path));
    put(b, o, "model", text(r->model_path));
    put(b, o, "reproduce", text(r->reproduce));
    put(b, o, "policy", text(vd_policy_name(r->policy)));
    put(b, o, "arith", text(vd_arith_name(r->arith)));
    put(b, o, "match", text(vd_match_name(r->match)));
    put(b, limits, "runs", integer(r->limit_runs));
    put(b, limits, "factor", json_real(1.25));
    put(b, limits, "warn", json_real(1.1));
    put(b, limits, "torch_factor", json_real(2));
    put(b, o, "limits", limits);
    put(b, counts, "nodes", integer(r->node_count));
    put(b, counts, "pass", integer(r->passed));
    put(b, counts, "warn", integer(r->warned));
    put(b, counts, "fail", integer(r->failed));
    put(b, o, "counts", counts);
    put(b, o, "first_failed", r->first_failed >= 0 ? text(r->nodes[r->first_failed].name) : json_null());
    put(b, o, "causes", list = json_array());
    for (int64_t i = 0; i < r->cause_count; i++)
        add(b, list, text(r->causes[i]));
    put(b, o, "planted", planted(b, r));
    put(b, o, "nodes", list = json_array());
    for (int64_t i = 0; i < r->node_count; i++)
        add(b, list, node(b, &r->nodes[i]));
    put(b, o, "operations", list = json_array());
    for (int64_t i = 0; i < r->op_count; i++)
        add(b, list, op(b, &r->ops[i]));
    put(b, o, "step", step(b, &r->step));
    put(b, o, "runs", list = json_array());
    for (int64_t i = 0; i < r->run_count; i++)
        add(b, list, run(b, &r->runs[i]));
    put(b, o, "facts", facts(b, r->facts, r->fact_count));
    put(b, o, "weights", facts(b, r->weights, r->weight_count));
    put(b, o, "seconds", number(r->seconds));
    return o;
}

static json_t *build(vd_context *ctx, const vd_gate_result *result)
{
    builder b = {false};
    json_t *o = report(&b, result);
    if (!b.failed)
        return o;
    json_decref(o);
    vd_fail(ctx, VD_NO_MEMORY, "no-memory", "no memory for the report's JSON");
    return NULL;
}

char *vd_gate_result_json(vd_context *ctx, const vd_gate_result *result)
{
    json_t *o    = build(ctx, result);
    int64_t size = 0;
    char   *out  = o ? vd_json_print(ctx, o, true, &size) : NULL;
    json_decref(o);
    return out;
}
