/* Passes over a row of scores for the multinomial loss. _vector.h says why they are in
 * C. Eight running maxima or sums are joined in a fixed order, so that the result
 * depends on the row alone. d and out have the type of X, everything else is double.
 */
#ifndef SKLSTRUCT_SOFTMAX_H
#define SKLSTRUCT_SOFTMAX_H

#include "_vector.h"

#define SKLSTRUCT_PASSES(name, real)                                                \
    /* u = z + t d; returns the largest u that is not NaN */                        \
    SKLSTRUCT_WIDE static double sklstruct_move_##name(                             \
        ptrdiff_t n, const double *z, const real *d, double t, double *u)           \
    {                                                                               \
        double top[8], all = -INFINITY;                                             \
        ptrdiff_t i, j;                                                             \
        for (j = 0; j < 8; j++)                                                     \
            top[j] = -INFINITY;                                                     \
        for (i = 0; i + 8 <= n; i += 8)                                             \
            for (j = 0; j < 8; j++) {                                               \
                u[i + j] = z[i + j] + t * d[i + j];                                 \
                top[j] = u[i + j] > top[j] ? u[i + j] : top[j];                     \
            }                                                                       \
        for (; i < n; i++) {                                                        \
            u[i] = z[i] + t * d[i];                                                 \
            all = u[i] > all ? u[i] : all;                                          \
        }                                                                           \
        for (j = 0; j < 8; j++)                                                     \
            all = top[j] > all ? top[j] : all;                                      \
        return all;                                                                 \
    }                                                                               \
                                                                                    \
    /* out = a e; returns the product of out and d */                               \
    SKLSTRUCT_WIDE static double sklstruct_residual_##name(                         \
        ptrdiff_t n, const double *e, double a, const real *d, real *out)           \
    {                                                                               \
        double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, rest = 0;                         \
        ptrdiff_t i, j;                                                             \
        for (i = 0; i + 8 <= n; i += 8)                                             \
            for (j = 0; j < 8; j++) {                                               \
                out[i + j] = (real)(a * e[i + j]);                                  \
                sum[j] += a * e[i + j] * d[i + j];                                  \
            }                                                                       \
        for (; i < n; i++) {                                                        \
            out[i] = (real)(a * e[i]);                                              \
            rest += a * e[i] * d[i];                                                \
        }                                                                           \
        return ((sum[0] + sum[4]) + (sum[2] + sum[6])) +                            \
               ((sum[1] + sum[5]) + (sum[3] + sum[7])) + rest;                      \
    }

SKLSTRUCT_PASSES(double, double)
SKLSTRUCT_PASSES(float, float)

#endif
