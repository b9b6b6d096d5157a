/* The likely cause of a failure: the first failing node is run again with everything inside it kept, each operation is repeated by the true
 * model from the candidate's own inputs, and what is off is described: rows, channels, size, shape. Sentences, most telling first. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "contract/contract.h"
#include "gate/gate_job.h"
#include "gate/stats.h"

enum { MOST_CAUSES = 16, BLOCK_OPS = 14 };

/* What is known about the failing node. */
typedef struct findings {
    vd_gate_job         *job;
    const vd_case_node  *node;
    const vd_gate_node  *judged;
    vd_values            values;      /* the candidate's, inside the node too */
    vd_values            truth;       /* the true model's value of the node */
    const vd_tensor     *y;
    float               *base;        /* [rows, cols] what y should be: the true model's value, or float32's where that fails as well */
    bool                 against_truth;
    float               *rows, *channels, *sorted;
    double              *scratch;
    vd_error_shape       shape;
    vd_ulps              ulps;        /* y against the true model's value */
    int64_t              off, off_image, off_text; /* rows that are off */
    vd_gate_op          *ops;
    int64_t              op_count, first_op;
    const char         **causes;
    int64_t              cause_count;
} findings;

static void say(findings *f, char *sentence)
{
    if (sentence && f->cause_count < MOST_CAUSES)
        f->causes[f->cause_count++] = sentence;
}

/* ---- Operations ---- */

static const struct { const char *inner, *what, *suspect; } block_ops[BLOCK_OPS] = {
    {"a", "norm and modulation before attention", "eps or weight of the block's first norm, or shift and scale of its modulation"},
    {"q", "q projection", "the q weight (stale, permuted, another block's), or the order and precision of its sums"},
    {"k", "k projection", "the k weight (stale, permuted, another block's), or the order and precision of its sums"},
    {"v", "v projection", "the v weight (stale, permuted, another block's), or the order and precision of its sums"},
    {"q_rot", "head norm and rotary of q", "rotary (pair, convention, base, axis, positions), the q norm's eps or weight, or a scale folded into q"},
    {"k_rot", "head norm and rotary of k", "rotary (pair, convention, base, axis, positions), or the k norm's eps or weight"},
    {"att", "attention", "mask (a padding key, a row left out), softmax scale, or order of heads"},
    {"o", "attention's output projection", "the o weight, head offsets, or the order and precision of its sums"},
    {"mid", "attention residual", "the attention's gate, or the residual"},
    {"b", "norm and modulation before the FFN", "eps or weight of the block's second norm, or shift and scale of its modulation"},
    {"ug", "up and gate projection", "the up_gate weight, its halves exchanged, or the order and precision of its sums"},
    {"situ", "SiTU", "the activation: its constants, roundings, or another function"},
    {"down", "down projection", "the ffn_down weight (stale, permuted), or partial sums in reduced precision"},
    {"x", "FFN residual", "the FFN's gate, the residual, a block left out or run twice, or rows overwritten behind the block"},
};

static const char *suspect_of_node(const char *name)
{
    if (strcmp(name, "time") == 0)
        return "the timestep's type, its sinusoid (order of sine and cosine, precision), or the time MLP";
    if (strcmp(name, "mod") == 0 || strcmp(name, "head_mod") == 0)
        return "the modulation's weight, or the order of its rows";
    if (strcmp(name, "video") == 0)
        return "order of latent rows or channels, or the embedder's weight";
    if (strcmp(name, "text.in") == 0)
        return "order of text rows, or the projection's weight";
    if (strcmp(name, "velocity") == 0)
        return "final norm, head modulation, sign, or channel order";
    return "the text block: norms, mask, positions, halves of its FFN, or weights";
}

