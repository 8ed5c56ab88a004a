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

/* How many of n weights factor * w are larger than least. */
SKLSTRUCT_WIDE static ptrdiff_t sklstruct_above(
    ptrdiff_t n, const float *w, float factor, const float *least)
{
    int32_t count[16] = {0};
    ptrdiff_t total = 0, i, j;
    for (i = 0; i + 16 <= n; i += 16)
        for (j = 0; j < 16; j++)
            count[j] += fabsf(factor * w[i + j]) > least[i + j];
    for (; i < n; i++)
        total += fabsf(factor * w[i]) > least[i];
    for (j = 0; j < 16; j++)
        total += count[j];
    return total;
}

enum { SKLSTRUCT_AHEAD = 64 };

/* z (M,) = the scores of a sample: n values x of the features index, or of 0, 1, 2, ...
 * where index is NULL. Each is one sum in single precision, in the order of the
 * sample's features: a function of the sample alone.
 *
 * Features are far from each other in memory, and a sample meets each once. So rows of
 * 64 features are found first, then where they start, then they are added up: the
 * reads of a stage do not wait for each other. */
SKLSTRUCT_WIDE static void sklstruct_node_scores(
    const sklstruct_weights *node, ptrdiff_t n, const float *x, const int32_t *index,
    float *z)
{
    const ptrdiff_t M = node->M;
    const uint32_t *cell[SKLSTRUCT_AHEAD];
    int32_t row[SKLSTRUCT_AHEAD], length[SKLSTRUCT_AHEAD];
    float value[SKLSTRUCT_AHEAD];
    ptrdiff_t i, j, k, first, found, count;
    memcpy(z, node->intercept, (size_t)M * sizeof(float));
    for (first = 0; first < n; first += SKLSTRUCT_AHEAD) {
        count = n - first < SKLSTRUCT_AHEAD ? n - first : SKLSTRUCT_AHEAD;
        found = 0;
        for (k = 0; k < count; k++) {
            int32_t feature = index ? index[first + k] : (int32_t)(first + k);
            uint64_t word = node->words[feature >> 6];
            uint64_t bit = (uint64_t)1 << (feature & 63);
            row[found] = node->rank[feature >> 6] +
                         (int32_t)sklstruct_ones(word & (bit - 1));
            value[found] = x[first + k];
            found += (word & bit) != 0;
        }
        if (node->start) {
            for (k = 0; k < found; k++)
                SKLSTRUCT_PREFETCH(node->start + row[k]);
            for (k = 0; k < found; k++) {
                uint32_t at = node->start[row[k]];
                length[k] = (int32_t)(node->start[row[k] + 1] - at);
                cell[k] = node->cell + at;
                SKLSTRUCT_PREFETCH(cell[k]);
                if (length[k] > 16)
                    SKLSTRUCT_PREFETCH(cell[k] + 16);
            }
        } else
            for (k = 0; k < found; k++) {
                length[k] = (int32_t)M;
                cell[k] = node->cell + row[k] * M;
                SKLSTRUCT_PREFETCH(cell[k]);
            }
        for (k = 0; k < found; k++) {
            const float *w = (const float *)cell[k];
            if (length[k] < M) {
                ptrdiff_t entries = 2 * length[k] / 3;
                const uint16_t *lane = (const uint16_t *)(cell[k] + entries);
                for (i = 0; i < entries; i++)
                    z[lane[i]] += value[k] * w[i];
            } else if (M == 1)
                z[0] += value[k] * w[0];
            else
                for (i = 0; i < M; i += 16)
                    for (j = 0; j < 16; j++)
                        z[i + j] += value[k] * w[i + j];
        }
    }
}

#endif
