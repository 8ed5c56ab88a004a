/* Passes over a row of scores, in C for the reason that _vector.h gives. */
#ifndef SKLSTRUCT_JOINT_H
#define SKLSTRUCT_JOINT_H

#include "_vector.h"

/* p[i] = exp(s[i] - top) over the sum of all; returns ln of the sum of exp(s). Sixteen
 * running maxima and sums, combined in one order: the result depends on s alone. */
SKLSTRUCT_WIDE static double sklstruct_softmax(ptrdiff_t n, const float *s, float *p)
{
    float best[16], sum[16], last[16], top, scale;
    double total = 0.0;
    ptrdiff_t i, j, body = n - n % 16;
    for (j = 0; j < 16; j++) {
        /* The rest of a row, filled up with numbers whose exponential is nothing:
         * one by one these would cost as much as all others. */
        last[j] = body + j < n ? s[body + j] : -INFINITY;
        best[j] = last[j];
        sum[j] = 0.0f;
    }
    for (i = 0; i < body; i += 16)
        for (j = 0; j < 16; j++)
            best[j] = s[i + j] > best[j] ? s[i + j] : best[j];
    top = best[0];
    for (j = 1; j < 16; j++)
        top = best[j] > top ? best[j] : top;
    for (i = 0; i < body; i += 16) {
        for (j = 0; j < 16; j++)
            p[i + j] = sklstruct_expf(s[i + j] - top);
        for (j = 0; j < 16; j++)
            sum[j] += p[i + j];
    }
    for (j = 0; j < 16; j++)
        last[j] = sklstruct_expf(last[j] - top);
    for (i = body; i < n; i++) {
        p[i] = last[i - body];
        sum[i - body] += p[i];
    }
    for (j = 0; j < 16; j++)
        total += sum[j];
    scale = (float)(1.0 / total);
    for (i = 0; i < n; i++)
        p[i] *= scale;
    return (double)top + log(total);
}

/* b += a */
SKLSTRUCT_WIDE static void sklstruct_add_row(ptrdiff_t n, const float *a, float *b)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++)
        b[i] += a[i];
}

/* a *= factor */
SKLSTRUCT_WIDE static void sklstruct_scale_row(ptrdiff_t n, float factor, float *a)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++)
        a[i] *= factor;
}

#endif
