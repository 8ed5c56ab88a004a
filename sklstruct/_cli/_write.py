"""Models to files: the format that the name of a file says."""

from __future__ import annotations

import sys
from typing import Any

from .. import exchange
from ..backoff import BackoffModel

NATIVE = ".sklm"
BINARY = (".bin", ".binary", ".klm", ".kenlm")  # of KenLM


def format_of(path: str) -> str:
    """The format of a file of this name."""
    if path.endswith(NATIVE):
        return "native"
    return "kenlm" if path.endswith(BINARY) else "arpa"


def write_model(model: BackoffModel, path: str, **options: Any) -> None:
    """Write a model in the format that the name of the file says."""
    if path == "-":
        exchange.write(model, sys.stdout.buffer, **options)
        return
    exchange.write(model, path, format=format_of(path), **options)
