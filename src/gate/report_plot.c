/* The report's pictures. Coordinates are those of a fixed view box; colours and dashes are classes of the page's style sheet, so that the
 * pictures follow its light and dark. */
#include <math.h>

#include "gate/html_text.h"

/* A logarithmic axis: values from `low` to `high` lie between y `bottom` and `top`; what is outside, infinity included, lies on the edge. */
typedef struct axis {
    double low, high, top, bottom;
} axis;

static double place(const axis *a, double value)
{
    if (!(value > a->low))
        return a->bottom;
    if (!(value < a->high))
        return a->top;
    return a->bottom - (a->bottom - a->top) * (log(value) - log(a->low)) / (log(a->high) - log(a->low));
}

static void widen(axis *a, double value)
{
    if (!(value > 0) || !isfinite(value))
        return;
    a->low  = a->low > 0 ? fmin(a->low, value) : value;
    a->high = fmax(a->high, value);
}

/* Some air, and at least a factor of four, so that small differences are not blown up. */
static void settle(axis *a)
{
    if (!(a->low > 0))
        a->low = 1e-6, a->high = 1;
    a->low /= 1.6, a->high *= 1.8;
    if (a->high / a->low < 4)
        a->low /= 2, a->high *= 2;
}

static void draw_grid(vd_html *h, const axis *a, double left, double right)
{
    const double steps[] = {1, 2, 5};
    const int    every = a->high / a->low > 300 ? 1 : 3;
    for (int decade = (int)floor(log10(a->low)); decade <= (int)ceil(log10(a->high)); decade++)
        for (int i = 0; i < every; i++) {
            const double value = steps[i] * pow(10, decade), y = place(a, value);
            if (value <= a->low || value >= a->high)
                continue;
            vd_html_format(h, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%.0e</text>", left, right, y, y,
                           left - 6, y + 3.5, value);
        }
}

static const vd_gate_statistic *statistic_of(const vd_gate_node *n, bool rows) { return rows ? &n->worst_row : &n->cosine; }

/* One limit as a staircase over the nodes. */
static void draw_limit(vd_html *h, const vd_gate_result *r, bool rows, int which, const char *style, const axis *a, double left, double pitch)
{
    vd_html_format(h, "<path class=\"%s\" d=\"", style);
    for (int64_t i = 0; i < r->node_count; i++) {
        const vd_gate_statistic *s = statistic_of(&r->nodes[i], rows);
        const double             y = place(a, which == 0 ? s->limit : which == 1 ? s->warn : s->torch_limit);
        if (i == 0)
            vd_html_format(h, "M%.1f %.1f", left, y);
        vd_html_format(h, "V%.1fH%.1f", y, left + (double)(i + 1) * pitch);
    }
    vd_html_raw(h, "\"/>");
}

