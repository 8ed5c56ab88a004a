/* Scores of the outcomes of a node whose weights are stored by feature.
 *
 * Features that have weights are the bits of `words`; rank[w] of them come before word
 * w, so that a feature is found by two reads. Row r of the weights is cell[start[r]] to
 * cell[start[r + 1]]: M floats, one a lane, or, where that is shorter, n floats and then
 * their n lanes, two 16-bit numbers in a cell. start is NULL where all rows have M.
 */
#ifndef SKLSTRUCT_WEIGHTS_H
#define SKLSTRUCT_WEIGHTS_H

#include "_vector.h"

typedef struct {
    const uint64_t *words;
    const int32_t *rank;
    const uint32_t *start;
    const uint32_t *cell;
    const float *intercept; /* (M,) */
    ptrdiff_t M;
} sklstruct_weights;

static inline ptrdiff_t sklstruct_ones(uint64_t x)
{
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_popcountll(x);
#else
    x = x - ((x >> 1) & 0x5555555555555555u);
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (ptrdiff_t)((x * 0x0101010101010101u) >> 56);
#endif
}

/* Row of a feature, -1 for one without weights. */
static inline ptrdiff_t sklstruct_row(
    const uint64_t *words, const int32_t *rank, int32_t feature)
{
    uint64_t word = words[feature >> 6], bit = (uint64_t)1 << (feature & 63);
    if (!(word & bit))
        return -1;
    return rank[feature >> 6] + sklstruct_ones(word & (bit - 1));
}

/* z (M,) = the scores of a sample: n values x of the features index, or of 0, 1, 2, ...
 * where index is NULL. Each is one sum in single precision, in the order of the
 * sample's features: a function of the sample alone. */
SKLSTRUCT_WIDE static void sklstruct_node_scores(
    const sklstruct_weights *node, ptrdiff_t n, const float *x, const int32_t *index,
    float *z)
{
    const ptrdiff_t M = node->M;
    ptrdiff_t i, j, k;
    memcpy(z, node->intercept, (size_t)M * sizeof(float));
    for (k = 0; k < n; k++) {
        int32_t feature = index ? index[k] : (int32_t)k;
        ptrdiff_t row = sklstruct_row(node->words, node->rank, feature);
        ptrdiff_t length = M;
        const uint32_t *cell;
        const float *w;
        if (row < 0)
            continue;
        if (node->start) {
            cell = node->cell + node->start[row];
            length = (ptrdiff_t)(node->start[row + 1] - node->start[row]);
        } else
            cell = node->cell + row * M;
        w = (const float *)cell;
        if (length < M) {
            ptrdiff_t count = 2 * length / 3;
            const uint16_t *lane = (const uint16_t *)(cell + count);
            for (i = 0; i < count; i++)
                z[lane[i]] += x[k] * w[i];
        } else if (M == 1)
            z[0] += x[k] * w[0];
        else
            for (i = 0; i < M; i += 16)
                for (j = 0; j < 16; j++)
                    z[i + j] += x[k] * w[i + j];
    }
}

#endif
