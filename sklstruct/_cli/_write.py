"""Write models in the format of the suffix of the file."""

from __future__ import annotations

import sys
from typing import Any

from .. import exchange
from ..backoff import BackoffModel
from ..exchange._formats import format_of_name


def write_model(model: BackoffModel, path: str, **options: Any) -> None:
    """Write a model in the format of the suffix of the path; "-": standard output."""
    if path == "-":
        exchange.write(model, sys.stdout.buffer, **options)
        return
    exchange.write(model, path, format=format_of_name(path), **options)
