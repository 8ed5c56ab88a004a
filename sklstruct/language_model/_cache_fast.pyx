"""Counts of a cache: each word is looked up in the counts before it is added.

There are two kinds of counts, each with a kernel that walks over a text and writes for
every position the counts *before* the word there was added, and weights of classes:

*Decayed counts.* Each word has a value and the time when it was computed; at time t it
is worth value * decay ** (t - time). A read and an addition are O(1) a word.

*n-grams.* A trie of the n-grams of the text from the oldest word to the newest: node 0
is the empty one, and a child is found by hashing (parent, word), so that different
n-grams never collide. The node of an n-gram counts its occurrences; as a context it
holds the sum over its children, how many of them have a count, and the list of its
children. The contexts of a position are the nodes of its last 0, 1, ... words, so
reading a word is one look-up for each length, O(order).

`nodes` has a row for each node: count, total, distinct, first child, next sibling and
word. `value` has its decayed counts: for each of the H decays the n-gram's count, for
each the sum over its children, and the times of both, in words. The share of a child is
its count, decayed to the time of its context, over the sum of the context. That time is
the latest of all its children, so nothing underflows, however long ago it was. The
children of node 0 have no decayed counts.

*Weights of classes.* A row of numbers, one a class, for each context: row 0 for all
histories, rows 1 ... for the class of the last word (the last of them for the start
mark), the others for the last word. After each word the rows of its contexts take a
step along the gradient of ln P of its class. They decay as counts do.

The caller makes the tables large enough.
Words are class ids; `first` marks the positions where a sentence begins, at which the
context is the word `start` alone.
"""

from libc.math cimport log, pow
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t

cdef extern from "_vector.h" nogil:
    double exp_sum "sklstruct_exp_sum"(
        Py_ssize_t n, const double* u, double top, double* e) noexcept

cdef enum:
    COUNT = 0
    TOTAL = 1
    DISTINCT = 2
    CHILD = 3
    SIBLING = 4
    WORD = 5


cdef inline Py_ssize_t _oldest(const int32_t[::1] words, Py_ssize_t begin,
                               Py_ssize_t length, int64_t *time) noexcept nogil:
    """Where the last `length` of words[:begin] begin; `begin` if it is -1. `time`, that
    of words[begin], becomes the time of the word there."""
    cdef Py_ssize_t at = begin
    while at > 0 and begin - at < length:
        at -= 1
        if words[at] >= 0:
            time[0] -= 1
    return at


def read_decayed(const int32_t[::1] words, Py_ssize_t begin, Py_ssize_t length,
                 const int32_t[::1] group, double decay, int64_t now,
                 double[::1] value, int64_t[::1] time, double[::1] group_value,
                 int64_t[::1] group_time, double[::1] own, double[::1] total):
    """own[i], total[i]: decayed counts of word `begin + i` and of its group, before it.

    words[:begin] were read before; of them, the last `length` are counted (-1: all).
    group: the group of each word. A negative word is skipped and takes no time.
    Returns the time after the last word.
    """
    cdef Py_ssize_t i, tail
    cdef int32_t w, g
    cdef int64_t t = now, then = now
    cdef double a, b
    with nogil:
        tail = _oldest(words, begin, length, &then)
        for i in range(begin, words.shape[0]):
            w = words[i]
            if w < 0:
                own[i - begin] = 0
                total[i - begin] = 0
            else:
                g = group[w]
                a = value[w] * pow(decay, <double> (t - time[w]))
                b = group_value[g] * pow(decay, <double> (t - group_time[g]))
                own[i - begin] = a
                total[i - begin] = b
                value[w] = a + 1
                time[w] = t
                group_value[g] = b + 1
                group_time[g] = t
                t += 1
            if length >= 0 and i + 1 - tail > length:
                w = words[tail]
                tail += 1
                if w < 0:
                    continue
                g = group[w]
                value[w] -= pow(decay, <double> (time[w] - then))
                group_value[g] -= pow(decay, <double> (group_time[g] - then))
                then += 1
                # A count of 0 may be below it by rounding.
                if value[w] < 0:
                    value[w] = 0
                if group_value[g] < 0:
                    group_value[g] = 0
    return t


