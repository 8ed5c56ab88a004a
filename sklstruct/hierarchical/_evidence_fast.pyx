"""Posteriors in which the scores of evaluated leaves enter the leaves' probabilities.

Routing nodes give every leaf l of a tree the sum R_l of the evidence of the outcomes on
its path. The b leaves of largest R are evaluated, and their classes have evidence:

    a_y = w_l g(z_y),   E_l = log sum_{y in l} exp a_y,
    P(l | x) = softmax_l(w_r R_l + (eta E_l if l is evaluated else c)),
    P(y | x) = P(l | x) exp(a_y - E_l).

Probabilities sum to 1 for all values of the numbers. g is the evidence of
`linear._calibration`; for the multinomial loss R is a sum of log-probabilities, so that
eta = c = 0 is the product along the path. A leaf of one class has no classifier and the
evidence c. The evaluated leaves depend on x alone, and so does the answer. Routing
nodes are expanded level by level, the `beam` best of each level. The others are
pending: their mass is exp(w_r R + c'), distributed over the leaves below by their own
w_r R if one of these is asked for. A search evaluates further leaves only while their
mass could hold the answer.

The probability of several trees is the mean of theirs. Each class has an upper bound,
the sum over trees of its probability or of the mass of its leaf; the leaves of the
class with the largest bound are evaluated until the bound is exact. For the few best
classes few bounds are needed. A class that some tree has evaluated has at most its
probability there plus the largest ones of the other trees; it is left out if this is
less than the last of the best so far. A class that no tree has evaluated has at most
the sum of the largest masses of the leaves left; these are evaluated, largest first,
until the sum is less than that.

With several labels a sample (`several`) every outcome of a node is a yes/no question,
asked if the answer above was yes, with the log-odds t = w (g(z) - g(-z)) + b, (w, b)
being (w_r, b_r) at routing nodes and (w_l, b_l) at leaves:

    P(y | x) = prod_j 1 / (1 + exp(-t_j))   over the nodes j on the way to y.

Nothing is normalised, and a node is no less probable than what is below it: the masses
of leaves and pending nodes are bounds, and the search is the same.

Weights of a leaf, and of the next sample at the root, are prefetched while others are
summed (`_weights.h`).

Cost of a sample: the stored weights of its features at the routing nodes and at b
leaves a tree, and n_classes steps if k > 1.
"""

cimport cython
from libc.math cimport INFINITY, exp, log, log1p
from libc.stdint cimport int8_t, int32_t, int64_t
from libc.stdlib cimport qsort

from .._watch cimport Watch, over, propagate, watch_of
from ..linear._weights_fast cimport (
    Nodes, Rows, sklstruct_find, sklstruct_met, sklstruct_node_scores,
    sklstruct_reach, sklstruct_weights)

cdef extern from "_vector.h" nogil:
    double sklstruct_exp_sum(
        Py_ssize_t n, const double* u, double top, double* e) noexcept

cdef extern from "_evidence.h" nogil:
    void sklstruct_hinge_evidence(
        Py_ssize_t n, const float* z, double beyond, double* a) noexcept
    double sklstruct_scaled(Py_ssize_t n, double* a, double w) noexcept
    void sklstruct_less(
        Py_ssize_t n, const double* a, double total, double* out) noexcept

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
    OPEN = 3    # evaluated
    ASKED = 4    # leaves whose weights are asked for at once
    # Leaves of all trees that the best classes of several are looked for in, beyond the
    # first, before bounds of all classes are made, and how many classes are looked for
    # that way.
    MOST_LOOKS = 256
    FEW = 32

ROLES = {"route": ROUTE, "leaf": LEAF, "single": SINGLE, "class": CLASS}
LOSSES = {"squared_hinge": 0, "ovr_log_loss": 1, "log_loss": 2}


cdef struct Ranked:
    double key
    int32_t node


cdef int larger_first(const void* a, const void* b) noexcept nogil:
    cdef const Ranked* x = <const Ranked*>a
    cdef const Ranked* y = <const Ranked*>b
    if x.key != y.key:
        return 1 if x.key < y.key else -1
    return (x.node > y.node) - (x.node < y.node)


cdef inline double least_log(double a, double b) noexcept nogil:
    """log of the larger one; a little less, for rounding must not decide."""
    cdef double least = a if a > b else b
    return log(least) - 1e-9 if least > 0 else -INFINITY


