"""Reading and writing of binary files: atomic writes, compression by suffix.

A write goes to a temporary file in the same folder, which is flushed and synced and
then replaces the old file in one step. A full disk, an exception or a killed process
leaves the old file unchanged. Reading recognises the compression by the first bytes of
the file.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple


class Compression(NamedTuple):
    """A compressed format that Python's own library reads and writes."""

    name: str
    suffix: str
    magics: tuple[bytes, ...]  # possible first bytes of its files
    module: str  # its `open` takes file objects


COMPRESSIONS = (
    Compression("gzip", ".gz", (b"\x1f\x8b",), "gzip"),
    Compression(
        "bzip2",
        ".bz2",
        # A compression level, then the mark of a block or of the end.
        tuple(b"BZh%d%s" % (k, m) for k in range(1, 10) for m in (b"1A", b"\x17r")),
        "bz2",
    ),
    Compression("xz", ".xz", (b"\xfd7zXZ\0",), "lzma"),
    Compression("zstd", ".zst", (b"\x28\xb5\x2f\xfd",), "compression.zstd"),
)
# Suffixes of compressed formats that cannot be written: a file of plain data with such
# a suffix would be misleading.
_REFUSED_SUFFIXES = frozenset(
    (".7z", ".br", ".lz", ".lz4", ".lzma", ".lzo", ".rar", ".sz", ".tar", ".tbz2")
    + (".tgz", ".txz", ".z", ".zip", ".zstd")
)
_MAGIC_SIZE = 6  # of the longest magic number
# First bytes of a file that git-lfs has not fetched, and its description in messages.
LFS_POINTER = b"version https://git-lfs"
_LFS_LINE = 42  # bytes of the first line
WHAT_POINTER = "a pointer of git-lfs, not the file itself; run git lfs pull"
# A full disk, a quota, a limit of the process, or a disk failure.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def without_compression(path: str) -> str:
    """A path without the suffix of a compression."""
    for compression in COMPRESSIONS:
        path = path.removesuffix(compression.suffix)
    return path


class DamagedData(ValueError):
    """Compressed data that cannot be unpacked."""


def _codec(compression: Compression, file: Any, mode: str, label: str) -> Any:
    """A binary file that compresses into `file`, or decompresses from it."""
    try:
        module = import_module(compression.module)
    except ImportError:
        # The module for earlier versions of Python. The package zstandard would read a
        # truncated file without an error.
        name = compression.module.replace("compression", "backports")
        try:
            module = import_module(name)
        except ImportError as exc:
            raise ValueError(
                f"{label} needs {compression.name} compression, but this Python has "
                f"no module {compression.module}; pip install backports.zstd"
            ) from exc
    if compression.name != "gzip":
        return module.open(file, mode)
    # No file name and no time in the header, so that equal data gives equal bytes.
    options = {"compresslevel": 6, "mtime": 0} if mode == "wb" else {}
    return module.GzipFile("", mode, fileobj=file, **options)


# ------------------------------------------------------------------- writing


class FullWriter(io.BufferedIOBase):
    """A file that writes every byte to a file object of the caller.

    A raw stream may write only a part of the data; it returns the number of bytes.
    """

    def __init__(self, file: Any, name: str) -> None:
        self._file = file
        if isinstance(file, io.TextIOBase) or hasattr(file, "encoding"):
            raise ValueError(
                f"{name} is open as text; open it as binary, for example with "
                "open(path, 'wb'), or pass an io.BytesIO"
            )

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        raw = isinstance(self._file, io.RawIOBase)
        while len(rest):
            taken = self._file.write(rest.tobytes() if len(rest) < size else data)
            if taken is None and not raw:
                break  # a wrapper that does not return the number of bytes
            # A raw stream returns None if it would block.
            if not taken:
                raise OSError(f"the file took none of {len(rest)} bytes: {self._file}")
            rest = rest[int(taken) :]
        return size


def compression_of(path: str, name: str) -> Compression | None:
    """The compression for a suffix; ValueError for an unsupported compression."""
    suffix = os.path.splitext(path)[1].lower()
    for compression in COMPRESSIONS:
        if suffix == compression.suffix:
            return compression
    if suffix in _REFUSED_SUFFIXES:
        known = ", ".join(c.suffix for c in COMPRESSIONS)
        raise ValueError(
            f"{name}={path!r}: files of the type {suffix!r} cannot be written; use "
            f"one of {known}, or no suffix of compression"
        )
    return None


