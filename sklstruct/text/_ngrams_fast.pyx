"""Kernels that count n-grams without making a string for any of them.

Letters (code points) or words are *symbols*. A text is one segment of symbols, or, for
n-grams inside words, a segment for each of its words. Each n-gram is a node of a trie,
and all nodes are in one open table with linear probing, at most half full, whose 64-bit
key is (parent, symbol): no two n-grams have the same key, so the counts are exact.

A slot is 16 bytes, read as two numbers of `table`: the key, then the id (0: the slot is
empty) and a mark. While n-grams are learned the mark is the last text that has the
n-gram; in a finished trie the mark is the column of the n-gram, or -1. The children of
the root whose symbol is small stand in an array of slots, `roots`, at their symbol.
"""

from libc.math cimport log, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from .._prefetch cimport prefetch
from .._watch cimport Watch, over, propagate, watch_of

# Bits of the classes of letters.
SPACE, WORD = 1, 2
# Entries of `state`, and what kernels that fill a table return.
TEXT, SEGMENT, POSITION, N_OUT, N_IDS = range(5)
DONE, FULL = range(2)
# Values of a count.
COUNTED, BINARY, LOGARITHM = range(3)

cdef enum:
    IS_SPACE = 1
    IS_WORD = 2
    AT_TEXT = 0
    AT_SEGMENT = 1
    AT = 2
    OUT = 3
    IDS = 4
    R_DONE = 0
    R_FULL = 1
    AS_ONE = 1
    AS_LOGARITHM = 2
    LETTERS = 0x110000
    # Words that are read before the first of them is looked up.
    AT_ONCE = 32
    # A lookup takes as long as about so many multiplications.
    LOOKUP = 16

ctypedef fused Real:
    float
    double

cdef struct Slot:
    uint64_t key
    int32_t id
    int32_t mark

cdef extern from *:
    """
    /* One in each of eight bytes; all bits; a product that tells the bits apart. */
    #define ONES 0x0101010101010101ULL
    #define ALL_BITS 0xFFFFFFFFFFFFFFFFULL
    #define BRUIJN 0x03F79D71B4CB0A89ULL
    """
    const uint64_t ONES, ALL_BITS, BRUIJN

# A word that was read: its key, its place in the text, and where its bytes are kept.
cdef struct Found:
    uint64_t key
    int64_t start
    int64_t place
    int64_t size

# The place of the lowest bit, by the top six bits of a product (de Bruijn).
cdef uint8_t[64] PLACE
cdef int place
for place in range(64):
    PLACE[((<uint64_t> 1 << place) * BRUIJN) >> 58] = place


cdef inline Py_ssize_t lowest(uint64_t bits) noexcept nogil:
    return PLACE[((bits & (~bits + 1)) * BRUIJN) >> 58]


cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    x ^= x >> 32
    x *= <uint64_t> 0xD6E8FEB86659FD93
    return x ^ (x >> 32)


cdef inline Slot *find(Slot *slots, uint64_t mask, uint64_t key) noexcept nogil:
    """The slot of a key, or the empty slot where the key would stand."""
    cdef uint64_t at = mixed(key) & mask
    while slots[at].id != 0 and slots[at].key != key:
        at = (at + 1) & mask
    return slots + at


cdef inline uint64_t key_of(int32_t parent, uint32_t symbol) noexcept nogil:
    return (<uint64_t> <uint32_t> parent << 32) | symbol


def move_slots(const uint64_t[:, ::1] old, uint64_t[:, ::1] table):
    """Enter all slots of a table, whose keys differ, into a larger, empty table."""
    cdef const Slot *before = <const Slot *> &old[0, 0]
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1), at
    cdef Py_ssize_t i
    with nogil:
        for i in range(old.shape[0]):
            if before[i].id != 0:
                # The keys of words are hashes, which two words may share.
                at = mixed(before[i].key) & mask
                while slots[at].id != 0:
                    at = (at + 1) & mask
                slots[at] = before[i]


cdef inline Slot *child(Slot *slots, uint64_t mask, Slot *roots, uint32_t n_roots,
                        int32_t parent, uint32_t symbol) noexcept nogil:
    """The slot of a child of a node; empty if the node has no such child."""
    if parent == 0 and symbol < n_roots:
        return roots + symbol
    return find(slots, mask, key_of(parent, symbol))


