"""`read` and `write`: a format is a pair of functions in one table.

A new format is a file with the two functions and a line of `FORMATS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, BinaryIO, NamedTuple

from .._files import (
    COMPRESSIONS,
    LFS_POINTER,
    WHAT_POINTER,
    DamagedData,
    beginning_with,
    check_path,
    compression_of,
    open_read,
    open_write,
)
from ..backoff import BackoffModel, without_zero_weights
from ..backoff._model import check_model
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

    Parameters
    ----------
    path_or_file : str, os.PathLike or binary file object
        A path is written in the format of its suffix. A file object, or what is not a
        regular file, such as a pipe, gets the first of `FORMATS`.

    format : str, default=None
        The format that is asked for, whatever the suffix.

    name : str, default="path_or_file"
        Name of the parameter in error messages.

    Raises
    ------
    ValueError
        If the format is not known, or no format has the suffix.
    """
    if format is not None:
        _check_format(format)
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
    for compression in COMPRESSIONS:
        path = path.removesuffix(compression.suffix)
    found = (name for name in FORMATS if path.endswith(FORMATS[name].suffixes))
    return next(found, None)


def _check_format(name: str) -> None:
    if name not in FORMATS:
        names = ", ".join(map(repr, FORMATS))
        raise ValueError(f"format must be one of {names}, got {name!r}")


# First bytes of files that are handed to `read` by mistake, and what they are.
_FOREIGN: dict[bytes, str] = {
    LFS_POINTER: WHAT_POINTER,
    b"iARPA": "an iARPA file of IRSTLM; compile-lm --text=yes makes an ARPA file of it",
    b"PK\x03\x04": "a zip archive; unpack it, or read a skops file with skops.io.load",
    b"\x80": "a pickle; read it with joblib.load, or let `sklstruct convert` make a "
    "file of n-grams",
    b"sklstruct texts\n": "a text classifier; read it with TextClassifier.load",
    NATIVE.magic: "a native file of sklstruct; leave format out",
}
_TEXTS = {"arpa", "att"}
_HEAD = 512  # bytes that tell what a file is


