"""`read` and `write`, with a table of the formats and their functions.

A new format is a file with the two functions and a line of `FORMATS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, BinaryIO, NamedTuple

from .._checks import check_choice
from .._files import (
    LFS_POINTER,
    WHAT_POINTER,
    DamagedData,
    beginning_with,
    check_path,
    compression_of,
    look_ahead,
    open_read,
    open_write,
    without_compression,
)
from ..backoff import BackoffModel, without_zero_weights
from ._arpa_read import read_arpa
from ._arpa_write import write_arpa
from ._att import read_att, write_att
from ._kenlm import read_kenlm, write_probing, write_trie
from ._kenlm_layout import MAGIC, kenlm_file
from ._native import NATIVE, read_native, write_native


class Format(NamedTuple):
    """The reader and the writer of a file format.

    ``read(file, label, **options)`` returns a `BackoffModel`; `label` names the file
    in messages. ``write(model, **options)`` checks everything and returns a function
    that writes to a file, so that no file is opened for a model that cannot be written.
    The options are the keyword-only parameters of the two functions. Files are binary,
    and the caller compresses and decompresses them; detach an `io.TextIOWrapper` that
    you put around one. Every file of the format begins with `magic`; empty if no bytes
    identify the format. A file whose name ends in one of `suffixes` is written in the
    format unless another is asked for.
    """

    read: Callable[..., BackoffModel]
    write: Callable[..., Callable[[Any], None]]
    magic: bytes = b""
    suffixes: tuple[str, ...] = ()


# Format name -> its functions, its first bytes and its names of files.
FORMATS = {
    "arpa": Format(read_arpa, write_arpa, suffixes=(".arpa", ".lm")),
    "kenlm": Format(
        read_kenlm, write_probing, MAGIC, (".bin", ".binary", ".klm", ".kenlm")
    ),
    "trie": Format(read_kenlm, write_trie, MAGIC, (".trie",)),
    "att": Format(read_att, write_att, suffixes=(".att",)),
    "native": Format(read_native, write_native, NATIVE.magic, (".sklm",)),
}


def format_to_write(
    path_or_file: Any, format: str | None = None, name: str = "path_or_file"
) -> str:
    """The format in which a file is to be written.

    `format` if it is given; otherwise the format of the suffix. A file object, or a
    path that is not a regular file, such as a pipe, gets the first of `FORMATS`.
    ValueError if the format is not known, or no format has the suffix; `name` is the
    parameter in the message.
    """
    if format is not None:
        check_choice("format", format, FORMATS)
        return format
    if hasattr(path_or_file, "write"):
        return next(iter(FORMATS))
    path = check_path(path_or_file, name)
    found = _suffix_format(path)
    if found is not None:
        return found
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        return next(iter(FORMATS))
    compression_of(path, name)  # a .zip is an error here
    known = "; ".join(f"{f}: {', '.join(e.suffixes)}" for f, e in FORMATS.items())
    raise ValueError(
        f"{name}={path!r}: the suffix gives the format, and must be one of {known}; "
        "joblib.dump, or the suffix .pkl in the command, writes a pickle of any model"
    )


def _suffix_format(path: str) -> str | None:
    path = without_compression(path)
    found = (name for name in FORMATS if path.endswith(FORMATS[name].suffixes))
    return next(found, None)


_UTF_16 = "text with the byte order mark of UTF-16; save it as UTF-8 without one"
# First bytes of files of other kinds, and a description for error messages.
_FOREIGN: dict[bytes, str] = {
    LFS_POINTER: WHAT_POINTER,
    b"iARPA": "an iARPA file of IRSTLM; compile-lm --text=yes makes an ARPA file of it",
    b"PK\x03\x04": "a zip archive; unpack it, or read a skops file with skops.io.load",
    b"\x80": "a pickle; read it with joblib.load, or give it a name that ends in .pkl "
    "for the command",
    b"sklstruct texts\n": "a text classifier; read it with TextClassifier.load",
    NATIVE.magic: "a native file of sklstruct; leave format out",
    b"\xef\xbb\xbf": "text with a UTF-8 byte order mark; save it as UTF-8 without one",
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
}
_HEAD = 512  # bytes by which a file is recognised


def what_is(head: bytes) -> str | None:
    """The kind of a file that is not text with n-grams, by its decompressed first
    bytes.

    A phrase, with the remedy where a remedy is known; None: not known.
    """
    if not head:
        return "the file is empty"
    if b"\\data\\\r" in head and b"\n" not in head:
        return "text whose lines end in CR alone; they must end in LF or CR LF"
    found = (what for magic, what in _FOREIGN.items() if head.startswith(magic))
    return kenlm_file(head) or next(found, None)


def _quoted(head: bytes) -> str:
    """The first line of a file, if it is text."""
    line = head.strip().partition(b"\n")[0].rstrip(b"\r")[:80]
    if not re.fullmatch(rb"[\x20-\x7e]+", line):
        return ""
    return f"; it begins with {line.decode()!r}"


def _function(name: str, way: str, options: dict[str, Any]) -> Callable[..., Any]:
    """The reader or the writer of a format; TypeError if it lacks an option."""
    check_choice("format", name, FORMATS)
    function = getattr(FORMATS[name], way)
    known = [
        parameter.name
        for parameter in signature(function).parameters.values()
        if parameter.kind is Parameter.KEYWORD_ONLY
    ]
    for option in options:
        if option not in known:
            raise TypeError(
                f"{option} is not an option to {way} the format {name!r}, whose "
                f"options are: {', '.join(known) or 'none'}"
            )
    return function


def _format_of(head: bytes, label: str) -> str:
    """The format by the first bytes; for other bytes by the name of the file, among the
    formats without fixed first bytes."""
    for name, format in FORMATS.items():
        if format.magic and head.startswith(format.magic):
            return name
    named = _suffix_format(label)
    return next(iter(FORMATS)) if named is None or FORMATS[named].magic else named


def read(
    path_or_file: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,
    **options: Any,
) -> BackoffModel:
    r"""Read a back-off model from a file.

    `LanguageModel.load` and the page :ref:`exchange` describe formats, options and
    errors. A file object need not be seekable. TypeError if the format does not have
    the option.

    For an ARPA file, the classes of the model's `labels` are all words except ``<s>``,
    sorted; the symbols are all words except ``</s>`` (which is kept if an n-gram has it
    in its context, or it has a back-off weight), sorted; start, end or unknown is None
    if the file lacks the word. The numbers of n-grams that end in ``<s>`` are in
    `file_ngrams`. Tabs and blanks separate fields; lines may end in CR LF; text before
    ``\data\`` is skipped. A missing back-off weight is 1. If ``<s>`` or ``</s>`` occurs
    twice, the first line is used; for ``<unk>``, also named ``<UNK>``, the last line.

    A probing binary of KenLM (version 5) has hash keys of n-grams and not their words:
    the n-grams of order n are searched among all pairs of known n-grams of order n - 1
    that overlap, at order 2 among all pairs of words. If an n-gram is not found, an
    error is raised. An automaton has contexts as states; unreachable states are left
    out.
    """
    if format is not None:
        _function(format, "read", options)
    with open_read(path_or_file, what="") as (file, label):
        try:
            head, file = look_ahead(file, label, _HEAD)
        except DamagedData:  # the reader raises it again and names the place
            head = b"\\data\\"
        name = format or _format_of(head, label)
        label = label or f"{name.upper()} data"
        if not FORMATS[name].magic:  # text
            what = what_is(head.lstrip() or head)
            if what is not None:
                raise ValueError(f"{label}: {what}{_quoted(head)}")
        load = _function(name, "read", options)
        return load(beginning_with(FORMATS[name].magic, file), label, **options)


def write(
    model: BackoffModel,
    path_or_file: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,
    **options: Any,
) -> None:
    """Write a back-off model to a file that other programs read.

    `LanguageModel.save` and the page :ref:`exchange` describe formats and options.
    Model, path and options are checked before a file is created. A file is renamed to
    `path` when it is complete: until then, and if writing fails, an older file is not
    changed.

    An n-gram ``h w`` with its log10 probability is the pair (node h, w); the third
    column, below the highest order, is the log10 back-off weight of the node ``h w``, 0
    where the node is missing. An n-gram that KenLM wants and the model lacks is written
    with the probability that backing off gives it (with the digits of single precision
    it is the sum of single precision that KenLM computes). A model without contexts is
    written with an empty section of bigrams, without which KenLM does not load it.
    `prob_bits`, `backoff_bits` and `pointer_bits` are the options ``-q``, ``-b`` and
    ``-a`` of KenLM's ``build_binary``, whose files have the same bytes.
    """
    format = format_to_write(path_or_file, format)
    store = _function(format, "write", options)
    store = store(without_zero_weights(model), **options)
    with open_write(path_or_file) as file:
        store(file)
