"""Kernels of the tree-structured proximal operators and norms.

Every function works on a range ``lo:hi`` of the nodes of a forest whose nodes
are numbered parent < child (``parent[q] < q``, -1 for a root). *Up* kernels take
the nodes from ``hi - 1`` down to ``lo``, *down* kernels from ``lo`` up to
``hi - 1``. All mutable state is in the caller's arrays of length P, indexed by
node, so a whole forest is one call with (0, P) or, with the same bits as result,
any sequence of ranges in which an up call sees every child before its parent and
a down call every parent before its children: the levels of a tree from the
deepest to the root, then back.

Threads. An up call writes only at the nodes of its range and at their parents; a
down call reads at the parents and writes only at its range. Calls on ranges which
share no node and no parent are therefore safe at the same time. Up calls on the
children of one node belong in one thread; the levels further below are private to
a thread if their subtrees are. To merge heaps while they are in the cache of a thread,
``tree_linf_up(..., push=False)`` leaves out the parents of its range, and
``tree_linf_push`` hands the results to them in one thread, in the order in which a
single up call would have done.

``kappa``, ``mult``, ``metric`` and ``weight`` have length P, or length 1 for a common
value. The kernels check nothing: the arrays must be finite and of these lengths, kappa
and weight >= 0, mult and metric > 0.

tree_l2 (Jenatton et al. 2011, algorithm 2), cost O(hi - lo). ``state`` must be 0
before the first up call. On the way up it collects the squared norm gamma of the
subtree, then keeps the norm s = sqrt(gamma); the group's step scales the subtree
by [1 - kappa / s]_+, so (s - kappa)_+ ** 2 goes to the parent. On the way down it
becomes the product of the scale factors along the path from the root.

tree_linf, cost O((hi - lo) log P) amortised. Per group, bottom-up, the step lowers
the largest values of the subtree to a common level r such that the mass removed,
sum of D (value - r)_+, is kappa (or all to 0 if there is not more than kappa in
total). Values which were lowered to one level stay equal for ever: they are kept
as ONE cluster (value, mass = sum of D) of a max-heap. As the cluster made at node
q is the largest value of its subtree, it is the root of its heap without any
comparison, and the heap of q can have the number q. Three facts keep memory and time
small:

* No lists of members. A step clips a whole subtree from above, so the result is
  w_q = min(|v_q|, lowest level r_g of the ancestors g of q and of q itself), one
  downward sweep.
* ``slots[q]``, 24 bytes, first collects the list of the children's heaps, then is
  the cluster of q. A cluster that is absorbed further up leaves a free slot; if
  the value of the absorbing node itself stays below r, this value is stored there,
  marked by a negative mass. The downward sweep does not need the level of such a slot,
  because the node that absorbed its cluster is an ancestor with a lower level.
* Pairing heap without decrease-key: the heaps of the children of a node are only
  listed, and merged in two passes when the largest is needed. Heaps of a long list
  that the step cannot reach stay listed. Skew and leftist heaps are not faster on
  random trees and chains, and slower on a star, where a list is O(1) per child.

``tree_linf_slots`` makes ``slots``; after the downward sweep it is ready for the next
upward sweep.
"""

from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t

import numpy as np

ctypedef fused ids:
    int32_t
    int64_t

cdef struct ValueCluster:
    double value    # level r; during the downward sweep the lowest on the path
    double mass     # sum of D; negative: the slot is lent to another node's value
    int child       # first heap below, or first of the heaps yet to be merged
    int next        # sibling of this heap


CLUSTER_DTYPE = np.dtype(
    [("value", "f8"), ("mass", "f8"), ("child", "i4"), ("next", "i4")]
)


# ----------------------------------------------------------------- forests


def check_parents(const ids[::1] parents, int[::1] out):
    """Copy the parents. Returns (first bad node or -1, whether all parents < child)."""
    cdef Py_ssize_t q, n = parents.shape[0], bad = -1
    cdef bint ordered = True
    cdef ids p
    with nogil:
        for q in range(n):
            p = parents[q]
            if p < -1 or p >= n:
                bad = q
                break
            ordered &= p < q
            out[q] = <int> p
    return bad, bool(ordered)


def topological_order(const int[::1] parent, int[::1] n_children, int[::1] order):
    """Fill `order` with the nodes, parents first; return how many were reached.

    Fewer than P means a cycle. Leaves are peeled off (Kahn) and the sequence is
    written from the end of `order`, which is its own queue. `n_children` must be 0.
    """
    cdef Py_ssize_t q, n = parent.shape[0], head = n, tail = n
    cdef int p
    with nogil:
        for q in range(n):
            if parent[q] >= 0:
                n_children[parent[q]] += 1
        for q in range(n - 1, -1, -1):
            if n_children[q] == 0:
                tail -= 1
                order[tail] = <int> q
        while head > tail:
            head -= 1
            p = parent[order[head]]
            if p >= 0:
                n_children[p] -= 1
                if n_children[p] == 0:
                    tail -= 1
                    order[tail] = p
    return n - tail


