"""Kernels between text and tokens: words found, hashed and numbered in one pass.

`number_words` reads whole lines of UTF-8. A line is a sentence; a word is a longest run
without separators, or a single character. The bytes of a word are hashed while its end
is searched; its number is found in an open table of 32-bit ids with linear probing, at
most half full. Words are numbered in the order of appearance, and their bytes are kept
one after the other in an arena. O(bytes), and no Python object.

Sequences are checked as the standard says: shortest forms only, no surrogates (unless
asked for), nothing above U+10FFFF.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from ._words_fast cimport (
    Words, add_word, hash_byte, hash_bytes, sequence_length, words_of,
)

cpdef enum:
    # Entries of `state`.
    POSITION = 0
    WORDS = 1
    TOKENS = 2
    LINES = 3
    IN_LINE = 4
    LINE_START = 5
    N_ODD = 6
    ODD_AT = 7
    # Results of `number_words`.
    DONE = 0
    FULL = 1
    BAD_UTF8 = 2
    NUL = 3
    LONG_LINE = 4
    # Separators of words: white space of Unicode (`str.split`), the five bytes of
    # KenLM, or no separators, as each character is a word.
    UNICODE = 0
    KENLM = 1
    CHARACTERS = 2


cdef inline bint kenlm_space(uint8_t c) noexcept nogil:
    return c == 32 or c == 9 or c == 10 or c == 13 or c == 0


cdef inline bint ascii_space(uint8_t c) noexcept nogil:
    """`str.isspace` of a byte of ASCII."""
    return c == 32 or (9 <= c <= 13) or (28 <= c <= 31)


cdef inline bint separates(uint8_t c, int rule) noexcept nogil:
    """Whether a byte of ASCII separates words."""
    return kenlm_space(c) if rule == KENLM else ascii_space(c)


cdef inline bint wide_space(const uint8_t *p) noexcept nogil:
    """Whether the valid sequence at p is white space: `str.isspace`, beyond ASCII."""
    cdef uint8_t b = p[1], c
    if p[0] == 0xC2:
        return b == 0x85 or b == 0xA0
    if p[0] < 0xE1 or p[0] > 0xE3:
        return False
    c = p[2]
    if p[0] == 0xE1:
        return b == 0x9A and c == 0x80
    if p[0] == 0xE2:
        if b == 0x80:
            return c <= 0x8A or c == 0xA8 or c == 0xA9 or c == 0xAF
        return b == 0x81 and c == 0x9F
    return b == 0x80 and c == 0x80


cdef inline bint is_blank(const uint8_t *p, const uint8_t *end) noexcept nogil:
    """Whether the line at p holds nothing but white space of Unicode."""
    cdef int step
    while p < end and p[0] != 10:
        if p[0] < 0x80:
            if not ascii_space(p[0]):
                return False
            p += 1
            continue
        step = sequence_length(p, end, True)
        if step < 2 or step > 3 or not wide_space(p):
            return False
        p += step
    return True


def number_words(const uint8_t[::1] text, bint strict, int rule,
                 bint keep_blank, int64_t max_line, uint64_t seed, int32_t[::1] slots,
                 uint64_t[::1] hashes, int64_t[::1] ends, uint8_t[::1] arena,
                 int32_t[::1] tokens, int64_t[::1] state):
    """Tokens of lines: -1 before each sentence, then the numbers of its words.

    text : whole lines, each ended by a line feed.
    strict : refuse surrogates, and NUL bytes where they do not separate words.
    rule : UNICODE, KENLM or CHARACTERS. In CHARACTERS a carriage return before the end
        of the line belongs to the end.
    keep_blank : whether a line without a word (in CHARACTERS of white space only) is a
        sentence.
    slots : (2^k,) -1 or a word; hashes, ends : one per word, ends[w] is the end of its
        bytes in `arena`, which has room for text.size more of them.
    tokens : room for text.size + 1 more.
    state : (8,) see the constants; carried from call to call. state[N_ODD] counts the
        characters that separate words by only one of UNICODE and KENLM, state[ODD_AT]
        is the place of the first of them in this text, or -1.

    Returns DONE, FULL if the table must grow before the word at state[POSITION], or the
    code of an error there.
    """
    cdef const uint8_t *base
    cdef const uint8_t *end
    cdef const uint8_t *p
    cdef const uint8_t *word
    cdef int64_t n_tokens = state[TOKENS]
    cdef int64_t line_start = state[LINE_START], n_lines = state[LINES]
    cdef int64_t n_odd = state[N_ODD], first_odd = state[ODD_AT]
    cdef int64_t odd_before = n_odd, first_before = first_odd
    cdef bint begun = state[IN_LINE]
    cdef uint64_t h
    cdef int64_t length
    cdef int step, result = DONE
    cdef int32_t w
    cdef uint8_t c
    cdef Words words = words_of(slots, hashes, ends, arena, state[WORDS])
    base = &text[0]
    end = base + text.shape[0]
    p = base + state[POSITION]
    with nogil:
        while p < end:
            c = p[0]
            if c == 10:
                if p - base - line_start > max_line:
                    result = LONG_LINE
                    break
                if not begun and keep_blank:
                    tokens[n_tokens] = -1
                    n_tokens += 1
                begun = False
                n_lines += 1
                p += 1
                line_start = p - base
                continue
            word = p
            h = seed
            odd_before, first_before = n_odd, first_odd
            if rule == CHARACTERS:
                if not (begun or keep_blank) and is_blank(p, end):
                    while p < end and p[0] != 10:
                        p += 1
                    continue
                if c == 13 and p[1] == 10:
                    p += 1
                    continue
                if c == 0 and strict:
                    result = NUL
                    break
                step = 1 if c < 0x80 else sequence_length(p, end, not strict)
                if step == 0:
                    result = BAD_UTF8
                    break
                h = hash_bytes(h, p, step)
                p += step
            else:
                if c < 0x80 and separates(c, rule):
                    if kenlm_space(c) != ascii_space(c):
                        if first_odd < 0:
                            first_odd = p - base
                        n_odd += 1
                    p += 1
                    continue
                while p < end:
                    c = p[0]
                    if c < 0x80:
                        if c <= 32:
                            if separates(c, rule):
                                break
                            if c == 0 and strict:
                                result = NUL
                                break
                            if kenlm_space(c) != ascii_space(c):
                                if first_odd < 0:
                                    first_odd = p - base
                                n_odd += 1
                        h = hash_byte(h, c)
                        p += 1
                    else:
                        step = sequence_length(p, end, not strict)
                        if step == 0:
                            result = BAD_UTF8
                            break
                        if step < 4 and wide_space(p):
                            if rule == UNICODE and p > word:
                                break
                            if first_odd < 0:
                                first_odd = p - base
                            n_odd += 1
                            if rule == UNICODE:
                                p += step
                                word = p
                                break
                        h = hash_bytes(h, p, step)
                        p += step
            if result:
                break
            length = p - word
            if length == 0:
                continue
            w = add_word(&words, word, length, h)
            if w < 0:
                result = FULL
                p = word
                # The word is read again.
                n_odd, first_odd = odd_before, first_before
                break
            if not begun:
                tokens[n_tokens] = -1
                n_tokens += 1
                begun = True
            tokens[n_tokens] = w
            n_tokens += 1
    state[POSITION] = p - base
    state[WORDS] = words.n
    state[TOKENS] = n_tokens
    state[LINES] = n_lines
    state[IN_LINE] = begun
    state[LINE_START] = line_start
    state[N_ODD] = n_odd
    state[ODD_AT] = first_odd
    return result


def rehash(const uint64_t[::1] hashes, Py_ssize_t n_words, int32_t[::1] slots):
    """Enter the words into an empty table."""
    cdef Py_ssize_t w
    cdef uint64_t mask = <uint64_t> (slots.shape[0] - 1), at
    with nogil:
        for w in range(n_words):
            at = hashes[w] & mask
            while slots[at] >= 0:
                at = (at + 1) & mask
            slots[at] = <int32_t> w


def lay_out(const int32_t[::1] numbers, const int32_t[::1] table, int32_t start,
            int32_t end, Py_ssize_t front, int32_t[::1] out):
    """Tokens of sentences with their marks.

    numbers : -1 before each sentence, then its words.
    table : the token of each word.
    start, end : tokens of the marks; negative: none.
    front : number of -1 at the very beginning of `out`.
    """
    cdef Py_ssize_t i, j = front
    with nogil:
        for i in range(front):
            out[i] = -1
        for i in range(numbers.shape[0]):
            if numbers[i] >= 0:
                out[j] = table[numbers[i]]
                j += 1
                continue
            if i > 0 and end >= 0:
                out[j] = end
                j += 1
            out[j] = -1
            j += 1
            if start >= 0:
                out[j] = start
                j += 1
        if numbers.shape[0] > 0 and end >= 0:
            out[j] = end
