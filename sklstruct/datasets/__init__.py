"""Texts that need no download."""

from ._python_topics import load_python_topics

__all__ = ["load_python_topics"]
