"""Posteriors in which the scores of evaluated leaves enter the leaves' probabilities.

Routing nodes give every leaf l of a tree the sum R_l of the evidence of the outcomes on
its path. The b leaves of largest R are evaluated, and their classes have evidence:

    a_y = w_l g(z_y),   E_l = log sum_{y in l} exp a_y,
    P(l | x) = softmax_l(w_r R_l + (eta E_l if l is evaluated else c)),
    P(y | x) = P(l | x) exp(a_y - E_l).

Probabilities sum to 1 for all values of the numbers. g is the evidence of
`linear._calibration`; for the multinomial loss R is a sum of log-probabilities, so that
eta = c = 0 is the product along the path. A leaf of one class has no classifier; c
replaces its eta E_l. The evaluated leaves depend on x alone, and so do the
probabilities. Routing nodes are expanded level by level, the `beam` best nodes of each
level. Other routing nodes are pending: their mass is exp(w_r R + c'). The mass is
distributed over the leaves below, in proportion to exp(w_r R), if the probability of
one of these leaves is needed. A search evaluates further leaves only while their mass
could exceed the k-th best probability.

With several trees the probability is the mean over trees. A class whose leaf is
evaluated in some tree has at most its probability there plus the largest probability of
a class in each other tree; the class is left out if this is less than the k-th best
probability so far. A class whose leaf is not evaluated in any tree has at most the sum
of the largest masses of the leaves and pending nodes left; these are evaluated, largest
first, until the sum is less than the k-th best probability.

With several labels per sample (`several`) every outcome of a node is a yes/no question
with the log-odds t = w sign(z) |z|^p + b, conditional on a yes at the parent; (w, b, p)
is (w_r, b_r, p_r) at routing nodes and (w_l, b_l, p_l) at leaves:

    P(y | x) = prod_j 1 / (1 + exp(-t_j))   over the nodes j on the path to y.

Nothing is normalised, and a node is at least as probable as each node below it: the
masses of leaves and pending nodes are bounds, and the search is the same.

Cost per sample: the stored weights of its features at the expanded routing nodes and at
the evaluated leaves; n_classes steps if P of all classes is computed or bounded.
"""

cimport cython
from libc.math cimport INFINITY, copysign, exp, fabs, log, log1p, pow
from libc.stdint cimport int8_t, int32_t, int64_t

from .._exp_sum cimport exp_sum, largest
from .._log_sum cimport log_total
from .._ranked cimport Ranked, sort_ranked
from .._watch cimport Watch, over, propagate, watch_of
from ..linear._weights_fast cimport (
    FloatRows, NodeWeightsView, sklstruct_node_scores, sklstruct_weights)

cdef extern from "_evidence.h" nogil:
    void sklstruct_hinge_evidence(
        Py_ssize_t n, const float* z, double beyond, double* a) noexcept

cdef enum:
    # Roles of nodes.
    ROUTE = 0
    LEAF = 1    # of several classes
    SINGLE = 2  # leaf of one class
    CLASS = 3   # class of a LEAF
    # Their state for one sample.
    UNSEEN = 0
    PENDING = 1
    REACHED = 2
    EVALUATED = 3
    COMPARED = 4  # its classes are compared; or a pending node that is expanded
    # Kinds of answers of `Posterior`.
    BEST = 0
    LABELS = 1
    GIVEN = 2
    ALL = 3
    NODES = 4

KINDS = {"best": BEST, "labels": LABELS, "given": GIVEN, "all": ALL, "nodes": NODES}
ROLES = {"route": ROUTE, "leaf": LEAF, "single": SINGLE, "class": CLASS}
STATES = {"pending": PENDING, "closed": REACHED, "open": EVALUATED}
LOSSES = {"squared_hinge": 0, "ovr_log_loss": 1, "log_loss": 2}


cdef inline double scaled_total(
    Py_ssize_t m, double* a, double w, double* room,
) noexcept nogil:
    """Multiply a by w; returns the log of the sum of exp(a)."""
    cdef Py_ssize_t k
    cdef double top
    for k in range(m):
        a[k] *= w
    top = largest(m, a)
    return top + log(exp_sum(m, a, top, room))


