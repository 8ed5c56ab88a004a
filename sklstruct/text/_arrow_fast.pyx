"""Addresses of the UTF-8 of strings, in a list or in the buffers of an Arrow column.

The column is passed as capsules of Arrow's C data interface, which pyarrow, polars,
nanoarrow and others make: https://arrow.apache.org/docs/format/CDataInterface.html
Types: string ("u", 32-bit offsets), large_string ("U", 64-bit offsets) and string_view
("vu": 16 bytes per string, with its size and either its bytes or its place).
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_Size
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, strcmp

cdef extern from *:
    """
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    struct ArrowSchema {
        const char *format, *name, *metadata;
        int64_t flags, n_children;
        struct ArrowSchema **children, *dictionary;
        void (*release)(struct ArrowSchema *);
        void *private_data;
    };
    struct ArrowArray {
        int64_t length, null_count, offset, n_buffers, n_children;
        const void **buffers;
        struct ArrowArray **children, *dictionary;
        void (*release)(struct ArrowArray *);
        void *private_data;
    };
    #endif
    #ifndef ARROW_C_STREAM_INTERFACE
    #define ARROW_C_STREAM_INTERFACE
    struct ArrowArrayStream {
        int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
        int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
        const char *(*get_last_error)(struct ArrowArrayStream *);
        void (*release)(struct ArrowArrayStream *);
        void *private_data;
    };
    #endif
    """
    cdef struct ArrowSchema:
        const char *format
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept

    cdef struct ArrowArray:
        int64_t length
        int64_t offset
        const void **buffers
        void (*release)(ArrowArray *) noexcept

    cdef struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept
        const char *(*get_last_error)(ArrowArrayStream *) noexcept


cdef enum:
    NOTHING = 0
    SHORT = 1
    LONG = 2
    VIEWS = 3


cdef int layout_of(const ArrowSchema *schema) noexcept:
    if schema.dictionary != NULL:
        return NOTHING
    if strcmp(schema.format, b"u") == 0:
        return SHORT
    if strcmp(schema.format, b"U") == 0:
        return LONG
    return VIEWS if strcmp(schema.format, b"vu") == 0 else NOTHING


cdef class Chunk:
    """An Arrow array, which is released with this object."""

    cdef ArrowArray array

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)


cdef class ArrowStrings:
    """The arrays of a column.

    stream : the capsule of a stream; or array : the two capsules (schema, array).
    has_strings : whether the column has strings; other columns are not read.
    """

    cdef int layout
    cdef list chunks

    def __init__(self, stream=None, array=None):
        self.chunks = []
        if stream is None:
            self._add_array(array[0], array[1])
        else:
            self._read(stream)

    cdef _add_array(self, object schema, object array):
        cdef Chunk chunk = Chunk()
        cdef ArrowArray *given = <ArrowArray *> PyCapsule_GetPointer(
            array, b"arrow_array"
        )
        self.layout = layout_of(
            <ArrowSchema *> PyCapsule_GetPointer(schema, b"arrow_schema")
        )
        # The array is moved out of the capsule, which no longer releases it.
        chunk.array, given.release = given[0], NULL
        self.chunks.append(chunk)

    cdef _read(self, object capsule):
        cdef ArrowArrayStream *stream = <ArrowArrayStream *> PyCapsule_GetPointer(
            capsule, b"arrow_array_stream"
        )
        cdef ArrowSchema schema
        cdef Chunk chunk
        if stream.get_schema(stream, &schema) != 0:
            self._fail(stream)
        self.layout = layout_of(&schema)
        schema.release(&schema)
        while self.layout != NOTHING:
            chunk = Chunk()
            if stream.get_next(stream, &chunk.array) != 0:
                self._fail(stream)
            if chunk.array.release == NULL:
                break
            self.chunks.append(chunk)

    cdef _fail(self, ArrowArrayStream *stream):
        cdef const char *error = stream.get_last_error(stream)
        reason = "" if error == NULL else ": " + error.decode("utf-8", "replace")
        raise ValueError(f"X is an Arrow stream that cannot be read{reason}")

    @property
    def has_strings(self):
        return self.layout != NOTHING

    def __len__(self):
        cdef Chunk chunk
        cdef int64_t n = 0
        for chunk in self.chunks:
            n += chunk.array.length
        return n

    def places(self, uint64_t[::1] address, int64_t[::1] size):
        """Fill the address and the size of each string; size -1: null."""
        cdef Chunk chunk
        cdef int64_t at = 0
        for chunk in self.chunks:
            if chunk.array.length > 0:
                places_of(&chunk.array, self.layout, &address[at], &size[at])
                at += chunk.array.length


cdef void places_of(const ArrowArray *array, int layout, uint64_t *address,
                    int64_t *size) noexcept nogil:
    cdef const uint8_t *valid = <const uint8_t *> array.buffers[0]
    cdef const uint8_t *data = <const uint8_t *> array.buffers[2]
    cdef const int32_t *short_ends = <const int32_t *> array.buffers[1]
    cdef const int64_t *long_ends = <const int64_t *> array.buffers[1]
    cdef const int32_t *view
    cdef int64_t i, row
    for i in range(array.length):
        row = array.offset + i
        address[i], size[i] = 0, -1
        if valid != NULL and not valid[row >> 3] >> (row & 7) & 1:
            continue
        if layout == SHORT:
            address[i] = <uint64_t> (data + short_ends[row])
            size[i] = short_ends[row + 1] - short_ends[row]
        elif layout == LONG:
            address[i] = <uint64_t> (data + long_ends[row])
            size[i] = long_ends[row + 1] - long_ends[row]
        else:
            view = short_ends + 4 * row
            size[i] = view[0]
            address[i] = <uint64_t> (view + 1)
            if size[i] > 12:
                data = <const uint8_t *> array.buffers[2 + view[2]]
                address[i] = <uint64_t> (data + view[3])


def string_places(list texts, uint64_t[::1] address, int64_t[::1] size):
    """Fill the address and the size of the UTF-8 of each string.

    Python caches the UTF-8 in the string. A string with lone surrogates has no UTF-8:
    encoded bytes replace the string in the list.

    Returns the number of strings before the first entry that is not a string.
    """
    cdef Py_ssize_t i, n_bytes
    cdef const char *data
    for i in range(len(texts)):
        text = texts[i]
        if not isinstance(text, str):
            return i
        try:
            data = PyUnicode_AsUTF8AndSize(text, &n_bytes)
        except UnicodeEncodeError:
            # A subclass may have another method `encode`.
            texts[i] = text = str.encode(text, "utf-8", "surrogatepass")
            data, n_bytes = PyBytes_AsString(text), PyBytes_Size(text)
        address[i], size[i] = <uint64_t> data, n_bytes
    return len(texts)


def gather(const uint64_t[::1] address, const int64_t[::1] size, uint8_t[::1] out):
    """Copy strings to out, one after the other. out: their total size."""
    cdef Py_ssize_t i
    cdef int64_t k = 0
    with nogil:
        for i in range(address.shape[0]):
            if size[i] > 0:
                memcpy(&out[k], <const void *> address[i], size[i])
                k += size[i]
