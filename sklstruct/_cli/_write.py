"""Models to files: the format that the name of a file says."""

from __future__ import annotations

import sys
from typing import Any

from .. import exchange
from ..backoff import BackoffModel

# Suffixes of the binary files of KenLM.
BINARY = (".bin", ".binary", ".klm", ".kenlm")


def write_model(model: BackoffModel, path: str, **options: Any) -> None:
    """Write a model in the format that the name of the file says."""
    if path == "-":
        exchange.write(model, sys.stdout.buffer, **options)
        return
    binary = path.endswith(BINARY)
    exchange.write(model, path, format="kenlm" if binary else "arpa", **options)
