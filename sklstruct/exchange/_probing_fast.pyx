"""KenLM's probing hash tables: filling them, and scoring words from a mapped file.

A table of n-grams of order n has B buckets of (key, log10-probability[, back-off
weight]). An n-gram w_1 ... w_n of word ids has the key

    key(w_n) = w_n,   key(w_k ... w_n) = key(w_{k+1} ... w_n) A  xor  (1 + w_k) C

modulo 2^64, and stands in bucket key mod B or, where that is taken, in the next
free one; key 0 marks an empty bucket. So a score is one look-up for the word and one
for each word of its history, the newest first, until an n-gram is missing or the sign
of a probability says that no longer one ends in it: O(order), whatever the size of the
model.

Numbers are float32 and are added in one fixed order, so that equal files give equal
scores to the last bit: the probability of the longest match, then the back-off weights
of the contexts from its length up, the shortest first.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_Size
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcpy

from .._prefetch cimport prefetch
from .._watch cimport Watch, over, propagate, watch_of

import numpy as np


cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL


cdef enum:
    MOST = 32  # highest order
    WORD = 12  # bytes of a bucket: hash, id
    MIDDLE = 16  # key, probability, weight
    LONGEST = 12  # key, probability
    BLOCK = 64  # n-grams that are put into a table together
    LANES = 8

MOST_ORDER = MOST

cdef uint32_t SIGN = 0x80000000u
cdef uint32_t MINUS_ZERO = 0x80000000u  # a weight that says: begins no longer n-gram
cdef uint64_t A = 8978948897894561157u
cdef uint64_t C = 17894857484156487943u


# ---------------------------------------------------------------------- numbers


cdef inline uint64_t murmur(const uint8_t* data, int64_t size) noexcept nogil:
    """MurmurHash64A with seed 0."""
    cdef uint64_t m = 0xc6a4a7935bd1e995u, h = <uint64_t>size * m, k
    cdef int64_t i, whole = size // 8
    for i in range(whole):
        memcpy(&k, data + 8 * i, 8)
        k *= m
        k ^= k >> 47
        k *= m
        h ^= k
        h *= m
    data += 8 * whole
    size -= 8 * whole
    if size:
        k = 0
        for i in range(size):
            k |= <uint64_t>data[i] << <uint64_t>(8 * i)
        h ^= k
        h *= m
    h ^= h >> 47
    h *= m
    h ^= h >> 47
    return h


def hash_bytes(const uint8_t[::1] data):
    """A hash of bytes. A change of one 8-byte word always changes it.

    Word i goes into lane i mod 8 by h = (h xor word) M, h xor= h >> 47, which takes
    different words to different lanes; the hash is that of the lanes and of the bytes
    after the last whole row of words. Lanes do not wait for each other: the time is
    that of reading the memory.
    """
    cdef uint64_t m = 0xc6a4a7935bd1e995u, word
    cdef uint64_t[LANES + 1] lane
    cdef int64_t _i, j, size = data.shape[0], row = 8 * LANES
    cdef const uint8_t* at = &data[0] if size else NULL
    with nogil:
        for j in range(LANES):
            lane[j] = j
        for _i in range(size // row):
            for j in range(LANES):
                memcpy(&word, at + 8 * j, 8)
                lane[j] = (lane[j] ^ word) * m
                lane[j] ^= lane[j] >> 47
            at += row
        lane[LANES] = murmur(at, size % row) ^ <uint64_t>size
        word = murmur(<const uint8_t*>lane, sizeof(lane))
    return word


cdef inline uint64_t combine(uint64_t key, uint32_t word) noexcept nogil:
    """The key of an n-gram with one more word before it."""
    return (key * A) ^ (<uint64_t>(1 + word) * C)


cdef inline uint64_t read64(const uint8_t* at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef inline uint32_t read32(const uint8_t* at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return value


cdef inline float as_float(uint32_t bits) noexcept nogil:
    cdef float value
    memcpy(&value, &bits, 4)
    return value


cdef inline bint is_blank(uint8_t byte) noexcept nogil:
    return byte == 32 or 9 <= byte <= 13


# ---------------------------------------------------------------------- filling


def hash_words(const uint8_t[::1] text, const int64_t[::1] ptr, uint64_t[::1] out):
    """The hash of each word ``text[ptr[w]:ptr[w + 1]]``."""
    cdef int64_t w
    cdef const uint8_t* data = &text[0] if text.size else NULL
    with nogil:
        for w in range(out.shape[0]):
            out[w] = murmur(data + ptr[w], ptr[w + 1] - ptr[w])


def row_keys(
    const int32_t[::1] node,
    const uint32_t[::1] last,
    const int32_t[::1] parent,
    const uint32_t[::1] word_of_node,
    uint64_t[::1] out,
):
    """The key of each n-gram: the words of a node, which lead from the oldest to the
    newest up to the root, then a last word."""
    cdef int64_t i
    cdef int32_t j, k = 0
    cdef uint32_t[MOST] words
    cdef uint64_t key
    with nogil:
        for i in range(out.shape[0]):
            if i == 0 or node[i] != node[i - 1]:
                k = words_of(parent, word_of_node, node[i], words)
            key = last[i]
            for j in range(k - 1, -1, -1):
                key = combine(key, words[j])
            out[i] = key


cdef inline int64_t free_bucket(
    const uint8_t* table, int64_t width, uint64_t n, uint64_t key, uint64_t at
) noexcept nogil:
    """Index of the free bucket for a key, from bucket key mod n on; -1 if the table
    holds the key."""
    cdef uint64_t found
    while True:
        found = read64(table + at * width)
        if found == 0:
            return <int64_t>at
        if found == key:
            return -1
        at += 1
        if at == n:
            at = 0


def fill(
    uint8_t[::1] table,
    int64_t width,
    const uint64_t[::1] key,
    const uint32_t[::1] first,
    const uint32_t[::1] second,
):
    """Put (key, first[, second]) into a table of zeros.

    The rows are put in their order, in blocks whose buckets are prefetched. Returns a
    row that has the key of another row or a key of 0, -1 if no row has.
    second: empty where a bucket has one number.
    """
    cdef uint64_t n = table.shape[0] // width
    cdef uint64_t[BLOCK] home
    cdef int64_t i, at, begin = 0, stop, wrong = -1
    cdef uint8_t* bucket
    cdef bint two = second.shape[0] > 0
    with nogil:
        while begin < key.shape[0] and wrong < 0:
            stop = min(begin + BLOCK, key.shape[0])
            for i in range(begin, stop):
                home[i - begin] = key[i] % n
                prefetch(&table[0] + home[i - begin] * width, 1)
            for i in range(begin, stop):
                at = -1
                if key[i]:
                    at = free_bucket(&table[0], width, n, key[i], home[i - begin])
                if at < 0:
                    wrong = i
                    break
                bucket = &table[0] + at * width
                memcpy(bucket, &key[i], 8)
                memcpy(bucket + 8, &first[i], 4)
                if two:
                    memcpy(bucket + 12, &second[i], 4)
            begin = stop
    return wrong


cdef inline int32_t words_of(
    const int32_t[::1] parent,
    const uint32_t[::1] word_of_node,
    int32_t n,
    uint32_t* words,
) noexcept nogil:
    """Write the words of a node, the oldest first; how many there are."""
    cdef int32_t k = 0
    while n > 0 and k < MOST:
        words[k] = word_of_node[n]
        n = parent[n]
        k += 1
    return k


cdef inline const uint8_t* find(
    const uint8_t* table, int64_t width, uint64_t n, uint64_t key
) noexcept nogil:
    """The bucket of a key, NULL where it is missing."""
    cdef uint64_t at = key % n, found
    while True:
        found = read64(table + at * width)
        if found == key:
            return table + at * width
        if found == 0:
            return NULL
        at += 1
        if at == n:
            at = 0


# ---------------------------------------------------------------------- listing


def mark_keys(const uint8_t[::1] table, int64_t width, uint64_t[::1] bits, int shift):
    """Set a bit for the key of each used bucket; returns how many are used."""
    cdef int64_t i, used = 0, n = table.shape[0] // width
    cdef uint64_t key
    with nogil:
        for i in range(n):
            key = read64(&table[0] + i * width)
            if key:
                used += 1
                key = (key * C) >> shift
                bits[key >> 6] |= <uint64_t>1 << (key & 63)
    return used


def find_longer(
    const int64_t[::1] ptr_a,
    const uint32_t[::1] first,
    const int64_t[::1] ptr_b,
    const uint64_t[::1] key_b,
    const uint8_t[::1] table,
    int64_t width,
    const uint64_t[::1] bits,
    int shift,
    int32_t[::1] found_a,
    int32_t[::1] found_b,
    uint64_t[::1] key,
    uint32_t[::1] numbers,
):
    """The n-grams of a table, from those that are one word shorter.

    An n-gram "x m y" is there if its key is: that of "m y" (a row of b) with the first
    word of "x m" (a row of a). Rows are grouped by the words m that they share. The
    bits of `mark_keys` rule out almost all candidates without a look-up.

    Parameters
    ----------
    ptr_a, ptr_b : the rows of each group
    first : first word of each row of a
    key_b : key of each row of b
    table, width, bits, shift : a table, and its bits from `mark_keys`
    found_a, found_b, key, numbers : outputs, of one length

    Returns
    -------
    n_found : int
        -1 if the outputs are too short.
    """
    cdef int64_t m, i, j, n_found = 0, room = found_a.shape[0]
    cdef int64_t n = first.shape[0]
    cdef uint64_t n_buckets = table.shape[0] // width, candidate, base, bit
    cdef const uint8_t* at
    cdef uint32_t step = 2 if width == MIDDLE else 1
    added = np.empty(n, dtype=np.uint64)
    stop = np.zeros(1, dtype=np.int32)
    cdef uint64_t[::1] word = added
    cdef int32_t[::1] stopped = stop
    cdef Watch watch = watch_of(stopped)
    with nogil:
        for i in range(n):
            word[i] = <uint64_t>(1 + first[i]) * C
        for m in range(ptr_a.shape[0] - 1):
            for j in range(ptr_b[m], ptr_b[m + 1]):
                base = key_b[j] * A
                if over(&watch, ptr_a[m + 1] - ptr_a[m] + 1):
                    break
                for i in range(ptr_a[m], ptr_a[m + 1]):
                    candidate = base ^ word[i]
                    bit = (candidate * C) >> shift
                    if not (bits[bit >> 6] >> (bit & 63)) & 1:
                        continue
                    at = find(&table[0], width, n_buckets, candidate)
                    if at == NULL:
                        continue
                    if n_found == room:
                        n_found = -1
                        break
                    found_a[n_found], found_b[n_found] = <int32_t>i, <int32_t>j
                    key[n_found] = candidate
                    memcpy(&numbers[n_found * step], at + 8, 4 * step)
                    n_found += 1
                if n_found < 0:
                    break
            if n_found < 0 or stopped[0]:
                break
    propagate()
    return n_found


# ---------------------------------------------------------------------- scoring


cdef struct tables_t:
    int32_t order
    uint32_t n_words
    const uint8_t* words
    uint64_t word_buckets
    const uint8_t* unigrams
    const uint8_t* middle[MOST]
    uint64_t[MOST] buckets
    const uint8_t* longest
    uint64_t longest_buckets


cdef struct state_t:
    int32_t length
    uint32_t[MOST] words  # the newest first
    float[MOST] weights  # of the contexts of 1, 2, ... words


cdef struct score_t:
    float log_prob
    int32_t length
    bint unknown


cdef inline uint32_t word_id(
    const tables_t* t, const uint8_t* text, int64_t size
) noexcept nogil:
    cdef const uint8_t* at = <const uint8_t*>memchr(text, 0, size)
    cdef uint64_t h
    if at != NULL:  # a string of C ends here
        size = at - text
    h = murmur(text, size)
    if h == 0:
        return 0
    at = find(t.words, WORD, t.word_buckets, h)
    return 0 if at == NULL else read32(at + 8)


cdef inline score_t step(
    const tables_t* t, const state_t* a, uint32_t word, state_t* b
) noexcept nogil:
    """Score a word after state `a`, and the state after it; `b` is not `a`."""
    cdef score_t out
    cdef uint32_t bits = read32(t.unigrams + <uint64_t>word * 8)
    cdef uint32_t weight = read32(t.unigrams + <uint64_t>word * 8 + 4)
    cdef int32_t k = 0, context
    cdef uint64_t key = word
    cdef const uint8_t* at
    cdef bint ends = bits & SIGN
    out.unknown = word == 0
    out.length = 1
    out.log_prob = as_float(bits | SIGN)
    b.words[0] = word
    b.weights[0] = as_float(weight)
    b.length = weight != MINUS_ZERO
    # A model of order N has at most N - 1 words of history that count.
    context = a.length if a.length < t.order - 1 else t.order - 1
    while k < context and not ends:
        key = combine(key, a.words[k])
        k += 1
        if k == t.order - 1:
            at = find(t.longest, LONGEST, t.longest_buckets, key)
            if at != NULL:
                out.length = t.order
                out.log_prob = as_float(read32(at + 8) | SIGN)
            break
        at = find(t.middle[k - 1], MIDDLE, t.buckets[k - 1], key)
        if at == NULL:
            break
        bits = read32(at + 8)
        weight = read32(at + 12)
        ends = bits & SIGN
        out.length = k + 1
        out.log_prob = as_float(bits | SIGN)
        b.weights[k] = as_float(weight)
        if weight != MINUS_ZERO:
            b.length = k + 1
    for k in range(out.length - 1, a.length):
        out.log_prob += a.weights[k]
    for k in range(1, b.length):
        b.words[k] = a.words[k - 1]
    return out


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
    state[0] = start[0]
    while next_word(text, size, &i, &j):
        total += step(
            t, &state[now], word_id(t, text + i, j - i), &state[1 - now]
        ).log_prob
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

    Up to order - 1 word ids, the newest first, and their back-off weights. Empty until
    a model writes it. Equal states have equal scores for every word that follows; two
    states are equal if their words are.
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
    """The tables of a probing file; answers in word ids, words and texts.

    Parameters
    ----------
    image : bytes-like
        The whole file. It must not change while this object lives.

    order : int
        From 2 to `MOST_ORDER`.

    n_words : int
        Words with ``<unk>``.

    first : int64 ndarray of shape (order + 1,)
        Offsets of the words, the unigrams, and the n-grams of each higher order.

    n_buckets : int64 ndarray of shape (order + 1,)
        Buckets of each table; the unigrams have one for each word and one more.

    Raises
    ------
    ValueError
        If a part is not inside the image, a table has no empty bucket, or a word has an
        id that is not below `n_words`.
    """

    cdef tables_t t
    cdef const uint8_t[::1] keep
    cdef uint32_t start, end

    def __init__(self, image, int order, int64_t n_words, first, n_buckets):
        cdef int64_t size
        cdef int k
        if not 2 <= order <= MOST or not len(first) == len(n_buckets) == order + 1:
            raise ValueError(f"order must be in 2..{MOST}, got {order}")
        if not 1 <= n_words < 1 << 32:
            raise ValueError(f"n_words must be in 1..{(1 << 32) - 1}, got {n_words}")
        self.keep = image
        size = self.keep.shape[0]
        self.t.order, self.t.n_words = order, <uint32_t>n_words
        widths = [WORD, 8, *[MIDDLE] * (order - 2), LONGEST]
        for k in range(order + 1):
            if (
                n_buckets[k] < 1
                or first[k] < 0
                or first[k] > size
                or n_buckets[k] > (size - first[k]) // widths[k]
            ):
                raise ValueError(f"table {k} reaches beyond the end")
        if n_buckets[1] < n_words:
            raise ValueError("there are more words than unigrams")
        self.t.words = &self.keep[<int64_t>first[0]]
        self.t.word_buckets = n_buckets[0]
        self.t.unigrams = &self.keep[<int64_t>first[1]]
        for k in range(2, order):
            self.t.middle[k - 2] = &self.keep[<int64_t>first[k]]
            self.t.buckets[k - 2] = n_buckets[k]
            check_empty(self.t.middle[k - 2], MIDDLE, n_buckets[k])
        self.t.longest = &self.keep[<int64_t>first[order]]
        self.t.longest_buckets = n_buckets[order]
        check_empty(self.t.longest, LONGEST, n_buckets[order])
        check_empty(self.t.words, WORD, n_buckets[0])
        self.check_ids()
        self.start = self.id_of(b"<s>")
        self.end = self.id_of(b"</s>")

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
            &self.t, <const uint8_t*>PyBytes_AsString(word), PyBytes_Size(word)
        )

    def write_start(self, State state not None):
        """The state after ``<s>``."""
        cdef uint32_t weight = read32(self.t.unigrams + <uint64_t>self.start * 8 + 4)
        state.it.length = 1
        state.it.words[0] = self.start
        state.it.weights[0] = as_float(weight)

    def write_empty(self, State state not None):
        """The state without history."""
        state.it.length = 0

    cdef score_t advance(self, State a, str word, State b) except *:
        cdef Py_ssize_t size
        cdef const char* text = PyUnicode_AsUTF8AndSize(word, &size)
        cdef state_t new
        cdef score_t out = step(
            &self.t, &a.it, word_id(&self.t, <const uint8_t*>text, size), &new
        )
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
        cdef list out = []
        state[0] = self.begin(bos)
        while next_word(data, size, &i, &j):
            one = step(
                &self.t, &state[now], word_id(&self.t, data + i, j - i),
                &state[1 - now],
            )
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
