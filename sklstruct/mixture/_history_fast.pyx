"""Words of histories: how often a word, and the words of its group, occurred."""

from libc.stdint cimport int32_t, int64_t


cdef inline Py_ssize_t _begin(const int32_t *tokens, Py_ssize_t end,
                              Py_ssize_t reach) noexcept nogil:
    """Start of the history before `end`: after the last negative token, but at most
    `reach` tokens back."""
    cdef Py_ssize_t first = end - reach if end > reach else 0
    cdef Py_ssize_t j = end
    while j > first and tokens[j - 1] >= 0:
        j -= 1
    return j


def count_in_history(const int32_t[::1] tokens, const int64_t[::1] end,
                     Py_ssize_t reach, const int64_t[::1] y,
                     const int32_t[::1] group, double[::1] word,
                     double[::1] of_group):
    """word[i], of_group[i]: tokens of history i that are y[i], or of its group.

    A history goes back from end[i] to the first negative token. Tokens beyond `group`,
    and words of group -1, have no group.
    """
    cdef Py_ssize_t i, j
    cdef int32_t token, g, n_words = <int32_t> group.shape[0]
    cdef int64_t n_word, n_group
    with nogil:
        for i in range(end.shape[0]):
            g = group[y[i]]
            n_word = n_group = 0
            if g >= 0:
                for j in range(_begin(&tokens[0], end[i], reach), end[i]):
                    token = tokens[j]
                    if token < n_words and group[token] == g:
                        n_group += 1
                        n_word += token == y[i]
            word[i] = <double> n_word
            of_group[i] = <double> n_group


def add_slopes(const double[::1] word, const double[::1] of_group,
               const double[::1] share, const double[::1] weight,
               const int32_t[::1] group, const double[::1] concentration,
               double[::1] slope):
    """slope[g] += the derivative of the samples' weighted sum of

        ln((word + theta share) / (of_group + theta)),  theta = concentration[group]

    by theta, without the difference of two fractions that are nearly equal.
    """
    cdef Py_ssize_t i
    cdef double theta, a, c, p
    with nogil:
        for i in range(group.shape[0]):
            theta = concentration[group[i]]
            a, c, p = word[i], of_group[i], share[i]
            slope[group[i]] += weight[i] * (p * c - a) / (
                (a + theta * p) * (c + theta)
            )
