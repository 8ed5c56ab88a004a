"""scikit-learn's own tests of text features, with our kernels below its classes.

Only `CountVectorizer._count_vocab` is replaced, and only where the texts are cut by
scikit-learn's own rules: functions of users are called by the method that was there.
"""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction import text as sklearn_text
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from sklstruct._compat import _align_api_if_sparse
from sklstruct.text._ngrams import Columns, CountedNgrams, NgramTrie, side_by_side
from sklstruct.text._reading import TOKEN, Reader, Words
from sklstruct.text._texts import as_texts

pytest.importorskip(
    "sklearn.feature_extraction.tests.test_text",
    reason="scikit-learn is installed without its tests",
)
from sklearn.feature_extraction.tests.test_text import *  # noqa: F403

# Hashed columns, functions of users, messages: these tests read no text with kernels.
OTHERS = re.compile(
    "test_.*(callable_analyzer|unused_parameters|hash|tfidf_transformer|set_output|"
    "invalid_ngram_range|built_processors|custom_preprocessor)"
)
for name in [name for name in globals() if OTHERS.match(name)]:
    del globals()[name]

# pytest 10 refuses iterators of cases, which some versions of scikit-learn pass.
for marked in [one for one in globals().values() if hasattr(one, "pytestmark")]:
    marked.pytestmark = [
        pytest.mark.parametrize(mark.args[0], list(mark.args[1]), **mark.kwargs).mark
        if mark.name == "parametrize"
        else mark
        for mark in marked.pytestmark
    ]

DEFAULTS = CountVectorizer()
THEIRS = CountVectorizer._count_vocab
STRIP = {
    None: str,
    "ascii": sklearn_text.strip_accents_ascii,
    "unicode": sklearn_text.strip_accents_unicode,
}
calls = {"compiled": 0, "theirs": 0}


def is_compiled(vectorizer):
    mixin = sklearn_text._VectorizerMixin
    builders = ("build_analyzer", "build_tokenizer", "build_preprocessor")
    return (
        vectorizer.analyzer in ("word", "char", "char_wb")
        and vectorizer.preprocessor is None
        and (vectorizer.tokenizer is None or vectorizer.analyzer != "word")
        and vectorizer.token_pattern == DEFAULTS.token_pattern
        and vectorizer.strip_accents in STRIP
        and all(getattr(type(vectorizer), b) is getattr(mixin, b) for b in builders)
        and not set(builders) & set(vars(vectorizer))
    )


def count_vocab(vectorizer, raw_documents, fixed_vocab):
    if not is_compiled(vectorizer):
        calls["theirs"] += 1
        return THEIRS(vectorizer, raw_documents, fixed_vocab)
    calls["compiled"] += 1
    vectorizer.build_analyzer()  # warns of stop words that are not tokens
    strip = STRIP[vectorizer.strip_accents]
    texts = [vectorizer.decode(raw) for raw in raw_documents]
    if vectorizer.lowercase:
        texts = [text.lower() for text in texts]
    texts = as_texts([strip(text) for text in texts])
    words = None
    if vectorizer.analyzer == "word":
        words = Words.of(
            sorted(filter(TOKEN.fullmatch, vectorizer.get_stop_words() or ()))
        )
    reader = Reader(vectorizer.analyzer, *vectorizer.ngram_range, False, words)
    found = None
    if fixed_vocab:
        vocabulary = vectorizer.vocabulary_
        trie = NgramTrie.of_terms(reader, sorted(vocabulary, key=vocabulary.get))
    else:
        counted = CountedNgrams.of(reader, texts, totals=False, keep=True)
        nodes = counted.sorted_nodes(counted.n_texts > 0)
        if not nodes.size:
            raise ValueError(
                "empty vocabulary; perhaps the documents only contain stop words"
            )
        trie, found = counted.trie(nodes)
        vocabulary = {name: j for j, name in enumerate(trie.names())}
    data, *places = side_by_side([Columns(trie, {}, found=found)], texts, None)
    data = data.astype(vectorizer.dtype)
    rows = sp.csr_array((data, *places), shape=(len(texts), len(vocabulary)))
    return vocabulary, _align_api_if_sparse(rows)


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    monkeypatch.setattr(CountVectorizer, "_count_vocab", count_vocab)


@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_that_the_kernels_are_called(analyzer):
    before = calls["compiled"]
    vectorizer = TfidfVectorizer(analyzer=analyzer).fit(["the cat", "the dog"])
    assert "the" in vectorizer.vocabulary_ or "t" in vectorizer.vocabulary_
    np.testing.assert_allclose((vectorizer.transform(["the cat"]).power(2)).sum(), 1)
    assert calls["compiled"] == before + 2