def enter_nodes(const int32_t[::1] parent, const uint32_t[::1] symbol,
                const int32_t[::1] column, uint64_t[:, ::1] table,
                uint64_t[:, ::1] roots):
    """Enter the nodes of a trie into empty arrays; False: two nodes are the same."""
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *first = <Slot *> &roots[0, 0]
    cdef uint32_t n_roots = <uint32_t> roots.shape[0]
    cdef Slot *slot
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1)
    cdef Py_ssize_t v
    cdef bint distinct = True
    with nogil:
        for v in range(1, parent.shape[0]):
            slot = child(slots, mask, first, n_roots, parent[v], symbol[v])
            distinct = distinct and slot.id == 0
            slot.key = key_of(parent[v], symbol[v])
            slot.id, slot.mark = <int32_t> v, column[v]
    return distinct


cdef inline uint32_t next_letter(const uint8_t *text, int64_t *i,
                                 int64_t end) noexcept nogil:
    """The code point at place i of UTF-8; i moves behind it, at most to `end`.

    Bytes that are not UTF-8 give some code point.
    """
    cdef uint32_t c = text[i[0]]
    cdef int more = 0
    if c >= 0xF0:
        c, more = c & 0x07, 3
    elif c >= 0xE0:
        c, more = c & 0x0F, 2
    elif c >= 0x80:
        c, more = c & 0x1F, 1
    i[0] += 1
    while more > 0 and i[0] < end:
        c = c << 6 | (text[i[0]] & 0x3F)
        i[0] += 1
        more -= 1
    return c if c < LETTERS else LETTERS - 1


cdef inline int put_letter(uint32_t c, uint8_t *out) noexcept nogil:
    """Write a code point as UTF-8, and return the number of its bytes."""
    if c < 0x80:
        out[0] = <uint8_t> c
        return 1
    if c < 0x800:
        out[0] = <uint8_t> (0xC0 | c >> 6)
        out[1] = <uint8_t> (0x80 | (c & 0x3F))
        return 2
    if c < 0x10000:
        out[0] = <uint8_t> (0xE0 | c >> 12)
        out[1] = <uint8_t> (0x80 | (c >> 6 & 0x3F))
        out[2] = <uint8_t> (0x80 | (c & 0x3F))
        return 3
    out[0] = <uint8_t> (0xF0 | c >> 18)
    out[1] = <uint8_t> (0x80 | (c >> 12 & 0x3F))
    out[2] = <uint8_t> (0x80 | (c >> 6 & 0x3F))
    out[3] = <uint8_t> (0x80 | (c & 0x3F))
    return 4


def read_letters(const uint8_t[::1] text, const int64_t[::1] ends,
                 const uint32_t[::1] lower, uint32_t[::1] letters,
                 int64_t[::1] letter_ends):
    """The code points of texts in UTF-8, and the end of each text among them.

    text : the texts, one after the other; ends : the end of each text in `text`.
    lower : (0x110000,) the letter that is read for each code point; empty: the same.
    letters : room for a letter for each byte.
    """
    cdef int64_t i = 0, k = 0
    cdef Py_ssize_t t
    cdef uint32_t c
    cdef bint same = lower.shape[0] == 0
    with nogil:
        for t in range(ends.shape[0]):
            while i < ends[t]:
                c = text[i]
                if c < 0x80:
                    i += 1
                else:
                    c = next_letter(&text[0], &i, ends[t])
                letters[k] = c if same else lower[c]
                k += 1
            letter_ends[t] = k


def letters_to_bytes(const uint8_t[::1] text, int64_t[::1] ends):
    """Replace the end of each text, counted in letters, by that in bytes of UTF-8."""
    cdef Py_ssize_t t
    cdef int64_t i = 0, before = 0, end, j, letters
    cdef uint8_t seen
    with nogil:
        for t in range(ends.shape[0]):
            letters = ends[t] - before
            before = ends[t]
            end = i + letters
            seen = 0
            for j in range(i, end):
                seen |= text[j]
            if seen >= 0x80:  # longer than its letters; a letter ends before a first byte
                end = i
                while end < text.shape[0]:
                    letters -= (text[end] & 0xC0) != 0x80
                    if letters < 0:
                        break
                    end += 1
            ends[t] = i = end


