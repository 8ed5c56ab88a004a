"""Training on a cluster."""

from ._cluster import SchedulerLost
from ._language_model import DaskLanguageModel

__all__ = ["DaskLanguageModel", "SchedulerLost"]
