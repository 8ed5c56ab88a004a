"""Words of histories: how often a word, and the words of its group, occurred."""

from libc.stdint cimport int32_t, int64_t


def count_in_history(const int32_t[::1] tokens, const int64_t[::1] end,
                     Py_ssize_t reach, const int64_t[::1] y,
                     const int32_t[::1] group, double[::1] word,
                     double[::1] of_group):
    """word[i], of_group[i]: tokens of history i that are y[i], or of its group.

    A history goes back from end[i] to the first negative token. Tokens beyond `group`
    are in none; neither is a word of group -1.
    """
    cdef Py_ssize_t i, j, first
    cdef int32_t token, g, n_words = <int32_t> group.shape[0]
    cdef int64_t n_word, n_group
    with nogil:
        for i in range(end.shape[0]):
            g = group[y[i]]
            n_word = n_group = 0
            first = max(0, end[i] - reach) if g >= 0 else end[i]
            for j in range(end[i] - 1, first - 1, -1):
                token = tokens[j]
                if token < 0:
                    break
                if token < n_words and group[token] == g:
                    n_group += 1
                    n_word += token == y[i]
            word[i] = <double> n_word
            of_group[i] = <double> n_group
