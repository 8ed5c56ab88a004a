/* Scores of the outcomes of a node whose weights are stored by feature.
 *
 * The bits of `words` are the features that have weights; rank[w] of them come before
 * word w, so that a feature is found by two reads. Row r of the weights is
 * cell[start[r]] to cell[start[r + 1]]: M floats, one per lane, or, if that is shorter,
 * n floats and then their n lanes, two 16-bit numbers per cell. start is NULL if all
 * rows have M floats. If `given` is not negative, the features from `given` on are the
 * scores themselves: the weights are 1, and the values of dense samples are copied.
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
    ptrdiff_t given;
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

/* Row of a feature, -1 for a feature without weights. */
static inline ptrdiff_t sklstruct_row(
    const uint64_t *words, const int32_t *rank, int32_t feature)
{
    uint64_t word = words[feature >> 6], bit = (uint64_t)1 << (feature & 63);
    if (!(word & bit))
        return -1;
    return rank[feature >> 6] + sklstruct_ones(word & (bit - 1));
}

enum { SKLSTRUCT_AHEAD = 64 };

/* The rows of weights of up to SKLSTRUCT_AHEAD features of a sample in a node. `full`
 * lists the rows with M floats, `part` the shorter rows. */
typedef struct {
    ptrdiff_t n, n_full, n_part;
    int32_t row[SKLSTRUCT_AHEAD], entries[SKLSTRUCT_AHEAD];
    float value[SKLSTRUCT_AHEAD];
    uint8_t full[SKLSTRUCT_AHEAD], part[SKLSTRUCT_AHEAD];
    const uint32_t *cell[SKLSTRUCT_AHEAD];
} sklstruct_hits;

/* The scores of a sample are computed in three stages, because its features are far
 * from each other in memory and each is read once: find the rows, read their starts,
 * add them up. The reads of a stage do not wait for each other, and each stage
 * prefetches the reads of the next stage. Tried without gain: the first stages of the
 * next node or sample before the last stage of this one.
 *
 * The set and number of features that have weights differ from sample to sample. A
 * branch per feature would be mispredicted every other time, which takes longer than
 * adding up a row: so the loops do not branch on single rows.
 *
 * Stage one, for features first to first + SKLSTRUCT_AHEAD of n: x are the values of
 * the features index, or of 0, 1, 2, ... if index is NULL. */
SKLSTRUCT_WIDE static void sklstruct_find(
    const sklstruct_weights *node, ptrdiff_t n, const float *x, const int32_t *index,
    ptrdiff_t first, sklstruct_hits *hits)
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
        hits->row[found] = row;
        hits->value[found] = x[first + k];
        found += (word & bit) != 0;
        if (node->start)
            SKLSTRUCT_PREFETCH(node->start + row);
    }
    hits->n = found;
}

/* Stage two: where the weights of the rows start, and how many each row has. */
SKLSTRUCT_WIDE static void sklstruct_locate(
    const sklstruct_weights *node, sklstruct_hits *hits)
{
    const uint32_t *start = node->start;
    ptrdiff_t k, n_full = 0, n_part = 0;
    if (start) {
        for (k = 0; k < hits->n; k++) {
            uint32_t at = start[hits->row[k]];
            ptrdiff_t length = start[hits->row[k] + 1] - at;
            const uint32_t *cell = node->cell + at;
            hits->cell[k] = cell;
            hits->entries[k] = (int32_t)(2 * length / 3);
            hits->full[n_full] = hits->part[n_part] = (uint8_t)k;
            n_full += length >= node->M;
            n_part += length < node->M;
            SKLSTRUCT_PREFETCH(cell);
            SKLSTRUCT_PREFETCH(cell + (length > 16 ? 16 : 0));
        }
    } else {
        for (k = 0; k < hits->n; k++) {
            hits->cell[k] = node->cell + hits->row[k] * node->M;
            hits->full[k] = (uint8_t)k;
            SKLSTRUCT_PREFETCH(hits->cell[k]);
        }
        n_full = hits->n;
    }
    hits->n_full = n_full;
    hits->n_part = n_part;
}

/* READY: entries that are gathered before they are added up. SPARE: cells behind the
 * last row that may be read. */
enum { SKLSTRUCT_READY = 1024, SKLSTRUCT_SPARE = 16 };

/* Stage three: z (M,) += the rows times the values, the shorter rows first. The entries
 * of the shorter rows are copied one row behind the other, always sixteen at once (so up
 * to SKLSTRUCT_SPARE cells behind the last row are read), and added up in one run. The
 * copy is a memcpy, because surplus cells may be lanes. Lanes read as floats are
 * denormal, and arithmetic with denormal numbers is slow. */
SKLSTRUCT_WIDE static void sklstruct_add_up(
    const sklstruct_weights *node, const sklstruct_hits *hits, float *z)
{
    const ptrdiff_t M = node->M;
    float weight[SKLSTRUCT_READY + 16], factor[SKLSTRUCT_READY + 16];
    uint16_t lane[SKLSTRUCT_READY + 16];
    ptrdiff_t i, j, k, r, ready = 0;
    if (M == 1) {
        for (k = 0; k < hits->n; k++)
            z[0] += hits->value[k] * *(const float *)hits->cell[k];
        return;
    }
    for (r = 0; r < hits->n_part; r++) {
        const float *w;
        const uint16_t *to;
        ptrdiff_t entries, left;
        float value;
        k = hits->part[r];
        entries = left = hits->entries[k];
        w = (const float *)hits->cell[k];
        to = (const uint16_t *)(hits->cell[k] + entries);
        value = hits->value[k];
        for (;;) {
            memcpy(weight + ready, w, 16 * sizeof(float));
            memcpy(lane + ready, to, 16 * sizeof(uint16_t));
            for (j = 0; j < 16; j++)
                factor[ready + j] = value;
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
        sklstruct_v8 *out = (sklstruct_v8 *)(z + i), low = out[0], high = out[1];
        for (r = 0; r < hits->n_full; r++) {
            float value = hits->value[hits->full[r]];
            const sklstruct_v8 *w =
                (const sklstruct_v8 *)(hits->cell[hits->full[r]] + i);
            low += value * w[0];
            high += value * w[1];
        }
        out[0] = low;
        out[1] = high;
#else
        for (r = 0; r < hits->n_full; r++)
            for (j = 0; j < 16; j++)
                z[i + j] += hits->value[hits->full[r]] *
                            ((const float *)hits->cell[hits->full[r]])[i + j];
#endif
    }
}

/* z (M,) = the scores of a sample of n values x of the features index, or of 0, 1, 2,
 * ... if index is NULL. Each score is one sum in single precision, in an order that
 * depends on the features of the sample alone. */
static inline void sklstruct_node_scores(
    const sklstruct_weights *node, ptrdiff_t n, const float *x, const int32_t *index,
    float *z)
{
    sklstruct_hits hits;
    ptrdiff_t first = node->given;
    memcpy(z, node->intercept, (size_t)node->M * sizeof(float));
    if (first >= 0 && !index) {
        ptrdiff_t width = n - first < node->M ? n - first : node->M;
        memcpy(z, x + first, (size_t)width * sizeof(float));
        return;
    }
    for (first = 0; first < n; first += SKLSTRUCT_AHEAD) {
        sklstruct_find(node, n, x, index, first, &hits);
        sklstruct_locate(node, &hits);
        sklstruct_add_up(node, &hits, z);
    }
}

#endif