def has_pair(const uint8_t[::1] text, uint8_t first, uint8_t second):
    """Whether a byte stands before another one somewhere in a text."""
    cdef Py_ssize_t i
    cdef uint8_t found = 0
    with nogil:
        for i in range(text.shape[0] - 1):
            found |= (text[i] == first) & (text[i + 1] == second)
    return found != 0


def squeeze_spaces(const uint32_t[::1] letters, const int64_t[::1] ends,
                   const uint8_t[::1] classes, uint32_t[::1] out,
                   int64_t[::1] out_ends):
    """Copy the letters, with one space for each run of two or more spaces.

    letters : the texts, one after the other; ends : the end of each text in letters.
    classes : (0x110000,) bits SPACE and WORD of each code point.
    """
    cdef int64_t i = 0, k = 0, j
    cdef Py_ssize_t t
    with nogil:
        for t in range(ends.shape[0]):
            while i < ends[t]:
                j = i
                while j < ends[t] and classes[letters[j]] & IS_SPACE:
                    j += 1
                if j - i > 1:
                    out[k] = 32
                    i = j
                else:
                    out[k] = letters[i]
                    i += 1
                k += 1
            out_ends[t] = k


def pad_words(const uint32_t[::1] letters, const int64_t[::1] ends,
              const uint8_t[::1] classes, uint32_t[::1] out,
              int64_t[::1] segment_ends, int64_t[::1] text_ends):
    """Copy each run without spaces between two spaces: a segment for each of them.

    out, segment_ends : room for 2 n + 1 symbols of n letters, n segments.
    text_ends : (n_texts,) number of segments up to the end of each text.

    Returns the number of segments.
    """
    cdef int64_t i = 0, k = 0, n = 0
    cdef Py_ssize_t t
    with nogil:
        for t in range(ends.shape[0]):
            while True:
                while i < ends[t] and classes[letters[i]] & IS_SPACE:
                    i += 1
                if i >= ends[t]:
                    break
                out[k] = 32
                k += 1
                while i < ends[t] and not classes[letters[i]] & IS_SPACE:
                    out[k] = letters[i]
                    k += 1
                    i += 1
                out[k] = 32
                k += 1
                segment_ends[n] = k
                n += 1
            text_ends[t] = n
    return n


cdef inline uint64_t eight(const uint8_t *text) noexcept nogil:
    """Eight bytes as a number, the first the lowest; compilers make one load of it."""
    return (
        <uint64_t> text[0] | <uint64_t> text[1] << 8 | <uint64_t> text[2] << 16
        | <uint64_t> text[3] << 24 | <uint64_t> text[4] << 32 | <uint64_t> text[5] << 40
        | <uint64_t> text[6] << 48 | <uint64_t> text[7] << 56
    )


cdef inline void put_eight(uint64_t x, uint8_t *out) noexcept nogil:
    out[0], out[1], out[2], out[3] = (
        <uint8_t> x, <uint8_t> (x >> 8), <uint8_t> (x >> 16), <uint8_t> (x >> 24)
    )
    out[4], out[5], out[6], out[7] = (
        <uint8_t> (x >> 32), <uint8_t> (x >> 40), <uint8_t> (x >> 48),
        <uint8_t> (x >> 56),
    )


cdef inline uint64_t at_least(uint64_t x, uint64_t least) noexcept nogil:
    """The top bit of each of eight bytes below 128: whether the byte is as large."""
    return x + (0x80 - least) * ONES


cdef inline Py_ssize_t word_bytes(uint64_t *x, bint same) noexcept nogil:
    """How many of eight bytes are letters, digits or underscores of ASCII, up to the
    first other byte. x: the bytes, which become lower case unless `same`.
    """
    cdef uint64_t low = x[0] & 0x7F * ONES, letter, other
    letter = low | 0x20 * ONES
    letter = at_least(letter, 97) & ~at_least(letter, 123)
    other = letter | at_least(low, 48) & ~at_least(low, 58)
    # 95 is the underscore: of the other bytes the difference to it is at least 1.
    other = (~other & at_least(low ^ 95 * ONES, 1) | x[0]) & 0x80 * ONES
    if not same:
        x[0] |= (letter & 0x80 * ONES & ~x[0]) >> 2
    return lowest(other) >> 3 if other else 8


