"""Edit distances of one word to many words, up to a limit.

Optimal string alignment: insertions, deletions, changes and swaps of neighbours
cost one edit each, and no letter is edited twice. Three rows of the usual table:
O(length of both words) each.
"""

# The cost of an edit and of a new letter: the minimum cost has the fewest edits and,
# among alignments with the fewest edits, the fewest new letters.
cdef enum:
    EDIT = 1 << 16
    NEW = EDIT + 1


def edit_distances(
    const int[::1] word, const int[::1] text, const long long[::1] ptr, int limit,
    int[::1] rows, int[::1] edits, int[::1] letters,
):
    """Edits from each text[ptr[i]:ptr[i + 1]] to `word`; limit + 1 if above the limit.

    rows: scratch of 3 * (len(word) + 1).
    letters: number of letters of `word` that were inserted or changed, in the alignment
    with the fewest edits and the fewest such letters; at most 2^15.
    """
    cdef Py_ssize_t i, j
    cdef long long a
    cdef int n = <int>word.shape[0]
    cdef int highest = limit * EDIT + (EDIT - 1)
    cdef int best, last_best, x, letter, last_letter, added
    cdef int* older = &rows[0]
    cdef int* old = &rows[n + 1]
    cdef int* new = &rows[2 * (n + 1)]
    cdef int* spare
    with nogil:
        for i in range(edits.shape[0]):
            for j in range(n + 1):
                old[j] = <int>j * NEW
            best = last_best = 0
            last_letter = -1
            for a in range(ptr[i], ptr[i + 1]):
                letter = text[a]
                last_best = best
                new[0] = old[0] + EDIT
                best = new[0]
                for j in range(1, n + 1):
                    x = old[j - 1] + (NEW if word[j - 1] != letter else 0)
                    x = old[j] + EDIT if old[j] + EDIT < x else x
                    added = EDIT if j > 1 and word[j - 1] == word[j - 2] else NEW
                    x = new[j - 1] + added if new[j - 1] + added < x else x
                    if j > 1 and word[j - 2] == letter and word[j - 1] == last_letter:
                        x = older[j - 2] + EDIT if older[j - 2] + EDIT < x else x
                    new[j] = x
                    best = x if x < best else best
                spare = older
                older, old, new = old, new, spare
                last_letter = letter
                # A swap adds one edit to the row before the last.
                if best > highest and last_best + EDIT > highest:
                    break
            if (best > highest and last_best + EDIT > highest) or old[n] > highest:
                edits[i] = limit + 1
                letters[i] = 0
            else:
                edits[i] = old[n] // EDIT
                letters[i] = old[n] % EDIT
