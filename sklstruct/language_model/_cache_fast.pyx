"""Counts of a cache, and the probability of the next word given them.

`Counts` holds the counts of the words that were read, and `Mixer` holds the weights of
a `CacheLM`. `Counts.read` reads a text, `Counts.step` reads one word, and `Counts.row`
computes P of all words; all three use the same functions.

*N-grams.* A trie of the n-grams of the text, from the oldest word to the newest: node 0
is empty, its children are words, and node 1 is the start mark, which is not counted. A
child is found by hashing (parent, word), so that different n-grams never collide. The
contexts of a position are the nodes of its last 0, 1, ... words: a word takes one
look-up for each length.

*Decayed counts.* A sum of decay ** (t - i) over the times i of occurrences is stored
with the latest of these times, at which the sum was computed: at time t the count is
sum * decay ** (t - time). `value` has two such sums for each node: of the occurrences
of the n-gram, and of the words that followed the n-gram. The share of a word among the
followers of a context is the first sum of the word over the second sum of the context,
at the time of the latest follower, so that nothing underflows, however old the follower
is. Single words are counted for the caches of words and of words within their class,
longer n-grams are counted for the caches of n-grams. `class_value` has the sum of each
class.

*Weights of classes.* `weight` has a row for each context, with a number for each class:
row 0 for all histories, then a row for each class of the last word, a row for the start
mark, and a row for each last word. After each word, the rows of its contexts take a
step along the gradient of ln P of its class. Rows decay as counts do; the first column
is the time.

*Forgetting.* With a `length`, a second cursor follows `length` words later, and
subtracts each word again. `past` is a ring buffer of the last words, with a flag for
the beginning of a sentence, and of their gradients. Nodes stay until the tables are
full.

Words are class ids, and n_words is the start mark. A negative word has no class: it
takes no time, is not counted and ends the context.
"""

import threading

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, NAN, exp, fabs, log, log1p, pow
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libc.string cimport memset

from .._checks import INT32_MAX
from .._exp_sum cimport exp_sum, largest
from .._log_sum cimport add_log, log_sum, log_softmax

cdef enum:
    LONGEST = 255  # n-grams
    START = 1  # the node of the start mark
    NEWEST = 0  # cursors
    OLDEST = 1
    NEW_DOCUMENT = 2
    # Words between two checks for Ctrl-C. Tables get room for so many words at a time.
    AT_A_TIME = 1 << 10

# Before a word: nothing, the start of a sentence, or the start of a document.
WITHIN, SENTENCE, DOCUMENT = 0, 1, NEW_DOCUMENT

# Logarithms of counts are scaled to about 1 for the gate.
cdef double SCALE = 0.3


cdef struct Node:
    int32_t count  # of the n-gram
    int32_t total  # of the words that followed it ...
    int32_t distinct  # ... and how many of these differ
    int32_t parent, word  # the last word
    int32_t row  # of `weight`, of a word; -1 if absent

_NODE = np.dtype([(name, np.int32) for name in (
    "count", "total", "distinct", "parent", "word", "row")])


cdef struct TextCursor:
    int32_t[LONGEST] path  # nodes of the last 0, 1, ... words; -1: not in the tree
    int32_t last  # node of the last word; -1: no word before
    double time  # words that were read


cdef struct Shape:
    int32_t n_words  # that are predicted
    int32_t order  # of the longest n-grams
    int32_t n_class  # half-lives within classes
    int32_t[2] n_own, n_sum  # decayed counts of a word, of a longer n-gram
    int32_t n_groups  # classes of words; 0 without classes
    int32_t n_parts, n_features
    int64_t length  # words that are counted; -1: all
    bint learns  # weights of classes
    double[3] rate
    double learning_decay


cdef struct Progress:
    int64_t n_read  # words
    int32_t n_nodes, n_rows
    TextCursor[2] cursors  # of the newest word, and of the oldest one that is counted


