"""Kernels of the discounting smoothers over the pairs of a context tree.

Pairs are in the order of `ContextTree`: node by node, parents before children,
the targets of a node sorted, the root dense over all V classes. A smoother computes the
discounted probability of each pair and the back-off mass of each context (`discount`,
or NumPy); `interpolate` or `back_off` then sweeps once from the root down. The kernels
take O(pairs) time and work in place; `back_off` also reads the pairs of the parent
again for the few nodes that cover nearly all of the parent's mass.

Weights may be fractional. A function of an integer count (its discount, the number of
pairs that have this count, the indicator of a distinct successor) is extended to the
reals by linear interpolation between neighbouring integers. So a sample of weight 2
counts as two samples, and a sample of weight 0 is left out. Between 0 and 1, however,
the part of a count that is *not* discounted is (1 - D_1) a^2. With (1 - D_1) a instead,
a context whose weight tends to 0 would keep the share 1 - D_1 of its row; with the
square, its row tends to the row of its parent. The discount min(a, D_1) would give
probabilities of 0 without interpolation.
"""

from libc.stdint cimport int32_t


def discount(const int32_t[::1] ptr, Py_ssize_t first, Py_ssize_t last,
             const double[::1] count, const double[::1] discounts,
             double[::1] discounted, double[::1] backoff_mass):
    """discounted = (a - D(a)) / A(n) and backoff_mass = sum of D(a) / A(n).

    For the nodes first:last. `discounted` may be `count` itself. D(a) is at most a.
    """
    cdef Py_ssize_t n, p
    cdef double total, rest, k, a
    with nogil:
        for n in range(first, last):
            total = 0.0
            rest = 0.0
            for p in range(ptr[n], ptr[n + 1]):
                a = count[p]
                k = kept(a, &discounts[0], discounts.shape[0])
                k = k if k > 0.0 else 0.0
                discounted[p] = k
                total += a
                rest += a - k
            backoff_mass[n] = rest / total
            for p in range(ptr[n], ptr[n + 1]):
                discounted[p] = discounted[p] / total


def interpolate(const int32_t[::1] ptr, const int32_t[::1] pair_parent,
                const double[::1] backoff_mass, double[::1] prob):
    """prob(n, y) += backoff_mass(n) prob(parent(n), y), from the first level on.

    On entry prob is the probability of each class at the root, and the discounted
    probability of each class of the other contexts.
    """
    cdef Py_ssize_t n, p
    with nogil:
        for n in range(1, ptr.shape[0] - 1):
            for p in range(ptr[n], ptr[n + 1]):
                prob[p] += backoff_mass[n] * prob[pair_parent[p]]


def back_off(const int32_t[::1] parent, const int32_t[::1] ptr,
             const int32_t[::1] target, const int32_t[::1] pair_parent,
             double[::1] unseen, double[::1] backoff_mass, double[::1] prob):
    """P(y | n) = discounted for seen y, b(n) P(y | parent) for unseen y.

    On entry prob is as for `interpolate`, and backoff_mass(n) is the back-off mass of
    n. On return backoff_mass(n) is b(n), the back-off mass divided by R(n), the
    parent's mass on the classes without a pair at n. A node that has seen every class
    cannot back off and interpolates.

    unseen[n] (scratch; 0 at the root) is the mass of the classes that have no pair at
    n. A small R, computed as 1 - sum of the parent's probabilities at the pairs of n,
    is inaccurate, so below 0.01 it is summed from its parts: unseen[parent] and the
    parent's pairs that n lacks. These sums are over at most V pairs, and only for nodes
    that have seen nearly all of their parent's mass.
    """
    cdef Py_ssize_t n, p, q, m, n_classes = ptr[1]
    cdef double rest
    cdef bint full
    with nogil:
        unseen[0] = 0.0  # the root is dense: no class is without a pair
        for n in range(1, ptr.shape[0] - 1):
            rest = 0.0
            for p in range(ptr[n], ptr[n + 1]):
                rest += prob[pair_parent[p]]
            full = ptr[n + 1] - ptr[n] == n_classes
            rest = 1.0 - rest
            if rest < 0.01 and not full:
                m = parent[n]
                rest = unseen[m]
                p = ptr[n]
                for q in range(ptr[m], ptr[m + 1]):
                    if p < ptr[n + 1] and target[p] == target[q]:
                        p += 1
                    else:
                        rest += prob[q]
            unseen[n] = 0.0 if full else backoff_mass[n]
            if full:
                for p in range(ptr[n], ptr[n + 1]):
                    prob[p] += backoff_mass[n] * prob[pair_parent[p]]
            else:
                backoff_mass[n] = backoff_mass[n] / rest


def add_parent_pairs(const int32_t[::1] parent, const int32_t[::1] pair_ptr,
                     const int32_t[::1] target, const double[::1] count,
                     const int32_t[::1] new_ptr, int32_t[::1] new_target,
                     int32_t[::1] new_parent, double[::1] new_count):
    """Give every node below the root a pair for each class seen at its parent.

    new_ptr leaves room for the pairs; pairs of the root with count 0 are not added to
    other nodes. The parent has every pair that n has, so the new pairs of n are the
    parent's pairs, with the counts of n, or 0 if n lacks the pair. O(new pairs).
    """
    cdef Py_ssize_t n, m, p, q, r, s
    with nogil:
        for p in range(pair_ptr[1]):
            new_target[p] = target[p]
            new_count[p] = count[p]
            new_parent[p] = -1
        for n in range(1, parent.shape[0]):
            m = parent[n]
            p = pair_ptr[n]
            r = new_ptr[n]
            s = new_ptr[m]
            for q in range(pair_ptr[m], pair_ptr[m + 1]):
                if count[q] == 0.0:
                    continue
                new_target[r] = target[q]
                # Pairs of m are among its new pairs, in the same order.
                while new_target[s] < target[q]:
                    s += 1
                new_parent[r] = <int32_t> s
                if p < pair_ptr[n + 1] and target[p] == target[q]:
                    new_count[r] = count[p]
                    p += 1
                else:
                    new_count[r] = 0.0
                r += 1


def count_blocks(const int32_t[::1] pair_parent, const int32_t[::1] slot,
                 Py_ssize_t size, int32_t[::1] last, int32_t[::1] spread):
    """spread[p] += 1 for each block of `size` samples in which the pair p occurs.

    slot: the pair at which each sample ends. last is -1 on entry (scratch). If a pair
    was counted in a block, its parents were counted too, so a walk up stops at the
    first counted pair: O(samples + pairs in blocks).
    """
    cdef Py_ssize_t i
    cdef int32_t p, block
    with nogil:
        for i in range(slot.shape[0]):
            block = <int32_t> (i // size)
            p = slot[i]
            while p >= 0 and last[p] != block:
                last[p] = block
                spread[p] += 1
                p = pair_parent[p]
