"""ARPA files: parsing lines, formatting lines.

Reading. `parse_block` reads whole lines from a byte buffer, looks up the words in a
`WordTable`, and writes word ids and values to the caller's arrays: about 100 ns per
line plus a hash probe per word.

Writing. `format_block` fills a byte buffer with lines: the words of a node are read on
the path to the root, oldest first. Values are written by integer arithmetic, with a
fixed number of decimals or with the shortest digits.
"""

from libc.math cimport INFINITY, fabs, floor, isinf, isnan, log10, pow
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from ..symbols._words_fast cimport Words, add_word, find_word, hash_byte, words_of

cdef enum:
    SPARE = 16

# Additional bytes at the end of the text and the buffer of `format_block`.
SPARE_BYTES = SPARE

# Results of parse_block. MORE, DONE, BLANK and FULL are not errors.
cpdef enum:
    MORE = 0
    DONE = 1
    BLANK = 2
    BAD_PROB = 3
    POSITIVE = 4
    TOO_FEW = 5
    TOO_MANY = 6
    UNKNOWN_WORD = 7
    BAD_BACKOFF = 8
    HIGHEST_BACKOFF = 9
    FULL = 10
    HUGE_BACKOFF = 11


cdef inline bint same(const unsigned char* a, const char* b, int64_t n) noexcept nogil:
    """Whether n bytes equal the lower-case b, ignoring case."""
    cdef int64_t i
    for i in range(n):
        if (a[i] | 32) != <unsigned char>b[i]:
            return False
    return True


cdef bint parse_float(const unsigned char* s, int64_t size, double* out) noexcept nogil:
    """Parse a decimal number or -inf; False for other text, including NaN and +inf.

    Up to 18 digits are kept as an integer and scaled once, which is correctly
    rounded up to 15 digits and within an ulp or two beyond; no locale is involved.
    """
    cdef int64_t i = 0
    cdef int n_digits = 0, scale = 0, exponent = 0
    cdef bint negative = False, any_digit = False, negative_exponent = False
    cdef uint64_t mantissa = 0
    cdef double value
    if size and (s[0] == c'-' or s[0] == c'+'):
        negative = s[0] == c'-'
        i = 1
    if negative and (
        (size == 4 and same(s + 1, b"inf", 3))
        or (size == 9 and same(s + 1, b"infinity", 8))
    ):
        out[0] = -INFINITY
        return True
    while i < size and c'0' <= s[i] <= c'9':
        any_digit = True
        if n_digits < 18:
            mantissa = mantissa * 10 + (s[i] - c'0')
            n_digits += 1 if mantissa else 0
        else:
            scale += 1
        i += 1
    if i < size and s[i] == c'.':
        i += 1
        while i < size and c'0' <= s[i] <= c'9':
            any_digit = True
            if n_digits < 18:
                mantissa = mantissa * 10 + (s[i] - c'0')
                n_digits += 1 if mantissa else 0
                scale -= 1
            i += 1
    if not any_digit:
        return False
    if i < size and (s[i] | 32) == c'e':
        i += 1
        if i < size and (s[i] == c'-' or s[i] == c'+'):
            negative_exponent = s[i] == c'-'
            i += 1
        if i == size:
            return False
        while i < size and c'0' <= s[i] <= c'9':
            if exponent < 100000:
                exponent = exponent * 10 + (s[i] - c'0')
            i += 1
        scale += -exponent if negative_exponent else exponent
    if i != size:
        return False
    value = <double>mantissa
    if scale < 0:
        value = value / pow(10.0, -scale) if scale > -300 else value * pow(10.0, scale)
    elif scale > 0 and mantissa:
        value = value * pow(10.0, scale)
    if value > 1e300:
        return False
    out[0] = -value if negative else value
    return True


cdef inline bint separates(unsigned char byte) noexcept nogil:
    """Whether the byte ends a field. Vertical tabs and form feeds belong to words."""
    return byte == c' ' or byte == c'\t' or byte == c'\r' or byte == 0


