/* An audit recomputes single stages of a run: from the rows that entered a stage, as the output file has them, a few rows that left it.
 * Keys and values need all rows, everything else only the sampled ones, so a block costs about a quarter of itself, and blocks can be
 * audited one by one on any machine. What an audit shows: that the sampled rows of a stage follow from that stage's input. What enters
 * the first stage follows from the inputs; a node whose stage's input is not in the files is named as not audited. */
#include <stdio.h>
#include <string.h>

#include "audit/verify.h"
#include "models/moss_image/nodes.h"

enum { STAGE_FRONT = -1 }; /* stages: front, blocks 0 … layers-1, then the head as number `layers` */

typedef struct stage {
    int64_t    number;
    char      *taps; /* comma-separated targets */
    int64_t   *rows; /* union of the targets' sampled rows */
    int64_t    row_count;
    int64_t    targets, last; /* how many, and the node number of the last in order of execution */
    vd_tensor *inputs;
    int        input_count;
    int64_t    joint; /* a block's rows, as they enter; 0: not known */
} stage;

static int64_t layers_of(const vd_verification *v) { return vd_model_moss(v->model)->config.layers; }

static int64_t stage_of(const vd_verification *v, const char *name)
{
    const int64_t index = vd_moss_node_find(name, layers_of(v));
    int64_t       block;
    if (index < 0)
        return INT64_MIN;
    if (vd_moss_node_at(index, layers_of(v), &block) == VD_MOSS_VELOCITY)
        return layers_of(v);
    return block;
}

/* The name of the node that the input tensor `x` stands for in the recorded run; "" if for none. */
static void find_x(const vd_verification *v, char name[VD_MOSS_NODE_NAME])
{
    int64_t inputs[3], block;
    name[0] = 0;
    if (!v->receipt.from)
        return;
    const int64_t index = vd_moss_node_find(v->receipt.from, layers_of(v));
    if (index < 0)
        return;
    vd_moss_node_at(index, layers_of(v), &block);
    bool skipped = false;
    for (int64_t i = 0; i < v->receipt.skip_count; i++)
        skipped |= v->receipt.skip[i] == block;
    if (vd_moss_node_inputs(index, layers_of(v), skipped, inputs) > 0)
        vd_moss_node_name(inputs[0], layers_of(v), name);
}

static bool is_skipped(const vd_verification *v, int64_t block)
{
    for (int64_t i = 0; i < v->receipt.skip_count; i++)
        if (v->receipt.skip[i] == block)
            return true;
    return false;
}

/* What a stage may read: the run's inputs, the stream's rows that enter it, and modulations that the run wrote. */
static vd_status find_inputs(vd_verification *v, stage *s, bool *complete)
{
    char entering[VD_MOSS_NODE_NAME], x[VD_MOSS_NODE_NAME];
    snprintf(entering, sizeof entering, "x.%lld", (long long)s->number);
    find_x(v, x);
    s->inputs = vd_alloc(v->ctx, (v->input_count + 4) * (int64_t)sizeof *s->inputs, "a stage's inputs");
    if (!s->inputs)
        return v->ctx->status;
    *complete = s->number == STAGE_FRONT;
    for (int64_t i = 0; i < v->input_count; i++) {
        vd_tensor t = v->inputs[i];
        if (!strcmp(t.name, "x")) {
            if (!x[0])
                continue;
            t.name = !strcmp(x, entering) ? "x" : x; /* a name that outlives this call is needed below */
            if (strcmp(t.name, "x") != 0)
                continue;
        }
        *complete |= !strcmp(t.name, entering) || !strcmp(t.name, "x");
        s->inputs[s->input_count++] = t;
    }
    const bool        block    = s->number >= 0 && s->number < layers_of(v);
    const char *const wanted[] = {entering, "mod", "head_mod"};
    for (int i = s->number == STAGE_FRONT ? 3 : 0; i < 3; i++) {
        const vd_tensor *t = vd_tensors_find(v->output, wanted[i]);
        for (int k = 0; k < s->input_count && t; k++)
            if (!strcmp(s->inputs[k].name, wanted[i]))
                t = NULL;
        if (t) {
            s->inputs[s->input_count++] = *t;
            *complete |= i == 0;
        }
    }
    for (int i = 0; i < s->input_count && block; i++) {
        const vd_tensor *t = &s->inputs[i];
        if (t->rank >= 2 && (!strcmp(t->name, "x") || !strcmp(t->name, entering)))
            s->joint = t->shape[t->rank - 2];
    }
    return VD_OK;
}

/* Whether a tensor of the receipt is of this stage and of a shape to compare with: the file's, and in a block with the rows that enter it. */
static bool is_target(const vd_verification *v, const vd_receipt_tensor *said, const stage *s)
{
    const vd_tensor *t = vd_tensors_find(v->output, said->name);
    if (stage_of(v, said->name) != s->number || !t || !vd_verify_same_shape(said, t))
        return false;
    return s->joint == 0 || (said->rank == 2 && said->shape[0] == s->joint);
}

