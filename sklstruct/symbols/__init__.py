"""Symbols and their ids: labels, sentences, windows, text files."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._encoding import (
        LabelLists,
        check_dtype,
        check_ends,
        check_missing,
        check_strings,
        encode,
        encode_labels,
        is_missing,
        is_nan,
        label_array,
        learn_symbols,
        mixed_as_objects,
        object_array,
        pack_strings,
        plain,
        unpack_strings,
    )
    from ._ids import prepare_for_ids
    from ._labels import Labels as Labels
    from ._labels import check_sizes, need_symbols, read_vocabulary, union_labels
    from ._number import number_sentences
    from ._sentences import (
        DEEPEST,
        SentenceEncoder,
        TextWindows,
        VocabularyRules,
        check_symbols,
        stream_windows,
    )
    from ._sentences import context_windows as context_windows
    from ._sequences import (
        DRAWS,
        GIVEN,
        check_draws,
        check_pairs,
        check_possible,
        check_sequences,
        count_right,
        is_unknown,
        items,
        known_labels,
        label_ids,
        refuse_frame,
        refuse_table,
        share_right,
    )
    from ._strings import Strings
    from ._strings_fast import StringTable
    from ._text import (
        NumberedText,
        join_symbols,
        odd_spaces,
        plain_list,
        seems_unsplit,
        split_string,
    )
    from ._text_file import TextFile as TextFile
else:
    __all__, __getattr__, __dir__ = face(__name__)
