/* The row passes of a multinomial loss, in C for the reason that _vector.h gives.
 * Running maxima and sums are eight, joined in one order: the result depends on the
 * row alone. D is of X's type, everything else is double.
 */
#ifndef SKLSTRUCT_SOFTMAX_H
#define SKLSTRUCT_SOFTMAX_H

#include "_vector.h"

#define SKLSTRUCT_PASSES(name, real)                                                \
    /* u = z + t d; returns max u, NaN left out */                                  \
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
