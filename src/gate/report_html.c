/* The result as one HTML page that needs nothing else: verdict first, then why, then pictures and tables. No scripts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/file.h"
#include "gate/gate_job.h"
#include "gate/html_text.h"

static const char style[] =
    ":root{color-scheme:light dark;--ground:#fbfbf8;--card:#fff;--ink:#1b1f24;--soft:#5d6670;--line:#e3e3dc;--grid:#ecece6;--pass:#1c7c4f;--warn:#a86f00;--fail:#c2342b;--limit:#c2342b;"
    "--torch:#8a93a0;--area:#dfe7f1;--bar:#4f77ad;--s0:#eef2ee;--s1:#d6e6d9;--s2:#f3dfae;--s3:#eeb877;--s4:#df7b55;--s5:#b3261e}"
    "@media(prefers-color-scheme:dark){:root{--ground:#14171b;--card:#1b1f25;--ink:#e7e9ec;--soft:#9aa4af;--line:#2c323a;--grid:#262b32;--pass:#4cc38a;--warn:#e0a93b;--fail:#ff6f61;--limit:#ff6f61;"
    "--torch:#76808c;--area:#27364a;--bar:#7fa6dc;--s0:#222a26;--s1:#2d4636;--s2:#6d5a22;--s3:#95602a;--s4:#bd5638;--s5:#f0564a}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",sans-serif}"
    "main{max-width:1060px;margin:0 auto;padding:28px 20px 60px}h1{font-size:22px;line-height:1.35;margin:4px 0 10px;font-weight:600}h2{font-size:16px;margin:34px 0 10px}"
    "p{margin:6px 0}.soft{color:var(--soft)}code,.n,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;font-size:13px}"
    ".top{border-left:6px solid var(--v);padding:4px 0 4px 18px}.word{font-size:13px;font-weight:700;letter-spacing:.12em;color:var(--v)}"
    ".v-pass{--v:var(--pass)}.v-warn{--v:var(--warn)}.v-fail{--v:var(--fail)}"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 16px;margin:10px 0;overflow-x:auto}.card>:first-child{margin-top:0}"
    "ol{margin:0;padding-left:22px}li{margin:5px 0}table{border-collapse:collapse;width:100%;font-size:13.5px}th{text-align:right;font-weight:600;color:var(--soft);padding:4px 8px;"
    "border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:bottom}td{padding:4px 9px;border-bottom:1px solid var(--grid);text-align:right;white-space:nowrap}"
    "tr:last-child td{border-bottom:0}th:first-child,td:first-child,.l{text-align:left!important}td.w{white-space:normal;text-align:left}tr.fail td{background:color-mix(in srgb,var(--fail) 9%,transparent)}"
    ".t-pass{color:var(--pass)}.t-warn{color:var(--warn);font-weight:600}.t-fail{color:var(--fail);font-weight:700}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:0;font-size:13.5px}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}"
    "pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}svg{display:block;width:100%;height:auto;margin:4px 0}svg text{fill:var(--soft);font:11px system-ui,sans-serif}"
    ".tick,.name,.end{text-anchor:end}.grid{stroke:var(--grid)}.base{stroke:var(--soft)}.split{stroke:var(--soft);stroke-dasharray:3 3}.stem{stroke:var(--line)}"
    ".limit,.warnline,.torch{fill:none;stroke-width:1.6}.limit{stroke:var(--limit)}.warnline{stroke:var(--warn);stroke-dasharray:6 4}.torch{stroke:var(--torch);stroke-dasharray:2 3}"
    ".mark.pass{fill:var(--pass)}.mark.warn{fill:var(--warn)}.mark.fail{fill:var(--fail)}.area{fill:var(--area)}.bar{fill:var(--bar)}"
    ".s0{fill:var(--s0)}.s1{fill:var(--s1)}.s2{fill:var(--s2)}.s3{fill:var(--s3)}.s4{fill:var(--s4)}.s5{fill:var(--s5)}"
    ".key{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:12.5px;color:var(--soft);margin:2px 0 6px}.key span{display:inline-flex;align-items:center;gap:6px}.key svg{width:26px;height:10px;margin:0}"
    "details{margin:10px 0}summary{cursor:pointer;color:var(--soft)}";

static void put_cell(vd_html *h, double x)
{
    vd_html_raw(h, "<td class=\"n\">");
    vd_html_number(h, x);
    vd_html_raw(h, "</td>");
}

static void put_verdict(vd_html *h, vd_verdict v)
{
    vd_html_format(h, "<td class=\"l t-%s\">%s</td>", vd_verdict_name(v), vd_verdict_name(v));
}

static void put_bytes(vd_html *h, const char *run, int64_t differ)
{
    if (!run || differ < 0)
        vd_html_raw(h, "<td class=\"soft\">not recorded</td>");
    else if (differ == 0)
        vd_html_raw(h, "<td class=\"t-pass\">equal</td>");
    else
        vd_html_format(h, "<td class=\"n\">%lld differ</td>", (long long)differ);
}

static void put_paragraph(vd_html *h, const char *before, const char *text, const char *after)
{
    vd_html_raw(h, before);
    vd_html_add(h, text);
    vd_html_raw(h, after);
}

static void put_top(vd_html *h, const vd_gate_result *r)
{
    const char *word = vd_verdict_name(r->verdict);
    vd_html_format(h, "<header class=\"top v-%s\"><p class=\"word\">%s</p>", word, r->verdict == VD_VERDICT_FAIL ? "FAIL" : r->verdict == VD_VERDICT_WARN ? "PASS, WITH WARNINGS" : "PASS");
    put_paragraph(h, "<h1>", r->summary, "</h1>");
    put_paragraph(h, "<p class=\"soft\">Case <code>", r->case_path, "</code>");
    put_paragraph(h, " \xC2\xB7 model <code>", r->model_path, "</code>");
    vd_html_format(h, " \xC2\xB7 policy <code>%s</code> \xC2\xB7 arithmetic <code>%s</code> \xC2\xB7 match <code>%s</code></p></header>", vd_policy_name(r->policy), vd_arith_name(r->arith),
                   vd_match_name(r->match));
    if (!r->planted)
        return;
    put_paragraph(h, "<div class=\"card\"><p><b>A fault was planted on purpose:</b> <code>", r->planted->name, "</code>, ");
    put_paragraph(h, "", r->planted->what, ". ");
    put_paragraph(h, "It must show at <code>", r->planted_at, "</code>: ");
    vd_html_raw(h, r->caught ? "<b class=\"t-pass\">caught there</b>.</p>" : "<b class=\"t-fail\">not caught there</b>.</p>");
    put_paragraph(h, "<p class=\"soft\">Planted as: ", r->planted->how, ".</p></div>");
}

static void put_histogram(vd_html *h, const vd_ulps *u)
{
    int64_t most = 1;
    for (int i = 0; i < 9; i++)
        if (i != 4 && u->histogram[i] > most)
            most = u->histogram[i];
    vd_html_raw(h, "<td><svg viewBox=\"0 0 90 18\" style=\"width:90px\" role=\"img\" aria-label=\"signed distances\">");
    for (int i = 0; i < 9; i++) {
        const double size = i == 4 ? 0 : 16 * (double)u->histogram[i] / (double)most;
        vd_html_format(h, "<rect class=\"bar\" x=\"%d\" y=\"%.1f\" width=\"8\" height=\"%.1f\"/>", i * 10 + 1, 17 - size, size);
    }
    vd_html_raw(h, "<line class=\"base\" x1=\"0\" x2=\"90\" y1=\"17.5\" y2=\"17.5\"/></svg></td>");
}

static void put_why(vd_html *h, const vd_gate_result *r)
{
    if (r->cause_count) {
        vd_html_raw(h, "<h2>What is wrong, and where to look</h2><div class=\"card\"><ol>");
        for (int64_t i = 0; i < r->cause_count; i++)
            put_paragraph(h, "<li>", r->causes[i], "</li>");
        vd_html_raw(h, "</ol></div>");
    }
    if (!r->op_count)
        return;
    put_paragraph(h, "<h2>Inside <code>", r->nodes[r->first_failed].name, "</code>, operation by operation</h2>");
    vd_html_raw(h, "<p class=\"soft\">Each operation repeated by the unchanged kernels from the candidate's own inputs: a difference is that operation's own, not inherited. "
                   "Distances in units of the last place, signed, \xE2\x89\xA4 \xE2\x88\x92" "8 to \xE2\x89\xA5 8.</p><div class=\"card\"><table><tr><th>node</th><th class=\"l\">operation</th>"
                   "<th>elements that differ</th><th>rows</th><th>columns</th><th>largest</th><th>mean</th><th>histogram</th></tr>");
    for (int64_t i = 0; i < r->op_count; i++) {
        const vd_gate_op *op = &r->ops[i];
        put_paragraph(h, op->ulps.differ ? "<tr class=\"fail\"><td><code>" : "<tr><td><code>", op->node, "</code></td>");
        put_paragraph(h, "<td class=\"l\">", op->what, "</td>");
        if (op->ulps.differ == 0) {
            vd_html_raw(h, "<td class=\"t-pass\">none</td><td></td><td></td><td></td><td></td><td></td></tr>");
            continue;
        }
        vd_html_format(h, "<td class=\"n\">%lld of %lld</td><td class=\"n\">%lld</td><td class=\"n\">%lld</td><td class=\"n\">%lld</td><td class=\"n\">%+.3g</td>", (long long)op->ulps.differ,
                       (long long)op->ulps.elements, (long long)op->ulps.rows, (long long)op->ulps.cols, (long long)op->ulps.largest, op->ulps.mean);
        put_histogram(h, &op->ulps);
        vd_html_raw(h, "</tr>");
    }
    vd_html_raw(h, "</table></div>");
}

static void put_plots(vd_html *h, const vd_gate_result *r)
{
    vd_html_format(h, "<h2>Error per node against its limits</h2><div class=\"card\"><div class=\"key\">"
                   "<span><svg viewBox=\"0 0 26 10\"><path class=\"limit\" d=\"M0 5H26\"/></svg>limit: 1.25 \xC3\x97 the largest of %lld runs</span>"
                   "<span><svg viewBox=\"0 0 26 10\"><path class=\"warnline\" d=\"M0 5H26\"/></svg>warning: 1.10 \xC3\x97</span>"
                   "<span><svg viewBox=\"0 0 26 10\"><path class=\"torch\" d=\"M0 5H26\"/></svg>2 \xC3\x97 the wider of two torch runs (told, does not decide)</span>"
                   "<span><svg viewBox=\"0 0 26 10\"><circle class=\"mark pass\" cx=\"6\" cy=\"5\" r=\"3.6\"/><path class=\"mark fail\" d=\"M19 0l5 5l-5 5l-5 -5z\"/></svg>this run, holding and "
                   "failing</span></div><p class=\"soft\">Cosine error, 1 \xE2\x88\x92 \xE2\x9F\xA8y,f\xE2\x9F\xA9 / (\xE2\x80\x96y\xE2\x80\x96\xE2\x80\x96" "f\xE2\x80\x96)</p>",
                   (long long)r->limit_runs);
    vd_plot_nodes(h, r, false);
    vd_html_raw(h, "<p class=\"soft\">Worst row, largest \xE2\x80\x96y\xE1\xB5\xA2 \xE2\x88\x92 f\xE1\xB5\xA2\xE2\x80\x96 / \xE2\x80\x96" "f\xE1\xB5\xA2\xE2\x80\x96</p>");
    vd_plot_nodes(h, r, true);
    vd_html_raw(h, "</div>");
}

/* The first failing node, or the one nearest to its limit. */
static const vd_gate_node *node_to_show(const vd_gate_result *r)
{
    const vd_gate_node *best = r->first_failed >= 0 ? &r->nodes[r->first_failed] : NULL;
    for (int64_t i = 0; i < r->node_count && r->first_failed < 0; i++)
        if (!best || fmax(r->nodes[i].cosine.ratio, r->nodes[i].worst_row.ratio) > fmax(best->cosine.ratio, best->worst_row.ratio))
            best = &r->nodes[i];
    return best;
}