cdef inline uint64_t key_of_word(const uint8_t *word, int64_t size) noexcept nogil:
    """The bytes themselves of up to 8; for others a hash, whose last byte is 255.

    No byte of UTF-8 is 255, and no word has a zero byte, so that a key of up to 8
    bytes is that of one word.
    """
    cdef uint64_t key = 0, part
    cdef int64_t i
    if size <= 8:
        for i in range(size):
            key |= <uint64_t> word[i] << (8 * i)
        return key
    for i in range(0, size - 8, 8):
        memcpy(&part, word + i, 8)
        key = (key ^ part) * <uint64_t> 0x9FB21C651E98DF25
        key ^= key >> 29
    memcpy(&part, word + size - 8, 8)
    key = (key ^ part) * <uint64_t> 0x9FB21C651E98DF25
    return key | <uint64_t> 0xFF << 56


def number_words(const uint8_t[::1] text, const int64_t[::1] ends,
                 const uint8_t[::1] classes, const uint32_t[::1] lower,
                 int64_t shortest, int32_t n_stop, bint learn, uint8_t[::1] word,
                 uint64_t[:, ::1] table, uint8_t[::1] arena, int64_t[::1] word_ends,
                 uint32_t[::1] out, int64_t[::1] out_ends, int64_t[::1] state):
    """The numbers of the words of texts in UTF-8, from 1; stop words are left out.

    A word is a longest run of letters of the class WORD that has `shortest` letters.
    lower : as for `read_letters`.
    word : room for four bytes for each byte of the longest text, and 16.
    table : the key is that of `key_of_word`.
    arena : the words in UTF-8, one after the other.
    word_ends : the end of each word in the arena, word_ends[0] = 0.
    n_stop : words up to that number are stop words.
    out, out_ends : the numbers, 0 for a new word unless `learn`; their ends by text.
    state : (5,) carried from call to call.

    Returns DONE, or FULL where the table, the arena or word_ends has to grow.
    """
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *slot
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1), key, at
    cdef int64_t limit = table.shape[0] // 2, i = state[AT], j, k = state[OUT], m
    cdef int64_t n_words = state[IDS], start, end, behind, n_letters
    cdef Py_ssize_t t = state[AT_TEXT]
    cdef uint32_t c
    cdef int32_t w
    cdef bint same = lower.shape[0] == 0, plain
    # Whether letters, digits and underscores are the words of ASCII.
    cdef bint usual = not classes[32] & IS_WORD
    cdef uint64_t part
    cdef int64_t size, step
    cdef Found[AT_ONCE] found
    cdef Found *one
    cdef int n_found, f
    cdef int result = R_DONE
    # By byte: the letter that is read, 0 between words, 255 for a part of a letter.
    cdef uint8_t[256] read
    if limit > word_ends.shape[0] - 1:
        limit = word_ends.shape[0] - 1
    for c in range(256):
        read[c] = 255
        if c < 0x80:
            read[c] = <uint8_t> (c if same else lower[c])
            if not classes[c] & IS_WORD:
                read[c] = 0
    with nogil:
        while t < ends.shape[0]:
            end = ends[t]
            # The slots of some words are on their way while the next words are read.
            n_found = size = 0
            while i < end and n_found < AT_ONCE:
                if read[text[i]] == 0:
                    i += 1
                    continue
                j, m, n_letters, key, plain = i, 0, 0, 0, True
                while usual and j + 8 <= text.shape[0]:
                    part = eight(&text[j])
                    step = word_bytes(&part, same)
                    if step > end - j:
                        step = end - j
                    put_eight(part, &word[size + m])
                    if m == 0:
                        key = part & ALL_BITS >> (64 - 8 * step) if step > 0 else 0
                    m += step
                    j += step
                    if step < 8:
                        break
                n_letters = m
                while j < end:
                    c = read[text[j]]
                    if c == 0:
                        break
                    if c < 255:
                        if m < 8:
                            key |= <uint64_t> c << (8 * m)
                        word[size + m] = <uint8_t> c
                        m += 1
                        j += 1
                    else:
                        behind = j
                        c = next_letter(&text[0], &behind, end)
                        if not classes[c] & IS_WORD:
                            break
                        m += put_letter(c if same else lower[c], &word[size + m])
                        j, plain = behind, False
                    n_letters += 1
                if n_letters < shortest:
                    if j < end:  # at what ends the word
                        next_letter(&text[0], &j, end)
                    i = j
                    continue
                if m > 8 or not plain:
                    key = key_of_word(&word[size], m)
                one = found + n_found
                one.key, one.start, one.place, one.size = key, i, size, m
                prefetch(slots + (mixed(key) & mask), sizeof(Slot))
                n_found += 1
                size += m
                i = j
            for f in range(n_found):
                one = found + f
                at = mixed(one.key) & mask
                while True:
                    slot = slots + at
                    w = slot.id
                    if w == 0:
                        break
                    if slot.key == one.key:
                        if one.size <= 8:
                            break
                        start = word_ends[w - 1]
                        if word_ends[w] - start == one.size and memcmp(
                                &arena[start], &word[one.place], one.size) == 0:
                            break
                    at = (at + 1) & mask
                if w == 0 and learn:
                    start = word_ends[n_words]
                    if n_words >= limit or start + one.size > arena.shape[0]:
                        result, i = R_FULL, one.start
                        break
                    n_words += 1
                    w = <int32_t> n_words
                    memcpy(&arena[start], &word[one.place], one.size)
                    word_ends[w] = start + one.size
                    slot.key, slot.id = one.key, w
                if w == 0 or w > n_stop:
                    out[k] = <uint32_t> w
                    k += 1
            if result == R_FULL:
                break
            if i >= end:
                out_ends[t] = k
                t += 1
    state[AT_TEXT], state[AT], state[OUT], state[IDS] = t, i, k, n_words
    return result


