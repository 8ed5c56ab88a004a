"""Kernels that read texts in UTF-8: letters, segments of letters, numbers of words."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from .._prefetch cimport prefetch
from ._slots cimport AT, AT_TEXT, IDS, OUT, R_DONE, R_FULL, Slot, lowest, mixed

# Entries of `state`, and results of kernels that fill a table.
N_OUT, N_IDS = OUT, IDS
DONE, FULL = R_DONE, R_FULL

# Bits of the classes of letters: white space, parts of words, all but white space, all.
cpdef enum:
    SPACE = 1
    WORD = 2
    RUN = 4
    ANY = 8

cdef enum:
    LETTERS = 0x110000
    # Words that are read before the first of them is looked up.
    AT_ONCE = 32

cdef extern from *:
    """
    /* One in each of eight bytes; all bits. */
    #define ONES 0x0101010101010101ULL
    #define ALL_BITS 0xFFFFFFFFFFFFFFFFULL
    """
    const uint64_t ONES, ALL_BITS

# A word that was read: its key, its places in the text and in `word`, its bytes.
cdef struct Found:
    uint64_t key
    int64_t start
    int64_t place
    int64_t size


def move_slots(const uint64_t[:, ::1] old, uint64_t[:, ::1] table):
    """Enter all slots of a table, whose keys differ, into a larger, empty table."""
    cdef const Slot *before = <const Slot *> &old[0, 0]
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1), at
    cdef Py_ssize_t i
    with nogil:
        for i in range(old.shape[0]):
            if before[i].id != 0:
                # Keys may be hashes, which two words may share: no test of equality.
                at = mixed(before[i].key) & mask
                while slots[at].id != 0:
                    at = (at + 1) & mask
                slots[at] = before[i]


cdef inline uint32_t next_letter(const uint8_t *text, int64_t *i,
                                 int64_t end) noexcept nogil:
    """The code point at place i of UTF-8; i is moved behind it, at most to `end`.

    Invalid UTF-8 gives an arbitrary code point.
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


def read_symbols(const uint8_t[::1] text, const int64_t[::1] ends,
                 const uint8_t[::1] classes, const uint32_t[::1] lower, bint padded,
                 uint32_t[::1] out, int64_t[::1] segment_ends, int64_t[::1] text_ends):
    """The letters of texts in UTF-8, in segments; no n-gram crosses segments.

    If `padded`, each run without spaces is a segment, with a space before and after it.
    Otherwise a text is a segment, in which each run of two or more spaces becomes one
    space.

    text : the texts, one after the other; ends : the end of each text in `text`.
    classes : (0x110000,) bits SPACE and WORD of each code point.
    lower : (0x110000,) the lower case of each code point; empty: letters are kept.
    out : room for one letter per byte, or three if `padded`.
    segment_ends : room for one segment per byte if `padded`, else per text.
    text_ends : (n_texts,) number of segments up to the end of each text.

    Returns the number of segments.
    """
    cdef int64_t i = 0, k = 0, n = 0
    cdef Py_ssize_t t
    cdef uint32_t c
    cdef bint same = lower.shape[0] == 0, inside, after_space
    with nogil:
        for t in range(ends.shape[0]):
            inside = after_space = False
            while i < ends[t]:
                c = text[i]
                if c < 0x80:
                    i += 1
                else:
                    c = next_letter(&text[0], &i, ends[t])
                if not same:
                    c = lower[c]
                if not classes[c] & SPACE:
                    if padded and not inside:
                        out[k], inside = 32, True
                        k += 1
                    out[k], after_space = c, False
                    k += 1
                elif inside:
                    out[k], inside = 32, False
                    k += 1
                    segment_ends[n] = k
                    n += 1
                elif not padded and after_space:
                    out[k - 1] = 32
                elif not padded:
                    out[k], after_space = c, True
                    k += 1
            if inside:
                out[k] = 32
                k += 1
            if inside or not padded:
                segment_ends[n] = k
                n += 1
            text_ends[t] = n
    return n


cdef inline uint64_t eight(const uint8_t *text) noexcept nogil:
    """Eight bytes as a little-endian number; compilers turn this into one load."""
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
    """The top bit of each of eight bytes below 128: whether the byte is >= least."""
    return x + (0x80 - least) * ONES