cdef inline int64_t _slot(const int64_t[::1] keys, int64_t key,
                          int64_t mask) noexcept nogil:
    """The slot of a key, or the free slot for it."""
    cdef uint64_t h = <uint64_t> key
    cdef int64_t at
    h ^= h >> 33
    h *= <uint64_t> 0xff51afd7ed558ccd
    h ^= h >> 33
    h *= <uint64_t> 0xc4ceb9fe1a85ec53
    h ^= h >> 33
    at = <int64_t> (h & <uint64_t> mask)
    while keys[at] != -1 and keys[at] != key:
        at = (at + 1) & mask
    return at


cdef inline int32_t _child(const int64_t[::1] keys, const int32_t[::1] slots,
                           int32_t node, int32_t word, int64_t n_words) noexcept nogil:
    """The child of a node, -1 if there is none."""
    cdef int64_t key = node * n_words + word
    cdef int64_t at = _slot(keys, key, keys.shape[0] - 1)
    return slots[at] if keys[at] == key else -1


cdef inline int32_t _make_child(int64_t[::1] keys, int32_t[::1] slots,
                                int32_t[:, ::1] nodes, double[:, ::1] value,
                                int32_t node, int32_t word, int64_t n_words,
                                int32_t *n_nodes) noexcept nogil:
    """The child of a node, made if there is none."""
    cdef int64_t key = node * n_words + word
    cdef int64_t at = _slot(keys, key, keys.shape[0] - 1)
    cdef int32_t child
    cdef Py_ssize_t h
    if keys[at] == key:
        return slots[at]
    child = n_nodes[0]
    n_nodes[0] += 1
    keys[at] = key
    slots[at] = child
    nodes[child, COUNT] = 0
    nodes[child, TOTAL] = 0
    nodes[child, DISTINCT] = 0
    nodes[child, CHILD] = -1
    nodes[child, SIBLING] = nodes[node, CHILD]
    nodes[child, WORD] = word
    for h in range(value.shape[1]):
        value[child, h] = 0
    nodes[node, CHILD] = child
    return child


cdef inline void _count(int32_t[:, ::1] nodes, double[:, ::1] value,
                        const double[::1] decay, int32_t parent, int32_t child,
                        int64_t time, int32_t sign) noexcept nogil:
    """Add an occurrence now (sign 1), or remove one that was at `time` (-1)."""
    cdef Py_ssize_t h, H = decay.shape[0]
    cdef double *mine = &value[child, 0]
    cdef double *its = &value[parent, H]
    cdef double *own_time = &value[child, 2 * H]
    cdef double *sum_time = &value[parent, 2 * H + 1]
    nodes[child, COUNT] += sign
    nodes[parent, TOTAL] += sign
    if sign > 0 and nodes[child, COUNT] == 1:
        nodes[parent, DISTINCT] += 1
    elif sign < 0 and nodes[child, COUNT] == 0:
        nodes[parent, DISTINCT] -= 1
    if parent == 0:
        return
    for h in range(H):
        if sign > 0:
            mine[h] = mine[h] * pow(decay[h], time - own_time[0]) + 1
            its[h] = its[h] * pow(decay[h], time - sum_time[0]) + 1
        else:
            mine[h] -= pow(decay[h], own_time[0] - time)
            its[h] -= pow(decay[h], sum_time[0] - time)
            # A count of 0 may be below it by rounding.
            if nodes[child, COUNT] == 0 or mine[h] < 0:
                mine[h] = 0
            if nodes[parent, TOTAL] == 0 or its[h] < 0:
                its[h] = 0
    if sign > 0:
        own_time[0] = <double> time
        sum_time[0] = <double> time


