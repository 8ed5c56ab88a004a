/* Loops over the outcomes of a node for _evidence_fast.pyx. _vector.h says why in C. */
#ifndef SKLSTRUCT_EVIDENCE_H
#define SKLSTRUCT_EVIDENCE_H

#include "_vector.h"

/* a = the evidence of n margins z: -(1 - z)^2 if z < 1, else beyond * (z - 1). */
SKLSTRUCT_WIDE static void sklstruct_hinge_evidence(
    ptrdiff_t n, const float *z, double beyond, double *a)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        double gap = (double)z[i] - 1.0;
        a[i] = gap > 0 ? beyond * gap : -gap * gap;
    }
}

#endif
