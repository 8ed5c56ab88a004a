"""A small English text that comes with Python."""

from __future__ import annotations

import re

_SHORTEST_REPEAT = 5  # words
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
# Blank lines separate headings, paragraphs and code blocks; within a paragraph, a
# sentence ends at a mark before white space, so "sys.path" is not split.
_SENTENCE_END = re.compile(r"\n\s*\n|[.!?:;](?=\s)")


def load_python_topics(*, drop_repeated: bool = False) -> list[list[str]]:
    r"""Sentences of the help texts that come with CPython.

    The texts of ``pydoc_data.topics``, which ``help("CLASSES")`` and similar calls
    show, in the order of their keys and in lower case. A sentence ends at a blank line
    or at one of ``. ! ? : ;`` before white space; a word is a match of
    ``[a-z]+(?:'[a-z]+)?``; sentences without a word are left out.

    Nothing is downloaded. The text changes with the version of Python (3.11: about
    64 000 words, 3 100 of them distinct, in 5 000 sentences), so numbers measured on
    it compare models on one machine, and are not a benchmark. Several texts repeat
    passages of other texts word for word.

    Parameters
    ----------
    drop_repeated : bool, default=False
        Whether to leave out repeated sentences of five words or more (a fifth of the
        words), so that test sentences do not occur in training. Shorter sentences
        (headings, "added in version") are kept.

    Returns
    -------
    sentences : list of list of str
        Words of each sentence, in the order of the text. Neighbouring sentences are
        related, so split the list into contiguous blocks.

    Raises
    ------
    ModuleNotFoundError
        If this build of Python has no ``pydoc_data``.

    Examples
    --------
    >>> from sklstruct.datasets import load_python_topics
    >>> sentences = load_python_topics()
    >>> sentences[0]
    ['the', 'assert', 'statement']
    """
    try:
        from pydoc_data.topics import topics
    except ModuleNotFoundError as exc:
        raise ModuleNotFoundError(
            "this build of Python has no pydoc_data.topics (some distributions and "
            "frozen applications leave it out); use another text",
            name=exc.name,
        ) from exc
    text = "\n\n".join(topics[key] for key in sorted(topics)).lower()
    found = (_WORD.findall(s) for s in _SENTENCE_END.split(text))
    sentences: list[list[str]] = [s for s in found if s]
    if not drop_repeated:
        return sentences
    first: dict[object, list[str]] = {}
    for i, s in enumerate(sentences):
        first.setdefault(tuple(s) if len(s) >= _SHORTEST_REPEAT else i, s)
    return list(first.values())