cdef class Mixer:
    """Weights of the parts of a `CacheLM`.

    Parameters
    ----------
    order : int32 ndarray of shape (n_parts,)
        The n-gram order whose context each part needs.

    theta : ndarray of shape (n_half_lives, n_groups) or None
        Number of words in the cache at which cache and base weigh the same, per class.

    coef : ndarray of shape (n_parts, n_features) or None
        Coefficients of the logistic gate.

    weights : ndarray of shape (max_order + 1, n_parts) or None
        Constant weights for each longest order whose context occurs. If `coef` is None
        too, all weights are 1.
    """

    cdef const int32_t[::1] order
    cdef const double[:, ::1] theta, coef, log_weights
    cdef readonly Py_ssize_t n_parts

    def __init__(self, order, theta, coef, weights):
        self.order, self.theta, self.coef = order, theta, coef
        self.n_parts = self.order.shape[0]
        with np.errstate(divide="ignore"):
            self.log_weights = None if weights is None else np.log(weights)


cdef class Counts:
    """The counts of the words of a text.

    Parameters
    ----------
    settings : CacheSettings
        Settings, whose ranges were checked.
    """

    cdef readonly object settings
    cdef Shape shape
    cdef Progress at
    cdef object lock  # of the thread that uses the counts
    cdef const int32_t[::1] group  # the class of each word
    cdef const double[:, ::1] decay  # of single words, of longer n-grams
    cdef Node[::1] nodes
    cdef int32_t[::1] table
    cdef double[:, ::1] value, class_value, weight, past
    cdef double[::1] keep
    cdef double scale, log_scale  # 1 over the sum of `proba`; ln of the sum
    # Places in `keep`.
    cdef double *features
    cdef double *log_weights
    cdef double *parts
    cdef double *in_class  # counts of the word and of its class, for each half-life
    cdef double *score  # sum of the learnt weights of each class
    cdef double *proba  # P of each class with the learnt weights, up to a factor
    cdef double *of_base  # P of each class in the base
    cdef double *unseen  # ln of the factor of a word without counts, of each class

    def __cinit__(self):
        self.lock = threading.Lock()

    def __init__(self, settings):
        cdef Shape *s = &self.shape
        words, classes = settings.half_life, settings.class_half_life
        ngrams, self.group = settings.ngram_half_life, settings.class_of
        self.settings = settings
        s.n_words, s.order = settings.n_classes, settings.max_order
        s.n_class = len(classes)
        s.n_own[0], s.n_sum[0] = len(words) + len(classes), len(words)
        s.n_own[1] = s.n_sum[1] = len(ngrams)
        if self.group is not None:
            s.n_groups = int(settings.class_of.max(initial=-1)) + 1
        s.n_parts = 1 + s.n_own[0] + (s.order - 1) * s.n_own[1]
        s.n_features = 1 + 3 * s.order
        s.length = -1 if settings.length is None else settings.length
        s.rate = settings.learning_rate
        s.learns = s.n_groups > 0 and any(settings.learning_rate)
        s.learning_decay = 0.5 ** (1.0 / settings.learning_half_life)
        decay = np.ones((2, max(s.n_own[0], s.n_own[1], 1)))
        for row, half_lives in zip(decay, ([*words, *classes], ngrams)):
            row[:len(half_lives)] = 0.5 ** (1.0 / np.array(half_lives, dtype=float))
        self.decay = decay
        self._make_room()
        width = 2 + max(s.n_own[0], s.n_own[1]) + max(s.n_sum[0], s.n_sum[1])
        self.nodes, self.value = np.zeros(32, dtype=_NODE), np.zeros((32, width))
        self.table = np.full(64, -1, dtype=np.int32)
        self.class_value = np.zeros((max(1, s.n_groups), 1 + s.n_class))
        self.weight = np.zeros((s.n_groups + 2 if s.learns else 1, 1 + s.n_groups))
        self.past = np.zeros((1, 2 + (s.n_groups if s.learns else 0)))
        self.nodes[START].word = s.n_words
        self._clear()

    cdef _make_room(self):
        cdef Shape *s = &self.shape
        self.keep = np.empty(
            s.n_features + 2 * s.n_parts + 2 * s.n_class + 4 * max(1, s.n_groups))
        self.features = &self.keep[0]
        self.log_weights = self.features + s.n_features
        self.parts = self.log_weights + s.n_parts
        self.in_class = self.parts + s.n_parts
        self.score = self.in_class + 2 * s.n_class
        self.proba = self.score + max(1, s.n_groups)
        self.of_base = self.proba + max(1, s.n_groups)
        self.unseen = self.of_base + max(1, s.n_groups)

    @property
    def n_read(self):
        """Words since the last reset."""
        return self.at.n_read

    def reset(self):
        """Forget all words."""
        self._hold()
        self._clear()
        self.lock.release()

    def copy(self):
        """Independent counts, with the same settings."""
        cdef Counts other = Counts.__new__(Counts)
        self._hold()
        try:
            other.settings, other.shape, other.at = self.settings, self.shape, self.at
            other.group, other.decay = self.group, self.decay
            other._make_room()
            other.nodes, other.value = self.nodes.copy(), self.value.copy()
            other.table = self.table.copy()
            # Tables that are never written to are shared.
            other.class_value, other.weight, other.past = (
                self.class_value.copy() if self.shape.n_class else self.class_value,
                self.weight.copy() if self.shape.learns else self.weight,
                self.past.copy() if self.shape.length >= 0 else self.past,
            )
        finally:
            self.lock.release()
        return other

    def __reduce__(self):
        self._hold()
        try:
            used = self.at.n_nodes
            arrays = [self.nodes[:used], self.value[:used], self.class_value,
                      self.weight, self.past]
            return Counts, (self.settings,), (self.at, [*map(np.array, arrays)])
        finally:
            self.lock.release()

    def __setstate__(self, state):
        self.at, arrays = state
        self.nodes, self.value, self.class_value, self.weight, self.past = arrays
        self._enter_all()

    cdef int _hold(self) except -1:
        """Take the lock, so that only this thread uses the counts: while a thread
        enlarges the tables, other threads may run, and would read freed memory."""
        if not self.lock.acquire(False):
            raise ValueError(
                "state: another thread is reading a text with this state; give each "
                "thread its own copy"
            )
        return 0

    # ------------------------------------------------------------------ memory

    cdef void _clear(self) noexcept nogil:
        cdef TextCursor *r = &self.at.cursors[NEWEST]
        cdef int32_t k
        # In reverse order of insertion, no gap arises in a sequence of probed slots.
        for k in range(self.at.n_nodes - 1, START, -1):
            self.table[self._slot(self.nodes[k].parent, self.nodes[k].word)] = -1
        self.at.n_read, self.at.n_nodes = 0, START + 1
        self.table[self._slot(0, self.shape.n_words)] = START
        for k in range(START + 1):
            self.nodes[k].total = self.nodes[k].distinct = 0
            self.nodes[k].row = -1
            memset(&self.value[k, 0], 0, self.value.shape[1] * sizeof(double))
        self.class_value[:, :] = 0.0
        self.at.n_rows = <int32_t> min(self.weight.shape[0], self.shape.n_groups + 2)
        self.weight[:self.at.n_rows, :] = 0.0
        for k in range(LONGEST):
            r.path[k] = -1 if k else 0
        r.last, r.time = -1, 0.0
        self.at.cursors[OLDEST] = r[0]

    cdef int _grow(self, int64_t n) except -1:
        """Make room for n more words; at most half of the hash table is used."""
        cdef Shape *s = &self.shape
        cdef int64_t need = self.at.n_nodes + s.order * n
        if need > self.nodes.shape[0]:
            if s.length >= 0:
                self._drop_nodes()
                need = self.at.n_nodes + s.order * n
            if need > INT32_MAX:
                raise ValueError(
                    f"state: the cache needs {need} n-grams, more than {INT32_MAX}: "
                    "reset the state, or set length"
                )
            if 2 * need > self.nodes.shape[0]:
                self.nodes = _enlarged(self.nodes, need)
                self.value = _enlarged(self.value, need)
            self._enter_all()
        if s.learns:
            need = min(self.at.n_rows + n, s.n_groups + 3 + s.n_words)
            if need > self.weight.shape[0]:
                self.weight = _enlarged(self.weight, need)
        if s.length >= 0:
            # Until the ring is full, it is as long as the text.
            need = min(s.length + 1, self.at.n_read + n)
            if need > self.past.shape[0]:
                self.past = _enlarged(self.past, need, s.length + 1)
        return 0

    cdef _drop_nodes(self):
        """Leave out the nodes without counts, rows and children."""
        cdef int32_t[::1] number = np.zeros(self.at.n_nodes, dtype=np.int32)
        cdef int32_t i, n = 0
        cdef Node *node
        cdef TextCursor *r
        cdef Py_ssize_t j, k
        for j in range(2):
            r = &self.at.cursors[j]
            for k in range(self.shape.order):
                number[max(0, r.path[k])] = 1
            number[max(0, r.last)] = 1
        number[START] = 1
        # Children have larger numbers than their parents.
        for i in range(self.at.n_nodes - 1, 0, -1):
            node = &self.nodes[i]
            if number[i] or node.count or node.total or node.row >= 0:
                number[i] = number[node.parent] = 1
        for i in range(self.at.n_nodes):
            if number[i]:
                number[i] = n
                self.nodes[n] = self.nodes[i]
                self.nodes[n].parent = number[self.nodes[n].parent]
                self.value[n, :] = self.value[i, :]
                n += 1
        for j in range(2):
            r = &self.at.cursors[j]
            for k in range(self.shape.order):
                r.path[k] = number[r.path[k]] if r.path[k] >= 0 else -1
            r.last = number[r.last] if r.last >= 0 else -1
        self.at.n_nodes = n

    cdef _enter_all(self):
        """Rebuild the hash table."""
        cdef int32_t i
        size = 1 << (2 * self.nodes.shape[0] - 1).bit_length()
        self.table = np.full(size, -1, dtype=np.int32)
        for i in range(START, self.at.n_nodes):
            self.table[self._slot(self.nodes[i].parent, self.nodes[i].word)] = i

    cdef inline int64_t _slot(self, int32_t node, int32_t word) noexcept nogil:
        """The slot of a child, or the free slot for it."""
        cdef uint64_t h = node * <uint64_t> (self.shape.n_words + 1) + <uint64_t> word
        cdef int64_t at, mask = self.table.shape[0] - 1
        cdef int32_t child
        h ^= h >> 33
        h *= <uint64_t> 0xff51afd7ed558ccd
        h ^= h >> 33
        h *= <uint64_t> 0xc4ceb9fe1a85ec53
        h ^= h >> 33
        at = <int64_t> (h & <uint64_t> mask)
        while True:
            child = self.table[at]
            if child < 0 or (
                self.nodes[child].parent == node and self.nodes[child].word == word
            ):
                return at
            at = (at + 1) & mask

    cdef inline int32_t _child(self, int32_t node, int32_t word) noexcept nogil:
        """The child of a node, -1 if absent or without a count."""
        cdef int32_t child
        if node < 0 or self.nodes[node].total == 0:
            return -1
        child = self.table[self._slot(node, word)]
        return child if child >= 0 and self.nodes[child].count > 0 else -1

    cdef inline int32_t _made_child(self, int32_t node, int32_t word) noexcept nogil:
        """The child of a node, made if absent."""
        cdef int64_t at = self._slot(node, word)
        cdef int32_t child = self.table[at]
        if child < 0:
            child = self.table[at] = self.at.n_nodes
            self.at.n_nodes += 1
            self.nodes[child] = Node(0, 0, 0, node, word, -1)
            memset(&self.value[child, 0], 0, self.value.shape[1] * sizeof(double))
        return child

    # ------------------------------------------------------- reading a word

    cdef inline double *_own(self, int32_t node) noexcept nogil:
        """Time and decayed counts of an n-gram."""
        return &self.value[node, 0]

    cdef inline double *_sum(self, int32_t node) noexcept nogil:
        """Time and decayed counts of the words that followed an n-gram."""
        cdef Shape *s = &self.shape
        return &self.value[node, 1 + max(s.n_own[0], s.n_own[1])]

    cdef void _begin(self, TextCursor *r) noexcept nogil:
        """A sentence begins: the context is the start mark alone."""
        cdef int32_t k
        for k in range(1, self.shape.order):
            r.path[k] = START if k == 1 else -1
        r.last = START

    cdef void _count(self, TextCursor *r, int32_t y, int32_t sign) noexcept nogil:
        """Move the cursor over a word, and add (sign 1) or subtract (-1) its counts."""
        cdef Shape *s = &self.shape
        cdef int32_t k, node, child, long
        cdef const double *decay
        for k in range(s.order - 1, -1, -1):
            node, child, long = r.path[k], -1, k > 0
            if y >= 0 and node >= 0:
                child, decay = self._made_child(node, y), &self.decay[long, 0]
                self.nodes[child].count += sign
                self.nodes[node].total += sign
                if self.nodes[child].count == (sign > 0):
                    self.nodes[node].distinct += sign
                _change(self._own(child), decay, s.n_own[long], r.time, sign,
                        self.nodes[child].count)
                _change(self._sum(node), decay, s.n_sum[long], r.time, sign,
                        self.nodes[node].total)
            if k + 1 < s.order:
                r.path[k + 1] = child
        r.last = child
        if y >= 0:
            if s.n_class:
                _change(&self.class_value[self.group[y], 0],
                        &self.decay[0, s.n_sum[0]], s.n_class, r.time, sign, 1)
            r.time += 1.0

    cdef void _add(self, int32_t y, uint8_t first) noexcept nogil:
        """Count a word, and forget the oldest one if there are too many."""
        cdef double *then
        self._count(&self.at.cursors[NEWEST], y, 1)
        if self.shape.length >= 0:
            then = &self.past[self.at.n_read % self.past.shape[0], 0]
            then[0], then[1] = y, first
        self.at.n_read += 1
        if 0 <= self.shape.length < self.at.n_read:
            then = &self.past[
                (self.at.n_read - 1 - self.shape.length) % self.past.shape[0], 0]
            y = <int32_t> then[0]
            if then[1] > 0:
                self._begin(&self.at.cursors[OLDEST])
            if y >= 0 and self.shape.learns:
                self._step(&self.at.cursors[OLDEST], then + 2, -1)
            self._count(&self.at.cursors[OLDEST], y, -1)

    # ---------------------------------------------------- weights of classes

    cdef void _find_rows(self, const TextCursor *r, int32_t *rows) noexcept nogil:
        """The rows of the three contexts of the next word, -1 for a context that has no
        row or whose learning rate is 0."""
        cdef int32_t k, n = self.shape.n_groups
        rows[0], rows[1], rows[2] = 0, -1, -1
        if r.last >= 0:
            rows[1] = 1 + (n if r.last == START
                           else self.group[self.nodes[r.last].word])
            rows[2] = self.nodes[r.last].row
        for k in range(3):
            if not self.shape.rate[k] > 0:
                rows[k] = -1

    cdef void _set_scores(self, const TextCursor *r,
                          const double *of_base) noexcept nogil:
        """`score` and `proba`; of_base: P of each class in the base."""
        cdef int32_t[3] rows
        cdef int32_t c, k, n = self.shape.n_groups
        cdef double fade, top, total = 0.0
        cdef double *u = self.score
        cdef double *p = self.proba
        cdef const double *row
        memset(u, 0, n * sizeof(double))
        self._find_rows(r, rows)
        for k in range(3):
            if rows[k] >= 0:
                row = &self.weight[rows[k], 0]
                fade = pow(self.shape.learning_decay, r.time - row[0])
                for c in range(n):
                    u[c] += fade * row[1 + c]
        top = largest(n, u)
        exp_sum(n, u, top, p)
        for c in range(n):
            p[c] *= of_base[c]
            total += p[c]
        self.scale, self.log_scale = 1.0 / total, top + log(total)

    cdef void _learn(self, int32_t y, const double *of_base) noexcept nogil:
        """A step after a word, along the gradient of ln P of its class."""
        cdef TextCursor *r = &self.at.cursors[NEWEST]
        cdef int32_t c, n = self.shape.n_groups, g = self.group[y]
        cdef double *gradient = self.proba
        if of_base[g] > 0:
            for c in range(n):
                gradient[c] *= -self.scale
            gradient[g] += 1.0
            if r.last >= 0 and self.shape.rate[2] > 0 and self.nodes[r.last].row < 0:
                self.nodes[r.last].row = self.at.n_rows
                memset(&self.weight[self.at.n_rows, 0], 0, (1 + n) * sizeof(double))
                self.at.n_rows += 1
            self._step(r, gradient, 1)
        else:
            memset(gradient, 0, n * sizeof(double))
        if self.shape.length >= 0:
            for c in range(n):
                self.past[self.at.n_read % self.past.shape[0], 2 + c] = gradient[c]

    cdef void _step(self, const TextCursor *r, const double *gradient,
                    int32_t sign) noexcept nogil:
        """Add a step at the current time (sign 1), or subtract an earlier step (-1)."""
        cdef int32_t[3] rows
        cdef int32_t c, k
        cdef double fade, rate, decay
        cdef double *row
        self._find_rows(r, rows)
        for k in range(3):
            if rows[k] < 0:
                continue
            row, rate = &self.weight[rows[k], 0], self.shape.rate[k]
            decay = pow(self.shape.learning_decay, fabs(r.time - row[0]))
            fade = decay if sign > 0 else 1.0
            rate *= 1.0 if sign > 0 else -decay
            for c in range(self.shape.n_groups):
                row[1 + c] = fade * row[1 + c] + rate * gradient[c]
            row[0] = max(row[0], r.time)

    # ------------------------------------------------------------ probabilities

    cdef void _locate(self, Mixer m, const TextCursor *r,
                      const double *of_base) noexcept nogil:
        """Compute the features, weights and scores, which do not depend on the word."""
        cdef int32_t j, k, node, matched = 0, n = self.shape.n_parts
        cdef double *f = self.features
        cdef double *w = self.log_weights
        memset(f, 0, self.shape.n_features * sizeof(double))
        f[0] = 1.0
        for k in range(self.shape.order):
            node = r.path[k]
            if node >= 0 and self.nodes[node].total > 0:
                f[1 + 3 * k] = 1.0
                f[2 + 3 * k] = SCALE * log1p(self.nodes[node].total)
                f[3 + 3 * k] = SCALE * log1p(self.nodes[node].distinct)
                matched += 1
        for k in range(n):
            w[k] = 0.0
            if m.log_weights is not None:
                w[k] = m.log_weights[matched, k]
            elif m.coef is not None:
                for j in range(self.shape.n_features):
                    w[k] += m.coef[k, j] * f[j]
                if m.order[k] > matched:
                    w[k] = -INFINITY
        if m.coef is not None:
            log_softmax(w, n)
        if self.shape.learns:
            self._set_scores(r, of_base)

    cdef double _log_prob(self, Mixer m, const TextCursor *r, int32_t y, int32_t g,
                          double log_base, const double *of_base) noexcept nogil:
        """ln P of a word after `_locate`.

        Also sets `parts`, ln P in each part, and `in_class`. y: the word, or -1 for any
        word of class g that has no counts. log_base: ln P of the word in the base.
        """
        cdef Shape *s = &self.shape
        cdef int32_t j, k, child = self._child(0, y) if y >= 0 else -1, context, long
        cdef double gain = 0.0, theta, age  # gain: change of ln P of the class
        cdef double *part = self.parts
        cdef double *count = self.in_class
        cdef const double *own
        cdef const double *total
        if s.learns and of_base[g] > 0:
            gain = self.score[g] - self.log_scale
        log_base += gain
        part[0] = log_base
        part += 1
        for j in range(s.n_class):
            theta, total = m.theta[j, g], &self.class_value[g, 0]
            count[0] = 0.0
            count[1] = total[1 + j] * pow(
                self.decay[0, s.n_sum[0] + j], r.time - total[0])
            part[j] = log(theta) + log_base
            if child >= 0:
                own, age = self._own(child), r.time - self._own(child)[0]
                count[0] = own[1 + s.n_sum[0] + j] * pow(
                    self.decay[0, s.n_sum[0] + j], age)
                part[j] = add_log(part[j], log(of_base[g]) + gain + log(count[0]))
            part[j] -= log(count[1] + theta)
            count += 2
        part += s.n_class
        for k in range(s.order):
            context, long = r.path[k], k > 0
            if long and child >= 0:  # it occurs only if the shorter n-gram occurs
                child = self._child(context, y)
            for j in range(s.n_sum[long]):
                part[j] = -INFINITY
                if child >= 0:
                    # The share of the word among those that followed the context.
                    own, total = self._own(child), self._sum(context)
                    age = total[0] - own[0]
                    part[j] = log(own[1 + j] * pow(self.decay[long, j], age)
                                  / total[1 + j])
            part += s.n_sum[long]
        return log_sum(self.parts, self.log_weights, s.n_parts)

    cdef double _read(self, Mixer m, int32_t y, uint8_t first, double log_base,
                      const double *of_base) noexcept nogil:
        """ln P of the next word, which is then counted; NaN without a class."""
        cdef TextCursor *r = &self.at.cursors[NEWEST]
        cdef double out = NAN
        if first == NEW_DOCUMENT:
            self._clear()
        if first:
            self._begin(r)
        if y >= 0:
            self._locate(m, r, of_base)
            out = self._log_prob(m, r, y, self._class(y), log_base, of_base)
            if self.shape.learns:
                self._learn(y, of_base)
        self._add(y, first)
        return out

    cdef inline int32_t _class(self, int32_t y) noexcept nogil:
        return self.group[y] if self.shape.n_groups else 0

    def read(self, Mixer m, const int32_t[::1] words, const uint8_t[::1] first,
             const double[::1] log_base, const double[:, ::1] of_base, double[::1] out,
             double[:, ::1] parts=None, double[:, ::1] features=None,
             double[:, ::1] in_class=None):
        """out[i] <- ln P of each word of a text given all words before it.

        first: what is before each word (WITHIN, SENTENCE or DOCUMENT). log_base,
        of_base: ln P of the word and P of each class in the base; None without classes.
        The other arrays, if given, get a row for each word with a class: parts, ln P of
        the word in each part; features of the gate; in_class, decayed counts of the
        word and of its class, for each half-life.
        """
        cdef Py_ssize_t i, begin, n = words.shape[0]
        cdef const double *p = NULL
        self._hold()
        try:
            for begin in range(0, n, AT_A_TIME):
                PyErr_CheckSignals()
                self._grow(min(<Py_ssize_t> AT_A_TIME, n - begin))
                with nogil:
                    for i in range(begin, min(n, begin + AT_A_TIME)):
                        if of_base is not None:
                            p = &of_base[i, 0]
                        if parts is not None:
                            self.parts, self.features = &parts[i, 0], &features[i, 0]
                            self.in_class = (
                                &in_class[i, 0] if in_class.shape[1] else NULL)
                        out[i] = self._read(m, words[i], first[i], log_base[i], p)
                self._make_room()  # pointers may be into arrays of the caller
        finally:
            self.lock.release()

    def step(self, Mixer m, int32_t y, uint8_t first, double log_base,
             const double[::1] of_base):
        """ln P of one word, which is then counted."""
        self._hold()
        try:
            self._grow(1)
            return self._read(
                m, y, first, log_base, NULL if of_base is None else &of_base[0])
        finally:
            self.lock.release()

    def row(self, Mixer m, bint first, const double[::1] log_base, double[::1] out):
        """out <- ln P of all words that may come next; nothing is counted."""
        cdef TextCursor r
        cdef int32_t y, g, n = max(1, self.shape.n_groups)
        self._hold()
        r = self.at.cursors[NEWEST]
        if first:
            self._begin(&r)
        memset(self.of_base, 0, n * sizeof(double))
        for y in range(self.shape.n_words):
            self.of_base[self._class(y)] += exp(log_base[y])
        self._locate(m, &r, self.of_base)
        for g in range(n):
            self.unseen[g] = self._log_prob(m, &r, -1, g, 0.0, self.of_base)
        for y in range(self.shape.n_words):
            g = self._class(y)
            if self._child(0, y) < 0:
                out[y] = log_base[y] + self.unseen[g]
            else:
                out[y] = self._log_prob(m, &r, y, g, log_base[y], self.of_base)
        self.lock.release()


cdef _enlarged(array, need, most=None):
    """A copy with at least `need` rows, and at least twice as many as before."""
    old = np.asarray(array)
    size = max(need, 2 * len(old))
    size = size if most is None else min(size, most)
    new = np.zeros((size, *old.shape[1:]), dtype=old.dtype)
    new[:len(old)] = old
    return new


cdef inline void _change(double *v, const double *decay, int32_t n, double time,
                         int32_t sign, int32_t left) noexcept nogil:
    """Add an occurrence at the current `time` (sign 1), or subtract one (-1).

    v: the latest time, then a decayed count for each decay. left: 0 if no occurrence is
    left.
    """
    cdef int32_t h
    for h in range(n):
        if sign > 0:
            v[1 + h] = v[1 + h] * pow(decay[h], time - v[0]) + 1.0
        else:
            v[1 + h] -= pow(decay[h], v[0] - time)
            # By rounding a count of 0 may be negative.
            if left == 0 or v[1 + h] < 0:
                v[1 + h] = 0.0
    if sign > 0:
        v[0] = time