def parse_block(
    table,
    const unsigned char[::1] buffer,
    Py_ssize_t start,
    Py_ssize_t stop,
    bint highest,
    int[:, ::1] ids,
    double[:, ::1] values,
    Py_ssize_t row,
):
    """Read whole lines buffer[start:stop] into rows row.. of ids and values.

    table : `WordTable`, whose arena has room for the buffer. FULL: the table has to
    grow before the line is read.
    ids : (rows, order) word ids; the words of unigrams are added to the table, and a
    word that occurs again has the id of its first line.
    values : (rows, 2) log10 probability and back-off weight (0 where absent). At the
    highest order a weight may only be 0, in the single precision of KenLM.

    Returns (row, position, code, word start, word stop): the first row that is not
    written, the start of its line, the reason for the stop, and the bytes at fault.
    """
    cdef int order = <int>ids.shape[1]
    cdef Py_ssize_t n_rows = ids.shape[0]
    cdef Py_ssize_t line = start, pos, end, begin = start, after = start
    cdef int code = MORE, field, word
    cdef uint64_t h, at, seed = table.seed
    cdef double value
    # Pointers into arrays that `table` holds.
    cdef Words words = words_of(
        table.slots, table.hashes, table.ends, table.arena, table.n_words
    )
    with nogil:
        while line < stop:
            if row == n_rows:
                code = DONE
                break
            end = line
            while buffer[end] != c'\n':
                end += 1
            after = end + 1
            # CR LF
            while end > line and buffer[end - 1] == c'\r':
                end -= 1
            pos = line
            field = 0
            values[row, 1] = 0.0
            while True:
                while pos < end and separates(buffer[pos]):
                    pos += 1
                if pos == end:
                    break
                begin = pos
                h = seed
                while pos < end and not separates(buffer[pos]):
                    h = hash_byte(h, buffer[pos])
                    pos += 1
                if field == 0:
                    if buffer[begin] == c'\\':
                        code = BLANK
                        break
                    if not parse_float(&buffer[begin], pos - begin, &value):
                        code = BAD_PROB
                        break
                    if value > 0.0:
                        code = POSITIVE
                        break
                    values[row, 0] = value
                elif field <= order:
                    if order == 1:
                        word = add_word(&words, &buffer[begin], pos - begin, h)
                        if word < 0:
                            code = FULL
                            break
                    else:
                        word = find_word(&words, &buffer[begin], pos - begin, h, &at)
                        if word < 0:
                            # A number here is the back-off weight of an n-gram that
                            # is too short.
                            code = UNKNOWN_WORD
                            if parse_float(&buffer[begin], pos - begin, &value):
                                if pos == end and field > 1:
                                    code = TOO_FEW
                            break
                    ids[row, field - 1] = word
                elif field == order + 1:
                    if not parse_float(&buffer[begin], pos - begin, &value):
                        code = HIGHEST_BACKOFF if highest else BAD_BACKOFF
                        break
                    if highest:
                        if <float>value != 0.0:
                            code = HIGHEST_BACKOFF
                            break
                        value = 0.0
                    if value > 900.0:  # the writer has room for three digits
                        code = HUGE_BACKOFF
                        break
                    values[row, 1] = value
                else:
                    code = TOO_MANY
                    break
                field += 1
            if code != MORE:
                break
            if field == 0:
                code = BLANK
                break
            if field <= order:
                code = TOO_FEW
                break
            row += 1
            line = after
        if code == MORE and row == n_rows:
            code = DONE
    table.n_words = words.n
    return row, line, code, begin, pos if code > BLANK else begin


cdef double[23] POWERS  # 10^0, ..., 10^22, all exact
for _k in range(23):
    POWERS[_k] = float(10**_k)


cdef inline double scaled_by(double value, int exponent) noexcept nogil:
    """value * 10^exponent, rounded once where the power is exact."""
    if 0 <= exponent <= 22:
        return value * POWERS[exponent]
    if -22 <= exponent < 0:
        return value / POWERS[-exponent]
    if exponent < 0:
        return value / pow(10.0, -exponent)
    return value * pow(10.0, exponent)


cdef Py_ssize_t put_shortest(
    unsigned char[::1] out, Py_ssize_t at, double value
) noexcept nogil:
    """Write a number with the shortest digits.

    A number of at most 12 significant digits was probably read from a text, and is
    written unchanged: 14 digits are exact after conversion of logarithms to base e and
    back. Other numbers are rounded to single precision, as in KenLM, and are written
    with the fewest digits, 6 to 9, that identify the float32.
    """
    cdef unsigned char digits[20]
    cdef double a = fabs(value)
    cdef float single = <float>a
    cdef int e, n, i, _i, zeros
    cdef uint64_t m
    if value < 0:
        out[at] = c'-'
        at += 1
    if a == 0 or isinf(a):
        for i in range(3 if a else 1):
            out[at] = b"inf"[i] if a else c'0'
            at += 1
        return at
    if 1.0 <= a < 10.0:  # most numbers
        e = 0
    elif 0.1 <= a < 1.0:
        e = -1
    else:
        e = <int>floor(log10(a))
    n = 14
    m = <uint64_t>floor(scaled_by(a, n - 1 - e) + 0.5)
    if m % 100 and single != 0 and not isinf(single):
        a = single
        for n in range(6, 10):
            m = <uint64_t>floor(scaled_by(a, n - 1 - e) + 0.5)
            if <float>scaled_by(<double>m, e + 1 - n) == single:
                break
    while m % 10 == 0:
        m //= 10
        n -= 1
    # m 10^(e + 1 - n); rounding, or that of the logarithm, may have changed the length.
    e = e + 1 - n
    n = 0
    while m:
        digits[n] = <unsigned char>(48 + m % 10)
        m //= 10
        n += 1
    e += n - 1
    if -6 <= e < 0:
        out[at], out[at + 1] = c'0', c'.'
        at += 2
        for _i in range(-e - 1):
            out[at] = c'0'
            at += 1
        for i in range(n):
            out[at] = digits[n - 1 - i]
            at += 1
        return at
    zeros = e if 0 <= e < 15 else 0  # digits before the point after the first
    for i in range(max(n, zeros + 1)):
        if i == zeros + 1:
            out[at] = c'.'
            at += 1
        out[at] = digits[n - 1 - i] if i < n else c'0'
        at += 1
    if not 0 <= e < 15:
        out[at] = c'e'
        out[at + 1] = c'-' if e < 0 else c'+'
        at += 2
        e = -e if e < 0 else e
        n = 3 if e >= 100 else 2
        for i in range(n):
            out[at + n - 1 - i] = <unsigned char>(48 + e % 10)
            e //= 10
        at += n
    return at


