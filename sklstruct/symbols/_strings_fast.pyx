"""Distinct strings and their numbers, in arrays that can be stored in a file."""

from hashlib import blake2b

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

import numpy as np

from .._checks import INT32_MAX, as_ids, check_ids, check_length

from .._prefetch cimport prefetch
from ._words_fast cimport Words, find_word, hash_bytes, sequence_length

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL
    object PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)

cdef enum:
    AHEAD = 16  # strings whose slots are fetched before they are read
    BAD_END = 1
    BAD_UTF8 = 2
    BAD_SLOT = 3


def decode_strings(
    const uint8_t[::1] text, const int64_t[::1] ends, str errors="surrogatepass"
):
    """List of the strings of an unchecked text; ValueError if the text is not valid."""
    cdef bytes how = errors.encode()
    cdef const char *base = NULL
    cdef int64_t start = 0, end
    cdef Py_ssize_t i
    out = []
    if text.shape[0]:
        base = <const char*> &text[0]
    for i in range(ends.shape[0]):
        end = ends[i]
        if not start <= end <= text.shape[0]:
            raise ValueError(f"string {i} ends at {end}, and begins at {start}")
        out.append(PyUnicode_DecodeUTF8(base + start, end - start, how))
        start = end
    return out


cdef class StringTable:
    """An immutable mapping from distinct strings to 0, 1, 2, ...

    Parameters
    ----------
    text : uint8 ndarray
        The UTF-8 of the strings, one after the other.

    ends : int64 ndarray of shape (n_strings,)
        The end of each in `text`.

    hashes : uint64 ndarray of shape (n_strings,), default=None
        The hash of each string. None: computed, as are `slots` and `seed`.

    slots : int32 ndarray of shape (2^k,), default=None
        The number of a string, or -1: an open table with linear probing, at most half
        full.

    seed : int, default=None
        Seed of the hashes. A new table uses a digest of `text` as seed, so that equal
        strings have equal tables, and an attacker cannot choose strings that share a
        slot.

    strict : bool, default=False
        Refuse surrogates.

    Raises
    ------
    ValueError
        If the arrays are not such a table, or a string occurs twice.
    """

    def __cinit__(
        self, text, ends, hashes=None, slots=None, seed=None, *, bint strict=False
    ):
        cdef bint made = slots is None
        cdef Py_ssize_t n
        cdef const uint8_t[::1] bytes_of
        cdef const int64_t[::1] end_of
        cdef const uint64_t[::1] hash_of
        cdef const int32_t[::1] slot_of
        self.text = as_ids("the text of the strings", text, 1, np.uint8)
        self.ends = as_ids("the ends of the strings", ends, 1, np.int64)
        n = self.ends.size
        if n > INT32_MAX // 4:
            raise ValueError(f"{n} strings are too many for a table")
        if made:
            seed = int.from_bytes(blake2b(self.text, digest_size=8).digest(), "little")
            hashes = np.zeros(n, dtype=np.uint64)
            slots = np.full(max(8, 1 << (2 * n - 1).bit_length()), -1, dtype=np.int32)
        self.hashes = as_ids("the hashes of the strings", hashes, 1, np.uint64)
        self.slots = as_ids("the slots of the strings", slots, 1)
        self.seed = seed
        check_length("the hashes of the strings", self.hashes, n, "one per string")
        n_slots = self.slots.size
        if n_slots < 2 * n or n_slots < 8 or n_slots & (n_slots - 1):
            raise ValueError(f"{n_slots} slots are not a table of {n} strings")
        check_ids("the slots of the strings", self.slots, -1, n, "string")
        bytes_of, end_of, hash_of, slot_of = (
            self.text, self.ends, self.hashes, self.slots)
        self.keep = bytes_of, end_of, hash_of, slot_of
        # `find_word` only reads.
        self.words.slots = <int32_t*> &slot_of[0]
        self.words.mask = <uint64_t> (n_slots - 1)
        self.words.n = n
        self.words.ends, self.words.hashes = NULL, NULL
        self.words.arena = <uint8_t*> self.words.slots  # where all strings are empty
        if n:
            self.words.ends = <int64_t*> &end_of[0]
            self.words.hashes = <uint64_t*> &hash_of[0]
        if bytes_of.shape[0]:
            self.words.arena = <uint8_t*> &bytes_of[0]
        self._check(made, strict)

    def _check(self, bint made, bint strict):
        """Look up each string, and enter it if the table is new."""
        cdef Words words = self.words
        cdef Py_ssize_t w = 0, n = words.n, size = self.text.size, used = 0
        cdef int64_t start = 0
        cdef uint64_t h, at
        cdef int32_t found
        cdef const uint8_t *p
        cdef const uint8_t *end
        cdef int step, wrong = 0
        with nogil:
            # All ends come first: a slot may name any string.
            while w < n and start <= words.ends[w] <= size:
                start = words.ends[w]
                w += 1
            if w < n or start != size:
                wrong = BAD_END
            for at in range(words.mask + 1):
                used += words.slots[at] >= 0
            # So that there are free slots, at which each search ends.
            if used != (0 if made else n):
                wrong = BAD_SLOT
            start = w = 0
            while w < n and not wrong:
                h = self.seed
                p, end = words.arena + start, words.arena + words.ends[w]
                while p < end:
                    step = 1 if p[0] < 0x80 else sequence_length(p, end, not strict)
                    if step == 0:
                        wrong = BAD_UTF8
                        break
                    h = hash_bytes(h, p, step)
                    p += step
                if wrong:
                    break
                found = find_word(
                    &words, words.arena + start, words.ends[w] - start, h, &at)
                if made and found < 0:
                    words.hashes[w] = h ^ (h >> 32)
                    words.slots[at] = <int32_t> w
                elif made or found != w:
                    wrong = BAD_SLOT
                    break
                start = words.ends[w]
                w += 1
                if not made and w + AHEAD < n:
                    prefetch(words.slots + (words.hashes[w + AHEAD] & words.mask), 4)
        if wrong == BAD_END:
            raise ValueError("the ends of the strings do not divide their text")
        if wrong == BAD_UTF8:
            raise ValueError(f"string {w} is not valid UTF-8")
        if wrong and made:
            raise ValueError(f"{self.strings([w])[0]!r} occurs twice")
        if wrong:
            raise ValueError("the slots of the strings do not lead to each string once")

    cdef int32_t find(self, word) except -2:
        """The number of a string, -1 for any other object; TypeError if it has no hash,
        as a dictionary."""
        cdef Py_ssize_t n
        cdef uint64_t h = self.seed, at
        cdef const char *p
        if not isinstance(word, str):
            hash(word)
            return -1
        try:
            p = PyUnicode_AsUTF8AndSize(word, &n)
        except UnicodeEncodeError:
            word = word.encode("utf-8", "surrogatepass")
            p, n = word, len(word)
        h = hash_bytes(h, <const uint8_t*> p, n)
        return find_word(&self.words, <const uint8_t*> p, n, h, &at)

    def get(self, word, default=None):
        """The number of a string."""
        cdef int32_t found = self.find(word)
        return default if found < 0 else found

    def __getitem__(self, word):
        cdef int32_t found = self.find(word)
        if found < 0:
            raise KeyError(word)
        return found

    def __contains__(self, word):
        return self.find(word) >= 0

    def __len__(self):
        return self.words.n

    def __iter__(self):
        return iter(decode_strings(self.text, self.ends))

    def strings(self, numbers):
        """List of the strings with some numbers."""
        cdef Py_ssize_t i
        cdef int64_t start
        out = []
        for i in numbers:
            if not 0 <= i < self.words.n:
                raise IndexError(f"{i} is not the number of a string")
            start = self.words.ends[i - 1] if i > 0 else 0
            out.append(PyUnicode_DecodeUTF8(
                <const char*> self.words.arena + start, self.words.ends[i] - start,
                "surrogatepass"))
        return out

    def lengths(self):
        """(n_strings,) characters of each string."""
        first = np.zeros(self.text.size + 1, dtype=np.int64)
        np.cumsum((self.text & 0xC0) != 0x80, out=first[1:])
        return np.diff(first[self.ends], prepend=0)

    def ids(self, words, int32_t unknown=-1):
        """(n_words,) int32: the numbers of a list of objects."""
        out = np.empty(len(words), dtype=np.int32)
        cdef int32_t[::1] ids = out
        cdef Py_ssize_t i
        cdef int32_t found
        for i in range(ids.shape[0]):
            found = self.find(words[i])
            ids[i] = unknown if found < 0 else found
        return out

    def packed_ids(
        self, const uint8_t[::1] text, const int64_t[::1] ends, int32_t unknown=-1
    ):
        """The same for strings from a `WordTable`, whose ends need no check."""
        out = np.empty(ends.shape[0], dtype=np.int32)
        cdef int32_t[::1] ids = out
        cdef Py_ssize_t i
        cdef int64_t start = 0
        cdef uint64_t h, at
        cdef int32_t found
        cdef const uint8_t *base = &text[0] if text.shape[0] else self.words.arena
        with nogil:
            for i in range(ends.shape[0]):
                h = hash_bytes(self.seed, base + start, ends[i] - start)
                found = find_word(&self.words, base + start, ends[i] - start, h, &at)
                ids[i] = unknown if found < 0 else found
                start = ends[i]
        return out
