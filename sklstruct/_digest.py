"""Digests of arrays and of settings. Up to collisions, two digests are equal if and
only if the contents are equal."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

# Largest length of the text of a list; a longer text is replaced by its digest.
_LONGEST = 60


def digest(*arrays: np.ndarray | None, size: int = 8) -> str:
    """Digest of `size` bytes, as hexadecimal text."""
    found = blake2b(digest_size=size)
    for array in arrays:
        if array is None:
            found.update(b"None")
        else:
            found.update(f"{array.dtype.str}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).data.cast("B"))
    return found.hexdigest()


def settings_of(value: Any, without: Collection[str] = ()) -> str:
    """A parameter as exact text, equal in any process and with any print options.

    The text of an estimator has its class and the parameters that differ from their
    defaults. An array is converted to a list.

    without: names of parameters of an estimator that are left out.
    """
    if isinstance(value, BaseEstimator):
        default = {k: p.default for k, p in signature(type(value)).parameters.items()}
        texts = {
            name: settings_of(given)
            for name, given in value.get_params(deep=False).items()
            if name not in without
        }
        changed = [f"{k}={t}" for k, t in texts.items() if t != settings_of(default[k])]
        return f"{type(value).__name__}({', '.join(changed)})"
    if hasattr(value, "toarray"):
        value = value.toarray()
    if hasattr(value, "__array__"):
        value = np.asarray(value).tolist()
    if isinstance(value, dict):
        return f"dict({settings_of(list(value.items()))})"
    if not isinstance(value, list | tuple):
        return repr(value)
    text = f"[{', '.join(map(settings_of, value))}]"
    return text if len(text) <= _LONGEST else digest(np.array(text))