@cython.final
cdef class Unseen:
    """Scores of samples of the fold by weights fitted without the samples.

    The scores of sample i at node[j], ptr[i] <= j < ptr[i + 1], begin at
    scores[place[j]].
    """

    cdef const int64_t[::1] ptr
    cdef const int32_t[::1] node
    cdef const int64_t[::1] place
    cdef const float[::1] scores

    def __init__(self, const int64_t[::1] ptr, const int32_t[::1] node,
                 const int64_t[::1] place, const float[::1] scores):
        self.ptr, self.node, self.place, self.scores = ptr, node, place, scores

    def part(self, Py_ssize_t start):
        """The samples from `start` on."""
        return Unseen(self.ptr[start:], self.node, self.place, self.scores)

    cdef inline const float* of(self, Py_ssize_t i, Py_ssize_t v) noexcept nogil:
        """The scores of sample i at node v; NULL if absent."""
        cdef Py_ssize_t j
        for j in range(self.ptr[i], self.ptr[i + 1]):
            if self.node[j] == v:
                return &self.scores[self.place[j]]
        return NULL


@cython.final
cdef class Scratch:
    """One sample, and work arrays for it; each thread has its own object."""

    cdef FloatRows keep         # the samples that the pointers point into
    cdef Unseen unseen          # None unless the samples are those of the fold
    cdef Py_ssize_t i           # number of the sample
    cdef Py_ssize_t n           # entries of the sample
    cdef const float* x
    cdef const int32_t* index
    cdef double[::1] route      # (n_nodes,) R
    cdef double[::1] mass       # (n_nodes,) log of the probability
    cdef double[::1] value      # (n_nodes,) log P(y | l) at classes, E at their leaves
    cdef double[::1] masses     # (n_nodes,) masses of the items
    cdef double[::1] mass_room  # (n_nodes,) their exponentials
    cdef int8_t[::1] state      # (n_nodes,)
    cdef int32_t[::1] touched   # (n_nodes,) nodes whose state is to be reset
    cdef Py_ssize_t n_touched
    cdef int8_t[::1] ranked     # n_nodes of Ranked, as bytes
    cdef int32_t[::1] queue     # (n_nodes,)
    cdef int32_t[::1] items     # (n_nodes,) leaves and pending nodes of the tree
    cdef float[::1] z
    cdef double[::1] a
    cdef double[::1] e
    cdef double[::1] top        # (n_trees,) largest probability of any class
    cdef double[::1] rest       # (n_trees,) largest of a class that is not evaluated
    cdef double[::1] known      # (n_trees,) largest of a class that is evaluated
    cdef int64_t n_dots

    def __init__(self, Py_ssize_t n_nodes, Py_ssize_t lanes, Py_ssize_t wide):
        """wide: the largest number of children of a node, or of trees if larger."""
        import numpy as np

        doubles, ints = np.empty((5, n_nodes)), np.empty((3, n_nodes), dtype=np.int32)
        evidence = np.empty((5, wide + 1))
        self.route, self.mass, self.value, self.masses, self.mass_room = doubles
        self.touched, self.queue, self.items = ints
        self.a, self.e, self.top, self.rest, self.known = evidence
        self.state = np.zeros(n_nodes, dtype=np.int8)
        self.z = np.empty(lanes, dtype=np.float32)
        self.ranked = np.empty(n_nodes * sizeof(Ranked), dtype=np.int8)
        self.n_touched = 0
        self.begin(None, None)

    cdef begin(self, FloatRows rows, Unseen unseen):
        """Read these samples from now on."""
        self.keep = rows
        self.unseen = unseen
        self.n, self.x, self.index = 0, NULL, NULL