static vd_status add_op(findings *f, const char *name, const char *what, const vd_kernels *kernels)
{
    vd_context      *ctx   = f->job->ctx;
    vd_gate_op      *op    = &f->ops[f->op_count];
    const vd_tensor *mine  = vd_values_find(&f->values, name);
    vd_values        right = {0};
    if (!mine)
        return vd_fail(ctx, VD_INTERNAL, "gate", "%s did not come out of the failing node's run; please report this", name);
    vd_status        status = vd_replay_op(f->job, f->node, &f->values, name, kernels, &right);
    const vd_tensor *theirs = vd_values_find(&right, name);
    if (status == VD_OK && theirs && theirs->type == mine->type) {
        op->node = vd_keep_format(f->job->keep, "%s", name);
        op->what = what;
        vd_ulps_measure(mine->type, mine->data, theirs->data, mine->shape[0], mine->shape[1], &op->ulps);
        if (op->ulps.differ && f->first_op < 0)
            f->first_op = f->op_count;
        f->op_count++;
        status = op->node ? VD_OK : ctx->status;
    }
    vd_values_free(ctx, &right);
    return status;
}

static vd_status replay(findings *f, const vd_kernels *kernels)
{
    const char *name = f->node->name;
    vd_status   status = VD_OK;
    f->op_count = 0, f->first_op = -1;
    if (f->node->block < 0) {
        if (strcmp(name, "mod") == 0 || strcmp(name, "head_mod") == 0)
            status = add_op(f, "time", "sinusoid and time MLP", kernels);
        return status == VD_OK ? add_op(f, name, strcmp(name, "velocity") == 0 ? "final norm, modulation and linear" : "the whole node", kernels) : status;
    }
    for (int i = 0; i < BLOCK_OPS && status == VD_OK; i++) {
        char op[32];
        if (i == BLOCK_OPS - 1)
            snprintf(op, sizeof op, "%s", name);
        else
            snprintf(op, sizeof op, "b%lld.%s", (long long)f->node->block, block_ops[i].inner);
        status = add_op(f, op, block_ops[i].what, kernels);
    }
    return status;
}

/* The level's own kernels first; where they repeat every byte and the node is small, the definition itself has the last word. */
static vd_status replay_ops(findings *f)
{
    const vd_moss_config *m = &f->job->c->config;
    vd_status             status = replay(f, NULL);
    const double          work = (double)f->node->rows * ((double)m->dim * (4 * (double)m->dim + 3 * (double)m->ffn_dim) + 2 * (double)f->node->rows * (double)m->dim);
    if (status == VD_OK && f->first_op < 0 && work < 1e9) {
        vd_kernels generic;
        vd_kernels_init_cpu(&generic, VD_CPU_GENERIC);
        status = replay(f, &generic);
    }
    return status;
}

static bool op_differs(const findings *f, const char *inner)
{
    char name[32];
    snprintf(name, sizeof name, "b%lld.%s", (long long)f->node->block, inner);
    for (int64_t i = 0; i < f->op_count; i++)
        if (strcmp(f->ops[i].node, name) == 0)
            return f->ops[i].ulps.differ != 0;
    return false;
}

/* ---- What is off ---- */

static float median_of(findings *f, const float *values, int64_t n)
{
    memcpy(f->sorted, values, (size_t)n * sizeof *values);
    vd_sort_errors(f->sorted, n);
    return vd_quantile(f->sorted, n, 0.5);
}

/* A row that carries one of the network's few huge values: its peak is far above the other rows'. */
static bool is_massive(findings *f, int64_t row)
{
    const int64_t cols = f->node->cols;
    float         peak = 0;
    for (int64_t i = 0; i < f->node->rows; i++) {
        f->rows[i] = 0;
        for (int64_t j = 0; j < cols; j++)
            f->rows[i] = fmaxf(f->rows[i], fabsf(f->node->f[i * cols + j]));
    }
    peak = f->rows[row];
    return peak > 5 * median_of(f, f->rows, f->node->rows);
}

static char *row_place(findings *f, int64_t row)
{
    const vd_case *c = f->job->c;
    vd_keep       *k = f->job->keep;
    const bool     joint = f->node->rows == c->joint_rows, text = strncmp(f->node->name, "text", 4) == 0;
    if (f->node->rows <= VD_MOSS_MOD_ROWS)
        return vd_keep_format(k, "row %lld", (long long)row);
    const char *massive = is_massive(f, row) ? ", a massive row" : "";
    if (text || (joint && row >= c->image_rows))
        return vd_keep_format(k, "row %lld (text row %lld%s)", (long long)row, (long long)(text ? row : row - c->image_rows), massive);
    return vd_keep_format(k, "row %lld (image row at y %lld, x %lld%s)", (long long)row, (long long)(row / c->w), (long long)(row % c->w), massive);
}

