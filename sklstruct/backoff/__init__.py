"""Back-off models: one query engine for every language model of sklstruct."""

from ._model import BackoffModel

__all__ = ["BackoffModel"]