static void put_rows(vd_html *h, const vd_gate_result *r)
{
    const vd_gate_node *n = node_to_show(r);
    if (!n)
        return;
    const bool text = strncmp(n->name, "text", 4) == 0, rows = n->rows > 6;
    put_paragraph(h, "<h2>Row by row: <code>", n->name, r->first_failed >= 0 ? "</code>, the first that fails</h2>" : "</code>, the nearest to its limit</h2>");
    vd_html_raw(h, "<div class=\"card\"><div class=\"key\"><span><svg viewBox=\"0 0 26 10\"><rect class=\"area\" width=\"26\" height=\"10\"/></svg>largest of the runs in that row</span>"
                   "<span><svg viewBox=\"0 0 26 10\"><circle class=\"mark pass\" cx=\"7\" cy=\"5\" r=\"2\"/><circle class=\"mark fail\" cx=\"19\" cy=\"5\" r=\"3\"/></svg>this run; off</span></div>");
    vd_plot_rows(h, n, rows && !text ? r->latent_height * r->latent_width : 0);
    if (rows && !text) {
        vd_html_raw(h, "<p class=\"soft\">Image rows as the picture lies: error over the largest of the runs there</p><div class=\"key\">");
        const char *const labels[] = {"\xE2\x89\xA4 1", "\xE2\x89\xA4 1.25", "\xE2\x89\xA4 2", "\xE2\x89\xA4 5", "\xE2\x89\xA4 20", "more"};
        for (int i = 0; i < 6; i++)
            vd_html_format(h, "<span><svg viewBox=\"0 0 26 10\"><rect class=\"s%d\" width=\"26\" height=\"10\"/></svg>%s</span>", i, labels[i]);
        vd_html_raw(h, "</div>");
        vd_plot_map(h, n, r->latent_height, r->latent_width);
    }
    if (r->channel_errors) {
        vd_html_raw(h, "<p class=\"soft\">Channel by channel, against the true model's output</p>");
        vd_plot_channels(h, r->channel_errors, r->channel_count);
    }
    vd_html_raw(h, "</div>");
}

