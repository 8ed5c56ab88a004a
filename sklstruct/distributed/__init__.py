"""Training on a cluster."""

__all__ = []