def learn_ngrams(const uint32_t[::1] symbols, const int64_t[::1] segment_ends,
                 const int64_t[::1] text_ends, int64_t shortest, int64_t longest,
                 bint padded, int32_t first_text, uint64_t[:, ::1] table,
                 uint64_t[:, ::1] roots, int32_t[::1] parent, uint32_t[::1] symbol,
                 int32_t[::1] n_texts, int64_t[::1] totals, int64_t[::1] state,
                 int32_t[::1] stop):
    """Add the n-grams of texts to a trie, and count the texts that have each.

    shortest, longest : symbols of an n-gram. If `padded`, a segment that is shorter
        than `shortest` counts as a whole.
    first_text : number of the first text, at least 1.
    parent, symbol, n_texts, totals : by node, the last two zeros for new nodes; totals
        (occurrences) may be empty.
    state : (5,) carried from call to call; state[N_IDS] is the number of nodes.

    Returns DONE, or FULL where the table or the arrays of nodes have to grow.
    """
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *slot
    cdef Watch watch = watch_of(stop)
    cdef Slot *first = <Slot *> &roots[0, 0]
    cdef uint32_t n_roots = <uint32_t> roots.shape[0], c
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1)
    cdef int64_t limit = table.shape[0] // 2, n_nodes = state[IDS]
    cdef int64_t s = state[AT_SEGMENT], i = state[AT], begin, n, least, d, end
    cdef Py_ssize_t t = state[AT_TEXT]
    cdef int32_t v
    cdef bint total = totals.shape[0] > 0
    cdef int result = R_DONE
    if limit > parent.shape[0]:
        limit = parent.shape[0]
    with nogil:
        while t < text_ends.shape[0] and result == R_DONE:
            while s < text_ends[t]:
                begin = segment_ends[s - 1] if s > 0 else 0
                n = segment_ends[s] - begin
                least = n if padded and n < shortest else shortest
                while i + least <= n:
                    if n_nodes + longest > limit:
                        result = R_FULL
                        break
                    if over(&watch, LOOKUP * longest):
                        break
                    v = 0
                    end = longest if longest < n - i else n - i
                    for d in range(1, end + 1):
                        c = symbols[begin + i + d - 1]
                        slot = child(slots, mask, first, n_roots, v, c)
                        if slot.id == 0:
                            parent[n_nodes], symbol[n_nodes] = v, c
                            slot.key, slot.id = key_of(v, c), <int32_t> n_nodes
                            n_nodes += 1
                        v = slot.id
                        if d >= least:
                            if slot.mark != first_text + t:
                                slot.mark = <int32_t> (first_text + t)
                                n_texts[v] += 1
                            if total:
                                totals[v] += 1
                    i += 1
                if result == R_FULL or stop[0] != 0:
                    break
                i = 0
                s += 1
            if result == R_FULL or stop[0] != 0:
                break
            t += 1
    propagate()
    state[AT_TEXT], state[AT_SEGMENT], state[AT], state[IDS] = t, s, i, n_nodes
    return result


