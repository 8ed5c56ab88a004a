"""Scoring words from the tables of a KenLM file, which may be mapped.

The n-gram w_1 ... w_n of word ids is looked up from its end: w_n, then w_(n-1) w_n, and
so on, until an n-gram is missing or has the highest order: O(order) look-ups per word,
for any size of the model. Only the look-up depends on the kind of tables:

* Hash tables (`_probing_fast`). A key is looked up. The sign of a probability tells
  whether a longer n-gram ends in this n-gram.
* A trie whose nodes are the n-grams, w_n at the root. A record has the word that a node
  adds, a probability, a weight and the number of its first child, in as many bits as
  the counts need; the children of a node are sorted by their words. Quantised numbers
  are rows of a table. Compressed pointers keep their low bits in the record; the high
  bits of record i are how many of some sorted offsets are at most i, less 1.

Numbers are float32 and are added in one fixed order, so that equal files give equal
scores to the last bit: the probability of the longest match, then the back-off weights
of the contexts from its length up, the shortest first.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_Size
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdlib cimport free, malloc
from libc.string cimport memchr

from .._watch cimport Watch, over, propagate, watch_of

import numpy as np


MOST_ORDER = MOST

cdef uint32_t SIGN = 0x80000000u
cdef uint32_t MINUS_ZERO = 0x80000000u  # weight of n-grams that begin no longer n-gram


# ---------------------------------------------------------------------- looking up


cdef struct level_t:  # the n-grams of one order, without unigrams
    const uint8_t* data
    uint64_t n  # buckets, or records
    uint64_t inverse  # of n
    int64_t width  # bytes of a bucket, or bits of a record
    # Of a trie: bits of fields and where they begin in a record.
    int32_t word_bits, prob_at, prob_bits, weight_at, weight_bits, next_at, next_bits
    const uint8_t* probs  # the table of quantised numbers, NULL: they are not quantised
    const uint8_t* weights
    const uint8_t* offsets  # NULL: pointers are not compressed
    uint64_t n_offsets


cdef struct tables_t:
    bint trie
    int32_t order
    uint32_t n_words
    const uint8_t* words
    uint64_t word_inverse
    uint64_t word_buckets  # of a trie: sorted hashes, of the words 1, 2, ...
    const uint8_t* unigrams
    int64_t unigram_width
    level_t[MOST] longer


cdef struct found_t:  # an n-gram
    uint32_t prob, weight  # bits
    bint last  # no longer n-gram ends in this one
    uint64_t key, stop  # of a trie: its children are key, ..., stop - 1


cdef inline float as_float(uint32_t bits) noexcept nogil:
    cdef float value
    memcpy(&value, &bits, 4)
    return value


cdef inline uint64_t between(
    uint64_t a, uint64_t b, uint64_t value, uint64_t low, uint64_t high, int32_t n
) noexcept nogil:
    """The next row of a, ..., b - 1 to test for a value, if values are in [low, high].

    Values are uniform, so linear interpolation is used; from the eighth step on,
    bisection, so that a damaged file also costs O(log n).
    """
    cdef uint64_t step = (b - a) >> 1
    if n < 8 and step > 1:
        step = <uint64_t>(
            <double>(value - low) / (<double>(high - low) + 1.0) * <double>(b - a)
        )
    return a + min(step, b - a - 1)


cdef uint32_t sorted_id(
    const uint8_t* hashes, uint64_t b, uint64_t h
) noexcept nogil:
    """The id of a word in a trie by its hash, 0 for unknown words."""
    cdef uint64_t a = 0, low = 0, high = <uint64_t>-1, at, found
    cdef int32_t n = 0
    while a < b:
        at = between(a, b, h, low, high, n)
        found = read64(hashes + 8 * at)
        if found == h:
            return <uint32_t>(at + 1)
        if found < h:
            a, low = at + 1, found
        else:
            b, high = at, found
        n += 1
    return 0


cdef inline bint has_nul(const uint8_t* text, int64_t size) noexcept nogil:
    return memchr(text, 0, size) != NULL


cdef inline uint32_t word_id(
    const tables_t* t, const uint8_t* text, int64_t size, bint with_nul
) noexcept nogil:
    """The id of a word, 0 for unknown words; with_nul: whether it can have a NUL."""
    cdef const uint8_t* at = NULL
    cdef uint64_t h
    if with_nul:
        at = <const uint8_t*>memchr(text, 0, size)
        if at != NULL:  # a string of C ends here
            size = at - text
    h = murmur(text, size)
    if h == 0:
        return 0
    if t.trie:
        return sorted_id(t.words, t.word_buckets, h)
    at = find(t.words, WORD, t.word_buckets, t.word_inverse, h)
    return 0 if at == NULL else read32(at + 8)


cdef void set_children(
    found_t* f, uint64_t key, uint64_t stop, uint64_t n
) noexcept nogil:
    """Children of a node among n records, also if the file is damaged."""
    f.stop = min(stop, n)
    f.key = min(key, f.stop)
    f.last = f.key == f.stop


cdef inline void unigram(const tables_t* t, uint32_t word, found_t* f) noexcept nogil:
    cdef const uint8_t* at = t.unigrams + word * t.unigram_width
    f.prob, f.weight = read32(at), read32(at + 4)
    if t.trie:
        set_children(
            f, read64(at + 8), read64(at + t.unigram_width + 8), t.longer[0].n
        )
    else:
        f.key, f.last = word, f.prob & SIGN
        f.prob |= SIGN


cdef inline uint64_t high_bits(const level_t* level, uint64_t at) noexcept nogil:
    """How many offsets are at most `at`, less 1; the first offset is 0."""
    cdef uint64_t a = 0, b = level.n_offsets, half
    while b - a > 1:
        half = a + ((b - a) >> 1)
        if read64(level.offsets + 8 * half) <= at:
            a = half
        else:
            b = half
    return a


cdef inline uint64_t child(
    const level_t* level, uint64_t at, uint64_t* high
) noexcept nogil:
    """The number of the first child of a record, whose high bits are at least those
    given; these become those of the record."""
    cdef uint64_t low = read_bits(
        level.data, at * level.width + level.next_at, level.next_bits
    )
    if level.offsets == NULL:
        return low
    while (
        high[0] + 1 < level.n_offsets
        and read64(level.offsets + 8 * (high[0] + 1)) <= at
    ):
        high[0] += 1
    return high[0] << level.next_bits | low


cdef bint in_trie(
    const tables_t* t, int32_t k, uint32_t word, found_t* f
) noexcept nogil:
    """`longer` of a trie."""
    cdef const level_t* level = &t.longer[k - 1]
    cdef uint64_t a = f.key, b = f.stop, low = 0, high = t.n_words, i = 0, found, bit
    cdef int32_t n = 0
    while True:
        if a >= b:
            return False
        i = between(a, b, word, low, high, n)
        found = read_bits(level.data, i * level.width, level.word_bits)
        if found == word:
            break
        if found < word:
            a, low = i + 1, found
        else:
            b, high = i, found
        n += 1
    bit = i * level.width
    f.prob = <uint32_t>read_bits(level.data, bit + level.prob_at, level.prob_bits)
    if level.probs == NULL:
        f.prob |= SIGN
    else:  # with a sign: of probability 1 KenLM's table has +0, as its unigrams have
        f.prob = read32(level.probs + 4 * f.prob)
    f.weight, f.last = MINUS_ZERO, True
    if k < t.order - 1:
        f.weight = <uint32_t>read_bits(
            level.data, bit + level.weight_at, level.weight_bits)
        if level.weights != NULL:
            f.weight = read32(level.weights + 4 * f.weight)
        high = 0 if level.offsets == NULL else high_bits(level, i)
        a = child(level, i, &high)
        set_children(f, a, child(level, i + 1, &high), t.longer[k].n)
    return True


cdef inline bint longer(
    const tables_t* t, int32_t k, uint32_t word, found_t* f
) noexcept nogil:
    """Look up an n-gram of k + 1 words with one more word before it."""
    cdef const level_t* level = &t.longer[k - 1]
    cdef const uint8_t* at
    cdef bint highest = k == t.order - 1
    if t.trie:
        return in_trie(t, k, word, f)
    f.key = moved(f.key) ^ added(word)
    at = find(level.data, level.width, level.n, level.inverse, f.key)
    if at == NULL:
        return False
    f.prob = read32(at + 8)
    f.weight = MINUS_ZERO if highest else read32(at + 12)
    f.last = highest or f.prob & SIGN
    f.prob |= SIGN
    return True


# ---------------------------------------------------------------------- scoring


cdef struct state_t:
    int32_t length
    uint32_t[MOST] words  # the newest first
    float[MOST] weights  # of the contexts of 1, 2, ... words


cdef struct score_t:
    float log_prob
    int32_t length
    bint unknown


cdef inline score_t step(
    const tables_t* t, const state_t* a, uint32_t word, state_t* b
) noexcept nogil:
    """Score a word after state `a`, and the state after it; `b` is not `a`."""
    cdef score_t out
    cdef found_t f
    cdef int32_t k = 0, context
    out.unknown = word == 0
    unigram(t, word, &f)
    b.words[0] = word
    b.length = 0
    # A model of order N has at most N - 1 words of history that count.
    context = a.length if a.length < t.order - 1 else t.order - 1
    while True:
        out.log_prob = as_float(f.prob)
        b.weights[k] = as_float(f.weight)
        k += 1
        if f.weight != MINUS_ZERO:
            b.length = k
        if k > context or f.last or not longer(t, k, a.words[k - 1], &f):
            break
    out.length = k
    for k in range(out.length - 1, a.length):
        out.log_prob += a.weights[k]
    for k in range(1, b.length):
        b.words[k] = a.words[k - 1]
    return out


cdef inline bint is_blank(uint8_t byte) noexcept nogil:
    # Almost all bytes are above 32: one comparison.
    return byte <= 32 and (byte == 32 or 9 <= byte <= 13)


cdef inline bint next_word(
    const uint8_t* text, int64_t size, int64_t* begin, int64_t* end
) noexcept nogil:
    """Move begin and end to the next word from `end` on; False at the end."""
    cdef int64_t i = end[0]
    while i < size and is_blank(text[i]):
        i += 1
    begin[0] = i
    while i < size and not is_blank(text[i]):
        i += 1
    end[0] = i
    return begin[0] < size


cdef float score_text(
    const tables_t* t, const state_t* start, uint32_t end, bint eos,
    const uint8_t* text, int64_t size,
) noexcept nogil:
    """The sum of the log10-probabilities of the words of a text."""
    cdef state_t[2] state
    cdef int32_t now = 0
    cdef float total = 0
    cdef int64_t i, j = 0
    cdef bint with_nul = has_nul(text, size)
    cdef uint32_t word
    state[0] = start[0]
    while next_word(text, size, &i, &j):
        word = word_id(t, text + i, j - i, with_nul)
        total += step(t, &state[now], word, &state[1 - now]).log_prob
        now = 1 - now
    if eos:
        total += step(t, &state[now], end, &state[1 - now]).log_prob
    return total


cdef float checked(float score) except? -1:
    """The score; ValueError if a damaged weight has made it NaN."""
    if score != score:
        raise ValueError(
            "sentence: its score is NaN, because the tables hold a damaged weight; "
            "make the file again"
        )
    return score


cdef class State:
    """The end of a history: the words that the score of the next word depends on.

    Up to order - 1 word ids, the newest first, and their back-off weights. A state is
    empty until a model writes it. Two states are equal if their words are equal; equal
    states give equal scores for every next word.
    """

    cdef state_t it

    def __cinit__(self):
        self.it.length = 0

    cdef int compare(self, State other):
        cdef int32_t k, n = min(self.it.length, other.it.length)
        for k in range(n):
            if self.it.words[k] != other.it.words[k]:
                return -1 if self.it.words[k] < other.it.words[k] else 1
        return (self.it.length > n) - (other.it.length > n)

    def __eq__(self, other):
        return isinstance(other, State) and self.compare(other) == 0

    def __lt__(self, State other not None):
        return self.compare(other) < 0

    def __hash__(self):
        return hash(tuple(self.it.words[k] for k in range(self.it.length)))

    def __copy__(self):
        cdef State new = State()
        new.it = self.it
        return new

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __reduce__(self):
        n = self.it.length
        return State, (), (
            tuple(self.it.words[k] for k in range(n)),
            tuple(self.it.weights[k] for k in range(n)),
        )

    def __setstate__(self, state):
        words, weights = state
        if len(words) != len(weights) or len(words) > MOST:
            raise ValueError("state: damaged, words and weights differ in number")
        for k, (word, weight) in enumerate(zip(words, weights)):
            self.it.words[k], self.it.weights[k] = word, weight
        self.it.length = len(words)


cdef class Tables:
    """The tables of a file, with queries by word ids, words and texts.

    Parameters
    ----------
    image : bytes-like
        The whole file. It must not change while this object lives.

    layout : Layout
        From `read_layout`, which has checked that all parts are inside the image.

    Raises
    ------
    ValueError
        If a hash table has no empty bucket, or a word has an id that is not below the
        number of words.
    """

    cdef tables_t t
    cdef const uint8_t[::1] keep
    cdef uint32_t start, end

    def __init__(self, image, layout):
        cdef level_t* level
        cdef tables_t* t = &self.t
        self.keep = image
        t.trie, t.order, t.n_words = layout.is_trie, layout.order, layout.n_words
        t.words, t.word_buckets = self.part(layout.words.first), layout.words.n
        t.unigrams = self.part(layout.unigrams.first)
        t.unigram_width = layout.unigrams.width
        for k, part in enumerate(layout.longer):
            level = &t.longer[k]
            level.data, level.n, level.width = (
                self.part(part.first), part.n, part.width
            )
            if not t.trie:
                check_empty(level.data, level.width, level.n)
                level.inverse = inverse_of(level.n)
                continue
            level.word_bits, level.next_bits = part.word_bits, part.next_bits
            level.prob_at, level.prob_bits = part.prob_at, part.prob_bits
            level.weight_at, level.weight_bits = part.weight_at, part.weight_bits
            level.next_at, level.n_offsets = part.next_at, part.n_offsets
            level.probs, level.weights = self.part(part.probs), self.part(part.weights)
            level.offsets = self.part(part.offsets)
        if not t.trie:
            check_empty(t.words, WORD, t.word_buckets)
            t.word_inverse = inverse_of(t.word_buckets)
            self.check_ids()
        self.start = self.id_of(b"<s>")
        self.end = self.id_of(b"</s>")

    cdef const uint8_t* part(self, int64_t first):
        """The address of a byte of the image, which has 8 bytes after the last part."""
        return NULL if first < 0 else &self.keep[0] + first

    cdef check_ids(self):
        cdef uint64_t i
        cdef const uint8_t* at
        for i in range(self.t.word_buckets):
            at = self.t.words + i * WORD
            if read64(at) and read32(at + 8) >= self.t.n_words:
                raise ValueError("a word has an id beyond the number of words")

    def id_of(self, bytes word not None):
        """The id of a word, 0 for unknown ones."""
        return word_id(
            &self.t, <const uint8_t*>PyBytes_AsString(word), PyBytes_Size(word), True
        )

    def write_start(self, State state not None):
        """The state after ``<s>``."""
        cdef found_t f
        unigram(&self.t, self.start, &f)
        state.it.length = 1
        state.it.words[0] = self.start
        state.it.weights[0] = as_float(f.weight)

    def write_empty(self, State state not None):
        """The state without history."""
        state.it.length = 0

    cdef score_t advance(self, State a, str word, State b) except *:
        cdef Py_ssize_t size
        cdef const char* text = PyUnicode_AsUTF8AndSize(word, &size)
        cdef state_t new
        cdef uint32_t id = word_id(&self.t, <const uint8_t*>text, size, True)
        cdef score_t out = step(&self.t, &a.it, id, &new)
        cdef int32_t k
        b.it.length = new.length
        for k in range(new.length):
            b.it.words[k], b.it.weights[k] = new.words[k], new.weights[k]
        return out

    def score_word(
        self, State in_state not None, str word not None, State out_state not None
    ):
        """log10 P(word | in_state); `out_state` becomes the state after the word."""
        return checked(self.advance(in_state, word, out_state).log_prob)

    def score_word_fully(
        self, State in_state not None, str word not None, State out_state not None
    ):
        """(log10 P, length of the n-gram, whether the word is unknown)."""
        cdef score_t out = self.advance(in_state, word, out_state)
        return checked(out.log_prob), out.length, bool(out.unknown)

    cdef state_t begin(self, bint bos):
        cdef State state = State()
        if bos:
            self.write_start(state)
        return state.it

    def score_text(self, text, bint bos, bint eos):
        """The sum of log10 P over the words of a text, and ``</s>`` if `eos`."""
        cdef Py_ssize_t size
        cdef const uint8_t* data = bytes_of(text, &size)
        cdef state_t start = self.begin(bos)
        return checked(score_text(&self.t, &start, self.end, eos, data, size))

    def score_text_fully(self, text, bint bos, bint eos):
        """The list of (log10 P, length of the n-gram, unknown) of the words."""
        cdef Py_ssize_t size
        cdef int64_t i, j = 0
        cdef const uint8_t* data = bytes_of(text, &size)
        cdef state_t[2] state
        cdef int now = 0
        cdef score_t one
        cdef bint with_nul = has_nul(data, size)
        cdef uint32_t word
        cdef list out = []
        state[0] = self.begin(bos)
        while next_word(data, size, &i, &j):
            word = word_id(&self.t, data + i, j - i, with_nul)
            one = step(&self.t, &state[now], word, &state[1 - now])
            out.append((checked(one.log_prob), one.length, bool(one.unknown)))
            now = 1 - now
        if eos:
            one = step(&self.t, &state[now], self.end, &state[1 - now])
            out.append((checked(one.log_prob), one.length, bool(one.unknown)))
        return out

    def score_texts(self, tuple texts not None, bint bos, bint eos):
        """`score_text` of many, without the lock of the interpreter."""
        cdef int64_t i, n = len(texts)
        cdef Py_ssize_t size
        cdef state_t start = self.begin(bos)
        out = np.empty(n, dtype=np.float32)
        stop = np.zeros(1, dtype=np.int32)
        cdef float[::1] result = out
        cdef int32_t[::1] stopped = stop
        cdef Watch watch = watch_of(stopped)
        cdef const uint8_t** data = <const uint8_t**>malloc((n + 1) * sizeof(void*))
        cdef int64_t* length = <int64_t*>malloc((n + 1) * sizeof(int64_t))
        try:
            if data == NULL or length == NULL:
                raise MemoryError()
            for i in range(n):
                data[i] = bytes_of(texts[i], &size)
                length[i] = size
            with nogil:
                for i in range(n):
                    if over(&watch, 100 * length[i] + 1000):
                        break
                    result[i] = score_text(
                        &self.t, &start, self.end, eos, data[i], length[i]
                    )
            propagate()
        finally:
            free(data)
            free(length)
        checked(out.sum())
        return out


cdef const uint8_t* bytes_of(text, Py_ssize_t* size) except NULL:
    """The UTF-8 of a string, or bytes as they are."""
    if isinstance(text, str):
        return <const uint8_t*>PyUnicode_AsUTF8AndSize(text, size)
    if isinstance(text, bytes):
        size[0] = PyBytes_Size(text)
        return <const uint8_t*>PyBytes_AsString(text)
    raise TypeError(
        f"sentence must be a str or bytes of words with blanks between them, got "
        f"{type(text).__name__}"
    )


cdef check_empty(const uint8_t* table, int64_t width, uint64_t n):
    """ValueError if a table has no empty bucket, at which every probe ends."""
    cdef uint64_t i
    for i in range(n):
        if read64(table + i * width) == 0:
            return
    raise ValueError("a table has no empty bucket")