static vd_status measure(findings *f)
{
    vd_context      *ctx  = f->job->ctx;
    const int64_t    rows = f->node->rows, cols = f->node->cols;
    const vd_tensor *truth;
    vd_distance      distance;
    f->base     = vd_alloc(ctx, rows * cols * (int64_t)sizeof(float), "what a node should be");
    f->rows     = f->base ? vd_alloc(ctx, rows * (int64_t)sizeof(float), "row errors") : NULL;
    f->channels = f->rows ? vd_keep_alloc(f->job->keep, cols * (int64_t)sizeof(float), "channel errors") : NULL;
    f->sorted   = f->channels ? vd_alloc(ctx, vd_max(rows, cols) * (int64_t)sizeof(float), "sorted errors") : NULL;
    f->scratch  = f->sorted ? vd_alloc(ctx, 2 * (rows + cols) * (int64_t)sizeof(double), "an error's shape") : NULL;
    if (!f->scratch || vd_run_node(f->job, f->node, 0, false, f->node->name, NULL, &f->truth) != VD_OK)
        return ctx->status;
    truth = vd_values_find(&f->truth, f->node->name);
    if (!truth || truth->type != f->y->type)
        return vd_fail(ctx, VD_INTERNAL, "gate", "%s did not come out of the true model; please report this", f->node->name);
    vd_ulps_measure(f->y->type, f->y->data, truth->data, rows, cols, &f->ulps);
    f->against_truth = f->ulps.differ != 0;
    for (int64_t i = 0; i < rows * cols; i++)
        f->base[i] = f->against_truth ? vd_load(truth->data, truth->type, i) : f->node->f[i];
    vd_distance_measure(f->y->type, f->y->data, f->base, rows, cols, f->rows, &distance);
    for (int64_t i = 0; i < rows; i++) {
        const double allowed = (f->against_truth ? 0.5 : 1.25) * (double)f->judged->row_reference[i];
        if ((double)f->rows[i] <= allowed)
            continue;
        f->off++;
        if (rows == f->job->c->joint_rows)
            *(i < f->job->c->image_rows ? &f->off_image : &f->off_text) += 1;
    }
    vd_channel_errors(f->y->type, f->y->data, f->base, rows, cols, f->channels);
    vd_error_shape_measure(f->y->type, f->y->data, f->base, rows, cols, f->scratch, &f->shape);
    return VD_OK;
}

/* Image rows near the latent's centre against those far from it: the largest relative error of the nearer and the farther half. */
static bool grows_outwards(const findings *f, double *inner, double *outer)
{
    const vd_case *c = f->job->c;
    double         sum[2] = {0}, count[2] = {0};
    if (f->node->block < 0 || c->h < 4 || c->w < 4)
        return false;
    for (int64_t i = 0; i < c->image_rows; i++) {
        const double y = ((double)(i / c->w) - (double)(c->h - 1) / 2) / ((double)c->h / 2), x = ((double)(i % c->w) - (double)(c->w - 1) / 2) / ((double)c->w / 2);
        const int    far = y * y + x * x > 0.6;
        sum[far] += (double)f->rows[i] * (double)f->rows[i];
        count[far]++;
    }
    *inner = count[0] > 0 ? sqrt(sum[0] / count[0]) : 0;
    *outer = count[1] > 0 ? sqrt(sum[1] / count[1]) : 0;
    return *outer > 1.5 * *inner;
}

/* ---- Sentences ---- */

static void say_pattern(findings *f)
{
    const vd_gate_result *r = f->job->result;
    int64_t               blocks = 0, failed_blocks = 0;
    for (int64_t i = 0; i < r->node_count; i++) {
        blocks += f->job->c->nodes[i].block >= 0;
        failed_blocks += f->job->c->nodes[i].block >= 0 && r->nodes[i].verdict == VD_VERDICT_FAIL;
    }
    if (failed_blocks == blocks && blocks > 2)
        say(f, vd_keep_format(f->job->keep, "every block fails: suspect what all share, namely eps, softmax scale, the rotary table, the order of modulation, or accumulation in reduced precision"));
    else if (r->failed == 1 && strcmp(f->node->name, "velocity") == 0)
        say(f, vd_keep_format(f->job->keep, "all blocks hold and the head fails: suspect the final norm, the head's modulation, the sign, or the order of channels"));
    else if (r->failed > 1)
        say(f, vd_keep_format(f->job->keep, "%lld of %lld nodes fail, %lld of %lld blocks among them", (long long)r->failed, (long long)r->node_count, (long long)failed_blocks,
                              (long long)blocks));
    else
        say(f, vd_keep_format(f->job->keep, "no other node fails"));
}