def merge_nodes(const int32_t[::1] parent, const uint32_t[::1] symbol,
                const int32_t[::1] n_texts, const int64_t[::1] totals,
                int32_t[::1] here, uint64_t[:, ::1] table, uint64_t[:, ::1] roots,
                int32_t[::1] own_parent, uint32_t[::1] own_symbol,
                int32_t[::1] own_n_texts, int64_t[::1] own_totals, int64_t[::1] state,
                int32_t[::1] stop):
    """Add the nodes of a trie, and their counts, to those of `learn_ngrams`.

    here : (n_nodes,) zeros at the first call; the node of the other trie for each node.
    """
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *slot
    cdef Watch watch = watch_of(stop)
    cdef Slot *first = <Slot *> &roots[0, 0]
    cdef uint32_t n_roots = <uint32_t> roots.shape[0]
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1)
    cdef int64_t limit = table.shape[0] // 2, n_nodes = state[IDS]
    cdef Py_ssize_t v = state[AT] + 1
    cdef int result = R_DONE
    if limit > own_parent.shape[0]:
        limit = own_parent.shape[0]
    with nogil:
        while v < parent.shape[0]:
            if n_nodes >= limit:
                result = R_FULL
                break
            if over(&watch, LOOKUP):
                break
            slot = child(slots, mask, first, n_roots, here[parent[v]], symbol[v])
            if slot.id == 0:
                own_parent[n_nodes], own_symbol[n_nodes] = here[parent[v]], symbol[v]
                slot.key = key_of(here[parent[v]], symbol[v])
                slot.id = <int32_t> n_nodes
                n_nodes += 1
            here[v] = slot.id
            own_n_texts[slot.id] += n_texts[v]
            if totals.shape[0] > 0:
                own_totals[slot.id] += totals[v]
            v += 1
    propagate()
    state[AT], state[IDS] = v - 1, n_nodes
    return result


def live_nodes(const int32_t[::1] parent, uint8_t[::1] live):
    """Mark the nodes that lead to a marked node; parents come before their children."""
    cdef Py_ssize_t v
    with nogil:
        for v in range(parent.shape[0] - 1, 0, -1):
            if live[v]:
                live[parent[v]] = 1


def parents_of(const int32_t[::1] depth, int32_t[::1] last, int32_t[::1] parent):
    """The parents of nodes in depth-first order, by their depths; False: no tree.

    depth : (n_nodes,) 0 for the root, the first node; at least 0.
    last : room for a node of each depth. parent : (n_nodes,).
    """
    cdef Py_ssize_t v
    cdef int32_t d
    cdef bint good = depth[0] == 0
    with nogil:
        last[0] = parent[0] = 0
        for v in range(1, depth.shape[0]):
            d = depth[v]
            if d < 1 or d > depth[v - 1] + 1:
                good = False
                break
            parent[v] = last[d - 1]
            last[d] = <int32_t> v
    return good