# ----------------------------------------------------------------- tree_l2


cdef inline double _shrunk_square(double s, double kappa) noexcept nogil:
    """(s - kappa)_+ ** 2, the difference carried to twice the working precision.

    While s stays within one binade along a path, s - kappa is rounded by the same
    amount at every node, so that the errors of the plain square add up. s - t is exact
    or nearly so, hence `low` is the rounding error of t.
    """
    cdef double t = s - kappa, low
    if t <= 0:
        return 0
    low = (s - t) - kappa
    return t * t + 2 * t * low


def tree_l2_up(
    const int[::1] parent,
    const double[::1] kappa,
    const double[::1] mult,
    const double[::1] w,
    double[::1] state,
    Py_ssize_t lo,
    Py_ssize_t hi,
):
    """state: squared norms from the children -> norm of each subtree."""
    cdef Py_ssize_t q
    cdef Py_ssize_t ks = 0 if kappa.shape[0] == 1 else 1
    cdef Py_ssize_t ms = 0 if mult.shape[0] == 1 else 1
    cdef double s
    with nogil:
        for q in range(hi - 1, lo - 1, -1):
            s = sqrt(state[q] + mult[q * ms] * w[q] * w[q])
            state[q] = s
            if parent[q] >= 0:
                state[parent[q]] += _shrunk_square(s, kappa[q * ks])


def tree_l2_down(
    const int[::1] parent,
    const double[::1] kappa,
    double[::1] w,
    double[::1] state,
    Py_ssize_t lo,
    Py_ssize_t hi,
):
    """state: norms -> scale factors along the path; w -> prox, in place."""
    cdef Py_ssize_t q
    cdef Py_ssize_t ks = 0 if kappa.shape[0] == 1 else 1
    cdef double k, s, scale
    with nogil:
        for q in range(lo, hi):
            k = kappa[q * ks]
            s = state[q]
            if s > k:
                scale = 1.0 - k / s  # not (s - k) / s: see _shrunk_square
            else:
                # kappa = 0 is the identity even where the squares underflow.
                scale = 1.0 if k == 0 else 0.0
            if parent[q] >= 0:
                scale *= state[parent[q]]
            state[q] = scale
            w[q] = w[q] * scale + 0.0  # + 0.0 turns -0.0 into 0.0


# ----------------------------------------------------------------- tree_linf

# Lists of no more heaps are merged as they are.
cdef enum:
    FEW = 16


def tree_linf_slots(Py_ssize_t n):
    """Working array of ``tree_linf_up`` and ``tree_linf_down`` for n nodes."""
    slots = np.empty(n, dtype=CLUSTER_DTYPE)
    slots["child"] = -1
    return slots


cdef inline int _link(ValueCluster* slots, int a, int b) noexcept nogil:
    """The larger of two heap roots, with the other as its first child."""
    if slots[a].value < slots[b].value:
        slots[a].next = slots[b].child
        slots[b].child = a
        return b
    slots[b].next = slots[a].child
    slots[a].child = b
    return a


cdef inline int _merge(ValueCluster* slots, int a) noexcept nogil:
    """Merge a list of heaps in two passes; root of the result, or -1."""
    cdef int b, rest, done = -1
    if a < 0:
        return -1
    b = slots[a].next
    if b < 0:
        return a
    while b >= 0:                      # link neighbours, list the winners
        rest = slots[b].next
        a = _link(slots, a, b)
        slots[a].next = done
        done = a
        a = rest
        if a < 0:
            break
        b = slots[a].next
    if a >= 0:                         # the last heap of an odd number
        slots[a].next = done
        done = a
    a = done                           # link the winners, last first
    b = slots[a].next
    while b >= 0:
        rest = slots[b].next
        a = _link(slots, a, b)
        b = rest
    return a


cdef inline int _candidates(
    ValueCluster* slots, int a, double kappa, int* low
) noexcept nogil:
    """The heaps of a list that a step of kappa can reach; the others to `low`.

    A cluster loses at most kappa: the level is at least its value minus kappa over its
    mass. Heaps below this bound for the largest cluster so far need not be merged; at a
    node with many children these are nearly all heaps.
    """
    cdef int b = a, rest, k = 0, first = -1, others = -1
    cdef double largest = -1, bound = -1
    while b >= 0 and k < FEW:
        b = slots[b].next
        k += 1
    if b < 0:
        low[0] = -1
        return a
    while a >= 0:
        rest = slots[a].next
        if slots[a].value > largest:
            largest = slots[a].value
            bound = max(bound, largest - kappa / slots[a].mass)
        if slots[a].value < bound:
            slots[a].next = others
            others = a
        else:
            slots[a].next = first
            first = a
        a = rest
    low[0] = others
    return first


