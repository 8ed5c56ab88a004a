"""The files of a command, including standard input, which are checked before any
work."""

from __future__ import annotations

import argparse
import glob
import os
import re
import stat
import sys
from contextlib import suppress
from typing import Any

from .. import exchange
from .._files import check_writable, without_compression
from ..symbols import TextFile

# Arguments that name input files, and output files with their names in messages.
_INPUTS = ("model", "models", "text", "vocabulary", "tune", "limit_vocab_file")
_OUTPUTS = {"output": "-o", "arpa": "--arpa"}
# Commands whose output format does not depend on the suffix.
_OF_ONE_FORMAT = ("lmplz", "build_binary", "classify")
# Outputs without an option: what messages call them.
_POSITIONAL = {"convert": "OUTPUT", "build_binary": "OUTPUT", "classify": "MODEL"}
# Epsilon, disambiguation symbols and the marks of sentences in a table of Kaldi.
_NO_WORD = re.compile(r"<eps>|#\d+|<s>|</s>")


def is_pickle(path: str) -> bool:
    """Whether the suffix of a path is that of a pickle, plain or compressed."""
    return without_compression(path).endswith(".pkl")


def check_files(arguments: argparse.Namespace) -> None:
    """Errors about files, before they are read.

    ValueError if an output is also an input, has an unknown suffix or is a folder, or
    if standard input is given twice; OSError if a file cannot be written.
    """
    given = vars(arguments)
    inputs: list[str] = []
    for name in _INPUTS:
        value = given.get(name) or []
        inputs += [value] if isinstance(value, str) else value
    if arguments.subcommand == "query" and "-" in inputs:
        raise ValueError(
            "MODEL must be a file: query reads sentences from standard input, which "
            "can be read once only"
        )
    if inputs.count("-") > 1:
        raise ValueError("standard input can be read once only, and is given twice")
    read = [status for path in inputs for status in _regular_files(path)]
    for name, option in _OUTPUTS.items():
        path = given.get(name)
        if path is None:
            continue
        if name == "output":
            option = _POSITIONAL.get(arguments.subcommand, option)
        for status in [] if path == "-" else _regular_files(path):
            if any(os.path.samestat(status, other) for other in read):
                raise ValueError(
                    f"{option} {path} would be read and written; give the output "
                    "another name"
                )
        _check_output(path, option, arguments.subcommand in _OF_ONE_FORMAT)


def _regular_files(path: str) -> list[os.stat_result]:
    """The status of the regular files of a name; "-" is standard input."""
    found = []
    if path == "-":
        with suppress(OSError, ValueError, AttributeError):
            found.append(os.fstat(sys.stdin.fileno()))
    else:
        names = [path]
        if not os.path.exists(path) and glob.has_magic(path):
            names = glob.glob(path, recursive=True)
        for name in names:
            with suppress(OSError, ValueError):
                found.append(os.stat(name))
    return [status for status in found if stat.S_ISREG(status.st_mode)]


def _check_output(path: str, option: str, of_one_format: bool) -> None:
    if not path:
        raise ValueError(f"{option} is empty: name a file")
    if path == "-":
        if not hasattr(sys.stdout, "fileno"):
            raise ValueError(f"{option} -: standard output is closed")
        return
    # Not of a pipe or a device.
    if not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path):
        check_writable(path, name=option)
    if not of_one_format and not is_pickle(path):
        exchange.format_to_write(path, name=option)


def source_of(path: str) -> Any:
    """A path, or the file object of standard input for "-"."""
    return sys.stdin.buffer if path == "-" else path


def label_of(path: str) -> str:
    """The name of a file in messages."""
    return "standard input" if path == "-" else path


def target_of(path: str) -> Any:
    """A path, or the file object of standard output for "-"."""
    return sys.stdout.buffer if path == "-" else path


def read_words(path: str, quiet: bool) -> list[str]:
    """The words of a file, or of Kaldi's table of words and ids.

    A table has a line "word id" for each word, with the ids 0, 1, ... in any order. The
    words of it are those that are neither marks nor symbols of automata.
    """
    rows = [line.split() for line in TextFile([source_of(path)])]
    ids = sorted(int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal())
    if len(rows) < 2 or ids != list(range(len(rows))):
        return [word for row in rows for word in row]
    words = [row[0] for row in rows if not _NO_WORD.fullmatch(row[0])]
    if not quiet:
        print(
            f"{path} is a table of words and ids: {len(words)} words are read",
            file=sys.stderr,
        )
    return words