static void put_statistic(vd_html *h, const vd_gate_statistic *s)
{
    put_cell(h, s->value);
    put_cell(h, s->limit);
    if (s->ratio < 1000)
        vd_html_format(h, "<td class=\"n t-%s\">%.2f</td>", vd_verdict_name(s->verdict), s->ratio);
    else
        vd_html_format(h, "<td class=\"n t-%s\">%s</td>", vd_verdict_name(s->verdict), isfinite(s->ratio) ? "&gt; 999" : "\xE2\x88\x9E");
}

static void put_nodes(vd_html *h, const vd_gate_result *r)
{
    vd_html_raw(h, "<h2>Every node alone</h2><p class=\"soft\">Each from the recorded float32 stream. \xC3\x97 is the ratio to the largest of the honest runs' values: it fails above 1.25. "
                   "Of 2\xC3\x97torch is the larger of the two shares of twice the wider of two torch runs.</p><div class=\"card\"><table><tr><th>node</th><th class=\"l\">verdict</th><th>cosine error</th><th>limit</th><th>cosine \xC3\x97</th>"
                   "<th>worst row</th><th>limit</th><th>row \xC3\x97</th><th>of 2\xC3\x97torch</th><th>row</th><th>second run</th><th>GPU's bytes</th></tr>");
    for (int64_t i = 0; i < r->node_count; i++) {
        const vd_gate_node *n = &r->nodes[i];
        put_paragraph(h, n->verdict == VD_VERDICT_FAIL ? "<tr class=\"fail\"><td><code>" : "<tr><td><code>", n->name, "</code></td>");
        put_verdict(h, n->verdict);
        put_statistic(h, &n->cosine);
        put_statistic(h, &n->worst_row);
        put_cell(h, fmax(n->cosine.torch_share, n->worst_row.torch_share));
        vd_html_format(h, "<td class=\"n\">%lld</td>", (long long)n->distance.worst_row_index);
        if (n->repeat_differs)
            vd_html_format(h, "<td class=\"t-fail\">%lld differ</td>", (long long)n->repeat_differs);
        else
            vd_html_raw(h, "<td class=\"t-pass\">same bytes</td>");
        put_bytes(h, n->bytes_run, n->bytes_differ);
        vd_html_raw(h, "</tr>");
        if (n->why && *n->why)
            put_paragraph(h, "<tr><td></td><td class=\"w soft\" colspan=\"11\">", n->why, "</td></tr>");
    }
    vd_html_raw(h, "</table></div>");
}