@contextmanager
def open_write(path_or_file: Any, *, name: str = "path_or_file") -> Iterator[Any]:
    """A binary file to be written, from a path or from a file of the caller.

    A path is written atomically: a temporary file replaces it at the end of the block.
    Its suffix gives the compression: ``.gz``, ``.bz2``, ``.xz`` or ``.zst`` (which
    before Python 3.14 needs ``backports.zstd``). A file object receives plain bytes and
    stays open.

    ValueError, with the `name` of the parameter, if it is not a path or a file object,
    is open as text, or has the suffix of an unsupported compression. OSError, with the
    path, if the bytes cannot be written; an existing file is then unchanged.
    """
    if hasattr(path_or_file, "write"):
        yield FullWriter(path_or_file, name)
        return
    path = check_path(path_or_file, name)
    compression_of(path, name)  # an error before any file is made
    with write_aside(path) as raw, packing(raw, path) as file:
        yield file


def packing(raw: Any, path: str) -> AbstractContextManager[Any]:
    """A file that writes to `raw`, compressed by the suffix of `path`.

    Several compressed parts, one after the other, are decompressed as one file.
    """
    compression = compression_of(path, "path")
    if compression is None:
        return nullcontext(raw)
    return _codec(compression, raw, "wb", path)


@contextmanager
def any_place(file: Any) -> Iterator[Any]:
    """A file of `open_write` whose bytes can be written and read in any order.

    If `file` can only be written in order, it is a temporary file, which is copied to
    `file` at the end.
    """
    if file.readable():
        yield file
        return
    with tempfile.TemporaryFile() as image:
        yield image
        image.seek(0)
        shutil.copyfileobj(image, file, 1 << 20)


