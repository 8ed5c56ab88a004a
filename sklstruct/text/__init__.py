"""N-gram features of texts, and classification of texts."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._classifier import TextClassifier as TextClassifier
    from ._fasttext import FastTextFile, is_fasttext, read_labelled
    from ._targets import log_loss_of
    from ._vectorizer import NgramVectorizer as NgramVectorizer
else:
    __all__, __getattr__, __dir__ = face(__name__)
