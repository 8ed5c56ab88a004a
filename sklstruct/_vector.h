/* The inner loops that gain from wide registers. They are in C for one reason: a C
 * function can be compiled for several instruction sets at once (target_clones), and
 * the dynamic linker chooses one version. One wheel is then fast on every x86-64
 * machine. On other machines, and if the toolchain has no ifunc, only the default
 * version is built.
 *
 * No function allocates or checks: the callers are Cython kernels.
 */
#ifndef SKLSTRUCT_VECTOR_H
#define SKLSTRUCT_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* With wide registers as the default (-march=native) no clones are needed, and GCC 12
 * crashes on clones for narrower vectors than the default. */
#if defined(SKLSTRUCT_CLONES) && !defined(__AVX2__)
#define SKLSTRUCT_WIDE                                                              \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SKLSTRUCT_WIDE
#endif

/* Elements per step of a product; rows are padded to a multiple of this number. */
enum { SKLSTRUCT_STRIDE = 16 };

#if defined(__GNUC__) || defined(__clang__)
/* Vectors of a fixed length, which does not depend on the registers. Without them the
 * compiler adds the running sums of a product one by one, or keeps them in memory, which
 * takes two to four times as long. Vectors that are longer than the registers of AVX2
 * are also kept in memory: a pass of the dual descent then takes four to five times as
 * long. */
#define SKLSTRUCT_VECTORS
typedef float sklstruct_v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float sklstruct_v4 __attribute__((vector_size(16), aligned(4), may_alias));
#endif

/* Prefetch a cache line into the second-level cache, which has room for many. */
#if defined(__GNUC__) || defined(__clang__)
#define SKLSTRUCT_PREFETCH(address) __builtin_prefetch((address), 0, 2)
#else
#define SKLSTRUCT_PREFETCH(address) (void)(address)
#endif

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

/* sklstruct_exp in single precision: relative error below 3e-7 down to exp(-87). */
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

/* The largest of n numbers; no number may be NaN. */
SKLSTRUCT_WIDE static double sklstruct_most(ptrdiff_t n, const double *s)
{
    double best[8], top;
    ptrdiff_t i, j;
    for (j = 0; j < 8; j++)
        best[j] = j < n ? s[j] : -INFINITY;
    for (i = 8; i + 8 <= n; i += 8)
        for (j = 0; j < 8; j++)
            best[j] = s[i + j] > best[j] ? s[i + j] : best[j];
    top = best[0];
    for (j = 1; j < 8; j++)
        top = best[j] > top ? best[j] : top;
    for (; i < n; i++)
        top = s[i] > top ? s[i] : top;
    return top;
}

/* e[i] = exp(u[i] - top), u[i] <= top; returns the sum of e. Eight running sums are
 * added in a fixed order, so that the result depends on u alone. */
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

/* out[i] = log of the mean of exp(a[k * n + i]) over k < m; a is finite. */
SKLSTRUCT_WIDE static void sklstruct_log_mean(
    ptrdiff_t m, ptrdiff_t n, const double *a, double *out)
{
    ptrdiff_t i, j, k;
    for (i = 0; i < n; i += 8) {
        double top[8], sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        ptrdiff_t width = n - i < 8 ? n - i : 8;
        for (j = 0; j < width; j++)
            top[j] = a[i + j];
        for (k = 1; k < m; k++)
            for (j = 0; j < width; j++)
                top[j] = a[k * n + i + j] > top[j] ? a[k * n + i + j] : top[j];
        for (k = 0; k < m; k++)
            for (j = 0; j < width; j++)
                sum[j] += sklstruct_exp(a[k * n + i + j] - top[j]);
        for (j = 0; j < width; j++)
            out[i + j] = top[j] + log(sum[j] / (double)m);
    }
}

/* A positive float and a 32-bit number in one integer; the integers have the order of
 * the floats. */
static inline int64_t sklstruct_key(float p, int32_t v)
{
    int32_t bits;
    memcpy(&bits, &p, 4);
    return (int64_t)(((uint64_t)(uint32_t)bits << 32) | (uint32_t)v);
}

static inline float sklstruct_key_float(int64_t key)
{
    int32_t bits = (int32_t)(key >> 32);
    float p;
    memcpy(&p, &bits, 4);
    return p;
}

/* The product of two rows of `stride` floats, a multiple of SKLSTRUCT_STRIDE. With
 * sixteen running sums the error is that of stride / 16 + 4 additions. */
static inline float sklstruct_product(ptrdiff_t stride, const float *a, const float *b)
{
    ptrdiff_t j;
#ifdef SKLSTRUCT_VECTORS
    union { sklstruct_v8 all; sklstruct_v4 half[2]; } u;
    sklstruct_v8 one = {0}, two = {0};
    sklstruct_v4 sum;
    for (j = 0; j < stride; j += SKLSTRUCT_STRIDE) {
        one += *(const sklstruct_v8 *)(a + j) * *(const sklstruct_v8 *)(b + j);
        two += *(const sklstruct_v8 *)(a + j + 8) * *(const sklstruct_v8 *)(b + j + 8);
    }
    u.all = one + two;
    sum = u.half[0] + u.half[1];
#else
    float all[SKLSTRUCT_STRIDE] = {0}, sum[4];
    ptrdiff_t k;
    for (j = 0; j < stride; j += SKLSTRUCT_STRIDE)
        for (k = 0; k < SKLSTRUCT_STRIDE; k++)
            all[k] += a[j + k] * b[j + k];
    for (k = 0; k < 4; k++)
        sum[k] = (all[k] + all[k + 8]) + (all[k + 4] + all[k + 12]);
#endif
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* out[0 .. d] = x as floats, out[d] = 1, then zeros to `stride` > d. Returns the sum of
 * squares of out. */
#define SKLSTRUCT_NARROW(name, type)                                                \
    SKLSTRUCT_WIDE static float name(                                               \
        ptrdiff_t d, const type *x, ptrdiff_t stride, float *out)                   \
    {                                                                               \
        ptrdiff_t i;                                                                \
        for (i = 0; i < d; i++)                                                     \
            out[i] = (float)x[i];                                                   \
        out[d] = 1;                                                                 \
        for (i = d + 1; i < stride; i++)                                            \
            out[i] = 0;                                                             \
        return sklstruct_product(stride, out, out);                                 \
    }

SKLSTRUCT_NARROW(sklstruct_narrow_double, double)
SKLSTRUCT_NARROW(sklstruct_narrow_float, float)

/* score[s] = product of row row[s] of coef with row s of x, for the n lanes s of a
 * list. */
SKLSTRUCT_WIDE static void sklstruct_products(
    const float *coef, ptrdiff_t stride, const float *x, ptrdiff_t n,
    const int32_t *lanes, const int32_t *row, float *score)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++)
        score[lanes[i]] = sklstruct_product(
            stride, coef + (ptrdiff_t)row[lanes[i]] * stride,
            x + (ptrdiff_t)lanes[i] * stride);
}

/* Distribute the probability p of a node over its two children by the logit z of a
 * child: large = p / (1 + exp(-|z|)), small = p - large. */
SKLSTRUCT_WIDE static void sklstruct_share_out(
    ptrdiff_t n, const float *p, const float *z, float *large, float *small)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        float e = sklstruct_expf(-fabsf(z[i]));
        large[i] = p[i] / (1.0f + e);
        small[i] = large[i] * e;
    }
}

#endif