void vd_plot_nodes(vd_html *h, const vd_gate_result *r, bool rows)
{
    const double left = 62, right = 952, pitch = (right - left) / (double)vd_max(r->node_count, 1);
    axis         a    = {0, 0, 14, 236};
    for (int64_t i = 0; i < r->node_count; i++) {
        const vd_gate_statistic *s = statistic_of(&r->nodes[i], rows);
        widen(&a, s->value), widen(&a, s->warn), widen(&a, s->limit), widen(&a, s->torch_limit);
    }
    settle(&a);
    vd_html_format(h, "<svg viewBox=\"0 0 960 300\" role=\"img\" aria-label=\"%s per node against its limits\">", rows ? "worst row" : "cosine error");
    draw_grid(h, &a, left, right);
    draw_limit(h, r, rows, 2, "torch", &a, left, pitch);
    draw_limit(h, r, rows, 1, "warnline", &a, left, pitch);
    draw_limit(h, r, rows, 0, "limit", &a, left, pitch);
    const int64_t every = r->node_count > 60 ? (r->node_count + 59) / 60 : 1;
    for (int64_t i = 0; i < r->node_count; i++) {
        const vd_gate_node      *n = &r->nodes[i];
        const vd_gate_statistic *s = statistic_of(n, rows);
        const double             x = left + ((double)i + 0.5) * pitch, y = place(&a, s->value);
        vd_html_format(h, "<line class=\"stem\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x, x, a.bottom, y);
        if (s->verdict == VD_VERDICT_FAIL)
            vd_html_format(h, "<path class=\"mark fail\" d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\">", x, y - 5);
        else
            vd_html_format(h, "<circle class=\"mark %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.6\">", vd_verdict_name(s->verdict), x, y);
        vd_html_raw(h, "<title>");
        vd_html_add(h, n->name);
        vd_html_raw(h, ": ");
        vd_html_number(h, s->value);
        vd_html_raw(h, ", limit ");
        vd_html_number(h, s->limit);
        vd_html_raw(h, s->verdict == VD_VERDICT_FAIL ? "</title></path>" : "</title></circle>");
        if (i % every == 0) {
            vd_html_format(h, "<text class=\"name\" transform=\"translate(%.1f %.1f) rotate(-45)\">", x + 3, a.bottom + 14);
            vd_html_add(h, n->name);
            vd_html_raw(h, "</text>");
        }
    }
    vd_html_format(h, "<line class=\"base\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/></svg>", left, right, a.bottom, a.bottom);
}

/* The largest of the values that fall into bin b of `bins`. */
static double binned(const float *values, int64_t count, int64_t bins, int64_t b)
{
    double most = 0;
    for (int64_t i = b * count / bins; i < (b + 1) * count / bins; i++)
        most = (double)values[i] > most ? (double)values[i] : most;
    return most;
}

void vd_plot_rows(vd_html *h, const vd_gate_node *n, int64_t image_rows)
{
    const int64_t bins = vd_min(n->rows, 430);
    const double  left = 62, right = 952, pitch = (right - left) / (double)bins;
    axis          a    = {0, 0, 14, 180};
    for (int64_t b = 0; b < bins; b++)
        widen(&a, binned(n->row_errors, n->rows, bins, b)), widen(&a, 1.25 * binned(n->row_reference, n->rows, bins, b));
    settle(&a);
    vd_html_raw(h, "<svg viewBox=\"0 0 960 212\" role=\"img\" aria-label=\"error per row\">");
    draw_grid(h, &a, left, right);
    vd_html_format(h, "<path class=\"area\" d=\"M%.1f %.1f", left, a.bottom);
    for (int64_t b = 0; b < bins; b++)
        vd_html_format(h, "V%.1fH%.1f", place(&a, binned(n->row_reference, n->rows, bins, b)), left + (double)(b + 1) * pitch);
    vd_html_format(h, "V%.1fZ\"/>", a.bottom);
    for (int64_t b = 0; b < bins; b++) {
        const double value = binned(n->row_errors, n->rows, bins, b), most = binned(n->row_reference, n->rows, bins, b);
        const bool   off   = !(value <= 1.25 * most) && !(value <= 1.25 * n->worst_row.reference);
        if (value > 0)
            vd_html_format(h, "<circle class=\"mark %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"/>", off ? "fail" : "pass", left + ((double)b + 0.5) * pitch, place(&a, value),
                           off ? "3" : "1.8");
    }
    if (image_rows <= 0 || image_rows >= n->rows) {
        vd_html_format(h, "<text class=\"name\" style=\"text-anchor:start\" x=\"%.1f\" y=\"%.1f\">row 0</text><text class=\"name\" x=\"%.1f\" y=\"%.1f\">%lld</text>", left,
                       a.bottom + 17, right, a.bottom + 17, (long long)n->rows - 1);
    } else {
        const double x = left + (right - left) * (double)image_rows / (double)n->rows;
        vd_html_format(h, "<line class=\"split\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x, x, a.top, a.bottom + 20);
        vd_html_format(h, "<text class=\"name end\" x=\"%.1f\" y=\"%.1f\">image rows</text><text class=\"name\" x=\"%.1f\" y=\"%.1f\" style=\"text-anchor:start\">text rows</text>", x - 6,
                       a.bottom + 17, x + 6, a.bottom + 17);
    }
    vd_html_format(h, "<line class=\"base\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/></svg>", left, right, a.bottom, a.bottom);
}

/* Shades by ratio: at most 1, 1.25, 2, 5, 20, more. */
static int shade(double ratio)
{
    const double steps[] = {1, 1.25, 2, 5, 20};
    int          s       = 0;
    while (s < 5 && !(ratio <= steps[s]))
        s++;
    return s;
}

void vd_plot_map(vd_html *h, const vd_gate_node *n, int64_t height, int64_t width)
{
    const int64_t pool = vd_max(1, (vd_max(height, width) + 63) / 64), rows = (height + pool - 1) / pool, cols = (width + pool - 1) / pool;
    const double  cell = fmin(18, 420.0 / (double)vd_max(rows, cols));
    vd_html_format(h, "<svg class=\"map\" style=\"max-width:%.0fpx\" viewBox=\"0 0 %.1f %.1f\" role=\"img\" aria-label=\"error of image rows as the picture lies\">",
                   fmax(120, cell * (double)cols), cell * (double)cols, cell * (double)rows);
    for (int64_t y = 0; y < rows; y++)
        for (int64_t x = 0; x < cols; x++) {
            double most = 0;
            for (int64_t i = y * pool; i < vd_min((y + 1) * pool, height); i++)
                for (int64_t j = x * pool; j < vd_min((x + 1) * pool, width); j++) {
                    const double reference = (double)n->row_reference[i * width + j], value = (double)n->row_errors[i * width + j];
                    most = fmax(most, value <= 0 ? 0 : reference > 0 ? value / reference : INFINITY);
                }
            vd_html_format(h, "<rect class=\"s%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>y %lld, x %lld: ", shade(most), cell * (double)x, cell * (double)y,
                           cell - 0.5, cell - 0.5, (long long)(y * pool), (long long)(x * pool));
            vd_html_number(h, most);
            vd_html_raw(h, "</title></rect>");
        }
    vd_html_raw(h, "</svg>");
}

void vd_plot_channels(vd_html *h, const float *errors, int64_t count)
{
    const int64_t bins = vd_min(count, 430);
    const double  left = 62, right = 952, pitch = (right - left) / (double)bins;
    axis          a    = {0, 0, 14, 130};
    for (int64_t b = 0; b < bins; b++)
        widen(&a, binned(errors, count, bins, b));
    settle(&a);
    vd_html_raw(h, "<svg viewBox=\"0 0 960 152\" role=\"img\" aria-label=\"error per channel\">");
    draw_grid(h, &a, left, right);
    for (int64_t b = 0; b < bins; b++) {
        const double value = binned(errors, count, bins, b), y = place(&a, value);
        if (value > 0)
            vd_html_format(h, "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>channel %lld</title></rect>", left + (double)b * pitch, y,
                           fmax(pitch - 0.4, 0.6), a.bottom - y, (long long)(b * count / bins));
    }
    vd_html_format(h, "<text class=\"name\" style=\"text-anchor:start\" x=\"%.1f\" y=\"%.1f\">channel 0</text><text class=\"name\" x=\"%.1f\" y=\"%.1f\">%lld</text>", left,
                   a.bottom + 15, right, a.bottom + 15, (long long)(count - 1));
    vd_html_format(h, "<line class=\"base\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/></svg>", left, right, a.bottom, a.bottom);
}
