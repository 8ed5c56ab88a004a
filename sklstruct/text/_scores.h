/* Scores of a text by weights of 8 bits, which are stored by column.
 *
 * The weights of column f are scale[f] times the bytes from weights[at[f]] on. A column
 * with m bytes, one per score, has no gaps. For other columns the numbers from
 * gaps[before[f]] on say how many scores are skipped before each byte.
 */
#ifndef SKLSTRUCT_SCORES_H
#define SKLSTRUCT_SCORES_H

#include "_vector.h"

/* z (m,) += factor times the weights of the n columns `index` times x. */
SKLSTRUCT_WIDE static void sklstruct_add_columns(
    ptrdiff_t n, const int32_t *index, const float *x, float factor, const int64_t *at,
    const int64_t *before, const float *scale, const int8_t *weights,
    const uint8_t *gaps, ptrdiff_t m, float *z)
{
    ptrdiff_t i, k;
    for (i = 0; i < n; i++) {
        const int32_t f = index[i];
        const int8_t *weight = weights + at[f];
        const ptrdiff_t count = at[f + 1] - at[f];
        const float value = x[i] * factor * scale[f];
        if (count == m) {
            for (k = 0; k < m; k++)
                z[k] += value * (float)weight[k];
        } else {
            const uint8_t *gap = gaps + before[f];
            ptrdiff_t score = -1;
            for (k = 0; k < count; k++) {
                score += (ptrdiff_t)gap[k] + 1;
                z[score] += value * (float)weight[k];
            }
        }
    }
}

#endif