/* A few columns of a value that is made of heads: which head and pair, and the rotary axis that the pair belongs to. */
static void say_columns(const findings *f, const vd_gate_op *op, char *where, size_t room)
{
    const vd_moss_config *m = &f->job->c->config;
    const int64_t         d = vd_moss_head_dim(m), column = op->ulps.first_col, pair = column % d % (d / 2);
    if (f->node->block < 0 || op->ulps.cols > 4)
        return;
    if (strstr(op->node, "_rot"))
        snprintf(where, room, "; head %lld, pair %lld: axis %c, band %lld", (long long)(column / d), (long long)pair, "rfhw"[pair / vd_moss_bands(m) % 4],
                 (long long)(pair % vd_moss_bands(m)));
    else
        snprintf(where, room, "; first %lld", (long long)column);
}

static void say_op(findings *f)
{
    vd_keep *k = f->job->keep;
    if (f->first_op < 0) {
        say(f, vd_keep_format(k, "repeated one by one from the candidate's own inputs, every operation returns its contract's bytes: the port computes what is written, so suspect "
                                 "weights, inputs or the case, or widen the ensemble of runs"));
        return;
    }
    const vd_gate_op *op   = &f->ops[f->first_op];
    int64_t           others = 0;
    char              where[128] = "";
    const char       *suspect = f->node->block < 0 ? suspect_of_node(op->node) : block_ops[f->first_op].suspect;
    for (int64_t i = f->first_op + 1; i < f->op_count; i++)
        others += f->ops[i].ulps.differ != 0;
    say_columns(f, op, where, sizeof where);
    say(f, vd_keep_format(k, "first operation that is not its contract's: %s (%s); differing elements: %lld of %lld (rows: %lld, columns: %lld%s), by at most %lld units of the last "
                             "place, mean %+.3g; %s",
                          op->node, op->what, (long long)op->ulps.differ, (long long)op->ulps.elements, (long long)op->ulps.rows, (long long)op->ulps.cols, where,
                          (long long)op->ulps.largest, op->ulps.mean, others ? "operations behind it differ too" : "all other operations are right"));
    const bool q = op_differs(f, "q"), kk = op_differs(f, "k"), v = op_differs(f, "v"), down = op_differs(f, "down"), ug = op_differs(f, "ug");
    if (f->node->block >= 0 && q && kk && v && ug && down)
        suspect = "another block's weights";
    else if (f->node->block >= 0 && q && kk && !v)
        suspect = "q and k wrong, v right: permutation of heads or pairs, or the norm against the rotary's layout";
    if (f->off != 1) /* one row alone has its own suspects: say_rows */
        say(f, vd_keep_format(k, "suspect: %s", suspect));
}

static void say_repeat(findings *f)
{
    if (f->judged->repeat_differs)
        say(f, vd_keep_format(f->job->keep, "a second run gives other bytes (differing elements: %lld)%s; suspect a race, uninitialised memory, or an order that depends on threads",
                              (long long)f->judged->repeat_differs, f->ulps.differ ? "" : ", and the first is right to the bit"));
}

