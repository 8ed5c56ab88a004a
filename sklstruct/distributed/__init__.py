"""Training on a cluster."""

__all__: list[str] = []
