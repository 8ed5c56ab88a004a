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

/* What a sample meets in a node: up to SKLSTRUCT_AHEAD of its features. Rows of all
 * lanes and shorter ones are kept apart, in `full` and `part`. */
typedef struct {
    ptrdiff_t n, n_full, n_part;
    int32_t row[SKLSTRUCT_AHEAD], entries[SKLSTRUCT_AHEAD];
    float value[SKLSTRUCT_AHEAD];
    uint8_t full[SKLSTRUCT_AHEAD], part[SKLSTRUCT_AHEAD];
    const uint32_t *cell[SKLSTRUCT_AHEAD];
} sklstruct_met;

/* The scores of a sample are made in three stages, because its features are far from
 * each other in memory and it meets each once: rows are found, then where they start is
 * read, then they are added up. The reads of a stage do not wait for each other, and
 * what a stage will read is asked for in the one before. Callers that know the next
 * node or sample can let the first stages of one go before the last of another.
 *
 * Which features have weights, and how many, is different for each sample, and a branch
 * on it is guessed wrongly as often as not, which takes longer than adding up a row: so
 * there is none for the single row.
 *
 * Stage one, for features first to first + SKLSTRUCT_AHEAD of n: x of the features
 * index, or of 0, 1, 2, ... where index is NULL. */
SKLSTRUCT_WIDE static void sklstruct_find(
    const sklstruct_weights *node, ptrdiff_t n, const float *x, const int32_t *index,
    ptrdiff_t first, sklstruct_met *met)
{
    const uint64_t *words = node->words;
    const int32_t *rank = node->rank;
    ptrdiff_t k, found = 0;
    ptrdiff_t count = n - first < SKLSTRUCT_AHEAD ? n - first : SKLSTRUCT_AHEAD;
    for (k = 0; k < count; k++) {
        int32_t feature = index ? index[first + k] : (int32_t)(first + k);
        uint64_t word = words[feature >> 6];
        uint64_t bit = (uint64_t)1 << (feature & 63);
        int32_t row = rank[feature >> 6] + (int32_t)sklstruct_ones(word & (bit - 1));
        met->row[found] = row;
        met->value[found] = x[first + k];
        found += (word & bit) != 0;
        if (node->start)
            SKLSTRUCT_PREFETCH(node->start + row);
    }
    met->n = found;
}

/* Stage two. */
SKLSTRUCT_WIDE static void sklstruct_reach(
    const sklstruct_weights *node, sklstruct_met *met)
{
    const uint32_t *start = node->start;
    ptrdiff_t k, n_full = 0, n_part = 0;
    if (start) {
        for (k = 0; k < met->n; k++) {
            uint32_t at = start[met->row[k]];
            ptrdiff_t length = start[met->row[k] + 1] - at;
            const uint32_t *cell = node->cell + at;
            met->cell[k] = cell;
            met->entries[k] = (int32_t)(2 * length / 3);
            met->full[n_full] = met->part[n_part] = (uint8_t)k;
            n_full += length >= node->M;
            n_part += length < node->M;
            SKLSTRUCT_PREFETCH(cell);
            SKLSTRUCT_PREFETCH(cell + (length > 16 ? 16 : 0));
        }
    } else {
        for (k = 0; k < met->n; k++) {
            met->cell[k] = node->cell + met->row[k] * node->M;
            met->full[k] = (uint8_t)k;
            SKLSTRUCT_PREFETCH(met->cell[k]);
        }
        n_full = met->n;
    }
    met->n_full = n_full;
    met->n_part = n_part;
}

/* Entries that are made ready to be added up. */
enum { SKLSTRUCT_READY = 1024, SKLSTRUCT_SPARE = 16 };

/* Stage three: z (M,) += what was met, the shorter rows first. Their entries are copied
 * one row behind the other, always sixteen of them (SKLSTRUCT_SPARE cells behind the
 * last row are read so), and added up in one run. They are copied as they are: what is
 * read too much may be lanes, which as floats are too small for fast arithmetic. */
SKLSTRUCT_WIDE static void sklstruct_add_up(
    const sklstruct_weights *node, const sklstruct_met *met, float *z)
{
    const ptrdiff_t M = node->M;
    float weight[SKLSTRUCT_READY + 16], factor[SKLSTRUCT_READY + 16];
    uint16_t lane[SKLSTRUCT_READY + 16];
    ptrdiff_t i, k, r, ready = 0;
#ifndef SKLSTRUCT_VECTORS
    ptrdiff_t j;
#endif
    if (M == 1) {
        for (k = 0; k < met->n; k++)
            z[0] += met->value[k] * *(const float *)met->cell[k];
        return;
    }
    for (r = 0; r < met->n_part; r++) {
        const float *w;
        const uint16_t *to;
        ptrdiff_t entries, left;
        float value;
        k = met->part[r];
        entries = left = met->entries[k];
        w = (const float *)met->cell[k];
        to = (const uint16_t *)(met->cell[k] + entries);
        value = met->value[k];
        for (;;) {
            memcpy(weight + ready, w, 16 * sizeof(float));
            memcpy(lane + ready, to, 16 * sizeof(uint16_t));
#ifdef SKLSTRUCT_VECTORS
            *(sklstruct_v16 *)(factor + ready) = value - (sklstruct_v16){0};
#else
            for (j = 0; j < 16; j++)
                factor[ready + j] = value;
#endif
            ready += left < 16 ? left : 16;
            if (ready > SKLSTRUCT_READY - 16) {
                for (i = 0; i < ready; i++)
                    z[lane[i]] += factor[i] * weight[i];
                ready = 0;
            }
            if (left <= 16)
                break;
            left -= 16;
            w += 16;
            to += 16;
        }
    }
    for (i = 0; i < ready; i++)
        z[lane[i]] += factor[i] * weight[i];
    for (i = 0; i < M; i += 16) {
#ifdef SKLSTRUCT_VECTORS
        sklstruct_v16 sum = *(sklstruct_v16 *)(z + i);
        for (r = 0; r < met->n_full; r++)
            sum += met->value[met->full[r]] *
                   *(const sklstruct_v16 *)(met->cell[met->full[r]] + i);
        *(sklstruct_v16 *)(z + i) = sum;
#else
        for (r = 0; r < met->n_full; r++)
            for (j = 0; j < 16; j++)
                z[i + j] += met->value[met->full[r]] *
                            ((const float *)met->cell[met->full[r]])[i + j];
#endif
    }
}

/* z (M,) = the scores of a sample of n values x of the features index, or of 0, 1, 2,
 * ... where index is NULL. Each is one sum in single precision, in an order that the
 * sample's features fix: a function of the sample alone. `met` is room, or, with `asked`,
 * has the first features after stage two. */
static inline void sklstruct_node_scores(
    const sklstruct_weights *node, ptrdiff_t n, const float *x, const int32_t *index,
    float *z, sklstruct_met *met, int asked)
{
    ptrdiff_t first;
    memcpy(z, node->intercept, (size_t)node->M * sizeof(float));
    for (first = 0; first < n; first += SKLSTRUCT_AHEAD) {
        if (first > 0 || !asked) {
            sklstruct_find(node, n, x, index, first, met);
            sklstruct_reach(node, met);
        }
        sklstruct_add_up(node, met, z);
    }
}

#endif