def what_is(head: bytes) -> str | None:
    """The kind of a file that is not text with n-grams, by its first bytes.

    Parameters
    ----------
    head : bytes
        Decompressed; b"" of an empty file.

    Returns
    -------
    what : str or None
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
    _check_format(name)
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

    .. math::
        \log P(w \mid h) = \ln 10 \cdot \mathtt{first\ column\ of\ "h\ w"}, \qquad
        \log \mathrm{bow}(h) = \ln 10 \cdot \mathtt{last\ column\ of\ "h"}

    Parameters
    ----------
    path_or_file : str, os.PathLike or binary file object
        Plain, or compressed by gzip, bzip2, xz or (from Python 3.14 on, before with the
        package ``backports.zstd``) zstd. The first bytes tell the compression, not the
        name. A file object need not be seekable.

    format : {"arpa", "kenlm", "trie", "att", "native"}, default=None
        Format of the file, a key of ``FORMATS``; None: recognised by the first bytes,
        or by the suffix ``.att`` of the name.

    **options
        Options of the format. Of ``"att"``: `backoff` ("<epsilon>"), the symbol of the
        arcs that back off. Of ``"native"``: `mmap` (True), whether a plain file is
        mapped, so that its arrays take memory only where they are read and are shared
        by processes, and `verify` (True), whether hashes are compared, so that a
        changed number is found; pointers and ids are checked in any case. Of
        ``"kenlm"`` and ``"trie"``, which both read either kind of KenLM's binaries:
        `max_candidates` (1e11), the most candidates that are tried for the n-grams of
        one order of a probing binary.

    Returns
    -------
    model : BackoffModel
        From an ARPA file, its `labels` have as classes all words but ``<s>``, sorted;
        as symbols all words but ``</s>`` (which is kept if some n-gram has it in its
        context, or it has a back-off weight), sorted; and None as start, end or unknown
        where the file lacks the word. Without ``<unk>`` unknown words have no class.
        The numbers of n-grams that end in ``<s>`` are in `file_ngrams`.

    Raises
    ------
    ValueError
        With the number of the line, if the file is not a valid ARPA file: cut short,
        damaged, of another format, or packed in a way that is not supported; sections
        or counts that do not match; text where a number should be; positive
        log-probabilities; n-grams of the wrong length, that occur twice or with a word
        that is not a unigram; a back-off weight other than 0 at the highest order; a
        line of more than 16 MiB, or 1 MiB of text without an n-gram. It is also raised
        if the value of a parameter is not valid.
    TypeError
        If the format does not have the option.

    Warns
    -----
    UserWarning
        If a mark occurs twice with different numbers.

    See Also
    --------
    write : The reverse.

    Notes
    -----
    Tabs and blanks separate fields; lines may end in CR LF; text before ``\data\`` is
    skipped. A missing back-off weight is 1, also at the highest order, where it may
    only be 1. A context that the list of n-grams lacks, as after pruning, gets a
    back-off weight of 1, and a missing suffix its back-off probability, as the format
    defines. Numbers are taken as they stand, those of marks included, as KenLM does:
    -99 is read as 10 :sup:`-99`, -120 as 10 :sup:`-120` and -inf as 0. If ``<s>`` or
    ``</s>`` occurs twice, the first line counts, and the last one of ``<unk>``, which
    ``<UNK>`` is another name of.

    ``"kenlm"`` is the probing binary of KenLM, version 5. It holds hash keys of n-grams
    and not their words: those of order n are searched among all pairs of known n-grams
    of order n - 1 that overlap, at order 2 among all pairs of words. A file of which an
    n-gram is not found is an error. ``"trie"`` is the other kind of KenLM's binaries,
    which lists the n-grams, also with quantised numbers and compressed pointers. To
    score texts only, `sklstruct.compat.kenlm.Model` maps either without reading it.

    ``"att"`` is an automaton whose states are contexts, as OpenGrm makes them; see
    `write`. States that nothing leads to are left out.

    References
    ----------
    A. Stolcke, "SRILM: an extensible language modeling toolkit", ICSLP 2002 (the
    format: its manual page ngram-format).

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from sklstruct.exchange import read
    >>> text = b'''\\data\\
    ... ngram 1=3
    ... ngram 2=1
    ...
    ... \\1-grams:
    ... -99 <s> -0.30103
    ... -0.30103 a
    ... -0.30103 </s>
    ...
    ... \\2-grams:
    ... -0.1249387 <s> a
    ...
    ... \\end\\
    ... '''
    >>> model = read(io.BytesIO(text))
    >>> nodes = model.locate(model.labels.encode_contexts([["<s>"], ["a"]]))
    >>> model.labels.classes.tolist()
    ['</s>', 'a']
    >>> np.exp(model.rows(nodes)).round(3)
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    if format is not None:
        _function(format, "read", options)
    with open_read(path_or_file, what="") as (file, label):
        try:
            head = file.peek(_HEAD)
        except DamagedData:  # the reader raises it again and names the place
            head = b"\\data\\"
        name = format or _format_of(head, label)
        label = label or f"{name.upper()} data"
        if name in _TEXTS:
            what = what_is(head)
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
    r"""Write a back-off model to a file that other programs read.

    .. math::
        \mathtt{first\ column\ of\ "h\ w"} = \log_{10} P(w \mid h), \qquad
        \mathtt{last\ column\ of\ "h"} = \log_{10} \mathrm{bow}(h)

    Parameters
    ----------
    model : BackoffModel
        The ``backoff_model_`` of a fitted estimator, or one that was read. It must
        know its context symbols.

    path_or_file : str, os.PathLike or binary file object
        A path that ends in ``.gz``, ``.bz2``, ``.xz`` or (from Python 3.14 on, before
        with the package ``backports.zstd``) ``.zst`` is compressed. The file takes its
        name when it is complete: until then, and if writing fails, an older one stays
        as it was.

    format : {"arpa", "kenlm", "trie", "att", "native"}, default=None
        Format of the file, a key of ``FORMATS``. None: that of the suffix, ``.arpa`` or
        ``.lm``; ``.bin``, ``.binary``, ``.klm`` or ``.kenlm``; ``.trie``; ``.att``;
        ``.sklm``. A file object, a pipe or a device gets ``"arpa"``.

    **options
        Options of the format. Of ``"arpa"``: `precision` (None), the decimals of the
        log10 values, 1 to 15; None: numbers of up to 12 digits as they are, others
        rounded to single precision, with the 6 to 9 digits that give the single
        precision back. Of ``"kenlm"``:
        `multiplier` (1.5), buckets of the hash tables for each n-gram, above 1. Of
        ``"trie"``: `prob_bits` (None), 1 to 25, and `backoff_bits` (None: as
        `prob_bits`), 2 to 25: probabilities and back-off weights of bigrams and longer
        n-grams are rounded to 2 :sup:`bits` values for each order; `pointer_bits`
        (None), 0 to 255, the most bits that are taken out of a pointer. Of ``"att"``:
        `backoff` ("<epsilon>"), the symbol of the arcs that read nothing. Of
        ``"native"``: `dtype` ("float64"); "float32" halves the numbers and rounds them.

    Raises
    ------
    ValueError
        Before a file is made: if `model` does not know its context symbols; if a symbol
        cannot be written (empty, with a blank, tab, line end or NUL in it, not
        encodable, or spelt like another one); if the value of a parameter is not valid,
        or the path has the suffix of another compression or, with ``format=None``, of
        no format.

    TypeError
        If `model` is not a `BackoffModel`, or the format lacks an option.

    OSError
        If the file cannot be stored, for example because the disk is full.

    See Also
    --------
    read : The reverse.

    Notes
    -----
    An n-gram ``h w`` with its log10 probability is the pair (node h, w); the third
    column, below the highest order, is the log10 back-off weight of the node ``h w``, 0
    where the node is missing. KenLM wants the context and the suffix of every n-gram in
    the file. An n-gram that the model lacks is written with the probability that
    backing off gives it, so that no score changes (with the digits of single precision
    it is the sum of single precision that KenLM computes). A model without contexts is
    written with an empty section of bigrams, without which KenLM does not load it.

    The n-grams of weight 0 of a log-linear model are left out, unless an n-gram that is
    written needs them: backing off gives the same probability.

    The numbers of a model that was read from a file are written as they were, -inf and
    those of the marks included. In other models ``<s>`` gets 0, as from KenLM's lmplz;
    a symbol that is never predicted, an end mark that the model lacks, and a
    probability of 0 get -99. A model without unknown words is written without
    ``<unk>``: KenLM then gives unknown words -100.

    ``"kenlm"`` is the probing binary of KenLM, version 5, with float32 values;
    ``"trie"`` is KenLM's trie, which needs less memory and more time for a score.
    `prob_bits`, `backoff_bits` and `pointer_bits` are the options ``-q``, ``-b`` and
    ``-a`` of KenLM's ``build_binary``, whose files have the same bytes.

    ``"att"`` is the text of a weighted automaton in the format of AT&T's and OpenFst's
    tools: lines ``source target word weight`` with the weights :math:`-\ln P(w \mid
    h)`, arcs of the symbol `backoff` to the shorter context with
    :math:`-\ln \mathrm{bow}(h)`, and ``state weight`` with that of the end mark. State
    0 is the empty context; the source of the first line is the initial state.

    ``"native"`` is a file of this library: arrays and labels (strings or integers) as
    they are. It is read without running code, unlike a pickle, and without
    scikit-learn; a newer version of the format is refused.

    References
    ----------
    A. Stolcke, "SRILM: an extensible language modeling toolkit", ICSLP 2002 (the
    format: its manual page ngram-format).

    Examples
    --------
    >>> import io
    >>> from sklstruct import KneserNeyLM, LanguageModel
    >>> from sklstruct.exchange import write
    >>> sentences = [["a", "b"], ["a", "a"], ["b"]]
    >>> model = LanguageModel(KneserNeyLM(discount=0.5), max_depth=1).fit(sentences)
    >>> file = io.BytesIO()
    >>> write(model.backoff_model_, file, precision=4)
    >>> print(file.getvalue().decode().replace("\t", " "), end="")
    \data\
    ngram 1=5
    ngram 2=6
    <BLANKLINE>
    \1-grams:
    -0.5051 a -0.301
    -0.5051 b -0.6021
    -1.2041 <unk> 0
    -0.5051 </s> 0
    0 <s> -0.4771
    <BLANKLINE>
    \2-grams:
    -0.4909 a a
    -0.4909 a b
    -0.4909 a </s>
    -0.0819 b </s>
    -0.2188 <s> a
    -0.5673 <s> b
    <BLANKLINE>
    \end\
    """
    check_model(model)
    format = format_to_write(path_or_file, format)
    store = _function(format, "write", options)
    store = store(without_zero_weights(model), **options)
    with open_write(path_or_file) as file:
        store(file)