cdef inline void _lower(
    ValueCluster* slots, int q, double own, double metric, double kappa
) noexcept nogil:
    """The step of group q: heaps listed at slots[q].child -> cluster q."""
    cdef double level, mass, left = kappa, cost
    cdef int low
    cdef int spare = -1
    cdef int top = _merge(slots, _candidates(slots, slots[q].child, kappa, &low))
    cdef bint waiting = own > 0        # q's own value is not absorbed yet
    if top < 0 or (waiting and own >= slots[top].value):
        level = own
        mass = metric
        waiting = False
    else:
        level = slots[top].value
        mass = slots[top].mass         # positive: the slot of a child is not free
        spare = top
        top = _merge(slots, slots[top].child)
    # Invariant: `mass` stands at `level`, every other value is <= level and what
    # has been removed so far is kappa - left.
    while True:
        if waiting and (top < 0 or own >= slots[top].value):
            cost = (level - own) * mass
            if cost >= left:
                break
            left -= cost
            level = own
            mass += metric
            waiting = False
        elif top >= 0:
            cost = (level - slots[top].value) * mass
            if cost >= left:
                break
            left -= cost
            level = slots[top].value
            mass += fabs(slots[top].mass)
            top = _merge(slots, slots[top].child)
        else:
            break
    level -= left / mass
    if level <= 0:
        # Then nothing waits: absorbing down to `level` took all of `left`.
        slots[q].value = 0
        slots[q].mass = 0              # not the sign of an earlier sweep
        return
    slots[q].value = level
    slots[q].mass = mass
    if top >= 0:
        slots[top].next = low
    else:
        top = low
    if waiting:
        slots[spare].value = own
        slots[spare].mass = -metric
        slots[spare].child = -1
        slots[spare].next = top
        top = spare
    slots[q].child = top


cdef inline void _hand_up(
    const int* parent, ValueCluster* slots, Py_ssize_t q
) noexcept nogil:
    cdef int p = parent[q]
    if p >= 0 and slots[q].value > 0:
        slots[q].next = slots[p].child
        slots[p].child = <int> q


def tree_linf_up(
    const int[::1] parent,
    const double[::1] kappa,
    const double[::1] metric,
    const double[::1] w,
    ValueCluster[::1] slots,
    Py_ssize_t lo,
    Py_ssize_t hi,
    bint push=True,
):
    """slots: the heaps of the children -> level r_q and heap of each subtree."""
    cdef Py_ssize_t q
    cdef Py_ssize_t ks = 0 if kappa.shape[0] == 1 else 1
    cdef Py_ssize_t ms = 0 if metric.shape[0] == 1 else 1
    cdef ValueCluster* s
    if lo >= hi:
        return
    s = &slots[0]
    with nogil:
        for q in range(hi - 1, lo - 1, -1):
            _lower(s, <int> q, fabs(w[q]), metric[q * ms], kappa[q * ks])
            if push:
                _hand_up(&parent[0], s, q)


def tree_linf_push(
    const int[::1] parent, ValueCluster[::1] slots, Py_ssize_t lo, Py_ssize_t hi
):
    """The step to the parents that ``tree_linf_up(..., push=False)`` omits."""
    cdef Py_ssize_t q
    if lo >= hi:
        return
    with nogil:
        for q in range(hi - 1, lo - 1, -1):
            _hand_up(&parent[0], &slots[0], q)


def tree_linf_down(
    const int[::1] parent,
    double[::1] w,
    ValueCluster[::1] slots,
    Py_ssize_t lo,
    Py_ssize_t hi,
):
    """w -> prox, in place, signs kept; slots are empty afterwards."""
    cdef Py_ssize_t q
    cdef int p
    cdef double cap
    with nogil:
        for q in range(lo, hi):
            p = parent[q]
            cap = slots[q].value
            if p >= 0 and (slots[q].mass < 0 or slots[p].value < cap):
                cap = slots[p].value
            slots[q].value = cap
            slots[q].child = -1
            if w[q] > cap:
                w[q] = cap
            elif w[q] < -cap:
                w[q] = 0.0 - cap       # never -0.0


# -------------------------------------------------------------------- norms


def tree_norm_up(
    const int[::1] parent,
    const double[::1] weight,
    const double[::1] mult,
    const double[::1] w,
    double[::1] state,
    bint largest,
    Py_ssize_t lo,
    Py_ssize_t hi,
):
    """Sum over the range of weight * ||w_subtree||_2, or of weight * max |w_subtree|.

    state (0 before): squares, or maxima, for which mult is not used.
    """
    cdef Py_ssize_t q
    cdef Py_ssize_t ws = 0 if weight.shape[0] == 1 else 1
    cdef Py_ssize_t ms = 0 if mult.shape[0] == 1 else 1
    cdef int p
    cdef double g, x, total = 0, lost = 0, t
    with nogil:
        for q in range(hi - 1, lo - 1, -1):
            p = parent[q]
            if largest:
                g = fabs(w[q])
                g = x = g if g > state[q] else state[q]
                if p >= 0 and state[p] < g:
                    state[p] = g
            else:
                g = state[q] + mult[q * ms] * w[q] * w[q]
                x = sqrt(g)
                if p >= 0:
                    state[p] += g
            state[q] = g
            # Kahan: a line search compares sums of 1e7 terms
            x = weight[q * ws] * x - lost
            t = total + x
            lost = (t - total) - x
            total = t
    return total
