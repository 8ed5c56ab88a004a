# Lines of text as rows of the input matrix of a model of fastText; see _fasttext_fast.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcmp, memcpy

from .._prefetch cimport prefetch
from .._watch cimport Watch, over


cdef extern from "_fasttext.h" nogil:
    enum:
        ROWS "SKLSTRUCT_ROWS"
    const uint8_t* MARK "sklstruct_mark"
    const uint8_t* PREFIX "sklstruct_prefix"
    void sum_rows "sklstruct_sum_rows"(
        ptrdiff_t n, const uint8_t* matrix, ptrdiff_t n_rows, const int32_t* rows,
        float* out)
    void sum_codes "sklstruct_sum_codes"(
        ptrdiff_t n, const uint8_t* codes, ptrdiff_t n_parts, ptrdiff_t part,
        ptrdiff_t last, const float* centroids, const uint8_t* scale_code,
        const float* scale, ptrdiff_t n_rows, const int32_t* rows, float* out)


cdef enum:
    PREFIX_SIZE = 9


cdef struct matrix_t:
    int64_t n  # columns
    const uint8_t* rows  # float32 or codes
    int64_t width  # bytes per row
    int64_t n_parts  # parts of a row of codes; 0: float32
    int64_t part, last  # columns of a part, and of the last part
    const float* centroids
    const uint8_t* scale_code
    const float* scale  # NULL: 1

cdef struct model_t:
    int32_t minn, maxn
    int64_t word_ngrams
    uint32_t bucket
    int64_t n_words, n_labels
    const uint8_t* image
    const int64_t* start
    const uint32_t* table
    uint32_t mask
    bint pruned
    const int32_t* pairs
    uint32_t pairs_mask
    int loss
    matrix_t inputs, outputs
    const float* blocks  # the output matrix, 16 rows side by side; NULL: codes
    const int32_t* children

cdef struct ints_t:
    int32_t* at
    int64_t n, room

cdef struct scored_t:
    float log_prob
    int32_t label

cdef struct work_t:
    ints_t rows, labels, hashes, spans
    ints_t found, log_probs  # best labels of all texts, and float32 as int32
    const uint8_t** texts
    int64_t* sizes
    uint8_t* word  # "<word>"
    int64_t word_room
    float* hidden
    float* score
    uint8_t* known  # blocks of 16 scores that are computed
    scored_t* heap
    int64_t n_heap
    scored_t* stack
    bint keep_spans
    bint no_memory
    int32_t stopped
    Watch watch


cdef inline uint32_t hashed(uint32_t h, const uint8_t* text, int64_t n) noexcept nogil:
    """FNV-1a hash of signed bytes, continued from h."""
    cdef int64_t i
    for i in range(n):
        h = (h ^ <uint32_t><int32_t><int8_t>text[i]) * 16777619u
    return h


cdef inline uint32_t hash_of(const uint8_t* text, int64_t n) noexcept nogil:
    return hashed(2166136261u, text, n)


cdef inline uint32_t mixed(uint32_t x) noexcept nogil:
    x *= 0x9E3779B1u
    return x ^ (x >> 15)


cdef inline void push(ints_t* list, int32_t value, work_t* w) noexcept nogil:
    cdef int32_t* grown
    if list.n == list.room:
        grown = <int32_t*>realloc(list.at, (2 * list.room + 64) * sizeof(int32_t))
        if grown == NULL:
            w.no_memory = True
            return
        list.at = grown
        list.room = 2 * list.room + 64
    list.at[list.n] = value
    list.n += 1


cdef inline bint push_row(const model_t* t, work_t* w, int64_t row) noexcept nogil:
    prefetch(t.inputs.rows + row * t.inputs.width, t.inputs.width)
    push(&w.rows, <int32_t>row, w)
    return True


cdef inline bint push_bucket(
    const model_t* t, work_t* w, uint32_t bucket
) noexcept nogil:
    """Add the row of a bucket; False if it was pruned."""
    cdef uint32_t at
    if not t.pruned:
        return push_row(t, w, t.n_words + bucket)
    at = mixed(bucket) & t.pairs_mask
    while t.pairs[2 * at] >= 0:
        if t.pairs[2 * at] == <int32_t>bucket:
            return push_row(t, w, t.n_words + t.pairs[2 * at + 1])
        at = (at + 1) & t.pairs_mask
    return False


cdef inline int32_t find(
    const model_t* t, const uint8_t* word, int64_t n, uint32_t h
) noexcept nogil:
    """The id of a word or label, -1 if it is unknown."""
    cdef uint32_t at = h & t.mask, id
    while t.table[2 * at + 1]:
        id = t.table[2 * at + 1] - 1
        if (
            t.table[2 * at] == h
            and t.start[id + 1] - 10 - t.start[id] == n
            and memcmp(t.image + t.start[id], word, n) == 0
        ):
            return <int32_t>id
        at = (at + 1) & t.mask
    return -1


