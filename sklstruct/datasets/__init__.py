"""Loaders and generators of data."""

from sklstruct.datasets._clustered import make_clustered_classes

__all__ = ["make_clustered_classes"]