@cython.final
cdef class Posterior:
    """The trees, the weights of their nodes, and the numbers of the posterior.

    model_ptr: the pieces of the weights of node v are model_ptr[v] to model_ptr[v + 1].
    """

    cdef NodeWeightsView nodes
    cdef const int64_t[::1] model_ptr
    cdef const int8_t[::1] role
    cdef const int32_t[::1] tree_ptr
    cdef const int32_t[::1] parent
    cdef const int32_t[::1] first_child
    cdef const int32_t[::1] n_child
    cdef const int32_t[::1] node_class
    cdef const int32_t[:, ::1] terminal
    cdef const double[:, ::1] scalars
    cdef int loss
    cdef double beyond
    cdef Py_ssize_t n_leaves
    cdef Py_ssize_t beam
    cdef bint several

    def __init__(self, models, const double[:, ::1] scalars, Py_ssize_t n_leaves,
                 Py_ssize_t beam, double beyond):
        forest = models.forest
        self.nodes = NodeWeightsView(models.weights)
        self.model_ptr, self.role = models.model_ptr, models.role
        self.tree_ptr, self.parent = forest.tree_ptr, forest.parent
        self.first_child, self.n_child = forest.first_child, forest.n_child
        self.node_class, self.terminal = forest.node_class, forest.terminal
        self.scalars, self.loss, self.beyond = scalars, LOSSES[models.loss], beyond
        self.n_leaves, self.beam, self.several = n_leaves, beam, models.several

    cdef inline double evidence(self, double z) noexcept nogil:
        cdef double gap
        if self.loss == 2:
            return z
        if self.loss == 1:
            return -log1p(exp(-z)) if z > 0 else z - log1p(exp(z))
        gap = z - 1
        return self.beyond * gap if gap > 0 else -gap * gap

    cdef inline double log_yes(self, double z, const double* wbp) noexcept nogil:
        """log of the probability of a yes."""
        cdef double t = wbp[0] * copysign(pow(fabs(z), wbp[2]), z) + wbp[1]
        return -log1p(exp(-t)) if t > 0 else t - log1p(exp(t))

    cdef void outcomes(self, Scratch work, Py_ssize_t t, Py_ssize_t v) noexcept nogil:
        """work.a = evidence of all children of node v of tree t, or log P(yes)."""
        cdef Py_ssize_t m = self.n_child[v], piece, j, at = 0, width, first
        cdef sklstruct_weights node
        cdef const float* z
        cdef const float* unseen = NULL
        if work.unseen is not None:
            unseen = work.unseen.of(work.i, v)
        for piece in range(self.model_ptr[v], self.model_ptr[v + 1]):
            node = self.nodes.at(piece)
            z = &work.z[0]
            if unseen != NULL:
                z = unseen + at
            else:
                sklstruct_node_scores(
                    &node, work.n, work.x, work.index, &work.z[0]
                )
            width = min(node.M, m - at)  # the last piece has padding
            if self.several:
                first = 3 if self.role[v] == LEAF else 0
                for j in range(width):
                    work.a[at + j] = self.log_yes(z[j], &self.scalars[t, first])
                at += width
                continue
            if m == 2:
                work.a[0] = 0 if self.loss == 2 else self.evidence(-z[0])
                work.a[1] = self.evidence(z[0])
                work.n_dots += 1
                return
            if self.loss == 0:
                sklstruct_hinge_evidence(width, z, self.beyond, &work.a[at])
            else:
                for j in range(width):
                    work.a[at + j] = self.evidence(z[j])
            at += width
        work.n_dots += m

    cdef inline void set(self, Scratch work, Py_ssize_t v, int8_t state) noexcept nogil:
        if work.state[v] == UNSEEN:
            work.touched[work.n_touched] = <int32_t>v
            work.n_touched += 1
        work.state[v] = state

    cdef void expand_node(
        self, Scratch work, Py_ssize_t t, Py_ssize_t v,
    ) noexcept nogil:
        """R of the children of a routing node."""
        cdef Py_ssize_t m = self.n_child[v], j, child = self.first_child[v]
        cdef double total = 0
        self.outcomes(work, t, v)
        if self.loss == 2 and not self.several:
            total = scaled_total(m, &work.a[0], 1, &work.e[0])
        for j in range(m):
            work.route[child + j] = work.route[v] + work.a[j] - total

    cdef double evaluate(self, Scratch work, Py_ssize_t t, Py_ssize_t v) noexcept nogil:
        """Set work.value of leaf v of tree t and of its classes; returns E, or 0.

        The mass of the leaf does not change. 0: one class, or several labels.
        """
        cdef Py_ssize_t m = self.n_child[v], j, child = self.first_child[v]
        cdef double total = 0
        if self.role[v] == LEAF:
            self.outcomes(work, t, v)
            if not self.several:
                total = scaled_total(m, &work.a[0], self.scalars[t, 1], &work.e[0])
        work.value[v] = total
        for j in range(m):
            work.value[child + j] = work.a[j] - total
        self.set(work, v, EVALUATED)
        return total

    cdef Py_ssize_t expand_tree(self, Scratch work, Py_ssize_t t) noexcept nogil:
        """Set the masses of the leaves and pending nodes of a tree.

        They are listed in work.items; returns their number.
        """
        cdef Py_ssize_t root = self.tree_ptr[t], n_queue = 1, n_next, n_items = 0
        cdef Py_ssize_t j, k, v, child, n_best
        cdef double w_r = self.scalars[t, 0], eta = self.scalars[t, 2]
        cdef double c = self.scalars[t, 3], pending = self.scalars[t, 4]
        cdef double total
        cdef Ranked* ranked = <Ranked*>&work.ranked[0]
        if self.several:
            w_r, eta, c, pending = 1, 0, 0, 0
        work.route[root] = 0
        if self.role[root] != ROUTE:
            n_queue = 0
            work.items[0] = <int32_t>root
            n_items = 1
            self.set(work, root, REACHED)
        else:
            work.queue[0] = <int32_t>root
        while n_queue:
            if n_queue > self.beam:
                for j in range(n_queue):
                    ranked[j].node = work.queue[j]
                    ranked[j].key = work.route[work.queue[j]]
                sort_ranked(ranked, n_queue)
                for j in range(n_queue):
                    work.queue[j] = ranked[j].node
                for j in range(self.beam, n_queue):
                    work.items[n_items] = work.queue[j]
                    n_items += 1
                    self.set(work, work.queue[j], PENDING)
                n_queue = self.beam
            # the children go behind the nodes of this level
            n_next = n_queue
            for j in range(n_queue):
                v = work.queue[j]
                self.expand_node(work, t, v)
                child = self.first_child[v]
                for k in range(child, child + self.n_child[v]):
                    if self.role[k] == ROUTE:
                        work.queue[n_next] = <int32_t>k
                        n_next += 1
                    else:
                        work.items[n_items] = <int32_t>k
                        n_items += 1
                        self.set(work, k, REACHED)
            for j in range(n_queue, n_next):
                work.queue[j - n_queue] = work.queue[j]
            n_queue = n_next - n_queue
        # the best leaves, by insertion: they are few
        n_best = 0
        for j in range(n_items):
            v = work.items[j]
            if work.state[v] == PENDING:
                continue
            k = n_best
            while k > 0 and (
                ranked[k - 1].key < work.route[v]
                or (ranked[k - 1].key == work.route[v] and ranked[k - 1].node > v)
            ):
                if k < self.n_leaves:
                    ranked[k] = ranked[k - 1]
                k -= 1
            if k < self.n_leaves:
                ranked[k].key, ranked[k].node = work.route[v], <int32_t>v
                if n_best < self.n_leaves:
                    n_best += 1
        for j in range(n_items):
            v = work.items[j]
            work.mass[v] = w_r * work.route[v] + (
                pending if work.state[v] == PENDING else c
            )
        for j in range(n_best):
            v = ranked[j].node
            total = self.evaluate(work, t, v)
            if self.role[v] == LEAF:
                work.mass[v] = w_r * work.route[v] + eta * total
        if self.several:
            return n_items
        for j in range(n_items):
            work.masses[j] = work.mass[work.items[j]]
        total = scaled_total(n_items, &work.masses[0], 1, &work.mass_room[0])
        for j in range(n_items):
            work.mass[work.items[j]] -= total
        return n_items

    cdef Py_ssize_t share_out(
        self, Scratch work, Py_ssize_t t, Py_ssize_t v,
    ) noexcept nogil:
        """Distribute the mass of a pending node over the leaves below.

        These leaves are the last entries of work.queue; returns their number.
        """
        cdef Py_ssize_t n_queue = 1, at = 0, k, child, n_below = 0
        cdef double w_r = 1 if self.several else self.scalars[t, 0], less = 0
        # the leaves stand at the end of the queue, which has room for all nodes
        cdef Py_ssize_t end = work.queue.shape[0]
        cdef int32_t* below
        work.queue[0] = <int32_t>v
        while at < n_queue:
            self.expand_node(work, t, work.queue[at])
            child = self.first_child[work.queue[at]]
            for k in range(child, child + self.n_child[work.queue[at]]):
                if self.role[k] == ROUTE:
                    work.queue[n_queue] = <int32_t>k
                    n_queue += 1
                else:
                    n_below += 1
                    work.queue[end - n_below] = <int32_t>k
            at += 1
        below = &work.queue[end - n_below]
        for k in range(n_below):
            work.masses[k] = w_r * work.route[below[k]]
        if not self.several:
            less = log_total(&work.masses[0], n_below) - work.mass[v]
        for k in range(n_below):
            work.mass[below[k]] = work.masses[k] - less
            self.set(work, below[k], REACHED)
        self.set(work, v, COMPARED)
        return n_below

    cdef Py_ssize_t node_of_class(
        self, Scratch work, Py_ssize_t t, Py_ssize_t y
    ) noexcept nogil:
        """The leaf of class y, or the pending node above it."""
        cdef Py_ssize_t v = self.terminal[t, y]
        if self.role[v] == CLASS:
            v = self.parent[v]
        while work.state[v] == UNSEEN:
            v = self.parent[v]
        return v

    cdef double exact(self, Scratch work, Py_ssize_t t, Py_ssize_t y) noexcept nogil:
        """log P(y | x) in a tree; evaluates the leaf of y."""
        cdef Py_ssize_t v = self.node_of_class(work, t, y)
        if work.state[v] == PENDING:
            self.share_out(work, t, v)
            v = self.node_of_class(work, t, y)
        if work.state[v] < EVALUATED:
            self.evaluate(work, t, v)
        return work.mass[v] + work.value[self.terminal[t, y]]

    cdef inline void read(
        self, FloatRows rows, Py_ssize_t i, Scratch work
    ) noexcept nogil:
        """Take row i as the sample, and reset the states of the nodes."""
        cdef Py_ssize_t j
        work.i, work.n = i, rows.row(i, &work.x, &work.index)
        for j in range(work.n_touched):
            work.state[work.touched[j]] = UNSEEN
        work.n_touched = 0
        work.n_dots = 0

    cdef void labels_above(
        self, Scratch work, double least, int32_t[::1] out, double[::1] log_proba,
    ) noexcept nogil:
        """out = 1 at the classes with log P(y | x) > least, whose log_proba is set.

        All trees are expanded.
        """
        cdef Py_ssize_t y
        cdef double log_p, bound = exp(least) * self.terminal.shape[0] * (1 - 1e-9)
        for y in range(out.shape[0]):
            out[y] = self.bound(work, y) >= bound
            if out[y]:
                log_p = self.log_mean(work, y)
                out[y] = log_p > least
                log_proba[y] = log_p if out[y] else log_proba[y]

    cdef void nodes_of_tree(
        self, Scratch work, Py_ssize_t t, double[::1] out,
    ) noexcept nogil:
        """log P of the first nodes of a tree, for yes/no questions."""
        cdef Py_ssize_t j, v, leaf, n_items = self.expand_tree(work, t)
        for j in range(n_items):
            if work.state[work.items[j]] == PENDING:
                self.share_out(work, t, work.items[j])
        for j in range(out.shape[0]):
            v = self.tree_ptr[t] + j
            if self.role[v] == CLASS:  # a node of one class, below a node of classes
                leaf = self.parent[v]
                if work.state[leaf] < EVALUATED:
                    self.evaluate(work, t, leaf)
                out[j] = work.mass[leaf] + work.value[v]
            else:
                out[j] = work.route[v]

    cdef inline (Py_ssize_t, Py_ssize_t) classes_below(
        self, Py_ssize_t v
    ) noexcept nogil:
        """The nodes of the classes of a leaf: the first, and the one after the last."""
        if self.role[v] == LEAF:
            return self.first_child[v], self.first_child[v] + self.n_child[v]
        return v, v + 1

    cdef double bound(self, Scratch work, Py_ssize_t y) noexcept nogil:
        """Sum over trees of P(y | x), or of the mass above y if it is not evaluated."""
        cdef Py_ssize_t t, v
        cdef double total = 0, p
        for t in range(self.terminal.shape[0]):
            v = self.node_of_class(work, t, y)
            p = work.mass[v]
            if work.state[v] >= EVALUATED:
                p += work.value[self.terminal[t, y]]
            total += exp(p)
        return total

    cdef void best(
        self, Scratch work, int32_t[::1] best, double[::1] log_proba,
    ) noexcept nogil:
        """The most probable classes, as many as `best` holds; all trees are expanded.

        Most probable first, ties to the smallest class. Leaves are evaluated while
        their mass may exceed the last probability of `best`.
        """
        cdef Py_ssize_t n_trees = self.terminal.shape[0], t = 0, j, k, v, n_done = 0
        cdef Py_ssize_t last = best.shape[0] - 1
        cdef int favourites
        cdef double unseen
        # with several trees log_proba holds sums of probabilities until the end
        for k in range(last + 1):
            best[k], log_proba[k] = -1, -INFINITY
        for t in range(n_trees):
            work.known[t] = 0
        for j in range(work.n_touched):
            v = work.touched[j]
            if work.state[v] == EVALUATED:
                t = self.tree_of(t, v)
                work.items[n_done] = <int32_t>v
                n_done += 1
                self.compare(work, t, v)
        if n_trees > 1:
            self.largest_left(work)
        # first the most probable classes of each tree: others then rarely qualify
        for favourites in range(n_trees > 1, -1, -1):
            for j in range(n_done):
                t = self.tree_of(t, work.items[j])
                self.insert(work, t, work.items[j], favourites, best, log_proba)
        # then the nodes that may hold a better class, largest mass first
        while True:
            v = self.largest_left(work)
            unseen = work.rest[0]
            if n_trees > 1:
                for t in range(1, n_trees):
                    unseen += work.rest[t]
                unseen *= 1 + 1e-9
            if v < 0 or unseen < log_proba[last]:
                break
            t = self.tree_of(t, v)
            if work.state[v] == PENDING:
                self.share_out(work, t, v)
                continue
            if work.state[v] < EVALUATED:
                self.evaluate(work, t, v)
            self.compare(work, t, v)
            if n_trees > 1:
                self.largest_left(work)
            self.insert(work, t, v, False, best, log_proba)
        for k in range(last + 1):
            # best is -1 if scores are not numbers
            if n_trees > 1 and best[k] >= 0:
                log_proba[k] = self.log_mean(work, best[k])

    cdef inline Py_ssize_t tree_of(self, Py_ssize_t t, Py_ssize_t v) noexcept nogil:
        """The tree of node v, searched from tree t on."""
        if v < self.tree_ptr[t]:
            t = 0
        while v >= self.tree_ptr[t + 1]:
            t += 1
        return t

    cdef void compare(self, Scratch work, Py_ssize_t t, Py_ssize_t v) noexcept nogil:
        """Mark an evaluated leaf of tree t, and update work.known with its classes."""
        cdef Py_ssize_t child, first, last
        cdef double p = -INFINITY
        work.state[v] = COMPARED
        if self.terminal.shape[0] == 1:
            return
        first, last = self.classes_below(v)
        for child in range(first, last):
            p = work.value[child] if work.value[child] > p else p
        p = exp(p + work.mass[v])
        work.known[t] = p if p > work.known[t] else work.known[t]

    cdef Py_ssize_t largest_left(self, Scratch work) noexcept nogil:
        """The node of largest mass that is not compared yet, or -1.

        Sets work.rest, the largest mass of such a node in each tree, and work.top, the
        largest probability of any class in each tree. With one tree work.rest is the
        log of the mass, and work.top is not set.
        """
        cdef Py_ssize_t n_trees = self.terminal.shape[0], t, j, v, found = -1
        cdef double* mass = &work.rest[0]
        cdef const int32_t* touched = &work.touched[0]
        cdef const int8_t* state = &work.state[0]
        cdef const double* mass_of = &work.mass[0]
        cdef double most = -INFINITY
        for t in range(n_trees):
            mass[t] = -INFINITY
        t = 0
        for j in range(work.n_touched):
            v = touched[j]
            if n_trees > 1:
                t = self.tree_of(t, v)
            if mass_of[v] > mass[t] and state[v] != COMPARED:
                mass[t] = mass_of[v]
                if mass[t] > most:
                    most, found = mass[t], v
        if n_trees == 1:
            return found
        for t in range(n_trees):
            mass[t] = exp(mass[t])
            work.top[t] = mass[t] if mass[t] > work.known[t] else work.known[t]
        return found

    cdef double least_of(
        self, Scratch work, Py_ssize_t t, bint favourites, double worst
    ) noexcept nogil:
        """Least log-probability in tree t of a class that may exceed `worst`."""
        cdef Py_ssize_t s
        cdef double least = worst
        if self.terminal.shape[0] > 1:
            for s in range(self.terminal.shape[0]):
                least -= work.top[s] if s != t else 0
            if favourites and least < work.top[t]:
                least = work.top[t]
            least = log(least) - 1e-9 if least > 0 else -INFINITY
        return least

    cdef void insert(
        self, Scratch work, Py_ssize_t t, Py_ssize_t v, bint favourites,
        int32_t[::1] best, double[::1] total,
    ) noexcept nogil:
        """Insert the classes of an evaluated leaf v of tree t among the best so far.

        total: for each of the best, the sum of its probabilities over the trees, or its
        log-probability in one tree. favourites: only the classes of largest probability
        in tree t.
        """
        cdef Py_ssize_t child, first, end, y, last = best.shape[0] - 1, at
        cdef double p, least = self.least_of(work, t, favourites, total[last])
        cdef bint one_tree = self.terminal.shape[0] == 1
        if work.mass[v] < least:  # no class exceeds its leaf
            return
        first, end = self.classes_below(v)
        for child in range(first, end):
            p = work.mass[v] + work.value[child]
            if p < least:
                continue
            y = self.node_class[child]
            if not one_tree:
                if self.bound(work, y) < total[last]:
                    continue
                for at in range(last + 1):
                    if best[at] == y:
                        break
                if best[at] == y:
                    continue
                p = self.probability(work, y)
            if p < total[last] or (p == total[last] and 0 <= best[last] < y):
                continue
            at = last
            while at > 0 and (
                best[at - 1] < 0 or p > total[at - 1]
                or (p == total[at - 1] and y < best[at - 1])
            ):
                best[at], total[at] = best[at - 1], total[at - 1]
                at -= 1
            best[at], total[at] = <int32_t>y, p
            least = self.least_of(work, t, favourites, total[last])

    cdef double probability(self, Scratch work, Py_ssize_t y) noexcept nogil:
        """Sum over the trees of the probabilities of a class; evaluates its leaves."""
        cdef Py_ssize_t t
        cdef double total = 0
        for t in range(self.terminal.shape[0]):
            total += exp(self.exact(work, t, y))
        return total

    cdef double log_mean(self, Scratch work, Py_ssize_t y) noexcept nogil:
        """log P(y | x). All trees must be expanded."""
        cdef Py_ssize_t t, n_trees = self.terminal.shape[0]
        if n_trees == 1:
            return self.exact(work, 0, y)
        self.probability(work, y)  # evaluates leaves, which uses work.e
        for t in range(n_trees):
            work.e[t] = self.exact(work, t, y)
        return log_total(&work.e[0], n_trees) - log(n_trees)

    def answer(
        self, FloatRows rows, Scratch work, str kind, int32_t[:, ::1] code,
        double[:, ::1] log_proba, int64_t[::1] n_dots, double least,
        int32_t[::1] stop, Unseen unseen=None, Py_ssize_t tree=0,
    ):
        """Fill the answers for each row, and the numbers of dot products.

        kind: "best", the most probable classes, as many as `code` has columns, and
        their log P(y | x); "labels", code[i, y] = whether log P(y | x_i) > least, and
        these log P; "given", log P of the class code[i, 0]; "all", log P of all
        classes; "nodes", log P of the first nodes of a tree, for yes/no questions.
        """
        cdef Watch watch = watch_of(stop)
        cdef Py_ssize_t i, t, y
        cdef int what = KINDS[kind]
        work.begin(rows, unseen)
        with nogil:
            for i in range(rows.n):
                self.read(rows, i, work)
                if what == NODES:
                    self.nodes_of_tree(work, tree, log_proba[i])
                else:
                    for t in range(self.terminal.shape[0]):
                        self.expand_tree(work, t)
                if what == BEST:
                    self.best(work, code[i], log_proba[i])
                elif what == LABELS:
                    self.labels_above(work, least, code[i], log_proba[i])
                elif what == GIVEN:
                    log_proba[i, 0] = self.log_mean(work, code[i, 0])
                elif what == ALL:
                    for y in range(log_proba.shape[1]):
                        log_proba[i, y] = self.log_mean(work, y)
                n_dots[i] = work.n_dots
                if over(&watch, (work.n_dots + 64) * (work.n + 8)):
                    break
        propagate()

    def record(
        self, FloatRows rows, Scratch work, Unseen unseen, Py_ssize_t t,
        const int32_t[::1] code, double[:, ::1] route, int8_t[:, ::1] kind,
        double[:, :, ::1] inside, int32_t[:, ::1] length, int32_t[:, ::1] item,
        int32_t[:, ::1] own, int32_t[::1] stop,
    ):
        """Fill the arrays of `_evidence.Evidence` for rows of classes `code`.

        The numbers of the tree are those of the product along the path.
        """
        cdef Watch watch = watch_of(stop)
        cdef Py_ssize_t i, j, v, leaf, here, slot
        work.begin(rows, unseen)
        with nogil:
            for i in range(rows.n):
                self.read(rows, i, work)
                own[0, i] = <int32_t>self.expand_tree(work, t)
                own[2, i] = own[3, i] = -1
                leaf, slot = self.terminal[t, code[i]], 0
                if self.role[leaf] == CLASS:
                    leaf = self.parent[leaf]
                    own[3, i] = self.terminal[t, code[i]] - self.first_child[leaf]
                here = self.node_of_class(work, t, code[i])
                for j in range(own[0, i]):
                    v = work.items[j]
                    own[1, i] = <int32_t>j if v == here else own[1, i]
                    route[i, j] = work.route[v]
                    kind[i, j] = work.state[v]
                    if self.role[v] != LEAF or work.state[v] != EVALUATED:
                        kind[i, j] = PENDING if work.state[v] == PENDING else REACHED
                        continue
                    own[2, i] = <int32_t>slot if v == leaf else own[2, i]
                    item[i, slot] = <int32_t>j
                    self.copy_inside(work, v, inside[i, slot], &length[i, slot])
                    slot += 1
                if own[3, i] >= 0 and own[2, i] < 0:
                    self.evaluate(work, t, leaf)
                    own[2, i], item[i, slot] = <int32_t>slot, -1
                    self.copy_inside(work, leaf, inside[i, slot], &length[i, slot])
                if over(&watch, (work.n_dots + 64) * (work.n + 8)):
                    break
        propagate()

    cdef void copy_inside(
        self, Scratch work, Py_ssize_t v, double[::1] out, int32_t* length
    ) noexcept nogil:
        """The evidence of the classes of an evaluated leaf, and their number."""
        cdef Py_ssize_t j
        length[0] = self.n_child[v]
        for j in range(self.n_child[v]):
            out[j] = work.value[self.first_child[v] + j] + work.value[v]
