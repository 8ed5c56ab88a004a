"""Vectors and predictions of fastText's models, read from a mapped file.

A line of text becomes rows of the input matrix: a row for each known word, for each
n-gram of letters of "<word>" (the hash of the letters modulo `bucket`), and for each
n-gram of words. The mean h of the rows gives the scores W h of the labels.

    softmax                   p_i = exp(W_i h) / sum_j exp(W_j h)
    one-vs-all, negatives     p_i = s(W_i h), s the logistic function in steps of 1/32
    hierarchical softmax      p_i = the product of s(+-W_v h) over the nodes v of a path

The reported probability is p + 1e-5. All sums are float32 in fastText's order, and the
best labels are kept in a heap as in fastText: labels, the order of equal probabilities
and the probabilities are those of fastText.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_Size
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport exp, expf, log, sqrtf
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcpy, memset

from .._watch cimport OPS_BETWEEN_SIGNAL_CHECKS, over, propagate
from ._fasttext_lines cimport (
    ROWS, find, hash_of, ints_t, matrix_t, mean, model_t, push, read_line, rows_of,
    scored_t, work_t,
)

import numpy as np


cdef extern from "_fasttext.h" nogil:
    void sixteen_products "sklstruct_sixteen_products"(
        ptrdiff_t n, const float* block, const float* x, float* out)
    float product_of_codes "sklstruct_product_of_codes"(
        const uint8_t* codes, ptrdiff_t n_parts, ptrdiff_t part, ptrdiff_t last,
        const float* centroids, const uint8_t* scale_code, const float* scale,
        ptrdiff_t r, const float* x)
    ptrdiff_t step_of "sklstruct_step_of"(float x)
    float logistic "sklstruct_logistic"(float x)


cdef enum:
    # Losses, by their numbers in the file.
    BY_TREE = 1
    BY_SOFTMAX = 3
    # Results of a kernel.
    DONE = 0
    NO_MEMORY = 1
    NOT_A_NUMBER = 2
    # Steps of the logistic function, between -8 and 8.
    STEPS = 512

cdef float[STEPS + 1] LOGISTIC
cdef int step
for step in range(STEPS + 1):
    # The sum is in double precision here, in single precision in `logistic`.
    LOGISTIC[step] = <float>(1.0 / (1.0 + expf(-<float>(step / 32.0 - 8.0))))


# ------------------------------------------------------------------------ work


cdef int open_work(const model_t* t, work_t* w, int64_t k) except -1:
    """Room for a line with k labels; `close_work` frees it."""
    cdef int64_t n_blocks = (t.n_labels + ROWS - 1) // ROWS
    memset(w, 0, sizeof(work_t))
    w.watch.left, w.watch.stop = OPS_BETWEEN_SIGNAL_CHECKS, &w.stopped
    w.hidden = <float*>malloc(t.inputs.n * sizeof(float))
    w.score = <float*>malloc((n_blocks + 1) * ROWS * sizeof(float))
    w.known = <uint8_t*>malloc(n_blocks + 1)
    w.heap = <scored_t*>malloc((k + 1) * sizeof(scored_t))
    if t.loss == BY_TREE:
        w.stack = <scored_t*>malloc((t.n_labels + 2) * sizeof(scored_t))
        w.no_memory = w.stack == NULL
    if w.no_memory or not (w.hidden and w.score and w.known and w.heap):
        close_work(w)
        raise MemoryError()
    return 0


cdef void close_work(work_t* w) noexcept nogil:
    free(w.rows.at)
    free(w.labels.at)
    free(w.hashes.at)
    free(w.spans.at)
    free(w.found.at)
    free(w.log_probs.at)
    free(w.texts)
    free(w.sizes)
    free(w.word)
    free(w.hidden)
    free(w.score)
    free(w.known)
    free(w.heap)
    free(w.stack)


cdef int outcome(const work_t* w, int result) except -1:
    """Raise the error of the result of a kernel, if there is one."""
    propagate()
    if result == NO_MEMORY or w.no_memory:
        raise MemoryError()
    if result == NOT_A_NUMBER:
        raise damaged("the score of a label is NaN")
    return 0


cdef damaged(what):
    return ValueError(
        f"{what}, because the matrices of the file are damaged; get the model again"
    )


# ------------------------------------------------------------------------ labels


cdef inline float score_of(const model_t* t, work_t* w, int64_t i) noexcept nogil:
    """The score of a label or inner node."""
    cdef const matrix_t* a = &t.outputs
    cdef int64_t b = i // ROWS
    if t.blocks == NULL:
        return product_of_codes(
            a.rows, a.n_parts, a.part, a.last, a.centroids, a.scale_code, a.scale, i,
            w.hidden,
        )
    if not w.known[b]:
        w.known[b] = True
        sixteen_products(a.n, t.blocks + b * ROWS * a.n, w.hidden, w.score + b * ROWS)
    return w.score[i]


cdef inline float log_of(float p) noexcept nogil:
    return <float>log(p + 1e-5)


cdef inline void sift_up(
    scored_t* heap, int64_t hole, scored_t value
) noexcept nogil:
    cdef int64_t parent = (hole - 1) // 2
    while hole > 0 and heap[parent].log_prob > value.log_prob:
        heap[hole] = heap[parent]
        hole = parent
        parent = (hole - 1) // 2
    heap[hole] = value


cdef inline void pop(scored_t* heap, int64_t n) noexcept nogil:
    """Move the least of n labels to the end; the other labels stay a heap.

    The moves are those of std::pop_heap in GNU's library, which determine the order of
    labels of equal probability.
    """
    cdef scored_t value = heap[n - 1]
    cdef int64_t hole = 0, child = 0
    heap[n - 1] = heap[0]
    n -= 1
    while child < (n - 1) // 2:
        child = 2 * (child + 1)
        if heap[child].log_prob > heap[child - 1].log_prob:
            child -= 1
        heap[hole] = heap[child]
        hole = child
    if n % 2 == 0 and child == (n - 2) // 2:
        child = 2 * (child + 1)
        heap[hole] = heap[child - 1]
        hole = child - 1
    sift_up(heap, hole, value)


cdef inline void offer(
    work_t* w, int64_t k, float log_prob, int32_t label
) noexcept nogil:
    """Add a label to the heap of the k best labels."""
    cdef scored_t new
    new.log_prob, new.label = log_prob, label
    sift_up(w.heap, w.n_heap, new)
    w.n_heap += 1
    if w.n_heap > k:
        pop(w.heap, w.n_heap)
        w.n_heap -= 1


cdef int walk_tree(
    const model_t* t, work_t* w, int64_t k, float threshold
) noexcept nogil:
    """Find the best labels of hierarchical softmax, depth first, left child first."""
    cdef float least = log_of(threshold), p
    cdef int64_t n = 1
    cdef scored_t node
    cdef const int32_t* children
    w.stack[0].log_prob = 0
    w.stack[0].label = <int32_t>(2 * t.n_labels - 2)
    while n:
        n -= 1
        node = w.stack[n]
        if node.log_prob < least or (
            w.n_heap == k and node.log_prob < w.heap[0].log_prob
        ):
            continue
        if node.label < t.n_labels:
            offer(w, k, node.log_prob, node.label)
            continue
        p = score_of(t, w, node.label - t.n_labels)
        if p != p:
            return NOT_A_NUMBER
        p = logistic(p)
        children = t.children + 2 * (node.label - t.n_labels)
        w.stack[n].label = children[1]
        w.stack[n].log_prob = node.log_prob + log_of(p)
        w.stack[n + 1].label = children[0]
        w.stack[n + 1].log_prob = node.log_prob + log_of(<float>(1.0 - p))
        n += 2
    return DONE


cdef int find_best(
    const model_t* t, work_t* w, int64_t k, float threshold
) noexcept nogil:
    """Write the k best labels for the rows of a line to the heap, best first."""
    cdef int64_t i, n = t.n_labels
    cdef float top, total = 0, bound = 0, x
    cdef int result = DONE
    w.n_heap = 0
    if w.rows.n == 0:
        return DONE
    mean(&t.inputs, w.rows.at, w.rows.n, w.hidden)
    memset(w.known, 0, (n + ROWS - 1) // ROWS)
    if t.loss == BY_TREE:
        result = walk_tree(t, w, k, threshold)
        n = 0
    for i in range(n):
        w.score[i] = score_of(t, w, i)
    if t.loss == BY_SOFTMAX:
        top = w.score[0]
        for i in range(n):
            top = max(w.score[i], top)
        for i in range(n):
            w.score[i] = <float>exp(w.score[i] - top)
            total += w.score[i]
        if total != total:
            return NOT_A_NUMBER
        for i in range(n):
            w.score[i] /= total
    elif t.loss != BY_TREE:
        for i in range(n):
            x = w.score[i]
            if x != x:
                return NOT_A_NUMBER
            w.score[i] = (
                0 if x < -8 else 1 if x > 8 else LOGISTIC[step_of(x)]
            )
    for i in range(n):
        x = w.score[i]
        if x < threshold or x < bound:
            continue
        x = log_of(x)
        if w.n_heap == k and x < w.heap[0].log_prob:
            continue
        offer(w, k, x, <int32_t>i)
        if w.n_heap == k:
            # Probabilities below it cannot enter the heap, in spite of rounding.
            bound = <float>(exp(w.heap[0].log_prob) * (1 - 4e-6) - 1e-5)
    for i in range(w.n_heap, 1, -1):
        pop(w.heap, i)
    return result


# ------------------------------------------------------------------------ Python


cdef const uint8_t* bytes_of(
    text, Py_ssize_t* size, list keep, bint one_line, int64_t i
) except NULL:
    """The UTF-8 of a string, which may have lone surrogates.

    one_line : whether a line feed is an error. i : the number of the text in a list, or
    -1.
    """
    cdef const uint8_t* at
    if not isinstance(text, str):
        what = f"must be a str, got {type(text).__name__}"
        raise TypeError(
            f"text {what}, or a list of str" if i < 0 else f"text[{i}] {what}"
        )
    try:
        at = <const uint8_t*>PyUnicode_AsUTF8AndSize(text, size)
    except UnicodeEncodeError:
        encoded = text.encode("utf-8", "surrogatepass")
        keep.append(encoded)
        size[0] = PyBytes_Size(encoded)
        at = <const uint8_t*>PyBytes_AsString(encoded)
    if one_line and memchr(at, 10, size[0]) != NULL:
        name = "text" if i < 0 else f"text[{i}]"
        raise ValueError(
            f"{name} has a line feed; predict takes one line at a time: replace '\\n' "
            "by a space"
        )
    return at


cdef class FastTextTables:
    """A model of fastText in a file; see `sklstruct.text._fasttext`, which checks it.

    Parameters
    ----------
    image : bytes-like
        The whole file. It must not change while this object lives.

    numbers : tuple of int
        minn, maxn, wordNgrams, bucket, number of words, number of labels, loss.

    start, table : ndarray
        Outputs of `read_entries` and `fill_table`.

    pairs : ndarray or None
        Output of `fill_pairs`; None: the dictionary is not pruned.

    inputs, outputs : tuple
        Fields of `_Matrix`: columns, offset; number of parts (0: float32), columns of a
        part and of the last part, centroids; offset of the codes of the factors of the
        rows, or None, and the 256 factors.

    blocks, children : ndarray or None
        The output matrix as blocks[r // 16, j, r % 16], and the output of `grow_tree`.
    """

    cdef model_t t
    cdef const uint8_t[::1] image
    cdef list keep

    def __init__(
        self, image, tuple numbers, start, table, pairs, inputs, outputs, blocks,
        children,
    ):
        cdef const int64_t[::1] starts = start
        cdef const uint32_t[:, ::1] words = table
        cdef const int32_t[:, ::1] some
        cdef const float[:, :, ::1] scores
        self.image = image
        self.keep = [start, table, pairs, inputs, outputs, blocks, children]
        (
            self.t.minn, self.t.maxn, self.t.word_ngrams, self.t.bucket,
            self.t.n_words, self.t.n_labels, self.t.loss,
        ) = numbers
        self.t.image, self.t.start = &self.image[0], &starts[0]
        self.t.table, self.t.mask = &words[0, 0], <uint32_t>(words.shape[0] - 1)
        self.t.pruned = pairs is not None
        if pairs is not None:
            some = pairs
            self.t.pairs = &some[0, 0]
            self.t.pairs_mask = <uint32_t>(some.shape[0] - 1)
        if children is not None and len(children):
            some = children
            self.t.children = &some[0, 0]
        if blocks is not None:
            scores = blocks
            self.t.blocks = &scores[0, 0, 0]
        self.t.inputs, self.t.outputs = self.matrix(inputs), self.matrix(outputs)

    cdef matrix_t matrix(self, given) except *:
        cdef matrix_t a
        cdef const float[::1] values
        memset(&a, 0, sizeof(a))
        a.n, a.width = given[0], 4 * given[0]
        a.rows = &self.image[0] + <int64_t>given[1]
        if given[2]:
            a.n_parts, a.part, a.last, values = given[2:6]
            a.width, a.centroids = a.n_parts, &values[0]
            if given[6] is not None:
                a.scale_code, values = &self.image[<int64_t>given[6]], given[7]
                a.scale = &values[0]
        return a

    def id_of(self, bytes word not None):
        """The id of a word, or of a label plus the number of words; -1 if unknown."""
        cdef const uint8_t* at = <const uint8_t*>PyBytes_AsString(word)
        cdef int64_t n = PyBytes_Size(word)
        return find(&self.t, at, n, hash_of(at, n))

    def rows_of_word(self, bytes word not None):
        """(rows of a word and its letter n-grams, (n, 2) places of n-grams in <word>).

        The first row of a known word is its own row, which has no place.
        """
        cdef const uint8_t* at = <const uint8_t*>PyBytes_AsString(word)
        cdef work_t w
        open_work(&self.t, &w, 1)
        w.keep_spans = True
        try:
            rows_of(&self.t, &w, at, PyBytes_Size(word))
            outcome(&w, DONE)
            return array_of(&w.rows), array_of(&w.spans).reshape(-1, 2)
        finally:
            close_work(&w)

    def rows_of_line(self, text):
        """The rows of a line of text."""
        cdef work_t w
        cdef Py_ssize_t size
        cdef list keep = []
        cdef const uint8_t* at = bytes_of(text, &size, keep, False, -1)
        open_work(&self.t, &w, 1)
        try:
            read_line(&self.t, &w, at, size, 0, True)
            outcome(&w, DONE)
            return array_of(&w.rows)
        finally:
            close_work(&w)

    def mean_of_rows(self, const int32_t[::1] rows not None):
        """The mean of rows of the input matrix; zeros for no row."""
        out = np.empty(self.t.inputs.n, dtype=np.float32)
        cdef float[::1] result = out
        cdef const int32_t* at = &rows[0] if rows.shape[0] else NULL
        mean(&self.t.inputs, at, rows.shape[0], &result[0])
        if not np.isfinite(out).all():
            raise damaged("a vector is not finite")
        return out

    def word_directions(self, float[:, ::1] out not None):
        """Write the vector of each word, scaled to length 1, to a row of out."""
        cdef work_t w
        cdef int64_t i, j
        cdef float norm
        cdef const int64_t* start = self.t.start
        open_work(&self.t, &w, 1)
        try:
            with nogil:
                for i in range(out.shape[0]):
                    w.rows.n = 0
                    rows_of(
                        &self.t, &w, self.t.image + start[i],
                        start[i + 1] - 10 - start[i],
                    )
                    if over(&w.watch, w.rows.n * self.t.inputs.n) or w.no_memory:
                        break
                    mean(&self.t.inputs, w.rows.at, w.rows.n, &out[i, 0])
                    norm = 0
                    for j in range(self.t.inputs.n):
                        norm += out[i, j] * out[i, j]
                    norm = <float>(1.0 / sqrtf(norm)) if norm > 0 else 0
                    for j in range(self.t.inputs.n):
                        out[i, j] *= norm
            outcome(&w, DONE)
        finally:
            close_work(&w)

    def products(self, const float[:, ::1] a, const float[::1] x):
        """The products of the rows of a with x, each a sum from left to right."""
        out = np.zeros(a.shape[0], dtype=np.float32)
        cdef float[::1] result = out
        cdef int64_t i, j
        with nogil:
            for i in range(a.shape[0]):
                for j in range(x.shape[0]):
                    result[i] += a[i, j] * x[j]
        if not np.isfinite(out).all():
            raise damaged("a product of vectors is not finite")
        return out

    def predict_text(self, text, int64_t k, float threshold, bint one_line):
        """[(probability, label)] of a text, best first.

        one_line : whether the text is a line without its end; otherwise only its first
        line is read.
        """
        cdef work_t w
        cdef Py_ssize_t size
        cdef int64_t i
        cdef list keep = []
        cdef const uint8_t* at = bytes_of(text, &size, keep, one_line, -1)
        open_work(&self.t, &w, k)
        try:
            read_line(&self.t, &w, at, size, 0, one_line)
            outcome(&w, DONE)
            outcome(&w, find_best(&self.t, &w, k, threshold))
            return [
                (expf(w.heap[i].log_prob), w.heap[i].label) for i in range(w.n_heap)
            ]
        finally:
            close_work(&w)

    def predict_texts(
        self, tuple texts not None, int64_t k, float threshold, bint one_line
    ):
        """(labels, probabilities, end of each text in both) of all texts together."""
        cdef work_t w
        cdef int64_t i, j, n = len(texts)
        cdef int result = DONE
        cdef Py_ssize_t size
        cdef list keep = []
        ends = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] end = ends
        cdef float[::1] shares
        open_work(&self.t, &w, k)
        try:
            w.texts = <const uint8_t**>malloc((n + 1) * sizeof(void*))
            w.sizes = <int64_t*>malloc((n + 1) * sizeof(int64_t))
            if w.texts == NULL or w.sizes == NULL:
                raise MemoryError()
            for i in range(n):
                w.texts[i] = bytes_of(texts[i], &size, keep, one_line, i)
                w.sizes[i] = size
            with nogil:
                for i in range(n):
                    read_line(&self.t, &w, w.texts[i], w.sizes[i], 0, one_line)
                    if over(&w.watch, self.t.inputs.n * (w.rows.n + self.t.n_labels)):
                        break
                    result = NO_MEMORY if w.no_memory else find_best(
                        &self.t, &w, k, threshold
                    )
                    if result != DONE:
                        break
                    for j in range(w.n_heap):
                        push(&w.found, w.heap[j].label, &w)
                        push(&w.log_probs, (<int32_t*>&w.heap[j].log_prob)[0], &w)
                    end[i] = w.found.n
            outcome(&w, result)
            probabilities = np.empty(w.found.n, dtype=np.float32)
            shares = probabilities
            for i in range(w.found.n):
                shares[i] = expf((<float*>w.log_probs.at)[i])
            return array_of(&w.found), probabilities, ends
        finally:
            close_work(&w)

    def test(
        self, const uint8_t[::1] text, int64_t k, float threshold, int64_t[::1] gold,
        int64_t[::1] predicted, int64_t[::1] right,
    ):
        """Count for each label its occurrences, predictions, correct predictions.

        text : lines with labels, at least one. Returns the number of lines that have a
        known label and at least one row.
        """
        cdef work_t w
        cdef int64_t at = 0, n = 0, i, j
        cdef int32_t label
        cdef int result = DONE
        open_work(&self.t, &w, k)
        try:
            with nogil:
                while at < text.shape[0]:
                    at = read_line(&self.t, &w, &text[0], text.shape[0], at, False)
                    if over(&w.watch, self.t.inputs.n * (w.rows.n + self.t.n_labels)):
                        break
                    if w.no_memory:
                        break
                    if w.labels.n == 0 or w.rows.n == 0:
                        continue
                    result = find_best(&self.t, &w, k, threshold)
                    if result != DONE:
                        break
                    n += 1
                    for i in range(w.labels.n):
                        gold[w.labels.at[i]] += 1
                    for i in range(w.n_heap):
                        label = w.heap[i].label
                        predicted[label] += 1
                        for j in range(w.labels.n):
                            if w.labels.at[j] == label:
                                right[label] += 1
                                break
            outcome(&w, result)
            return n
        finally:
            close_work(&w)


cdef array_of(const ints_t* list):
    out = np.empty(list.n, dtype=np.int32)
    cdef int32_t[::1] result = out
    if list.n:
        memcpy(&result[0], list.at, list.n * sizeof(int32_t))
    return out