static vd_status find_targets(vd_verification *v, stage *s)
{
    const vd_receipt *r     = &v->receipt;
    int64_t           bytes = 1;
    for (int64_t i = 0; i < r->output_count; i++)
        bytes += (int64_t)strlen(r->outputs[i].name) + 1;
    s->taps = vd_alloc(v->ctx, bytes, "a list of nodes");
    s->rows = vd_alloc(v->ctx, r->output_count * VD_RECEIPT_ROWS * (int64_t)sizeof *s->rows, "a list of rows");
    if (!s->taps || !s->rows)
        return v->ctx->status;
    for (int64_t i = 0; i < r->output_count; i++) {
        const vd_receipt_tensor *t = &r->outputs[i];
        char what[256];
        snprintf(what, sizeof what, "rows of %.200s", t->name);
        if (stage_of(v, t->name) == s->number && !is_target(v, t, s) && vd_verify_note(v, false, what, "not computed: the shape cannot be right"))
            return v->ctx->status;
        if (!is_target(v, t, s))
            continue;
        s->last = vd_max(s->last, vd_moss_node_find(t->name, layers_of(v)));
        if (s->targets++)
            strcat(s->taps, ",");
        strcat(s->taps, t->name);
        for (int64_t k = 0; k < t->row_count; k++) {
            bool there = false;
            for (int64_t n = 0; n < s->row_count; n++)
                there |= s->rows[n] == t->rows[k].row;
            if (!there)
                s->rows[s->row_count++] = t->rows[k].row;
        }
    }
    return VD_OK;
}

/* How many of the receipt's sampled rows are other bytes in the output file than computed; `rows` as in vd_verify_rows, which came before. */
static vd_status compare_file(vd_verification *v, const vd_receipt_tensor *said, const vd_tensor *t, const int64_t *rows, int64_t row_count,
                              int64_t *wrong, int64_t *first)
{
    const vd_tensor *file  = vd_tensors_find(v->output, said->name);
    const int64_t    bytes = vd_row_bytes(t);
    char            *both  = vd_alloc(v->ctx, 2 * bytes, "two rows");
    *wrong = 0, *first = -1;
    for (int64_t i = 0; both && i < said->row_count; i++) {
        int64_t at = rows ? 0 : said->rows[i].row;
        while (rows && at + 1 < row_count && rows[at] != said->rows[i].row)
            at++;
        vd_row_copy(t, at, both);
        vd_row_copy(file, said->rows[i].row, both + bytes);
        if (memcmp(both, both + bytes, (size_t)bytes) != 0) {
            *first = *wrong ? *first : said->rows[i].row;
            ++*wrong;
        }
    }
    vd_free(v->ctx, both);
    return v->ctx->status;
}

static vd_status compare_stage(vd_verification *v, const stage *s, const vd_collection *values, bool chosen)
{
    const vd_receipt *r = &v->receipt;
    for (int64_t i = 0; i < r->output_count; i++) {
        const vd_receipt_tensor *said = &r->outputs[i];
        if (!is_target(v, said, s))
            continue;
        char             what[256];
        int64_t          wrong, first, other, other_first;
        const vd_tensor *t = vd_collection_find(values, said->name);
        snprintf(what, sizeof what, "rows of %.200s", said->name);
        const bool some = t && chosen && vd_rows_count(t) == s->row_count; /* keys and their like have all rows, which are more */
        if (!t || t->type != said->type || (some ? t->rank != 2 || t->shape[1] != said->shape[1] : !vd_verify_same_shape(said, t))) {
            if (vd_verify_note(v, false, what, "were not computed, or have another type or shape than in the receipt"))
                return v->ctx->status;
            continue;
        }
        if (vd_verify_rows(v, said, t, some ? s->rows : NULL, some ? s->row_count : 0, &wrong, &first) ||
            compare_file(v, said, t, some ? s->rows : NULL, some ? s->row_count : 0, &other, &other_first))
            return v->ctx->status;
        if (other && vd_verify_note(v, false, what, "%lld of %lld sampled rows are other bytes in the output file than computed here, the first is row %lld",
                                    (long long)other, (long long)said->row_count, (long long)other_first))
            return v->ctx->status;
        const vd_status status = other && !wrong ? VD_OK
                                 : wrong ? vd_verify_note(v, false, what, "%lld of %lld sampled rows differ, the first is row %lld", (long long)wrong,
                                                        (long long)said->row_count, (long long)first)
                                       : vd_verify_note(v, true, what, "%lld sampled rows have the same bytes", (long long)said->row_count);
        if (status != VD_OK)
            return status;
    }
    return VD_OK;
}

