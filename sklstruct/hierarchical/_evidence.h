/* Loops over the outcomes of a node, for _evidence_fast.pyx; why in C: _vector.h. */
#ifndef SKLSTRUCT_EVIDENCE_H
#define SKLSTRUCT_EVIDENCE_H

#include "_vector.h"

/* a = the evidence of n margins z: -(1 - z)^2 below 1, `beyond` times what is more. */
SKLSTRUCT_WIDE static void sklstruct_hinge_evidence(
    ptrdiff_t n, const float *z, double beyond, double *a)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        double gap = (double)z[i] - 1.0;
        a[i] = gap > 0 ? beyond * gap : -gap * gap;
    }
}

/* a *= w; returns the largest. Eight running maxima. */
SKLSTRUCT_WIDE static double sklstruct_scaled(ptrdiff_t n, double *a, double w)
{
    double most[8], top = -INFINITY;
    ptrdiff_t i, j;
    for (j = 0; j < 8; j++)
        most[j] = -INFINITY;
    for (i = 0; i + 8 <= n; i += 8)
        for (j = 0; j < 8; j++) {
            a[i + j] *= w;
            most[j] = a[i + j] > most[j] ? a[i + j] : most[j];
        }
    for (; i < n; i++) {
        a[i] *= w;
        top = a[i] > top ? a[i] : top;
    }
    for (j = 0; j < 8; j++)
        top = most[j] > top ? most[j] : top;
    return top;
}

#endif