def folder_beside(file: Any) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder, in the folder of a file of `any_place` or of the system."""
    name = getattr(file, "name", None)
    here = os.path.dirname(name) if isinstance(name, str) else None
    return tempfile.TemporaryDirectory(prefix=".", dir=here)


@contextmanager
def open_there(path: str) -> Iterator[Any]:
    """An existing file, opened to change some of its bytes; synced at the end."""
    with open(path, "r+b") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def raise_if_full(exc: OSError, what: str, folder: str) -> None:
    """An error that names the remedy if a temporary file found the disk full."""
    if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        raise OSError(
            exc.errno,
            f"{exc.strerror}: no room for {what}; free some, or choose another folder "
            "for temporary files (folder of TextFile, -T of the command, local "
            "directory of a Dask worker)",
            folder,
        ) from exc


class _Proof(Exception):
    """Ends the trial of `check_writable` before the file is replaced."""


def check_writable(path: Any, *, name: str) -> None:
    """Raise an error, before any work, if `open_write` could not write a regular file.

    The check creates the temporary file of `open_write` and removes it. ValueError,
    with the `name` of the parameter, if it is not the path of a regular file, or has
    the suffix of an unsupported compression; OSError if the file cannot be written.
    """
    path = check_path(path, name)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise ValueError(f"{name}={path!r} must be a regular file")
        with suppress(_Proof), open_write(path, name=name):
            raise _Proof
    except OSError as exc:
        # Python derives the subclass from errno.
        raise OSError(
            exc.errno, f"{name} cannot be written ({exc.strerror})", path
        ) from exc
    except UnicodeEncodeError as exc:
        raise ValueError(
            f"{name}={path!r} cannot be the name of a file ({exc.reason})"
        ) from exc


def check_path(
    path_or_file: Any, name: str, what: str = "a path or a binary file"
) -> str:
    """A path as a string; ValueError for anything else.

    what: the expected value, for the message.
    """
    if isinstance(path_or_file, (str, os.PathLike)):
        path = os.fspath(path_or_file)
        if isinstance(path, str):
            if not path or "\0" in path:
                why = "it has a null character" if path else "it is empty"
                raise ValueError(
                    f"{name}={path!r} cannot be the name of a file ({why})"
                )
            return path
    raise ValueError(f"{name} must be {what}, got {path_or_file!r:.60}")


def path_as_peers_take(path: Any) -> str:
    """`check_path` for a path that may be bytes, as in fastText and KenLM."""
    path = os.fsdecode(path) if isinstance(path, bytes) else path
    return check_path(path, "path", "a path")


@contextmanager
def write_aside(path: str) -> Iterator[Any]:
    """A temporary file that replaces `path` when the block ends without an exception.

    Its `name` is its temporary path.
    """
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        # A device or a pipe has no content to protect and cannot be replaced; opening
        # a folder raises.
        with open(path, "wb") as file:
            yield file
        return
    # A symbolic link stays; its target is replaced. Pipes are handled above: the target
    # of /dev/stdout may have no path.
    path = os.path.realpath(path)
    if old is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "the file may not be written", path)
    folder = os.path.dirname(path)
    aside = os.path.join(folder, f".{secrets.token_hex(8)}.tmp")
    try:
        new = open(aside, "x+b")  # noqa: SIM115
    except OSError as exc:
        if not os.path.exists(folder):
            raise FileNotFoundError(
                exc.errno, f"the folder {folder!r} does not exist", path
            ) from exc
        raise OSError(
            exc.errno,
            f"{exc.strerror}: no new file can be made in the folder, where the data "
            "is written before it replaces the old file",
            path,
        ) from exc
    try:
        with new as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            if hasattr(os, "chown"):
                with suppress(OSError):  # only the superuser may change the owner
                    os.chown(aside, old.st_uid, old.st_gid)
            os.chmod(aside, stat.S_IMODE(old.st_mode))
        os.replace(aside, path)
    except BaseException as exc:
        with suppress(OSError):
            os.unlink(aside)
        # The error of a full disk names no file.
        if isinstance(exc, OSError) and exc.errno in _NO_ROOM and not exc.filename:
            exc.filename = path
        raise
    # The rename is durable once the folder is synced. Windows cannot open a folder, and
    # some file systems cannot sync one.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ------------------------------------------------------------------- reading


class MappedFile(NamedTuple):
    """A mapped file; the pickle of an object that was read from it.

    Processes that read such a pickle share the pages of the file. head: the first
    bytes, which must change with the content, for example because they have a hash.
    """

    read: Callable[[str], Any]  # a function at the top of a module that reads the file
    path: str
    head: bytes

    @classmethod
    def of(
        cls, read: Callable[[str], Any], file: Any, label: str, head: bytes
    ) -> MappedFile | None:
        """The mapped file; None if `label` is not its path."""
        try:
            same = os.path.samestat(os.fstat(file.fileno()), os.stat(label))
        except OSError:
            return None
        return cls(read, os.path.abspath(label), head) if same else None

    def is_unchanged(self) -> bool:
        """Whether the file exists and has not changed."""
        try:
            with open(self.path, "rb") as file:
                return file.read(len(self.head)) == self.head
        except OSError:
            return False

    def reopen(self) -> Any:
        """The object of an unchanged file. It is shared and must not be changed."""
        if self.is_unchanged():
            return _reopened(self)
        raise ValueError(
            f"{self.path}: the pickle of a mapped model names this file, which is "
            "not there or has changed; for a pickle that holds the numbers, load the "
            "model with mmap=False"
        )


@lru_cache(maxsize=2)
def _reopened(file: MappedFile) -> Any:
    # Cached: each task of a cluster brings a pickle of the same model.
    return file.read(file.path)


def beginning_with(magic: bytes, file: Any) -> Any:
    """The file of `open_read`, or only its first bytes if these are not `magic`.

    Then the first bytes are enough for an error, and a large file is not read.
    """
    head = file.peek(len(magic)) if magic else b""
    return file if magic.startswith(head[: len(magic)]) else io.BytesIO(head)


def look_ahead(file: Any, label: str, size: int) -> tuple[bytes, io.BufferedReader]:
    """(first bytes of a file, the file from its beginning).

    A pipe is read until it has given `size` bytes, or ends.
    """
    reader = _PeekableReader(file, label)
    return reader.peek(size), io.BufferedReader(reader)


class _PeekableReader(io.RawIOBase):
    """A file object from its current position, whose first bytes can be peeked at.

    An OSError without a file name gets the label as its name.
    """

    def __init__(self, file: Any, label: str) -> None:
        self._file, self._label = file, label
        self._head = b""
        self._start: int | None = None  # first position; None: it cannot seek
        with suppress(AttributeError, OSError, ValueError):
            self._start = file.tell() if file.seekable() else None

    def peek(self, size: int) -> bytes:
        """The first bytes, without consuming them."""
        head = b""
        while len(head) < size:
            more = self._named(self._file.read, size - len(head))
            if isinstance(more, str):
                raise ValueError(
                    f"{self._label} is open as text; open it as binary, for example "
                    "with open(path, 'rb'), or pass an io.BytesIO"
                )
            if not isinstance(more, (bytes, bytearray)):
                raise ValueError(
                    f"{self._label} must give bytes when it is read, got "
                    f"{type(more).__name__}"
                )
            if not more:
                break
            head += more
        if self._start is None:
            self._head = head
        else:
            self._file.seek(self._start)
        return head

    def _named(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except OSError as exc:
            if exc.errno is not None and exc.filename is None:
                exc.filename = self._label
            raise

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._start is not None

    def fileno(self) -> int:
        if self._start != 0:
            raise io.UnsupportedOperation(f"{self._label} does not begin as its file")
        return self._file.fileno()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if self._start is None:
            raise io.UnsupportedOperation(f"{self._label} cannot be read again")
        at = offset + self._start if whence == io.SEEK_SET else offset
        return self._named(self._file.seek, at, whence) - self._start

    def readinto(self, buffer: Any) -> int | None:
        if self._head:
            data, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        else:
            read = self._file.read
            if type(self._file) is io.BufferedReader:
                read = self._file.read1  # returns the bytes that a pipe has now
            data = self._named(read, len(buffer))
            if data is None:  # a non-blocking stream without data
                return None
        buffer[: len(data)] = data
        return len(data)


class _Decompressed(io.RawIOBase):
    """The decompressed bytes of a file; raises DamagedData if they are damaged."""

    def __init__(self, file: Any, compression: Compression) -> None:
        self._file, self._compression = file, compression
        # A read after an error would look like the end of the file.
        self._damage: DamagedData | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        if self._damage is not None:
            raise self._damage
        try:
            return self._file.readinto(buffer)
        except Exception as exc:
            # The modules' exceptions have no common base class. An OSError with errno
            # comes from the compressed file itself.
            known = isinstance(exc, (EOFError, zlib.error, OSError))
            known = known or type(exc).__name__ in ("LZMAError", "ZstdError")
            if not known or getattr(exc, "errno", None) is not None:
                raise
            self._damage = DamagedData(f"broken {self._compression.name} data: {exc}")
            raise self._damage from exc


@contextmanager
def open_read(
    path_or_file: Any,
    *,
    name: str = "path_or_file",
    what: str = "data",
) -> Iterator[tuple[io.BufferedReader, str]]:
    """(reader of a file, name of the file in messages), from a path or a file object.

    The reader decompresses; the first bytes determine the compression. A file object is
    read from its current position, need not be seekable, and stays open; `what` is its
    name in messages if it does not have a name. The reader is seekable if the file is,
    and raises `DamagedData` if the compressed data is damaged.

    ValueError, with the `name` of the parameter, if it is not a path or a file object,
    is open as text, or is a pointer of git-lfs. OSError, with the file, if it cannot be
    read.
    """
    if hasattr(path_or_file, "read"):
        label = str(getattr(path_or_file, "name", what))
        label = "standard input" if label == "<stdin>" else label
        yield _unpacked(path_or_file, label), label
        return
    path = check_path(path_or_file, name)
    with open(path, "rb") as file:
        yield _unpacked(file, path), path


def _unpacked(file: Any, label: str) -> io.BufferedReader:
    given = _PeekableReader(file, label)
    head = given.peek(_MAGIC_SIZE)
    # Not for a pipe, whose writer may wait after the first bytes, and not for data
    # without a label: the readers of models detect a pointer themselves.
    if label and given.seekable() and LFS_POINTER.startswith(head) and head:
        head = given.peek(_LFS_LINE)
        if head.startswith(LFS_POINTER):
            line = head.decode("utf-8", "replace")
            raise ValueError(f"{label}: {WHAT_POINTER}; it begins with {line!r}")
    for compression in COMPRESSIONS:
        if head.startswith(compression.magics):
            packed = _codec(compression, given, "rb", label)
            return io.BufferedReader(_Decompressed(packed, compression))
    return io.BufferedReader(given)