static void say_rows(findings *f)
{
    vd_keep       *k    = f->job->keep;
    const int64_t  rows = f->node->rows;
    const vd_case *c    = f->job->c;
    double         inner, outer;
    if (f->judged->distance.nonfinite) {
        say(f, vd_keep_format(k, "not finite first in %s, channel %lld: suspect the range at the FFN's down projection or in the stream (float16 overflows at 65,504), or uninitialised memory",
                              row_place(f, f->judged->distance.nonfinite_row), (long long)f->judged->distance.nonfinite_col));
        return;
    }
    if (f->off == 1 || f->shape.row_share > 0.9) {
        const bool same_way = f->shape.row_cosine < 1e-3;
        say(f, vd_keep_format(k, "one row is off: %s%s; suspect the tail of a tile, a race, padding, or scatter", row_place(f, f->shape.row),
                              same_way ? vd_keep_format(k, ", %.3g times as large as it should be, direction right", f->shape.row_gain) : ""));
    } else if (rows == c->joint_rows && f->off_text > 0 && f->off_image == 0) {
        say(f, vd_keep_format(k, "only text rows are off (%lld of %lld): suspect the mask, the pad token, or the order or positions of text rows", (long long)f->off_text,
                              (long long)c->text_rows));
    } else if (rows == c->joint_rows && f->off > 0) {
        say(f, vd_keep_format(k, "%lld of %lld image rows and %lld of %lld text rows are off", (long long)f->off_image, (long long)c->image_rows, (long long)f->off_text,
                              (long long)c->text_rows));
    } else {
        say(f, vd_keep_format(k, "%lld of %lld rows are off", (long long)f->off, (long long)rows));
    }
    if (f->off > 1 && grows_outwards(f, &inner, &outer))
        say(f, vd_keep_format(k, "image rows far from the centre are off %.2g, near ones %.2g: suspect rotary (pair, convention, axis, or a table in low precision)", outer, inner));
}

static void say_channels(findings *f)
{
    vd_keep       *k    = f->job->keep;
    const int64_t  cols = f->node->cols, d = vd_moss_head_dim(&f->job->c->config), channel = f->shape.channel;
    const float    usual = median_of(f, f->channels, cols);
    int64_t        off = 0;
    for (int64_t j = 0; j < cols; j++)
        off += f->channels[j] > 8 * usual;
    if (f->judged->distance.nonfinite || off == 0 || off > cols / 8 || f->off <= 1)
        return;
    if (off == 1 || f->shape.channel_share > 0.5)
        say(f, vd_keep_format(k, "one channel is off: %lld (head %lld, pair %lld, %lld modulo 8): suspect a stale or mis-permuted weight row, or a head's offset", (long long)channel,
                              (long long)(channel / d), (long long)(channel % (d / 2)), (long long)(channel % 8)));
    else
        say(f, vd_keep_format(k, "%lld of %lld channels are off, most of all %lld (head %lld): suspect weight rows or a head's offset", (long long)off, (long long)cols,
                              (long long)channel, (long long)(channel / d)));
}

static void say_shape(findings *f)
{
    vd_keep     *k     = f->job->keep;
    const double ratio = fmax(f->judged->cosine.ratio, f->judged->worst_row.ratio);
    if (f->judged->distance.nonfinite)
        return;
    if (f->shape.gain < -0.5)
        say(f, vd_keep_format(k, "the output points the other way (gain %.3g): suspect a sign", f->shape.gain));
    else if (f->shape.rank1 > 0.9 && f->off == f->node->rows && f->off > 2)
        say(f, vd_keep_format(k, "every row is off in the same direction (%.0f%% of the error is one direction): suspect timestep, modulation, or a bias", 100 * f->shape.rank1));
    else if (fabs(f->shape.gain - 1) > 0.02 && f->off > 1)
        say(f, vd_keep_format(k, "the output is %.3g times as large as it should be: suspect a gate, a scale or a block left out or run twice", f->shape.gain));
    if (f->off > 1 && ratio > 100)
        say(f, vd_keep_format(k, "more than 100 times the runs' largest: a gross fault (a block missing, doubled or with other weights; rows or halves exchanged), not rounding"));
    else if (f->off > 1 && ratio <= 5 && ratio > 1.25)
        say(f, vd_keep_format(k, "1.25 to 5 times the runs' largest: a fine fault (eps, softmax scale, precision of sums, a weight slightly stale), or rounding points other than the case's"));
    say(f, vd_keep_format(k, "error: %.0f%% in one direction, gain %.4g, bias %+.2g of the root mean square; against the true model %lld of %lld elements differ, by at most %lld units of the "
                             "last place",
                          100 * f->shape.rank1, f->shape.gain, f->shape.bias, (long long)f->ulps.differ, (long long)f->ulps.elements, (long long)f->ulps.largest));
}

