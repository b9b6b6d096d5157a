/* Statistics of a candidate y against float32's f, rows × channels; and of bytes against bytes. No limits here: those are limits.h.
 *
 * Everything is summed in double, rows ascending, so a statistic is the same on every machine. A value that is not finite makes its row's
 * error infinite: NaN is never equal to anything, itself included.
 */
#ifndef VD_GATE_STATS_H
#define VD_GATE_STATS_H

#include "core/core.h"

/* y [rows, cols] of `type` (F32 or BF16) against f [rows, cols]. row_errors [rows] receives ‖e_i‖/‖f_i‖, unless NULL: 0 where both are 0,
 * infinity where only ‖f_i‖ is or where y_i is not finite. */
void vd_distance_measure(vd_dtype type, const void *y, const float *f, int64_t rows, int64_t cols, float *row_errors, vd_distance *out);

/* channel_errors [cols] receives ‖e_c‖/‖f_c‖ over all rows, with the same rules. */
void vd_channel_errors(vd_dtype type, const void *y, const float *f, int64_t rows, int64_t cols, float *channel_errors);

/* Element by element in units of the last place of `type`: b is the reference. Elements whose bytes differ count as differing even when
 * their values do not (−0 and +0). A value that is not finite where the other is counts as the largest distance. */
void vd_ulps_measure(vd_dtype type, const void *a, const void *b, int64_t rows, int64_t cols, vd_ulps *out);

/* How many elements of two arrays of `elements` elements of `size` bytes differ; *first, unless NULL, is the first one's index or -1. */
int64_t vd_count_differing(const void *a, const void *b, int64_t elements, int64_t size, int64_t *first);

/* What the error e = y − f looks like as a matrix. */
typedef struct vd_error_shape {
    double rank1;      /* share of ‖e‖² in its largest singular direction */
    double gain;       /* ⟨y,f⟩ / ⟨f,f⟩ over all elements */
    double bias;       /* mean of e over the root mean square of f */
    double row_share;  /* share of ‖e‖² in the row that holds most of it, and that row */
    int64_t row;
    double channel_share; /* the same for channels, and that channel */
    int64_t channel;
    double row_gain, row_cosine; /* of that row alone: ⟨y,f⟩ / ⟨f,f⟩, 1 − cosine */
} vd_error_shape;

/* `scratch` holds 2·(rows + cols) doubles. Values that are not finite count as zero here. */
void vd_error_shape_measure(vd_dtype type, const void *y, const float *f, int64_t rows, int64_t cols, double *scratch, vd_error_shape *out);

/* q-quantile of n errors sorted ascending: the smallest one that at least q·n of them do not exceed. */
float vd_quantile(const float *sorted, int64_t n, double q);
void  vd_sort_errors(float *errors, int64_t n);

#endif
