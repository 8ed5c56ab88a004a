/* The passes of the coordinate solvers over the contexts of one feature. In C for the
 * reason that _vector.h gives.
 */
#ifndef SKLSTRUCT_COLUMNS_H
#define SKLSTRUCT_COLUMNS_H

#include "_vector.h"

/* sums[0] = sum of t P, sums[1] = sum of t P (1 - P), with P = s / z. Eight running sums
 * each, added in one order. */
SKLSTRUCT_WIDE static void sklstruct_moments(
    ptrdiff_t n, const double *t, const double *s, const double *z, double *sums)
{
    double e[8] = {0, 0, 0, 0, 0, 0, 0, 0}, v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    ptrdiff_t i, j;
    for (i = 0; i + 8 <= n; i += 8)
        for (j = 0; j < 8; j++) {
            double inverse = 1.0 / z[i + j], r = t[i + j] * s[i + j] * inverse;
            e[j] += r;
            v[j] += r * (z[i + j] - s[i + j]) * inverse;
        }
    for (; i < n; i++) {
        double inverse = 1.0 / z[i], r = t[i] * s[i] * inverse;
        e[0] += r;
        v[0] += r * (z[i] - s[i]) * inverse;
    }
    sums[0] = ((e[0] + e[4]) + (e[2] + e[6])) + ((e[1] + e[5]) + (e[3] + e[7]));
    sums[1] = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* s is multiplied by `factor` and z follows; z >= s in spite of rounding. */
SKLSTRUCT_WIDE static void sklstruct_rescale(
    ptrdiff_t n, double factor, double *s, double *z)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        double here = factor * s[i], total = z[i] + (factor - 1.0) * s[i];
        s[i] = here;
        z[i] = total > here ? total : here;
    }
}

#endif
