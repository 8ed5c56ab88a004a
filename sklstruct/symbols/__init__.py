"""What ids mean: labels, sentences and windows of symbols."""

# Names imported `as` themselves are for the packages above, not on the API page.
from ._encoding import encode as encode
from ._encoding import encode_labels as encode_labels
from ._encoding import is_nan as is_nan
from ._encoding import learn_symbols as learn_symbols
from ._ids import prepare_for_ids as prepare_for_ids
from ._labels import Labels
from ._sentences import ContextWindows, context_windows
from ._sentences import SentenceEncoder as SentenceEncoder
from ._sentences import check_symbols as check_symbols
from ._sentences import number_sentences as number_sentences
from ._sentences import stream_windows as stream_windows
from ._text import TextFile

__all__ = ["ContextWindows", "Labels", "TextFile", "context_windows"]
