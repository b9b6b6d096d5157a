#include "gate/stats.h"

#include <math.h>
#include <string.h>

#include "contract/contract.h"

static double ratio_of(double error, double norm)
{
    return norm > 0 ? error / norm : error == 0 ? 0 : INFINITY;
}

/* 1 − ⟨y,f⟩/(‖y‖‖f‖). Two zeros are the same direction; a zero against anything else is none. */
static double cosine_error(double dot, double yy, double ff)
{
    if (yy == 0 || ff == 0)
        return yy == ff ? 0 : 1;
    return 1 - dot / (sqrt(yy) * sqrt(ff));
}

void vd_distance_measure(vd_dtype type, const void *y, const float *f, int64_t rows, int64_t cols, float *row_errors, vd_distance *out)
{
    double dot = 0, yy = 0, ff = 0, ee = 0, sum = 0;
    memset(out, 0, sizeof *out);
    out->worst_row_index = -1;
    out->nonfinite_row = out->nonfinite_col = -1;
    for (int64_t i = 0; i < rows; i++) {
        double  row_dot = 0, row_yy = 0, row_ff = 0, row_ee = 0, row_sum = 0;
        int64_t broken = 0;
        for (int64_t j = 0; j < cols; j++) {
            const double a = (double)vd_load(y, type, i * cols + j), b = (double)f[i * cols + j], e = a - b;
            if (!isfinite(a)) {
                if (out->nonfinite++ == 0)
                    out->nonfinite_row = i, out->nonfinite_col = j;
                broken++;
                row_ff += b * b;
                continue;
            }
            row_dot += a * b;
            row_yy += a * a;
            row_ff += b * b;
            row_ee += e * e;
            row_sum += e;
            if (fabs(e) > out->largest) {
                out->largest     = fabs(e);
                out->largest_row = i, out->largest_col = j;
                out->largest_value = a, out->largest_reference = b;
            }
        }
        dot += row_dot, yy += row_yy, ff += row_ff, ee += row_ee, sum += row_sum;
        const double error = broken ? INFINITY : ratio_of(sqrt(row_ee), sqrt(row_ff));
        if (row_ff == 0 && error != 0)
            out->zero_rows++;
        if (out->worst_row_index < 0 || error > out->worst_row)
            out->worst_row = error, out->worst_row_index = i;
        if (row_errors)
            row_errors[i] = (float)error;
    }
    out->cosine = out->nonfinite ? INFINITY : cosine_error(dot, yy, ff);
    out->l2     = out->nonfinite ? INFINITY : ratio_of(sqrt(ee), sqrt(ff));
    out->gain   = ff > 0 ? dot / ff : yy == 0 ? 1 : INFINITY;
    out->bias   = ff > 0 ? sum / sqrt(ff * (double)(rows * cols)) : 0;
}

void vd_channel_errors(vd_dtype type, const void *y, const float *f, int64_t rows, int64_t cols, float *channel_errors)
{
    for (int64_t j = 0; j < cols; j++) {
        double ff = 0, ee = 0;
        bool   broken = false;
        for (int64_t i = 0; i < rows; i++) {
            const double a = (double)vd_load(y, type, i * cols + j), b = (double)f[i * cols + j];
            broken |= !isfinite(a);
            ff += b * b;
            ee += (a - b) * (a - b);
        }
        channel_errors[j] = broken ? INFINITY : (float)ratio_of(sqrt(ee), sqrt(ff));
    }
}

/* Bits as an integer that grows with the value; both zeros are 0. */
static int64_t ordered(vd_dtype type, const void *data, int64_t index)
{
    const float value = vd_load(data, type, index);
    uint32_t    bits;
    memcpy(&bits, &value, 4);
    const int64_t magnitude = (int64_t)(bits & 0x7fffffffu) >> (type == VD_BF16 ? 16 : 0);
    return bits >> 31 ? -magnitude : magnitude;
}

static int bucket_of(int64_t ulps)
{
    const int64_t size = ulps < 0 ? -ulps : ulps;
    const int     step = size == 0 ? 0 : size == 1 ? 1 : size < 4 ? 2 : size < 8 ? 3 : 4;
    return ulps < 0 ? 4 - step : 4 + step;
}

void vd_ulps_measure(vd_dtype type, const void *a, const void *b, int64_t rows, int64_t cols, vd_ulps *out)
{
    const int64_t size = vd_dtype_size(type);
    double        sum = 0;
    memset(out, 0, sizeof *out);
    out->largest_row = out->largest_col = out->first_row = out->first_col = -1;
    out->elements = rows * cols;
    for (int64_t i = 0; i < rows; i++) {
        int64_t in_row = 0;
        for (int64_t j = 0; j < cols; j++) {
            const int64_t at = i * cols + j;
            const bool    a_nan = isnan(vd_load(a, type, at)), b_nan = isnan(vd_load(b, type, at));
            if (memcmp((const char *)a + at * size, (const char *)b + at * size, (size_t)size) == 0 && !a_nan) {
                out->histogram[4]++;
                continue;
            }
            int64_t ulps = a_nan || b_nan ? INT32_MAX : ordered(type, a, at) - ordered(type, b, at);
            if (out->differ++ == 0)
                out->first_row = i, out->first_col = j;
            in_row++;
            sum += (double)ulps;
            out->histogram[bucket_of(ulps)]++;
            ulps = ulps < 0 ? -ulps : ulps;
            if (ulps > out->largest || out->largest_row < 0)
                out->largest = ulps, out->largest_row = i, out->largest_col = j;
        }
        out->rows += in_row != 0;
    }
    for (int64_t j = 0; j < cols && out->differ; j++)
        for (int64_t i = 0; i < rows; i++)
            if (memcmp((const char *)a + (i * cols + j) * size, (const char *)b + (i * cols + j) * size, (size_t)size) != 0 || isnan(vd_load(a, type, i * cols + j))) {
                out->cols++;
                break;
            }
    out->mean = out->differ ? sum / (double)out->elements : 0;
}