cdef inline Py_ssize_t word_bytes(uint64_t *x, bint same, bint run) noexcept nogil:
    """Number of leading bytes of eight that are ASCII letters, digits or underscores.

    run: count bytes above the space instead. x: the bytes, which become lower case
    unless `same`.
    """
    cdef uint64_t low = x[0] & 0x7F * ONES, letter, other
    letter = low | 0x20 * ONES
    letter = at_least(letter, 97) & ~at_least(letter, 123)
    if run:
        other = ~at_least(low, 33)
    else:
        other = letter | at_least(low, 48) & ~at_least(low, 58)
        # 95 is the underscore: of the other bytes the difference to it is at least 1.
        other = ~other & at_least(low ^ 95 * ONES, 1)
    other = (other | x[0]) & 0x80 * ONES
    if not same:
        x[0] |= (letter & 0x80 * ONES & ~x[0]) >> 2
    return lowest(other) >> 3 if other else 8


cdef inline uint64_t key_of_word(const uint8_t *word, int64_t size) noexcept nogil:
    """The key of a word: its bytes if they are up to 8, else a hash.

    The last byte of a hash is 255, which no byte of UTF-8 is. Short words with a zero
    byte also get the last byte 255, so that a key with another last byte is the key of
    one word only.
    """
    cdef uint64_t key = 0, part
    cdef int64_t i
    cdef bint zero = False
    if size <= 8:
        for i in range(size):
            key |= <uint64_t> word[i] << (8 * i)
            zero = zero or word[i] == 0
        return key | <uint64_t> 0xFF << 56 if zero else key
    for i in range(0, size - 8, 8):
        memcpy(&part, word + i, 8)
        key = (key ^ part) * <uint64_t> 0x9FB21C651E98DF25
        key ^= key >> 29
    memcpy(&part, word + size - 8, 8)
    key = (key ^ part) * <uint64_t> 0x9FB21C651E98DF25
    return key | <uint64_t> 0xFF << 56


def number_words(const uint8_t[::1] text, const int64_t[::1] ends,
                 const uint8_t[::1] classes, const uint32_t[::1] lower, uint8_t kind,
                 int64_t shortest, int32_t n_stop, bint learn, uint8_t[::1] word,
                 uint64_t[:, ::1] table, uint8_t[::1] arena, int64_t[::1] word_ends,
                 uint32_t[::1] out, int64_t[::1] out_ends, int64_t[::1] state):
    """The numbers of the words of texts in UTF-8, from 1; stop words are left out.

    A word is a maximal run of letters of the class `kind`, of at least `shortest`
    letters.
    lower : as for `read_symbols`.
    word : room for four times the bytes of the longest text, plus 16.
    table : slots with the keys of `key_of_word`.
    arena : the words in UTF-8, one after the other.
    word_ends : the end of each word in the arena, word_ends[0] = 0.
    n_stop : words with numbers up to n_stop are stop words.
    out, out_ends : the numbers (0 for an unknown word unless `learn`), and the end of
        each text among them.
    state : (5,) carried from call to call.

    Returns DONE, or FULL if the table, the arena or word_ends has to grow.
    """
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *slot
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1), key, at
    cdef int64_t limit = min(table.shape[0] // 2, word_ends.shape[0] - 1)
    cdef int64_t i = state[AT], j, k = state[OUT], m
    cdef int64_t n_words = state[IDS], start, end, behind, n_letters
    cdef Py_ssize_t t = state[AT_TEXT]
    cdef uint32_t c
    cdef int32_t w
    cdef bint same = lower.shape[0] == 0, plain
    # Whether a space of ASCII ends a word.
    cdef bint usual = not classes[32] & kind
    cdef uint64_t part
    cdef int64_t size, step
    cdef Found[AT_ONCE] found
    cdef Found *one
    cdef int n_found, f
    cdef int result = R_DONE
    # By byte: the letter that is read, 0 between words, 255 for a part of a letter.
    cdef uint8_t[256] read
    for c in range(256):
        read[c] = 255
        if c < 0x80:
            read[c] = <uint8_t> (c if same else lower[c])
            if not classes[c] & kind:
                read[c] = 0
            elif c == 0:
                read[c] = 255
    with nogil:
        while t < ends.shape[0]:
            end = ends[t]
            # Prefetch the slots of up to AT_ONCE words before the words are looked up.
            n_found = size = 0
            while i < end and n_found < AT_ONCE:
                if read[text[i]] == 0:
                    i += 1
                    continue
                j, m, n_letters, key, plain = i, 0, 0, 0, True
                while usual and j + 8 <= text.shape[0]:
                    part = eight(&text[j])
                    step = word_bytes(&part, same, kind == RUN)
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
                        if not classes[c] & kind:
                            break
                        m += put_letter(c if same else lower[c], &word[size + m])
                        j, plain = behind, False
                    n_letters += 1
                if n_letters < shortest:
                    if j < end:  # at the letter that ends the word
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
                        if one.key >> 56 != 0xFF:
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
