"""Symbols and their ids: labels, sentences, windows, text files."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

# Names imported `as` themselves are for the packages above, not on the API page.
if TYPE_CHECKING:
    from ._encoding import LabelLists as LabelLists
    from ._encoding import encode as encode
    from ._encoding import encode_labels as encode_labels
    from ._encoding import is_missing as is_missing
    from ._encoding import is_nan as is_nan
    from ._encoding import learn_symbols as learn_symbols
    from ._encoding import object_array as object_array
    from ._ids import prepare_for_ids as prepare_for_ids
    from ._labels import Labels
    from ._labels import read_vocabulary as read_vocabulary
    from ._labels import sort_symbols as sort_symbols
    from ._labels import union_labels as union_labels
    from ._sentences import ContextWindows, context_windows
    from ._sentences import SentenceEncoder as SentenceEncoder
    from ._sentences import TextWindows as TextWindows
    from ._sentences import VocabularyRules as VocabularyRules
    from ._sentences import check_symbols as check_symbols
    from ._sentences import stream_windows as stream_windows
    from ._text import NumberedText as NumberedText
    from ._text import TextFile
    from ._text import join_symbols as join_symbols
    from ._text import number_sentences as number_sentences
    from ._text import odd_spaces as odd_spaces
    from ._text import seems_unsplit as seems_unsplit
    from ._text import split_string as split_string

__all__ = ["ContextWindows", "Labels", "TextFile", "context_windows"]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._encoding": [
                "LabelLists",
                "encode",
                "encode_labels",
                "is_missing",
                "is_nan",
                "learn_symbols",
                "object_array",
            ],
            "._ids": ["prepare_for_ids"],
            "._labels": ["Labels", "read_vocabulary", "sort_symbols", "union_labels"],
            "._sentences": [
                "ContextWindows",
                "context_windows",
                "SentenceEncoder",
                "TextWindows",
                "VocabularyRules",
                "check_symbols",
                "stream_windows",
            ],
            "._text": [
                "NumberedText",
                "TextFile",
                "join_symbols",
                "number_sentences",
                "odd_spaces",
                "seems_unsplit",
                "split_string",
            ],
        },
    )
