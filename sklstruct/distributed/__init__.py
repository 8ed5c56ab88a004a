"""Training on a cluster."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._cluster import SchedulerLost
    from ._language_model import DaskLanguageModel

__all__ = ["DaskLanguageModel", "SchedulerLost"]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._cluster": ["SchedulerLost"],
            "._language_model": ["DaskLanguageModel"],
        },
    )
