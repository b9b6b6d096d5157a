/* A text that grows, and the ways in which values enter HTML: everything that comes from a file or an argument goes through vd_html_add. */
#ifndef VD_GATE_HTML_TEXT_H
#define VD_GATE_HTML_TEXT_H

#include "core/core.h"

typedef struct vd_html {
    vd_context *ctx;
    char       *data;
    int64_t     size, room;
    bool        failed; /* no memory: what follows is lost, and so is the text */
} vd_html;

void vd_html_raw(vd_html *h, const char *markup); /* our own markup */
void vd_html_add(vd_html *h, const char *text);   /* anybody's text, escaped; control bytes and broken UTF-8 become U+FFFD */
/* Our own markup with numbers. Strings in it must be ours. */
void vd_html_format(vd_html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A number in few digits; "∞" where it is not finite. */
void vd_html_number(vd_html *h, double x);

/* ---- report_plot.c: pictures, as inline SVG ---- */

/* Error per node against its limits, logarithmic. rows: the worst row, else the cosine error. */
void vd_plot_nodes(vd_html *h, const vd_gate_result *r, bool rows);
/* Row errors of one node beside the runs' largest; image rows left, text rows right of a line where the node has both. */
void vd_plot_rows(vd_html *h, const vd_gate_node *n, int64_t image_rows);
/* The ratio of each image row's error to the runs' largest there, as the picture lies. */
void vd_plot_map(vd_html *h, const vd_gate_node *n, int64_t height, int64_t width);
void vd_plot_channels(vd_html *h, const float *errors, int64_t count);

#endif
