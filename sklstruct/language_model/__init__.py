"""Language models over sentences."""

from ._language_model import LanguageModel

__all__ = ["LanguageModel"]