static void put_step(vd_html *h, const vd_gate_result *r)
{
    static const char *const names[] = {"median row", "0.8 of rows", "0.9 of rows", "0.99 of rows", "worst row"};
    const vd_gate_step      *s = &r->step;
    if (s->seconds <= 0)
        return;
    vd_html_raw(h, "<h2>The whole step, from latents to velocity</h2><p class=\"soft\">Reported beside torch's own runs, not gated: in a long chain honest runs part. Nearer is always allowed.</p>"
                   "<div class=\"card\"><table><tr><th>run</th><th class=\"l\">what</th><th>relative L2</th><th>cosine error</th><th>worst row</th></tr><tr><td><b>this run</b></td><td class=\"w\">");
    vd_html_raw(h, s->within ? "no farther from float32 than honest runs (limits 1.10, 1.25, 1.15)" : "<span class=\"t-warn\">farther from float32 than honest runs (limits 1.10, 1.25, 1.15)</span>");
    if (s->bytes_run)
        vd_html_format(h, s->bytes_differ ? "; %lld elements differ from the GPU's" : "; equal to the GPU's bytes", (long long)s->bytes_differ);
    vd_html_raw(h, s->repeat_differs ? "; <b class=\"t-fail\">a second run differs</b></td>" : "; a second run repeats it</td>");
    put_cell(h, s->distance.l2);
    put_cell(h, s->distance.cosine);
    put_cell(h, s->distance.worst_row);
    vd_html_raw(h, "</tr>");
    for (int64_t i = 0; i < r->run_count; i++) {
        put_paragraph(h, "<tr><td><code>", r->runs[i].name, "</code></td>");
        put_paragraph(h, "<td class=\"w\">", r->runs[i].what, r->runs[i].limit ? "</td>" : " <span class=\"soft\">(does not set limits)</span></td>");
        put_cell(h, r->runs[i].step_l2);
        put_cell(h, r->runs[i].step_cosine);
        put_cell(h, r->runs[i].step_worst_row);
        vd_html_raw(h, "</tr>");
    }
    vd_html_raw(h, "</table><p class=\"soft\" style=\"margin-top:10px\">Sorted row errors over the runs' largest at the same place: ");
    for (int i = 0; i < 5; i++) {
        vd_html_format(h, "%s%s ", i ? " \xC2\xB7 " : "", names[i]);
        vd_html_number(h, s->quantile_ratio[i]);
    }
    vd_html_raw(h, "</p></div>");
}

