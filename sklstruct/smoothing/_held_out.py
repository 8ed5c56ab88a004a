"""Smoothers that choose numbers on held-out samples."""

from __future__ import annotations

from ..backoff._held_out import HeldOutClassifier
from ._engine import NGramSmoother


class HeldOutSmoother(HeldOutClassifier, NGramSmoother):
    """Base of the smoothers with `_uses_held_out` and `_tune`."""