cdef inline Py_ssize_t put_number(
    unsigned char[::1] out, Py_ssize_t at, double value, int decimals, double power
) noexcept nogil:
    """Write a number; trailing zeros are left out.

    decimals: 0 writes the digits that the number needs, as do numbers without room.
    """
    # The number ends before byte 20: `scaled` has at most 18 digits, and there are at
    # most 15 decimals. The other 24 bytes are room for the copy.
    cdef unsigned char digits[44]
    cdef int _i, n = 20, end = 20
    cdef uint64_t scaled
    if decimals == 0 or not fabs(value) * power < 1e18:
        return put_shortest(out, at, value)
    scaled = <uint64_t>floor(fabs(value) * power + 0.5)
    if scaled == 0:  # most back-off weights of the last n-grams
        out[at] = c'0'
        return at + 1
    if value < 0:
        out[at] = c'-'
        at += 1
    for _i in range(decimals):
        n -= 1
        digits[n] = <unsigned char>(48 + scaled % 10)
        scaled //= 10
    n -= 1
    digits[n] = c'.'
    while scaled or digits[n] == c'.':
        n -= 1
        digits[n] = <unsigned char>(48 + scaled % 10)
        scaled //= 10
    while digits[end - 1] == 48:
        end -= 1
    if digits[end - 1] == c'.':
        end -= 1
    # A copy of a fixed size, as in `put_word`: a line has 24 bytes and the decimals for
    # each number. The bytes behind the number are written over later.
    memcpy(&out[at], &digits[n], 24)
    return at + end - n


cdef inline Py_ssize_t put_word(
    unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] text,
    Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    # Most words are short, and a copy of a fixed size is one instruction. Text and
    # buffer have so many bytes to spare.
    if stop - start <= SPARE:
        memcpy(&out[at], &text[start], SPARE)
    else:
        memcpy(&out[at], &text[start], stop - start)
    return at + stop - start


def format_block(
    const unsigned char[::1] text,
    const int64_t[::1] word_ptr,
    const int[::1] parent,
    const int[::1] symbol,
    const int[::1] word_of_symbol,
    const int[::1] nodes,
    const int[::1] last_word,
    const double[::1] values,
    const double[::1] backoffs,
    int decimals,
    Py_ssize_t longest,
    Py_ssize_t row,
    unsigned char[::1] out,
):
    """Write the lines of n-grams row.. to `out`, as many as surely fit.

    An n-gram is the words of a node, oldest first, then last_word. text[word_ptr[w]:
    word_ptr[w + 1]] is word w; `SPARE_BYTES` more follow the last. backoffs: NaN =
    none. decimals: 0: the digits that each number needs. longest: most bytes of a line,
    and `SPARE_BYTES`.

    Returns (next row, bytes written).
    """
    cdef Py_ssize_t at = 0
    cdef int node, w
    cdef double power = pow(10.0, decimals)
    with nogil:
        while row < nodes.shape[0] and at + longest <= out.shape[0]:
            at = put_number(out, at, values[row], decimals, power)
            out[at] = c'\t'
            at += 1
            node = nodes[row]
            while node:
                w = word_of_symbol[symbol[node]]
                at = put_word(out, at, text, word_ptr[w], word_ptr[w + 1])
                out[at] = c' '
                at += 1
                node = parent[node]
            w = last_word[row]
            at = put_word(out, at, text, word_ptr[w], word_ptr[w + 1])
            if not isnan(backoffs[row]):
                out[at] = c'\t'
                at = put_number(out, at + 1, backoffs[row], decimals, power)
            out[at] = c'\n'
            at += 1
            row += 1
    return row, at