static void put_facts(vd_html *h, const char *title, const vd_gate_fact *facts, int64_t count)
{
    if (!count)
        return;
    put_paragraph(h, "<h2>", title, "</h2><div class=\"card\"><dl>");
    for (int64_t i = 0; i < count; i++) {
        put_paragraph(h, "<dt>", facts[i].name, "</dt>");
        put_paragraph(h, "<dd>", facts[i].value, "</dd>");
    }
    vd_html_raw(h, "</dl></div>");
}

char *vd_gate_html(vd_context *ctx, const vd_gate_result *r, int64_t *size)
{
    vd_html h = {.ctx = ctx};
    vd_html_format(&h, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/><title>%s: verdit gate ",
                   r->verdict == VD_VERDICT_FAIL ? "FAIL" : "PASS");
    vd_html_add(&h, r->case_path);
    vd_html_raw(&h, "</title><style>");
    vd_html_raw(&h, style);
    vd_html_raw(&h, "</style></head><body><main>");
    put_top(&h, r);
    put_why(&h, r);
    put_plots(&h, r);
    put_rows(&h, r);
    put_nodes(&h, r);
    put_step(&h, r);
    put_paragraph(&h, "<h2>Again</h2><div class=\"card\"><pre>", r->reproduce, "</pre></div>");
    put_facts(&h, "What was gated", r->facts, r->fact_count);
    put_facts(&h, "Weights", r->weights, r->weight_count);
    vd_html_format(&h, "<p class=\"soft\">verdit %s, %.1f s. How to read this page: docs/report.md; statistics and limits: docs/gates.md.</p></main></body></html>\n", VERDIT_VERSION, r->seconds);
    *size = h.size;
    if (!h.failed)
        return h.data;
    vd_free(ctx, h.data);
    return NULL;
}
