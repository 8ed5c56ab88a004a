/* The inner loops of _fasttext_fast.pyx. _vector.h says why they are in C.
 *
 * Each number is a float32 sum of products in the order of the columns, or of rows in
 * their order, as in fastText, so that predictions are those of fastText. Wide
 * registers hold many sums at a time, and never parts of one sum.
 */
#ifndef SKLSTRUCT_FASTTEXT_H
#define SKLSTRUCT_FASTTEXT_H

#include "_vector.h"

/* Number of rows of a matrix whose products are computed together. */
enum { SKLSTRUCT_ROWS = 16 };

/* out[s] = sum over j < n of block[j][s] x[j], for 16 rows s that lie side by side. */
SKLSTRUCT_WIDE static void sklstruct_sixteen_products(
    ptrdiff_t n, const float *block, const float *x, float *out)
{
    ptrdiff_t j;
#ifdef SKLSTRUCT_VECTORS
    sklstruct_v8 *sum = (sklstruct_v8 *)out, low = {0}, high = {0};
    for (j = 0; j < n; j++) {
        const sklstruct_v8 *row = (const sklstruct_v8 *)(block + j * SKLSTRUCT_ROWS);
        low += row[0] * x[j];
        high += row[1] * x[j];
    }
    sum[0] = low;
    sum[1] = high;
#else
    ptrdiff_t s;
    for (s = 0; s < SKLSTRUCT_ROWS; s++)
        out[s] = 0;
    for (j = 0; j < n; j++)
        for (s = 0; s < SKLSTRUCT_ROWS; s++)
            out[s] += block[j * SKLSTRUCT_ROWS + s] * x[j];
#endif
}

/* out = the sum of the given rows of a float32 matrix of n columns, which may begin at
 * any byte. Sixteen columns at a time stay in registers. */
SKLSTRUCT_WIDE static void sklstruct_sum_rows(
    ptrdiff_t n, const unsigned char *matrix, ptrdiff_t n_rows, const int32_t *rows,
    float *out)
{
    const ptrdiff_t width = n * (ptrdiff_t)sizeof(float);
    ptrdiff_t i, j, begin;
    float some[SKLSTRUCT_ROWS], value;
    for (begin = 0; begin + SKLSTRUCT_ROWS <= n; begin += SKLSTRUCT_ROWS) {
        float sum[SKLSTRUCT_ROWS] = {0};
        for (i = 0; i < n_rows; i++) {
            memcpy(some, matrix + rows[i] * width + begin * 4, sizeof(some));
            for (j = 0; j < SKLSTRUCT_ROWS; j++)
                sum[j] += some[j];
        }
        memcpy(out + begin, sum, sizeof(sum));
    }
    for (j = begin; j < n; j++)
        out[j] = 0;
    for (i = 0; i < n_rows && begin < n; i++)
        for (j = begin; j < n; j++) {
            memcpy(&value, matrix + rows[i] * width + j * 4, sizeof(value));
            out[j] += value;
        }
}

/* The sum of rows of a matrix of codes. A row has n_parts parts of `part` columns, the
 * last part `last` columns; part m is row code[m] of the 256 centroids of part m. If
 * `scale` is not NULL, row r is multiplied by scale[scale_code[r]]. */
static void sklstruct_sum_codes(
    ptrdiff_t n, const unsigned char *codes, ptrdiff_t n_parts, ptrdiff_t part,
    ptrdiff_t last, const float *centroids, const unsigned char *scale_code,
    const float *scale, ptrdiff_t n_rows, const int32_t *rows, float *out)
{
    ptrdiff_t i, j, m;
    for (j = 0; j < n; j++)
        out[j] = 0;
    for (i = 0; i < n_rows; i++) {
        const unsigned char *code = codes + (ptrdiff_t)rows[i] * n_parts;
        const float a = scale ? scale[scale_code[rows[i]]] : 1.0f;
        const float *c = centroids;
        float *x = out;
        if (part == 2) /* fastText's default: two columns known to the compiler */
            for (m = 0; m + 1 < n_parts; m++, c += 512, x += 2) {
                x[0] += a * c[code[m] * 2];
                x[1] += a * c[code[m] * 2 + 1];
            }
        else
            for (m = 0; m + 1 < n_parts; m++, c += 256 * part, x += part)
                for (j = 0; j < part; j++)
                    x[j] += a * c[code[m] * part + j];
        for (j = 0; j < last; j++)
            x[j] += a * c[code[n_parts - 1] * last + j];
    }
}

/* The product of row r of a matrix of codes with x. */
static float sklstruct_product_of_codes(
    const unsigned char *codes, ptrdiff_t n_parts, ptrdiff_t part, ptrdiff_t last,
    const float *centroids, const unsigned char *scale_code, const float *scale,
    ptrdiff_t r, const float *x)
{
    const unsigned char *code = codes + r * n_parts;
    const float *c = centroids;
    ptrdiff_t j, m;
    float sum = 0;
    for (m = 0; m + 1 < n_parts; m++, c += 256 * part, x += part)
        for (j = 0; j < part; j++)
            sum += x[j] * c[code[m] * part + j];
    for (j = 0; j < last; j++)
        sum += x[j] * c[code[n_parts - 1] * last + j];
    return scale ? sum * scale[scale_code[r]] : sum;
}

/* The word at the end of a line, and the default prefix of labels: a file does not have
 * the prefix. */
static const unsigned char sklstruct_mark[] = "</s>";
static const unsigned char sklstruct_prefix[] = "__label__";

/* The step of the table of the logistic function for x, -8 <= x <= 8. */
static inline ptrdiff_t sklstruct_step_of(float x)
{
    return (ptrdiff_t)((x + 8.0f) * 512.0f / 8.0f / 2.0f);
}

/* The logistic function of x as fastText rounds it: the sum in single precision. */
static inline float sklstruct_logistic(float x)
{
    return (float)(1.0 / (1.0f + expf(-x)));
}

#endif