def rehash(const int64_t[::1] old_keys, const int32_t[::1] old_slots,
           int64_t[::1] keys, int32_t[::1] slots):
    """Enter all keys of one table into a larger one."""
    cdef Py_ssize_t i
    cdef int64_t at
    with nogil:
        for i in range(old_keys.shape[0]):
            if old_keys[i] >= 0:
                at = _slot(keys, old_keys[i], keys.shape[0] - 1)
                keys[at] = old_keys[i]
                slots[at] = old_slots[i]


def read_ngrams(const int32_t[::1] words, const uint8_t[::1] first, Py_ssize_t begin,
                Py_ssize_t length, const double[::1] decay, int64_t n_words,
                int64_t now, int32_t[:, ::1] paths, int64_t[::1] keys,
                int32_t[::1] slots, int32_t[:, ::1] nodes, double[:, ::1] value,
                int32_t n_nodes, double[:, :, ::1] share, int32_t[:, :, ::1] facts):
    """The shares of word `begin + i` among the followers of its contexts.

    share[i, k, h]: the share of the word among the followers of the last k + 1 words,
    by the h-th decay; 0 where there are no followers. facts[i, k]: the number of
    followers of the last k words, and of different ones.

    words[:begin] were read before; of them, the last `length` are counted (-1: all).
    paths (2, order) is the state between calls: the nodes of the last 0 ... order - 1
    words, -1 where there is no such context, and those of the oldest word that is
    counted. n_words counts the start mark, the last of them; now is the number of words
    before. A negative word is skipped, takes no time and ends the context. Returns the
    number of nodes.
    """
    cdef Py_ssize_t i, h, H = decay.shape[0], order = paths.shape[1], tail
    cdef int32_t k, w, node, child
    cdef int32_t grown = n_nodes
    cdef int64_t then = now
    cdef double away
    with nogil:
        tail = _oldest(words, begin, length, &then)
        for i in range(begin, words.shape[0]):
            w = words[i]
            if first[i]:
                _begin(paths[0], keys, slots, nodes, value, n_words, &grown)
            for k in range(<int32_t> order):
                facts[i - begin, k, 0] = 0
                facts[i - begin, k, 1] = 0
                if k > 0:
                    for h in range(H):
                        share[i - begin, k - 1, h] = 0
                node = paths[0, k]
                if w < 0 or node < 0:
                    continue
                facts[i - begin, k, 0] = nodes[node, TOTAL]
                facts[i - begin, k, 1] = nodes[node, DISTINCT]
                if k == 0 or nodes[node, TOTAL] == 0:
                    continue
                child = _child(keys, slots, node, w, n_words)
                if child < 0 or nodes[child, COUNT] == 0:
                    continue
                away = value[node, 2 * H + 1] - value[child, 2 * H]
                for h in range(H):
                    if value[node, H + h] > 0:
                        share[i - begin, k - 1, h] = (
                            value[child, h] * pow(decay[h], away) / value[node, H + h])
            for k in range(<int32_t> order - 1, -1, -1):
                node = paths[0, k]
                child = -1
                if w >= 0 and node >= 0:
                    child = _make_child(keys, slots, nodes, value, node, w, n_words,
                                        &grown)
                    _count(nodes, value, decay, node, child, now, 1)
                if k + 1 < order:
                    paths[0, k + 1] = child
            if w >= 0:
                now += 1
            if length >= 0 and i + 1 - tail > length:
                w = words[tail]
                _forget(w, first[tail], then, n_words, decay, paths[1], keys, slots,
                        nodes, value, &grown)
                tail += 1
                if w >= 0:
                    then += 1
    return grown