/* What a fault that nothing caught has to say for itself. */
static void say_uncaught(findings *f)
{
    const vd_gate_result *r = f->job->result;
    if (!r->planted || r->caught)
        return;
    if (f->job->fails_anyway) {
        say(f, vd_keep_format(f->job->keep, "%s fails without %s as well: the case fails by itself there, and says nothing about the fault; gate it without --plant first",
                              r->planted_at, r->planted->name));
        return;
    }
    for (int64_t i = 0; i < r->node_count; i++)
        if (strcmp(r->nodes[i].name, r->planted_at) == 0) {
            const vd_gate_node *n = &r->nodes[i];
            if (r->first_failed >= 0 && r->first_failed < i) {
                say(f, vd_keep_format(f->job->keep, "%s fails, which %s, planted at %s, does not touch: the case fails by itself; gate it without --plant first",
                                      r->nodes[r->first_failed].name, r->planted->name, r->planted_at));
                return;
            }
            say(f, vd_keep_format(f->job->keep, "%s, planted at %s, is below this case's power there: %.2f times the runs' largest cosine error, %.2f times their worst row (limit 1.25)%s",
                                  r->planted->name, r->planted_at, n->cosine.ratio, n->worst_row.ratio,
                                  n->bytes_differ > 0 ? "; the recorded bytes show it" : n->bytes_differ == 0 ? "; it changed no byte of this node" : ""));
        }
}

static void close_findings(findings *f)
{
    vd_context *ctx = f->job->ctx;
    vd_values_free(ctx, &f->values);
    vd_values_free(ctx, &f->truth);
    vd_free(ctx, f->base);
    vd_free(ctx, f->rows);
    vd_free(ctx, f->sorted);
    vd_free(ctx, f->scratch);
}

vd_status vd_find_cause(vd_gate_job *job)
{
    vd_gate_result *r = job->result;
    findings        f = {.job = job, .first_op = -1};
    char            wanted[96];
    vd_status       status = VD_OK;
    f.causes               = vd_keep_alloc(job->keep, MOST_CAUSES * (int64_t)sizeof *f.causes, "a failure's causes");
    f.ops                  = f.causes ? vd_keep_alloc(job->keep, BLOCK_OPS * (int64_t)sizeof *f.ops, "a failure's operations") : NULL;
    if (!f.ops)
        return job->ctx->status;
    if (r->first_failed >= 0) {
        f.node = &job->c->nodes[r->first_failed], f.judged = &r->nodes[r->first_failed];
        if (f.node->block >= 0)
            snprintf(wanted, sizeof wanted, "b%lld.*,%s", (long long)f.node->block, f.node->name);
        else
            snprintf(wanted, sizeof wanted, "%s%s", strstr(f.node->name, "mod") ? "time," : "", f.node->name);
        status = vd_run_node(job, f.node, 0, true, wanted, NULL, &f.values);
        f.y    = vd_values_find(&f.values, f.node->name);
        if (status == VD_OK && !f.y)
            status = vd_fail(job->ctx, VD_INTERNAL, "gate", "%s did not come out of its run; please report this", f.node->name);
        if (status == VD_OK)
            status = measure(&f);
        if (status == VD_OK)
            status = replay_ops(&f);
        if (status == VD_OK)
            say_repeat(&f);
        if (status == VD_OK && (f.ulps.differ || !f.judged->repeat_differs)) {
            say_op(&f);
            say_rows(&f);
            say_channels(&f);
            say_shape(&f);
            say_pattern(&f);
        }
    } else if (r->step.repeat_differs) {
        say(&f, vd_keep_format(job->keep, "every node alone repeats its bytes, the whole step does not: suspect memory shared between nodes, or an order that depends on threads"));
    }
    say_uncaught(&f);
    if (r->first_failed >= 0 && f.channels)
        r->channel_errors = f.channels, r->channel_count = f.node->cols;
    r->ops = f.ops, r->op_count = f.op_count;
    r->causes = f.causes, r->cause_count = f.cause_count;
    close_findings(&f);
    return status == VD_OK ? job->ctx->status : status;
}
