"""Levenshtein distances of one word to many, given up above a limit.

Two rows of the usual table; a word is left as soon as a whole row is above the limit:
O(length of both words) each.
"""


def edit_distances(
    const int[::1] word, const int[::1] text, const long long[::1] ptr, int limit,
    int[::1] rows, int[::1] out,
):
    """Distance of `word` to each text[ptr[i]:ptr[i + 1]]; limit + 1 where above.

    rows: scratch of 2 * (len(word) + 1).
    """
    cdef Py_ssize_t i, j
    cdef long long a
    cdef int n = <int>word.shape[0]
    cdef int best, x, letter
    cdef int* old = &rows[0]
    cdef int* new = &rows[n + 1]
    with nogil:
        for i in range(out.shape[0]):
            for j in range(n + 1):
                old[j] = <int>j
            best = 0
            for a in range(ptr[i], ptr[i + 1]):
                letter = text[a]
                new[0] = old[0] + 1
                best = new[0]
                for j in range(1, n + 1):
                    x = old[j - 1] + (word[j - 1] != letter)
                    x = old[j] + 1 if old[j] + 1 < x else x
                    x = new[j - 1] + 1 if new[j - 1] + 1 < x else x
                    new[j] = x
                    best = x if x < best else best
                old, new = new, old
                if best > limit:
                    break
            out[i] = limit + 1 if best > limit or old[n] > limit else old[n]
