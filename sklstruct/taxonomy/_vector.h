/* The inner loops that pay for wide registers, in C for one reason: a function of
 * plain C can be compiled for several instruction sets at once (target_clones), and
 * the dynamic linker picks one. The build stays one wheel for every x86-64 machine;
 * elsewhere, and where the toolchain has no ifunc, the default version is all there is.
 *
 * Nothing here allocates or checks: the callers are Cython kernels.
 */
#ifndef SKLSTRUCT_VECTOR_H
#define SKLSTRUCT_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef SKLSTRUCT_CLONES
#define SKLSTRUCT_WIDE                                                              \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SKLSTRUCT_WIDE
#endif

/* Elements that one step of a product takes; rows are padded to multiples of it. */
enum { SKLSTRUCT_STRIDE = 16 };

/* exp(x) for x <= 0, relative error below 2.3e-16 down to exp(-708), which is returned
 * for all smaller x; NaN for NaN. Branch-free, so that loops over it vectorise:
 * x = k log 2 + r, |r| <= log(2) / 2, Taylor's series of exp(r) to r^13 (the remainder
 * is 4e-18), and 2^k by its bits. Adding 1.5 * 2^52 rounds k to an integer and leaves
 * it in the low bits. */
static inline double sklstruct_exp(double x)
{
    const double shift = 6755399441055744.0;
    double k, n, r, p, scale;
    int64_t bits;
    x = x < -708.0 ? -708.0 : x;
    k = x * 1.4426950408889634 + shift;
    n = k - shift;
    r = x - n * 6.93147180369123816490e-01;
    r = r - n * 1.90821492927058770002e-10;
    p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    memcpy(&bits, &k, 8);
    bits = (int64_t)((uint64_t)(bits + 1023) << 52);
    memcpy(&scale, &bits, 8);
    return p * scale;
}

/* The same in single precision: relative error below 3e-7 down to exp(-87). */
static inline float sklstruct_expf(float x)
{
    const float shift = 12582912.0f;
    float k, n, r, p, scale;
    int32_t bits;
    x = x < -87.0f ? -87.0f : x;
    k = x * 1.44269504f + shift;
    n = k - shift;
    r = x - n * 0.693145752f;
    r = r - n * 1.42860677e-6f;
    p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    memcpy(&bits, &k, 4);
    bits = (int32_t)((uint32_t)(bits + 127) << 23);
    memcpy(&scale, &bits, 4);
    return p * scale;
}

/* e[i] = exp(u[i] - top), u[i] <= top; returns the sum of e. Eight running sums, added
 * in one order: the result depends on u alone. */
SKLSTRUCT_WIDE static double sklstruct_exp_sum(
    ptrdiff_t n, const double *u, double top, double *e)
{
    double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, rest = 0;
    ptrdiff_t i, j;
    for (i = 0; i + 8 <= n; i += 8) {
        for (j = 0; j < 8; j++)
            e[i + j] = sklstruct_exp(u[i + j] - top);
        for (j = 0; j < 8; j++)
            sum[j] += e[i + j];
    }
    for (; i < n; i++) {
        e[i] = sklstruct_exp(u[i] - top);
        rest += e[i];
    }
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) +
           ((sum[1] + sum[5]) + (sum[3] + sum[7])) + rest;
}

#endif
