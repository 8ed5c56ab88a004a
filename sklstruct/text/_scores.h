/* Scores of a text by weights of 8 bits, which are stored by column.
 *
 * The weights of column f are scale[f] times the bytes weight[at[f]], ... A column with a
 * byte for each of the n_scores has no gaps; in others gap[before[f]], ... are the
 * numbers of scores that are passed over before each byte.
 */
#ifndef SKLSTRUCT_SCORES_H
#define SKLSTRUCT_SCORES_H

#include "_vector.h"

typedef struct {
    const int64_t *at;     /* (n_columns + 1,) */
    const int64_t *before; /* (n_columns + 1,) */
    const float *scale;    /* (n_columns,) */
    const int8_t *weight;
    const uint8_t *gap;
    ptrdiff_t n_scores;
} sklstruct_bytes;

/* z (n_scores,) += factor times the weights of the n columns `index` times x. */
SKLSTRUCT_WIDE static void sklstruct_add_columns(
    const sklstruct_bytes *w, ptrdiff_t n, const int32_t *index, const float *x,
    float factor, float *z)
{
    const ptrdiff_t m = w->n_scores;
    ptrdiff_t i, k;
    for (i = 0; i < n; i++) {
        const int32_t f = index[i];
        const int8_t *weight = w->weight + w->at[f];
        const ptrdiff_t count = w->at[f + 1] - w->at[f];
        const float value = x[i] * factor * w->scale[f];
        if (count == m) {
            for (k = 0; k < m; k++)
                z[k] += value * (float)weight[k];
        } else {
            const uint8_t *gap = w->gap + w->before[f];
            ptrdiff_t score = -1;
            for (k = 0; k < count; k++) {
                score += (ptrdiff_t)gap[k] + 1;
                z[score] += value * (float)weight[k];
            }
        }
    }
}

#endif
