"""The command `sklstruct`: exit codes, streams and signals.

This module imports the standard library and lists of names only, so that ``--help`` is
fast. A subcommand is a function of `_models`, `_tables` or `_kenlm`, which is imported
when it runs.

Exit codes: 0; 1 for data or files, with one line on stderr; 2 for wrong arguments; 130
after Ctrl-C; 141 if the reader of a pipe went away. SIGTERM and SIGHUP end the process
as without a handler, after incomplete files are removed.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from ._arguments import make_parser, subparsers

__all__ = ["build_binary", "lmplz", "main", "query"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, by default with the arguments of the process; return the exit
    code."""
    words = sys.argv[1:] if argv is None else list(argv)
    with _standard_streams(), _signals():
        return _run(words)


def _run(words: list[str]) -> int:
    name = ""
    try:
        arguments = _parse(words)
        name = f" {arguments.subcommand}"
        module, function = arguments.run

        def tell(message: Any, category: type, *_: Any) -> None:
            if not arguments.quiet:
                text = _in_words_of_the_command(message)
                print(f"sklstruct{name}: warning: {text}", file=sys.stderr)

        with warnings.catch_warnings():
            warnings.showwarning = tell  # type: ignore[assignment]
            run: Callable[[argparse.Namespace], None] = getattr(
                import_module(module, __name__), function
            )
            import_module("._files", __name__).check_files(arguments)
            run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    # AttributeError: the model does not have what the command needs.
    except (OSError, ValueError, MemoryError, RuntimeError, AttributeError) as exc:
        try:
            sys.stdout.flush()
        except OSError:  # a full disk, which would fail again when Python ends
            _drop_output()
        message = _in_words_of_the_command(exc) or type(exc).__name__
        print(f"sklstruct{name}: {message}", file=sys.stderr)
        return 1
    return 0


def _in_words_of_the_command(message: Any) -> str:
    """A message without the Python parameters X and X_val at its beginning."""
    text = re.sub(r"^X_val\b", "--tune", str(message))
    return re.sub(r"^X\b", "the text", text)


def _parse(words: list[str]) -> argparse.Namespace:
    parser = make_parser()
    commands = subparsers(parser)
    if words and not words[0].startswith("-") and words[0] not in commands:
        near = difflib.get_close_matches(words[0], commands, n=1)
        more = f"did you mean {near[0]!r}?" if near else f"use {', '.join(commands)}"
        parser.error(f"COMMAND: {words[0]!r} is not a command; {more}")
    return parser.parse_args(words)


# --------------------------------------------------------- streams and signals


class _Closed:
    """A standard stream that was closed when the process began."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.buffer = self

    def isatty(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing."""

    def _refuse(self, *_: Any) -> Any:
        raise ValueError(f"{self.name} is closed")

    write = read = readinto = readline = __iter__ = __next__ = _refuse


@contextmanager
def _standard_streams() -> Iterator[None]:
    """Standard streams that are open, and write UTF-8 in any locale.

    A closed stream is None in Python. The first opened file would get its file
    descriptor, and the messages of libraries would be written to this file.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    if None in before:
        handle = os.open(os.devnull, os.O_RDWR)
        while handle < 2:
            handle = os.dup(handle)
        if handle > 2:
            os.close(handle)
    if sys.stdin is None:
        sys.stdin = _Closed("standard input")
    if sys.stdout is None:
        sys.stdout = _Closed("standard output")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # Words of a text are written as the bytes that they were read from.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        yield
    finally:
        if before[2] is None:
            sys.stderr.close()
        sys.stdin, sys.stdout, sys.stderr = before


class _Ended(BaseException):
    """SIGTERM or SIGHUP, raised so that incomplete files are removed."""


@contextmanager
def _signals() -> Iterator[None]:
    """End by SIGTERM and SIGHUP after the clean-up of open writes."""
    names = ("SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    # A signal that is ignored, as under nohup, stays so.
    numbers = [n for n in numbers if signal.getsignal(n) is signal.SIG_DFL]

    def end(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second signal ends at once
        raise _Ended(number)

    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    except _Ended as exc:
        os.kill(os.getpid(), exc.args[0])
        raise
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _drop_output() -> None:
    # The interpreter flushes standard output when it ends, which would fail again.
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# -------------------------------------------------------------------- programs


def lmplz() -> int:
    """``sklstruct lmplz`` with the arguments of the process."""
    return main(["lmplz", *sys.argv[1:]])


def query() -> int:
    """``sklstruct query`` with the arguments of the process."""
    return main(["query", *sys.argv[1:]])


def build_binary() -> int:
    """``sklstruct build_binary`` with the arguments of the process."""
    return main(["build_binary", *sys.argv[1:]])
