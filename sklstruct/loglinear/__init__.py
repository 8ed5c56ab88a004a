"""Log-linear language models with structured penalties."""

from ._estimator import StructuredLogLinearLM

__all__ = ["StructuredLogLinearLM"]