cdef void _forget(int32_t w, uint8_t first, int64_t time, int64_t n_words,
                  const double[::1] decay, int32_t[::1] path, int64_t[::1] keys,
                  int32_t[::1] slots, int32_t[:, ::1] nodes, double[:, ::1] value,
                  int32_t *grown) noexcept nogil:
    """Remove the oldest word; its nodes stay, with a count of 0."""
    cdef int32_t k, node, child, order = <int32_t> path.shape[0]
    if first:
        _begin(path, keys, slots, nodes, value, n_words, grown)
    for k in range(order - 1, -1, -1):
        node = path[k]
        child = -1
        if w >= 0 and node >= 0:
            child = _child(keys, slots, node, w, n_words)
            if child >= 0:
                _count(nodes, value, decay, node, child, time, -1)
        if k + 1 < order:
            path[k + 1] = child


cdef inline void _begin(int32_t[::1] path, int64_t[::1] keys, int32_t[::1] slots,
                        int32_t[:, ::1] nodes, double[:, ::1] value,
                        int64_t n_words, int32_t *grown) noexcept nogil:
    """The context at the start of a sentence; the mark itself is not counted."""
    cdef Py_ssize_t k
    for k in range(2, path.shape[0]):
        path[k] = -1
    if path.shape[0] > 1:
        path[1] = _make_child(keys, slots, nodes, value, 0, <int32_t> (n_words - 1),
                              n_words, grown)


def start_context(int32_t[::1] path, int64_t n_words, int64_t[::1] keys,
                  int32_t[::1] slots, int32_t[:, ::1] nodes, double[:, ::1] value,
                  int32_t n_nodes):
    """Set path to the start of a sentence; returns the number of nodes."""
    cdef int32_t grown = n_nodes
    _begin(path, keys, slots, nodes, value, n_words, &grown)
    return grown


def add_ngram_row(const int32_t[::1] path, const double[::1] decay,
                  const double[:, ::1] weight, const int32_t[:, ::1] nodes,
                  const double[:, ::1] value, double[::1] row):
    """row[y] += sum over k, h of weight[k, h] times the share of y, see `read_ngrams`.
    """
    cdef Py_ssize_t h, k, H = decay.shape[0]
    cdef int32_t node, child
    cdef double away, s
    with nogil:
        for k in range(1, path.shape[0]):
            node = path[k]
            if node < 0 or nodes[node, TOTAL] == 0:
                continue
            child = nodes[node, CHILD]
            while child >= 0:
                if nodes[child, COUNT] > 0:
                    away = value[node, 2 * H + 1] - value[child, 2 * H]
                    s = 0
                    for h in range(H):
                        if value[node, H + h] > 0:
                            s += weight[k - 1, h] * (
                                value[child, h] * pow(decay[h], away)
                                / value[node, H + h])
                    row[nodes[child, WORD]] += s
                child = nodes[child, SIBLING]


cdef inline void _find_rows(int32_t last, const int32_t[::1] group,
                            const int32_t[::1] row_of_word, const double[::1] rates,
                            Py_ssize_t n_groups, int32_t *rows) noexcept nogil:
    """The rows of the three contexts after a word, -1 for one that has no steps."""
    cdef int32_t n_words = <int32_t> group.shape[0]
    rows[0] = 0 if rates[0] > 0 else -1
    rows[1] = -1
    rows[2] = -1
    if last >= 0:
        if rates[1] > 0:
            rows[1] = 1 + (group[last] if last < n_words else <int32_t> n_groups)
        if rates[2] > 0:
            rows[2] = row_of_word[last]


cdef inline void _add_weights(const int32_t *rows, const double[:, ::1] value,
                              const int64_t[::1] time, double decay, int64_t now,
                              double *fade, double *total) noexcept nogil:
    """total += the weights of three rows, each times its decay until now, `fade`."""
    cdef Py_ssize_t c, k
    cdef const double *row
    for k in range(3):
        if rows[k] < 0:
            continue
        row = &value[rows[k], 0]
        fade[k] = pow(decay, <double> (now - time[rows[k]]))
        for c in range(value.shape[1]):
            total[c] += fade[k] * row[c]