static vd_status run_stage(vd_verification *v, stage *s)
{
    const vd_receipt  *r      = &v->receipt;
    const int64_t      layers = layers_of(v);
    char               from[VD_MOSS_NODE_NAME], to[VD_MOSS_NODE_NAME];
    vd_collection      values = {0};
    vd_forward_options o;
    vd_forward_options_init(&o);
    o.policy = r->policy, o.arith = r->arith, o.match = r->match, o.taps = s->taps, o.from = from, o.to = to;
    const bool head = s->number == layers, front = s->number == STAGE_FRONT;
    snprintf(from, sizeof from,
             head                       ? "velocity"
             : front                    ? "time"
             : is_skipped(v, s->number) ? "x.%lld"
                                        : "b%lld.a",
             (long long)s->number + (is_skipped(v, s->number) ? 1 : 0));
    vd_moss_node_name(s->last, layers, to);
    /* Where the sampled rows are all there are, nothing is chosen: every node then has its rows in their natural order, keys and queries alike. */
    const bool      chosen = !head && !front && !is_skipped(v, s->number) && s->row_count < s->joint;
    const vd_sample sample = {.inputs      = s->inputs,
                              .input_count = s->input_count,
                              .h           = r->h,
                              .w           = r->w,
                              .text_rows   = r->text_rows,
                              .skip        = r->skip,
                              .skip_count  = (int)r->skip_count,
                              .rows        = chosen ? s->rows : NULL,
                              .row_count   = chosen ? s->row_count : 0};
    vd_status       status = vd_forward_collect(v->ctx, v->model, &o, &sample, 1, &values);
    status = status == VD_OK ? compare_stage(v, s, &values, chosen) : vd_verify_computed(v, status);
    vd_collection_free(v->ctx, &values);
    return status;
}

/* What the receipt says of its range must agree with what it says came out: else stages would be taken for what they were not. */
static vd_status check_sense(vd_verification *v, bool *sensible)
{
    const vd_receipt *r      = &v->receipt;
    const int64_t     layers = layers_of(v), last = vd_moss_node_count(layers) - 1;
    const int64_t     from = r->from ? vd_moss_node_find(r->from, layers) : 0, to = r->to ? vd_moss_node_find(r->to, layers) : last;
    bool              ends = false;
    *sensible              = from >= 0 && to >= from;
    if (!*sensible)
        return vd_verify_note(v, false, "range", "the receipt's from and to are no range of this model's nodes");
    for (int64_t i = 0; i < r->skip_count; i++)
        *sensible &= r->skip[i] < layers;
    if (!*sensible)
        return vd_verify_note(v, false, "range", "the receipt skips a block that this model does not have");
    for (int64_t i = 0; i < r->output_count; i++) {
        const char   *name  = r->outputs[i].name;
        const int64_t index = vd_moss_node_find(name, layers);
        const char   *fault = index < 0                                                    ? "is no node of this model"
                              : index < from || index > to                                 ? "is outside the receipt's range from … to"
                              : index != to && !vd_moss_name_matches(r->taps, name)        ? "is none that the receipt's taps name"
                                                                                           : NULL;
        char what[256];
        for (int64_t k = 0; k < i && !fault; k++)
            fault = strcmp(r->outputs[k].name, name) ? NULL : "is named twice";
        ends |= index == to;
        snprintf(what, sizeof what, "output %.200s", name);
        *sensible &= !fault;
        if (fault && vd_verify_note(v, false, what, "%s", fault))
            return v->ctx->status;
    }
    if (!ends && vd_verify_note(v, false, "range", "the node that the run ended with is not among the receipt's outputs"))
        return v->ctx->status;
    *sensible &= ends;
    return VD_OK;
}

vd_status vd_verify_audit(vd_verification *v)
{
    const int64_t layers  = layers_of(v);
    int64_t       audited = 0, missed = 0;
    char          missing[512] = "";
    if (v->receipt.row_count >= 0)
        return vd_fail(v->ctx, VD_UNSUPPORTED, "audit",
                       "%s: the run gave chosen rows only, so nothing follows from its output; repeat it instead (verify without --audit)", v->path);
    bool      sensible;
    vd_status status = check_sense(v, &sensible);
    if (status != VD_OK || !sensible)
        return status;
    for (int64_t n = STAGE_FRONT; status == VD_OK && n <= layers; n++) {
        stage s        = {.number = n};
        bool  complete = false;
        status         = find_inputs(v, &s, &complete);
        if (status == VD_OK)
            status = find_targets(v, &s);
        if (status == VD_OK && s.targets && complete) {
            status = run_stage(v, &s);
            audited += s.targets;
        } else if (status == VD_OK && s.targets) {
            const size_t used = strlen(missing);
            snprintf(missing + used, sizeof missing - used, "%s%s (needs x.%lld)", missed ? ", " : "", s.taps, (long long)n);
            missed += s.targets;
        }
        vd_free(v->ctx, s.taps);
        vd_free(v->ctx, s.rows);
        vd_free(v->ctx, s.inputs);
    }
    if (status != VD_OK)
        return status;
    if (!audited && v->result->held)
        return vd_fail(v->ctx, VD_UNSUPPORTED, "audit",
                       "%s: nothing can be audited: %s. Repeat the run (verify without --audit), or record with --tap 'x.*' so that each block can "
                       "be audited alone",
                       v->path, missing);
    return vd_verify_note(v, true, "coverage", "%lld of %lld nodes audited%s%s", (long long)audited, (long long)(audited + missed),
                          missed ? "; not: " : "", missing);
}