cdef inline bint continues(uint8_t byte) noexcept nogil:
    """Whether a byte continues a letter in UTF-8."""
    return (byte & 0xC0) == 0x80


cdef inline void add_letters(
    const model_t* t, work_t* w, const uint8_t* word, int64_t size
) noexcept nogil:
    """Add the rows of the n-grams of letters of "<word>"."""
    cdef int64_t i, j, k, n
    cdef uint32_t h
    cdef uint8_t* grown
    if t.maxn <= 0:
        return
    if w.word_room < size + 2:
        grown = <uint8_t*>realloc(w.word, 2 * size + 64)
        if grown == NULL:
            w.no_memory = True
            return
        w.word, w.word_room = grown, 2 * size + 64
    w.word[0] = 60  # <
    memcpy(w.word + 1, word, size)
    w.word[size + 1] = 62  # >
    size += 2
    for i in range(size):
        if continues(w.word[i]):
            continue
        if over(&w.watch, 16 * min(<int64_t>t.maxn, size - i)) or w.no_memory:
            return
        h = 2166136261u
        j, n = i, 1
        while j < size and n <= t.maxn:
            k = j + 1
            while k < size and continues(w.word[k]):
                k += 1
            h = hashed(h, w.word + j, k - j)
            j = k
            if n >= t.minn and not (n == 1 and (i == 0 or j == size)):
                if push_bucket(t, w, h % t.bucket) and w.keep_spans:
                    push(&w.spans, <int32_t>i, w)
                    push(&w.spans, <int32_t>j, w)
            n += 1


cdef inline bint is_blank(uint8_t byte) noexcept nogil:
    return byte == 32 or 9 <= byte <= 13 or byte == 0


cdef inline int64_t read_line(
    const model_t* t, work_t* w, const uint8_t* text, int64_t size, int64_t at,
    bint newline,
) noexcept nogil:
    """Find the rows and labels of the line that begins at `at`; returns its end.

    newline : whether the end of the text is the end of a line, which is the word
    "</s>". The word "</s>" in a text ends a line, too.
    """
    cdef const uint8_t* word
    cdef int64_t n, i, j
    cdef int32_t id
    cdef uint32_t h
    cdef uint64_t g
    cdef bint end = False
    w.rows.n = w.labels.n = w.hashes.n = 0
    while not end:
        while at < size and is_blank(text[at]) and text[at] != 10:
            at += 1
        if at == size and not newline:
            break
        if at == size or text[at] == 10:
            word, n = MARK, 4
            at += at < size
        else:
            word = text + at
            while at < size and not is_blank(text[at]):
                at += 1
            n = text + at - word
        end = n == 4 and memcmp(word, MARK, 4) == 0
        h = hash_of(word, n)
        id = find(t, word, n, h)
        if id >= t.n_words:
            push(&w.labels, <int32_t>(id - t.n_words), w)
        elif id >= 0 or n < PREFIX_SIZE or memcmp(word, PREFIX, PREFIX_SIZE) != 0:
            if id >= 0:
                push_row(t, w, id)
            if not end:
                add_letters(t, w, word, n)
            push(&w.hashes, <int32_t>h, w)
        if over(&w.watch, 100 + n) or w.no_memory:
            return at
    if t.word_ngrams < 2:
        return at
    for i in range(w.hashes.n):
        g = <uint64_t><int64_t>w.hashes.at[i]
        if over(&w.watch, 16 * min(t.word_ngrams, w.hashes.n - i)) or w.no_memory:
            return at
        for j in range(i + 1, min(w.hashes.n, i + t.word_ngrams)):
            g = g * 116049371u + <uint64_t><int64_t>w.hashes.at[j]
            push_bucket(t, w, <uint32_t>(g % t.bucket))
    return at


cdef inline void mean(
    const matrix_t* a, const int32_t* rows, int64_t n, float* out
) noexcept nogil:
    """Compute the mean of rows; zeros if n is 0."""
    cdef float share = <float>(1.0 / n) if n else 0
    cdef int64_t j
    if a.n_parts:
        sum_codes(
            a.n, a.rows, a.n_parts, a.part, a.last, a.centroids, a.scale_code, a.scale,
            n, rows, out,
        )
    else:
        sum_rows(a.n, a.rows, n, rows, out)
    for j in range(a.n):
        out[j] *= share


cdef inline void rows_of(
    const model_t* t, work_t* w, const uint8_t* word, int64_t n
) noexcept nogil:
    """Find the rows of a word and of its letter n-grams."""
    cdef int32_t id = find(t, word, n, hash_of(word, n))
    if 0 <= id < t.n_words:
        push_row(t, w, id)
    if not (n == 4 and memcmp(word, MARK, 4) == 0):
        add_letters(t, w, word, n)