def sorted_places(const int32_t[::1] parent, const int64_t[::1] by_key,
                  int32_t[::1] size, int32_t[::1] next_place, int32_t[::1] place,
                  int32_t[::1] depth):
    """The place of each node when the n-grams are sorted as strings.

    by_key : all nodes but the root, sorted by parent, then by symbol.
    size, next_place : (n_nodes,) for numbers of the kernel; size is 1 everywhere.
    place, depth : (n_nodes,) 0 for the root, whose n-gram is empty.
    """
    cdef Py_ssize_t i, v
    cdef int32_t p
    with nogil:
        for v in range(parent.shape[0] - 1, 0, -1):
            size[parent[v]] += size[v]
        place[0], next_place[0], depth[0] = 0, 1, 0
        for i in range(by_key.shape[0]):
            v = by_key[i]
            p = parent[v]
            place[v], depth[v] = next_place[p], depth[p] + 1
            next_place[p] += size[v]
            next_place[v] = place[v] + 1


def count_rows(const uint32_t[::1] symbols, const int64_t[::1] segment_ends,
               const int64_t[::1] text_ends, int64_t shortest, int64_t longest,
               bint padded, uint64_t[:, ::1] table, uint64_t[:, ::1] roots,
               const double[::1] idf, int values, int norm, int32_t[::1] counts,
               uint64_t[::1] bits, uint64_t[::1] above, uint64_t[::1] top,
               int64_t[::1] indptr, int32_t[::1] indices, Real[::1] data,
               int32_t[::1] stop):
    """The rows of texts: sorted columns, and the weight of each.

    table, roots : of a finished trie. idf : by column, or empty.
    values : COUNTED, BINARY, or LOGARITHM (1 + log of the count).
    norm : 1 or 2, 0 for none.
    counts : (n_columns,) zeros; bits, above, top : zeros, a bit for each column, for
        each 64 columns and for each 4096. They sort a row in linear time, and are all
        zero again at the end.
    indptr : (n_texts,) the end of each row.
    indices, data : room for all entries.
    """
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *slot
    cdef Watch watch = watch_of(stop)
    cdef Slot *first = <Slot *> &roots[0, 0]
    cdef uint32_t n_roots = <uint32_t> roots.shape[0]
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1), low, middle, high
    cdef int64_t s = 0, i, begin, n, least, d, end, k = 0, start
    cdef Py_ssize_t t, a, b, c
    cdef int32_t v
    cdef double x, total
    with nogil:
        for t in range(text_ends.shape[0]):
            start, total = k, 0.0
            while s < text_ends[t]:
                begin = segment_ends[s - 1] if s > 0 else 0
                n = segment_ends[s] - begin
                least = n if padded and n < shortest else shortest
                for i in range(n - least + 1):
                    if over(&watch, LOOKUP * longest):
                        break
                    v = 0
                    end = longest if longest < n - i else n - i
                    for d in range(1, end + 1):
                        slot = child(slots, mask, first, n_roots, v,
                                     symbols[begin + i + d - 1])
                        v = slot.id
                        if v == 0:
                            break
                        c = slot.mark
                        if d >= least and c >= 0:
                            if counts[c] == 0:
                                bits[c >> 6] |= <uint64_t> 1 << (c & 63)
                                above[c >> 12] |= <uint64_t> 1 << (c >> 6 & 63)
                                top[c >> 18] |= <uint64_t> 1 << (c >> 12 & 63)
                            counts[c] += 1
                if stop[0] != 0:
                    break
                s += 1
            if stop[0] != 0:
                break
            for a in range(top.shape[0]):
                high = top[a]
                top[a] = 0
                while high:
                    b = (a << 6) + lowest(high)
                    high &= high - 1
                    middle = above[b]
                    above[b] = 0
                    while middle:
                        c = (b << 6) + lowest(middle)
                        middle &= middle - 1
                        low = bits[c]
                        bits[c] = 0
                        while low:
                            v = <int32_t> ((c << 6) + lowest(low))
                            low &= low - 1
                            x = counts[v]
                            counts[v] = 0
                            if values == AS_ONE:
                                x = 1.0
                            elif values == AS_LOGARITHM and x > 1.0:
                                x = log(x) + 1.0
                            if idf.shape[0] > 0:
                                x *= idf[v]
                            total += x * x if norm == 2 else x
                            indices[k] = v
                            data[k] = <Real> x
                            k += 1
            if norm == 2:
                total = sqrt(total)
            if norm > 0:
                for d in range(start, k):
                    data[d] = <Real> (data[d] / total)
            indptr[t] = k
    propagate()