@cython.final
cdef class Desk:
    """Room for one sample; a thread has its own."""

    cdef double[::1] route      # (n_nodes,) R
    cdef double[::1] mass       # (n_nodes,) log of the probability
    cdef double[::1] value      # (n_nodes,) log P(y | l) at the nodes of classes
    cdef double[::1] list       # (n_nodes,) masses of the items, and their room
    cdef double[::1] list_room
    cdef int8_t[::1] state      # (n_nodes,)
    cdef int32_t[::1] touched   # (n_nodes,) nodes whose state is to be reset
    cdef Py_ssize_t n_touched
    cdef int8_t[::1] ranked       # n_nodes of Ranked, as bytes
    cdef int32_t[::1] queue     # (n_nodes,)
    cdef int32_t[::1] items     # (n_nodes,) leaves and pending nodes of the tree
    cdef float[::1] z
    cdef double[::1] a
    cdef double[::1] e
    cdef double[::1] bound      # (n_classes,)
    cdef double[::1] top        # (n_trees,) largest probability of any class
    cdef double[::1] rest       # (n_trees,) of a class that is not evaluated
    cdef double[::1] known      # (n_trees,) of a class that is
    cdef int64_t n_dots
    # Weights found for the sample in the first leaves that it evaluates, and for the
    # next sample, of next_n entries, in the root `asked`; -1: none.
    cdef sklstruct_met[ASKED] leaf_met
    cdef sklstruct_met root_met
    cdef Py_ssize_t asked
    cdef const float* asked_x
    cdef Py_ssize_t next_n
    cdef const float* next_x
    cdef const int32_t* next_index

    def __init__(self, Py_ssize_t n_nodes, Py_ssize_t lanes, Py_ssize_t n_classes,
                 double[:, ::1] doubles, int32_t[:, ::1] ints, int8_t[::1] state,
                 float[::1] z, double[:, ::1] evidence, double[::1] bound,
                 int8_t[::1] ranked):
        self.route, self.mass, self.value = doubles[0], doubles[1], doubles[2]
        self.list, self.list_room = doubles[3], doubles[4]
        self.touched, self.queue, self.items = ints[0], ints[1], ints[2]
        self.state, self.z, self.ranked, self.bound = state, z, ranked, bound
        self.a, self.e = evidence[0], evidence[1]
        self.top, self.rest, self.known = evidence[2], evidence[3], evidence[4]
        self.n_touched = 0
        self.asked, self.next_n = -1, 0

    @staticmethod
    def ranked_bytes(Py_ssize_t n_nodes):
        return n_nodes * <Py_ssize_t>sizeof(Ranked)


