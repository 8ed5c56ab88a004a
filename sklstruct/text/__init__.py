"""Texts to rows of features: counts and tf-idf of n-grams."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._vectorizer import NgramVectorizer as NgramVectorizer
else:
    __all__, __getattr__, __dir__ = face(__name__)
