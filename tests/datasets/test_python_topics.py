"""The standard library's text: structure only, its size changes with Python."""

import re
import sys

import pytest

from sklstruct.datasets import load_python_topics


def test_sentences_hold_every_word_of_the_text_in_order():
    from pydoc_data.topics import topics

    sentences = load_python_topics()
    words = [w for s in sentences for w in s]
    text = "\n".join(topics[k] for k in sorted(topics)).lower()
    assert words == re.findall(r"[a-z]+(?:'[a-z]+)?", text)
    assert all(sentences)
    # Large enough to compare models on, split finely enough to be sentences.
    assert len(words) > 40_000
    assert 5 < len(words) / len(sentences) < 30


def test_same_answer_twice_and_no_shared_state():
    first = load_python_topics()
    first[0].append("changed")
    assert load_python_topics()[0] != first[0]


def test_readable_error_without_the_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(ModuleNotFoundError, match="use another text"):
        load_python_topics()


def test_drop_repeated_keeps_the_first_of_each_long_sentence():
    everything = load_python_topics()
    expected, seen = [], set()
    for s in everything:
        if len(s) < 5 or tuple(s) not in seen:
            expected.append(s)
        seen.add(tuple(s))
    assert load_python_topics(drop_repeated=True) == expected
    assert len(expected) < len(everything)