int64_t vd_count_differing(const void *a, const void *b, int64_t elements, int64_t size, int64_t *first)
{
    int64_t differ = 0;
    if (first)
        *first = -1;
    if (memcmp(a, b, (size_t)(elements * size)) == 0)
        return 0;
    for (int64_t i = 0; i < elements; i++)
        if (memcmp((const char *)a + i * size, (const char *)b + i * size, (size_t)size) != 0) {
            if (differ++ == 0 && first)
                *first = i;
        }
    return differ;
}

static double error_at(vd_dtype type, const void *y, const float *f, int64_t at)
{
    const double a = (double)vd_load(y, type, at);
    return isfinite(a) ? a - (double)f[at] : 0;
}

/* Power iteration on eᵀe from the rows' squared norms; ten steps settle a dominant direction, and without one the share is small anyway. */
static double largest_direction(vd_dtype type, const void *y, const float *f, int64_t rows, int64_t cols, double *u, double *v)
{
    double square = 0;
    for (int64_t j = 0; j < cols; j++)
        v[j] = sqrt(v[j]);
    for (int round = 0; round < 10; round++) {
        double norm = 0;
        for (int64_t j = 0; j < cols; j++)
            norm += v[j] * v[j];
        if (norm == 0)
            return 0;
        norm = sqrt(norm);
        for (int64_t j = 0; j < cols; j++)
            v[j] /= norm;
        square = 0;
        for (int64_t i = 0; i < rows; i++) {
            u[i] = 0;
            for (int64_t j = 0; j < cols; j++)
                u[i] += error_at(type, y, f, i * cols + j) * v[j];
            square += u[i] * u[i];
        }
        memset(v, 0, (size_t)cols * sizeof *v);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++)
                v[j] += error_at(type, y, f, i * cols + j) * u[i];
    }
    return square;
}

void vd_error_shape_measure(vd_dtype type, const void *y, const float *f, int64_t rows, int64_t cols, double *scratch, vd_error_shape *out)
{
    double *by_row = scratch, *by_col = scratch + rows;
    double  dot = 0, ff = 0, ee = 0, sum = 0;
    memset(out, 0, sizeof *out);
    memset(scratch, 0, (size_t)(rows + cols) * sizeof *scratch);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const int64_t at = i * cols + j;
            const double  e = error_at(type, y, f, at), b = (double)f[at];
            dot += (b + e) * b;
            ff += b * b;
            ee += e * e;
            sum += e;
            by_row[i] += e * e;
            by_col[j] += e * e;
        }
    for (int64_t i = 1; i < rows; i++)
        if (by_row[i] > by_row[out->row])
            out->row = i;
    for (int64_t j = 1; j < cols; j++)
        if (by_col[j] > by_col[out->channel])
            out->channel = j;
    out->row_share     = ee > 0 ? by_row[out->row] / ee : 0;
    out->channel_share = ee > 0 ? by_col[out->channel] / ee : 0;
    out->gain          = ff > 0 ? dot / ff : 1;
    out->bias          = ff > 0 ? sum / sqrt(ff * (double)(rows * cols)) : 0;
    double row_dot = 0, row_yy = 0, row_ff = 0;
    for (int64_t j = 0; j < cols; j++) {
        const int64_t at = out->row * cols + j;
        const double  b = (double)f[at], a = b + error_at(type, y, f, at);
        row_dot += a * b, row_yy += a * a, row_ff += b * b;
    }
    out->row_gain   = row_ff > 0 ? row_dot / row_ff : 1;
    out->row_cosine = cosine_error(row_dot, row_yy, row_ff);
    out->rank1      = ee > 0 ? largest_direction(type, y, f, rows, cols, by_row, by_col) / ee : 0;
}

float vd_quantile(const float *sorted, int64_t n, double q)
{
    int64_t at = (int64_t)ceil(q * (double)n) - 1;
    return sorted[at < 0 ? 0 : at >= n ? n - 1 : at];
}

/* Heap sort: no recursion, no memory, n log n whatever the file holds. */
void vd_sort_errors(float *errors, int64_t n)
{
    for (int64_t start = n / 2 - 1, end = n; end > 1;) {
        if (start >= 0) {
            start--;
        } else {
            end--;
            const float top = errors[0];
            errors[0]       = errors[end];
            errors[end]     = top;
        }
        for (int64_t root = start + 1, child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && errors[child + 1] > errors[child])
                child++;
            if (errors[root] >= errors[child])
                break;
            const float swap = errors[root];
            errors[root]     = errors[child];
            errors[child]    = swap;
        }
    }
}