@cython.final
cdef class Posterior:
    """The trees, their weights and numbers.

    model_ptr: the pieces of the weights of node v are model_ptr[v] to model_ptr[v + 1].
    """

    cdef Nodes nodes
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

    def __init__(self, Nodes nodes, const int64_t[::1] model_ptr,
                 const int8_t[::1] role, forest, const double[:, ::1] scalars,
                 int loss, double beyond, Py_ssize_t n_leaves, Py_ssize_t beam,
                 bint several):
        self.nodes, self.model_ptr, self.role = nodes, model_ptr, role
        self.tree_ptr, self.parent = forest.tree_ptr, forest.parent
        self.first_child, self.n_child = forest.first_child, forest.n_child
        self.node_class, self.terminal = forest.node_class, forest.terminal
        self.scalars, self.loss, self.beyond = scalars, loss, beyond
        self.n_leaves, self.beam, self.several = n_leaves, beam, several

    cdef inline double evidence(self, double z) noexcept nogil:
        cdef double gap
        if self.loss == 2:
            return z
        if self.loss == 1:
            return -log1p(exp(-z)) if z > 0 else z - log1p(exp(z))
        gap = z - 1
        return self.beyond * gap if gap > 0 else -gap * gap

    cdef inline double yes(self, double z, double w, double b) noexcept nogil:
        """log of the probability of a yes."""
        cdef double t = w * (self.evidence(z) - self.evidence(-z)) + b
        return -log1p(exp(-t)) if t > 0 else t - log1p(exp(t))

    cdef inline void ask(
        self, Py_ssize_t v, Py_ssize_t n, const float* x, const int32_t* index,
        sklstruct_met* met,
    ) noexcept nogil:
        """Find what a sample meets in node v, which has a model."""
        cdef sklstruct_weights node = self.nodes.at(self.model_ptr[v])
        sklstruct_find(&node, n, x, index, 0, met)

    cdef inline void reach(self, Py_ssize_t v, sklstruct_met* met) noexcept nogil:
        cdef sklstruct_weights node = self.nodes.at(self.model_ptr[v])
        sklstruct_reach(&node, met)

    cdef void outcomes(
        self, Desk desk, Py_ssize_t t, Py_ssize_t v, Py_ssize_t n, const float* x,
        const int32_t* index, sklstruct_met* asked,
    ) noexcept nogil:
        """desk.a = evidence of all children of node v of tree t, or log P(yes).

        asked: met there, or NULL.
        """
        cdef Py_ssize_t m = self.n_child[v], piece, j, at = 0, width, leaf
        cdef sklstruct_weights node
        cdef sklstruct_met room
        cdef double z
        for piece in range(self.model_ptr[v], self.model_ptr[v + 1]):
            node = self.nodes.at(piece)
            if asked != NULL and at == 0:
                sklstruct_node_scores(&node, n, x, index, &desk.z[0], asked, True)
            else:
                sklstruct_node_scores(&node, n, x, index, &desk.z[0], &room, False)
            width = node.M if node.M < m - at else m - at
            if piece + 1 < self.model_ptr[v + 1]:
                width = node.M  # pieces but the last have no padding
            if self.several:
                leaf = self.role[v] == LEAF
                for j in range(width):
                    desk.a[at + j] = self.yes(
                        desk.z[j], self.scalars[t, leaf], self.scalars[t, 2 + leaf]
                    )
                at += width
                continue
            if m == 2:
                z = desk.z[0]
                desk.a[0] = 0 if self.loss == 2 else self.evidence(-z)
                desk.a[1] = self.evidence(z)
                desk.n_dots += 1
                return
            if self.loss == 0:
                sklstruct_hinge_evidence(
                    width, &desk.z[0], self.beyond, &desk.a[at]
                )
            else:
                for j in range(width):
                    desk.a[at + j] = self.evidence(desk.z[j])
            at += width
        desk.n_dots += m

    cdef double log_total(self, Desk desk, Py_ssize_t m, double w) noexcept nogil:
        """a *= w; log of the sum of exp(a)."""
        cdef double top = sklstruct_scaled(m, &desk.a[0], w)
        return top + log(sklstruct_exp_sum(m, &desk.a[0], top, &desk.e[0]))

    cdef inline void set(self, Desk desk, Py_ssize_t v, int8_t state) noexcept nogil:
        if desk.state[v] == UNSEEN:
            desk.touched[desk.n_touched] = <int32_t>v
            desk.n_touched += 1
        desk.state[v] = state

    cdef void expand(
        self, Desk desk, Py_ssize_t t, Py_ssize_t v, Py_ssize_t n, const float* x,
        const int32_t* index,
    ) noexcept nogil:
        """R of the children of a routing node."""
        cdef Py_ssize_t m = self.n_child[v], j, child = self.first_child[v]
        cdef double total = 0
        cdef bint asked = desk.asked == v and desk.asked_x == x and n > 0
        if m == 1:
            desk.a[0] = 0
        else:
            self.outcomes(
                desk, t, v, n, x, index, &desk.root_met if asked else NULL
            )
            if self.loss == 2 and not self.several:
                total = self.log_total(desk, m, 1)
        for j in range(m):
            desk.route[child + j] = desk.route[v] + desk.a[j] - total

    cdef double look(
        self, Desk desk, Py_ssize_t t, Py_ssize_t v, Py_ssize_t n, const float* x,
        const int32_t* index, sklstruct_met* asked,
    ) noexcept nogil:
        """Conditionals of the classes of a leaf of tree t; returns E, or 0.

        asked: as in `outcomes`.
        """
        cdef Py_ssize_t m = self.n_child[v]
        cdef double total = 0
        self.outcomes(desk, t, v, n, x, index, asked)
        if not self.several:
            total = self.log_total(desk, m, self.scalars[t, 1])
        sklstruct_less(m, &desk.a[0], total, &desk.value[self.first_child[v]])
        self.set(desk, v, OPEN)
        return total

    cdef void open_leaf(
        self, Desk desk, Py_ssize_t t, Py_ssize_t v, Py_ssize_t n, const float* x,
        const int32_t* index,
    ) noexcept nogil:
        """Look into a leaf of tree t that is REACHED; its mass stays."""
        if self.role[v] == LEAF:
            self.look(desk, t, v, n, x, index, NULL)
        else:
            desk.value[v] = 0
            self.set(desk, v, OPEN)

    cdef Py_ssize_t open_tree(
        self, Desk desk, Py_ssize_t t, Py_ssize_t n, const float* x,
        const int32_t* index,
    ) noexcept nogil:
        """Masses of leaves and pending nodes of a tree: desk.items; their number."""
        cdef Py_ssize_t root = self.tree_ptr[t], n_queue = 1, n_next, n_items = 0
        cdef Py_ssize_t j, k, v, child, n_best, first, last, next_root
        cdef double w_r = self.scalars[t, 0], eta = self.scalars[t, 2]
        cdef double c = self.scalars[t, 3], pending = self.scalars[t, 4]
        cdef double top = -INFINITY, total
        cdef Ranked* ranked = <Ranked*>&desk.ranked[0]
        if self.several:
            w_r, eta, c, pending = 1, 0, 0, 0
        desk.route[root] = 0
        if self.role[root] != ROUTE:
            n_queue = 0
            desk.items[0] = <int32_t>root
            n_items = 1
            self.set(desk, root, REACHED)
        else:
            desk.queue[0] = <int32_t>root
        while n_queue:
            if n_queue > self.beam:
                for j in range(n_queue):
                    ranked[j].node = desk.queue[j]
                    ranked[j].key = desk.route[desk.queue[j]]
                qsort(ranked, n_queue, sizeof(Ranked), larger_first)
                for j in range(n_queue):
                    desk.queue[j] = ranked[j].node
                for j in range(self.beam, n_queue):
                    desk.items[n_items] = desk.queue[j]
                    n_items += 1
                    self.set(desk, desk.queue[j], PENDING)
                n_queue = self.beam
            # the children go behind the nodes of this level
            n_next = n_queue
            for j in range(n_queue):
                v = desk.queue[j]
                self.expand(desk, t, v, n, x, index)
                child = self.first_child[v]
                for k in range(child, child + self.n_child[v]):
                    if self.role[k] == ROUTE:
                        desk.queue[n_next] = <int32_t>k
                        n_next += 1
                    else:
                        desk.items[n_items] = <int32_t>k
                        n_items += 1
                        self.set(desk, k, REACHED)
            for j in range(n_queue, n_next):
                desk.queue[j - n_queue] = desk.queue[j]
            n_queue = n_next - n_queue
        # the best leaves, by insertion where they are few
        n_best = 0
        if self.n_leaves < n_items and self.n_leaves <= 16:
            for j in range(n_items):
                v = desk.items[j]
                if desk.state[v] == PENDING:
                    continue
                k = n_best
                while k > 0 and (
                    ranked[k - 1].key < desk.route[v]
                    or (ranked[k - 1].key == desk.route[v] and ranked[k - 1].node > v)
                ):
                    if k < self.n_leaves:
                        ranked[k] = ranked[k - 1]
                    k -= 1
                if k < self.n_leaves:
                    ranked[k].key = desk.route[v]
                    ranked[k].node = <int32_t>v
                    if n_best < self.n_leaves:
                        n_best += 1
        else:
            for j in range(n_items):
                v = desk.items[j]
                if desk.state[v] == REACHED:
                    ranked[n_best].key = desk.route[v]
                    ranked[n_best].node = <int32_t>v
                    n_best += 1
            if n_best > self.n_leaves:
                qsort(ranked, n_best, sizeof(Ranked), larger_first)
                n_best = self.n_leaves
        for j in range(n_items):
            v = desk.items[j]
            desk.mass[v] = w_r * desk.route[v] + (
                pending if desk.state[v] == PENDING else c
            )
        first, next_root = 0, -1
        while first < n_best:
            last = first + ASKED if first + ASKED < n_best else n_best
            for j in range(first, last):
                if self.role[ranked[j].node] == LEAF:
                    self.ask(ranked[j].node, n, x, index, &desk.leaf_met[j - first])
            if first == 0:
                next_root = self.ask_next(desk, t)
            for j in range(first, last):
                if self.role[ranked[j].node] == LEAF:
                    self.reach(ranked[j].node, &desk.leaf_met[j - first])
            for j in range(first, last):
                v = ranked[j].node
                if self.role[v] == LEAF:
                    total = self.look(
                        desk, t, v, n, x, index, &desk.leaf_met[j - first]
                    )
                    desk.mass[v] = w_r * desk.route[v] + eta * total
                else:
                    desk.value[v] = 0
                    self.set(desk, v, OPEN)
            first = last
        if next_root >= 0:
            self.reach(next_root, &desk.root_met)
        if self.several:
            return n_items
        for j in range(n_items):
            desk.list[j] = desk.mass[desk.items[j]]
            if desk.list[j] > top:
                top = desk.list[j]
        total = sklstruct_exp_sum(n_items, &desk.list[0], top, &desk.list_room[0])
        total = top + log(total)
        for j in range(n_items):
            desk.mass[desk.items[j]] -= total
        return n_items

    cdef inline Py_ssize_t ask_next(self, Desk desk, Py_ssize_t t) noexcept nogil:
        """Find what the next sample meets in the root of tree t; the root or -1."""
        cdef Py_ssize_t v = self.tree_ptr[t]
        desk.asked = -1
        if desk.next_n == 0 or self.n_child[v] < 2 or self.terminal.shape[0] > 1:
            return -1
        self.ask(v, desk.next_n, desk.next_x, desk.next_index, &desk.root_met)
        desk.asked, desk.asked_x = v, desk.next_x
        return v

    cdef Py_ssize_t share_out(
        self, Desk desk, Py_ssize_t t, Py_ssize_t v, Py_ssize_t n, const float* x,
        const int32_t* index,
    ) noexcept nogil:
        """Masses of all leaves below a pending node, which is expanded.

        They are the last in desk.queue, in the number that is returned.
        """
        cdef Py_ssize_t n_queue = 1, at = 0, k, child, n_below = 0
        cdef double w_r = self.scalars[t, 0], top = -INFINITY, total = 0
        # the leaves stand at the end of the queue, which has room for all nodes
        cdef Py_ssize_t end = desk.queue.shape[0]
        desk.queue[0] = <int32_t>v
        while at < n_queue:
            self.expand(desk, t, desk.queue[at], n, x, index)
            child = self.first_child[desk.queue[at]]
            for k in range(child, child + self.n_child[desk.queue[at]]):
                if self.role[k] == ROUTE:
                    desk.queue[n_queue] = <int32_t>k
                    n_queue += 1
                else:
                    n_below += 1
                    desk.queue[end - n_below] = <int32_t>k
            at += 1
        if self.several:
            for k in range(end - n_below, end):
                desk.mass[desk.queue[k]] = desk.route[desk.queue[k]]
                self.set(desk, desk.queue[k], REACHED)
            self.set(desk, v, OPEN)
            return n_below
        for k in range(end - n_below, end):
            desk.mass[desk.queue[k]] = w_r * desk.route[desk.queue[k]]
            if desk.mass[desk.queue[k]] > top:
                top = desk.mass[desk.queue[k]]
        for k in range(end - n_below, end):
            total += exp(desk.mass[desk.queue[k]] - top)
        total = top + log(total)
        for k in range(end - n_below, end):
            desk.mass[desk.queue[k]] += desk.mass[v] - total
            self.set(desk, desk.queue[k], REACHED)
        self.set(desk, v, OPEN)
        return n_below

    cdef Py_ssize_t reached(self, Desk desk, Py_ssize_t t, Py_ssize_t y) noexcept nogil:
        """The leaf or pending node that class y is in."""
        cdef Py_ssize_t v = self.terminal[t, y]
        if self.role[v] == CLASS:
            v = self.parent[v]
        while desk.state[v] == UNSEEN:
            v = self.parent[v]
        return v

    cdef double exact(
        self, Desk desk, Py_ssize_t t, Py_ssize_t y, Py_ssize_t n, const float* x,
        const int32_t* index,
    ) noexcept nogil:
        """log P(y | x) in a tree; evaluates the leaf of y."""
        cdef Py_ssize_t v = self.reached(desk, t, y)
        if desk.state[v] == PENDING:
            self.share_out(desk, t, v, n, x, index)
            v = self.reached(desk, t, y)
        if desk.state[v] != OPEN:
            self.open_leaf(desk, t, v, n, x, index)
        return desk.mass[v] + desk.value[self.terminal[t, y]]

    cdef inline void clear(self, Desk desk) noexcept nogil:
        cdef Py_ssize_t j
        for j in range(desk.n_touched):
            desk.state[desk.touched[j]] = UNSEEN
        desk.n_touched = 0
        desk.n_dots = 0

    cdef void best(
        self, Desk desk, int32_t[::1] best, double[::1] log_proba, Py_ssize_t n,
        const float* x, const int32_t* index,
    ) noexcept nogil:
        """The most probable classes of one tree, as many as `best` holds.

        Most probable first, ties to the smallest. Leaves are evaluated while their mass
        exceeds the last of these.
        """
        cdef Py_ssize_t n_items = self.open_tree(desk, 0, n, x, index), j, v, top_item
        cdef Py_ssize_t n_below, last = best.shape[0] - 1
        cdef double top
        for j in range(best.shape[0]):
            best[j], log_proba[j] = -1, -INFINITY
        for j in range(n_items):
            if desk.state[desk.items[j]] == OPEN:
                self.challenge(desk, desk.items[j], best, log_proba)
        while True:
            top, top_item = -INFINITY, -1
            for j in range(n_items):
                v = desk.items[j]
                if desk.state[v] != OPEN and desk.mass[v] > top:
                    top, top_item = desk.mass[v], j
            # a leaf of this very mass may hold a smaller class that ties
            if top_item < 0 or top < log_proba[last]:
                return
            v = desk.items[top_item]
            if desk.state[v] == PENDING:
                n_below = self.share_out(desk, 0, v, n, x, index)
                # its leaves take its place
                desk.items[top_item] = desk.items[n_items - 1]
                n_items -= 1
                for j in range(n_below):
                    desk.items[n_items] = desk.queue[desk.queue.shape[0] - 1 - j]
                    n_items += 1
            else:
                self.open_leaf(desk, 0, v, n, x, index)
                self.challenge(desk, v, best, log_proba)

    cdef void above(
        self, Desk desk, double least, int8_t[::1] out, Py_ssize_t n, const float* x,
        const int32_t* index,
    ) noexcept nogil:
        """out = 1 at the classes with log P(y | x) > least; all trees are open."""
        cdef Py_ssize_t y, n_trees = self.terminal.shape[0]
        cdef double bound = exp(least) * n_trees * (1 - 1e-9)
        for y in range(out.shape[0]):
            out[y] = 0
            self.set_bound(desk, y)
            if n_trees == 1 and desk.bound[y] <= least:
                continue
            if n_trees > 1 and desk.bound[y] < bound:
                continue
            out[y] = self.log_mean(desk, y, n, x, index) > least

    cdef inline (Py_ssize_t, Py_ssize_t) classes_below(
        self, Py_ssize_t v
    ) noexcept nogil:
        """The nodes of the classes of a leaf: the first, and the one after the last."""
        if self.role[v] == LEAF:
            return self.first_child[v], self.first_child[v] + self.n_child[v]
        return v, v + 1

    cdef inline void challenge(
        self, Desk desk, Py_ssize_t v, int32_t[::1] best, double[::1] log_proba
    ) noexcept nogil:
        """Compare the classes of an evaluated leaf with the best so far."""
        cdef Py_ssize_t child, first, end, at, last = best.shape[0] - 1
        cdef double p
        cdef int32_t y
        if desk.mass[v] < log_proba[last]:  # all classes have less than their leaf
            return
        first, end = self.classes_below(v)
        for child in range(first, end):
            p, y = desk.mass[v] + desk.value[child], self.node_class[child]
            if p < log_proba[last] or (p == log_proba[last] and best[last] >= 0
                                       and y > best[last]):
                continue
            at = last
            while at > 0 and (
                best[at - 1] < 0 or p > log_proba[at - 1]
                or (p == log_proba[at - 1] and y < best[at - 1])
            ):
                best[at], log_proba[at] = best[at - 1], log_proba[at - 1]
                at -= 1
            best[at], log_proba[at] = y, p

    cdef double term(self, Desk desk, Py_ssize_t t, Py_ssize_t y) noexcept nogil:
        """log P(y | x) of a tree, or a bound of it."""
        cdef Py_ssize_t v = self.reached(desk, t, y)
        if desk.state[v] == OPEN:
            return desk.mass[v] + desk.value[self.terminal[t, y]]
        return desk.mass[v]

    cdef inline void set_bound(self, Desk desk, Py_ssize_t y) noexcept nogil:
        """Sum of probabilities; of one tree the logarithm, which never underflows."""
        cdef Py_ssize_t t
        if self.terminal.shape[0] == 1:
            desk.bound[y] = self.term(desk, 0, y)
            return
        desk.bound[y] = 0
        for t in range(self.terminal.shape[0]):
            desk.bound[y] += exp(self.term(desk, t, y))

    cdef void lower(
        self, Desk desk, Py_ssize_t y, Py_ssize_t n, const float* x,
        const int32_t* index,
    ) noexcept nogil:
        """Look into the leaves of y, and lower the bounds of all classes there."""
        cdef Py_ssize_t t, v, child, first, last, other
        for t in range(self.terminal.shape[0]):
            v = self.reached(desk, t, y)
            if desk.state[v] == OPEN:
                continue
            if desk.state[v] == PENDING:
                self.share_out(desk, t, v, n, x, index)
                for other in range(desk.bound.shape[0]):
                    if desk.bound[other] > -INFINITY:
                        self.set_bound(desk, other)
                v = self.reached(desk, t, y)
            self.exact(desk, t, y, n, x, index)
            first, last = self.classes_below(v)
            for child in range(first, last):
                other = self.node_class[child]
                if desk.bound[other] > -INFINITY:  # not answered yet
                    self.set_bound(desk, other)

    cdef bint settled(self, Desk desk, Py_ssize_t y) noexcept nogil:
        cdef Py_ssize_t t
        for t in range(self.terminal.shape[0]):
            if desk.state[self.reached(desk, t, y)] != OPEN:
                return False
        return True

    cdef double probability(
        self, Desk desk, Py_ssize_t y, Py_ssize_t n, const float* x,
        const int32_t* index,
    ) noexcept nogil:
        """Sum over the trees of the probabilities of a class; evaluates its leaves."""
        cdef Py_ssize_t t
        cdef double total = 0
        for t in range(self.terminal.shape[0]):
            total += exp(self.exact(desk, t, y, n, x, index))
        return total

    cdef bint best_of_several(
        self, Desk desk, int32_t[::1] best, double[::1] log_proba, Py_ssize_t n,
        const float* x, const int32_t* index,
    ) noexcept nogil:
        """The most probable classes of several trees, all open; False: bounds are weak.

        Ties to the smallest. Leaves that are evaluated on the way keep their bounds:
        those of all classes can be asked for afterwards.
        """
        cdef Py_ssize_t n_trees = self.terminal.shape[0], n_nodes = desk.n_touched
        cdef Py_ssize_t t, j, k, v, child, first, last, n_done = 0, left = MOST_LOOKS
        cdef Py_ssize_t n_best = best.shape[0]
        cdef int favourites
        cdef double p, unseen
        cdef double* known = &desk.known[0]
        cdef double* mass = &desk.rest[0]
        cdef int32_t* done = &desk.queue[0]
        # sums of probabilities until the end
        for k in range(n_best):
            best[k], log_proba[k] = -1, -INFINITY
        for t in range(n_trees):
            known[t] = 0
        t = 0
        for j in range(n_nodes):
            v = desk.touched[j]
            while v >= self.tree_ptr[t + 1]:
                t += 1
            done[j] = desk.state[v] == OPEN
            if desk.state[v] == PENDING:
                return False
            if desk.state[v] == OPEN:
                desk.items[n_done] = <int32_t>v
                n_done += 1
                p = -INFINITY
                first, last = self.classes_below(v)
                for child in range(first, last):
                    p = desk.value[child] if desk.value[child] > p else p
                p = exp(desk.mass[v] + p)
                known[t] = p if p > known[t] else known[t]
        self.largest_left(desk, n_nodes)
        # the favourites of each tree first: they leave little to the others
        for favourites in range(1, -1, -1):
            t = 0
            for j in range(n_done):
                v = desk.items[j]
                while v >= self.tree_ptr[t + 1]:
                    t += 1
                self.challenge_all(
                    desk, t, v, favourites, best, log_proba, n, x, index
                )
        # then the leaves that may hold a better one, largest first
        while True:
            unseen = 0
            for t in range(n_trees):
                unseen += mass[t]
            if unseen < log_proba[n_best - 1] * (1 - 1e-9):
                break
            if left == 0:
                return False
            left -= 1
            j = self.largest_left(desk, n_nodes)
            if j < 0:
                break
            v, t = desk.touched[j], 0
            while v >= self.tree_ptr[t + 1]:
                t += 1
            if desk.state[v] != OPEN:
                self.open_leaf(desk, t, v, n, x, index)
            done[j] = True
            # what no leaf left can have bounds the others; this one has its own say
            first, last = self.classes_below(v)
            for child in range(first, last):
                p = exp(desk.mass[v] + desk.value[child])
                known[t] = p if p > known[t] else known[t]
            self.largest_left(desk, n_nodes)
            self.challenge_all(desk, t, v, False, best, log_proba, n, x, index)
        for k in range(n_best):
            log_proba[k] = self.log_mean(desk, best[k], n, x, index)
        return True

    cdef Py_ssize_t largest_left(self, Desk desk, Py_ssize_t n_nodes) noexcept nogil:
        """Of the leaves that are not done: the place of the largest, -1 for none.

        Sets desk.rest, the largest mass of those of each tree, and desk.top, the most
        that a class can have there.
        """
        cdef Py_ssize_t n_trees = self.terminal.shape[0], t, j, v, found = -1
        cdef double* mass = &desk.rest[0]
        cdef double largest = -INFINITY
        for t in range(n_trees):
            mass[t] = -INFINITY
        t = 0
        for j in range(n_nodes):
            v = desk.touched[j]
            while v >= self.tree_ptr[t + 1]:
                t += 1
            if desk.queue[j]:
                continue
            mass[t] = desk.mass[v] if desk.mass[v] > mass[t] else mass[t]
            if desk.mass[v] > largest:
                largest, found = desk.mass[v], j
        for t in range(n_trees):
            mass[t] = exp(mass[t])
            desk.top[t] = mass[t] if mass[t] > desk.known[t] else desk.known[t]
        return found

    cdef void challenge_all(
        self, Desk desk, Py_ssize_t t, Py_ssize_t v, bint favourites,
        int32_t[::1] best, double[::1] total, Py_ssize_t n, const float* x,
        const int32_t* index,
    ) noexcept nogil:
        """The classes of leaf v of tree t, which is open, against the best so far.

        total: the sums over the trees of the probabilities of the latter. favourites:
        only those that the tree thinks most probable.
        """
        cdef Py_ssize_t n_trees = self.terminal.shape[0], s, child, first, end, y
        cdef Py_ssize_t last = best.shape[0] - 1, at
        cdef double others = 0, least, p
        for s in range(n_trees):
            others += desk.top[s] if s != t else 0
        first, end = self.classes_below(v)
        least = least_log(total[last] - others, desk.top[t] if favourites else 0)
        for child in range(first, end):
            if desk.mass[v] + desk.value[child] < least:
                continue
            y = self.node_class[child]
            p = 0
            for s in range(n_trees):
                p += exp(self.term(desk, s, y))
            if p < total[last]:
                continue
            for at in range(last + 1):
                if best[at] == y:
                    break
            else:
                p = self.probability(desk, y, n, x, index)
                at = last
                if p < total[last] or (p == total[last] and 0 <= best[last] < y):
                    continue
                while at > 0 and (
                    p > total[at - 1] or (p == total[at - 1] and y < best[at - 1])
                ):
                    best[at], total[at] = best[at - 1], total[at - 1]
                    at -= 1
                best[at], total[at] = <int32_t>y, p
                least = least_log(
                    total[last] - others, desk.top[t] if favourites else 0
                )

    cdef double log_mean(
        self, Desk desk, Py_ssize_t y, Py_ssize_t n, const float* x,
        const int32_t* index,
    ) noexcept nogil:
        """log P(y | x), all trees being open."""
        cdef Py_ssize_t t, n_trees = self.terminal.shape[0]
        cdef double top = -INFINITY, total = 0
        if n_trees == 1:
            return self.exact(desk, 0, y, n, x, index)
        for t in range(n_trees):
            desk.e[t] = self.exact(desk, t, y, n, x, index)
        # `exact` may have used desk.e: again, now that all leaves are open
        for t in range(n_trees):
            desk.e[t] = self.exact(desk, t, y, n, x, index)
            if desk.e[t] > top:
                top = desk.e[t]
        for t in range(n_trees):
            total += exp(desk.e[t] - top)
        return top + log(total / n_trees)

    cdef void best_by_bounds(
        self, Desk desk, int32_t[::1] best, double[::1] log_proba, Py_ssize_t n,
        const float* x, const int32_t* index,
    ) noexcept nogil:
        """The most probable classes, as many as `best` holds; all trees are open."""
        cdef Py_ssize_t y, k, top_y, n_classes = desk.bound.shape[0]
        cdef double top
        for y in range(n_classes):
            self.set_bound(desk, y)
        for k in range(best.shape[0]):
            while True:
                top, top_y = -INFINITY, 0
                for y in range(n_classes):
                    if desk.bound[y] > top:
                        top, top_y = desk.bound[y], y
                if self.settled(desk, top_y):
                    break
                self.lower(desk, top_y, n, x, index)
            best[k] = <int32_t>top_y
            log_proba[k] = self.log_mean(desk, top_y, n, x, index)
            desk.bound[top_y] = -INFINITY

    def search(self, Rows rows, Desk desk, int32_t[:, ::1] best,
               double[:, ::1] log_proba, int64_t[::1] n_dots, int32_t[::1] stop):
        """The k most probable classes of each row, k columns of `best`."""
        cdef Watch watch = watch_of(stop)
        cdef Py_ssize_t i, n, t
        cdef const float* x = NULL
        cdef const int32_t* index = NULL
        desk.asked = -1
        with nogil:
            for i in range(rows.n):
                n = rows.row(i, &x, &index)
                desk.next_n = 0
                if i + 1 < rows.n:
                    desk.next_n = rows.row(i + 1, &desk.next_x, &desk.next_index)
                self.clear(desk)
                if self.terminal.shape[0] == 1:
                    self.best(desk, best[i], log_proba[i], n, x, index)
                    n_dots[i] = desk.n_dots
                else:
                    for t in range(self.terminal.shape[0]):
                        self.open_tree(desk, t, n, x, index)
                    if best.shape[1] > FEW or not self.best_of_several(
                        desk, best[i], log_proba[i], n, x, index
                    ):
                        self.best_by_bounds(desk, best[i], log_proba[i], n, x, index)
                    n_dots[i] = desk.n_dots
                if over(&watch, (desk.n_dots + 64) * (n + 8)):
                    break
        desk.next_n = 0
        propagate()

    def labels(self, Rows rows, Desk desk, double least, int8_t[:, ::1] out,
               int32_t[::1] stop):
        """out[i, y] = whether log P(y | x_i) > least."""
        cdef Watch watch = watch_of(stop)
        cdef Py_ssize_t i, n, t
        cdef const float* x = NULL
        cdef const int32_t* index = NULL
        with nogil:
            for i in range(rows.n):
                n = rows.row(i, &x, &index)
                self.clear(desk)
                for t in range(self.terminal.shape[0]):
                    self.open_tree(desk, t, n, x, index)
                self.above(desk, least, out[i], n, x, index)
                if over(&watch, (desk.n_dots + 64) * (n + 8)):
                    break
        propagate()

    def targets(self, Rows rows, Desk desk, const int32_t[::1] code, double[::1] out,
                int32_t[::1] stop):
        """out[i] = log P(code[i] | x_i)."""
        cdef Watch watch = watch_of(stop)
        cdef Py_ssize_t i, n, t
        cdef const float* x = NULL
        cdef const int32_t* index = NULL
        with nogil:
            for i in range(rows.n):
                n = rows.row(i, &x, &index)
                self.clear(desk)
                for t in range(self.terminal.shape[0]):
                    self.open_tree(desk, t, n, x, index)
                out[i] = self.log_mean(desk, code[i], n, x, index)
                if over(&watch, (desk.n_dots + 64) * (n + 8)):
                    break
        propagate()

    def full(self, Rows rows, Desk desk, double[:, ::1] out, int32_t[::1] stop):
        """out[i] = log P(y | x_i) of all classes."""
        cdef Watch watch = watch_of(stop)
        cdef Py_ssize_t i, n, t, y
        cdef const float* x = NULL
        cdef const int32_t* index = NULL
        with nogil:
            for i in range(rows.n):
                n = rows.row(i, &x, &index)
                self.clear(desk)
                for t in range(self.terminal.shape[0]):
                    self.open_tree(desk, t, n, x, index)
                for y in range(out.shape[1]):
                    out[i, y] = self.log_mean(desk, y, n, x, index)
                if over(&watch, (desk.n_dots + 64) * (n + 8)):
                    break
        propagate()