def add_class_weights(int32_t last, const int32_t[::1] group,
                      const int32_t[::1] row_of_word, const double[::1] rates,
                      double decay, int64_t now, const double[:, ::1] value,
                      const int64_t[::1] time, double[::1] total):
    """total += the weights of all classes after a word; see `learn_classes`."""
    cdef int32_t[3] rows
    cdef double[3] fade
    _find_rows(last, group, row_of_word, rates, value.shape[1], rows)
    _add_weights(rows, value, time, decay, now, fade, &total[0])


def learn_classes(const int32_t[::1] words, const uint8_t[::1] first, Py_ssize_t begin,
                  Py_ssize_t length, const int32_t[::1] group,
                  const double[:, ::1] proba, const double[::1] rates, double decay,
                  int64_t now, int32_t last, int32_t[::1] row_of_word,
                  double[:, ::1] value, int64_t[::1] time, int32_t n_rows,
                  double[:, ::1] past, double[:, ::1] scratch, double[::1] gain):
    """gain[i]: ln of the factor by which the weights raise P of the class of a word.

    proba[i]: P of each class at word `begin + i` without the weights. rates: the steps
    of the three kinds of contexts. last: the word before words[begin], n_words for the
    start mark, -1 for none. past[t % len(past)]: the gradient at time t, by which it is
    forgotten; length + 1 rows, or one for each word so far. For the other parameters
    see `read_decayed`. Returns the time, the last word and the number of rows.
    """
    cdef Py_ssize_t i, j, c, k, n_groups = value.shape[1], tail
    cdef Py_ssize_t n_past = past.shape[0]
    cdef int32_t w, g, before, n_words = <int32_t> group.shape[0]
    cdef int32_t[3] rows
    cdef int64_t then = now
    cdef double[3] fade
    cdef double away, total, top
    cdef double *u = &scratch[0, 0]
    cdef double *e = &scratch[1, 0]
    cdef const double *p
    cdef double *row
    with nogil:
        tail = _oldest(words, begin, length, &then)
        for i in range(begin, words.shape[0]):
            j = i - begin
            w = words[i]
            gain[j] = 0
            if first[i]:
                last = n_words
            if w >= 0:
                p = &proba[j, 0]
                g = group[w]
                for c in range(n_groups):
                    u[c] = 0
                if p[g] > 0:
                    if last >= 0 and rates[2] > 0 and row_of_word[last] < 0:
                        row_of_word[last] = n_rows
                        for c in range(n_groups):
                            value[n_rows, c] = 0
                        time[n_rows] = now
                        n_rows += 1
                    _find_rows(last, group, row_of_word, rates, n_groups, rows)
                    _add_weights(rows, value, time, decay, now, fade, u)
                    top = u[0]
                    for c in range(1, n_groups):
                        if u[c] > top:
                            top = u[c]
                    exp_sum(n_groups, u, top, e)
                    total = 0
                    for c in range(n_groups):
                        e[c] *= p[c]
                        total += e[c]
                    gain[j] = u[g] - top - log(total)
                    total = 1 / total
                    for c in range(n_groups):
                        u[c] = -e[c] * total
                    u[g] += 1
                    for k in range(3):
                        if rows[k] < 0:
                            continue
                        row = &value[rows[k], 0]
                        for c in range(n_groups):
                            row[c] = fade[k] * row[c] + rates[k] * u[c]
                        time[rows[k]] = now
                if n_past:
                    for c in range(n_groups):
                        past[now % n_past, c] = u[c]
                now += 1
            last = w if w >= 0 else -1
            if length >= 0 and i + 1 - tail > length:
                w = words[tail]
                if w >= 0:
                    before = -1
                    if first[tail]:
                        before = n_words
                    elif tail > 0:
                        before = words[tail - 1]
                    _find_rows(before, group, row_of_word, rates, n_groups, rows)
                    for k in range(3):
                        if rows[k] < 0:
                            continue
                        row = &value[rows[k], 0]
                        away = rates[k] * pow(decay, <double> (time[rows[k]] - then))
                        for c in range(n_groups):
                            row[c] -= away * past[then % n_past, c]
                    then += 1
                tail += 1
    return now, last, n_rows
