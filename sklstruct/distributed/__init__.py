"""Training on a cluster."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._language_model import DaskLanguageModel as DaskLanguageModel
else:
    __all__, __getattr__, __dir__ = face(__name__)
