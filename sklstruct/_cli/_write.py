"""Write models in the format of the suffix of the file."""

from __future__ import annotations

import sys
from typing import Any

from .. import exchange
from ..backoff import BackoffModel


def write_model(
    model: BackoffModel, path: str, format: str | None = None, **options: Any
) -> None:
    """Write a model; None: in the format of the suffix. "-" is standard output."""
    file = sys.stdout.buffer if path == "-" else path
    exchange.write(model, file, format=format, **options)
