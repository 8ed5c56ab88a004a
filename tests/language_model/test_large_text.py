"""Texts beyond a memory limit: the same model, and what is refused."""

import errno
import os
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

from sklstruct import StructuredLogLinearLM
from sklstruct.context_tree import _runs
from sklstruct.context_tree._runs import CountRuns
from sklstruct.context_tree._tokens import count_tokens
from sklstruct.language_model import LanguageModel
from sklstruct.language_model import _language_model as module
from sklstruct.smoothing import JelinekMercerLM, KneserNeyLM, WittenBellLM
from sklstruct.symbols import TextFile
from sklstruct.symbols import _text as text_module
from sklstruct.symbols._text import LargeText, NumberedText


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A text of several blocks, each of which is beyond the limits below."""
    monkeypatch.setattr(text_module, "_BLOCK", 1 << 9)
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(60)])
    lines = [
        " ".join(words[(rng.random(rng.integers(0, 12)) ** 3 * 60).astype(int)])
        for _ in range(1500)
    ]
    path = tmp_path / "text"
    path.write_text("\n".join(lines))
    return path


LIMIT = 100_000


@pytest.mark.filterwarnings("ignore:.*counts of counts")
@pytest.mark.parametrize(
    "params", [{}, {"min_count": 20}, {"max_vocabulary": 9}, {"start": None}]
)
@pytest.mark.parametrize(
    "model", [KneserNeyLM(discount=0.6), WittenBellLM(3)], ids=repr
)
def test_the_limit_does_not_change_the_model(path, tmp_path, model, params):
    lm = LanguageModel(model, max_depth=4, **params)
    whole = clone(lm).fit(TextFile(path))
    text = TextFile(path, memory=LIMIT, folder=tmp_path)
    numbered = text.number_or_count(256)
    assert isinstance(numbered, LargeText)
    assert len(list(numbered.parts(LIMIT // 512))) > 10
    parts = clone(lm).fit(text)
    assert parts.vocabulary_.tolist() == whole.vocabulary_.tolist()
    a, b = parts.backoff_model_, whole.backoff_model_
    assert a.pairs == b.pairs
    np.testing.assert_array_equal(a.pairs.parent, b.pairs.parent)
    np.testing.assert_array_equal(a.log_prob, b.log_prob)
    np.testing.assert_array_equal(a.log_backoff, b.log_backoff)
    assert type(a.log_prob.base) is not memoryview and a.pairs.target.flags.owndata
    assert parts.score(text) == whole.score(TextFile(path))
    assert os.listdir(tmp_path) == ["text"]  # nothing is left


def test_log_linear_model_of_a_large_text(path):
    lm = LanguageModel(StructuredLogLinearLM(penalty="l2", lam=0.5), max_depth=2)
    whole = clone(lm).fit(TextFile(path))
    parts = clone(lm).fit(TextFile(path, memory=LIMIT))
    np.testing.assert_array_equal(parts.estimator_.coef_, whole.estimator_.coef_)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 8, 11])
def test_runs_merge_to_the_whole(path, n_parts):
    lm = LanguageModel(WittenBellLM(), max_depth=3).fit(TextFile(path))
    text = TextFile(path).number()
    encoder = lm.predictor.encoder
    sizes = {"n_symbols": lm._labels.n_symbols, "n_classes": lm._labels.n_classes}
    cuts = np.array_split(np.arange(text.n_sentences), n_parts)
    with CountRuns() as runs:
        for rows in cuts:
            keep = np.zeros(text.n_sentences, dtype=bool)
            keep[rows] = True
            tokens = encoder.encode(text.select(keep))
            runs.add(
                *_runs_count(tokens, 3, sizes["n_symbols"], sizes["n_classes"], encoder)
            )
        pairs, count = runs.finish()
    whole = _runs_count(
        encoder.encode(text), 3, sizes["n_symbols"], sizes["n_classes"], encoder
    )
    assert pairs == whole[0]
    np.testing.assert_array_equal(pairs.parent, whole[0].parent)
    np.testing.assert_array_equal(count, whole[1])


def _runs_count(tokens, depth, n_symbols, n_classes, encoder):
    return count_tokens(tokens, depth, n_symbols, n_classes, skip=encoder.start)


def test_what_fits_is_read_once(path):
    assert isinstance(TextFile(path).number_or_count(256), NumberedText)
    assert isinstance(TextFile(path, memory=10**9).number_or_count(256), NumberedText)


def test_a_disk_that_is_full(path, tmp_path, monkeypatch):
    if not hasattr(os, "posix_fallocate"):
        pytest.skip("no posix_fallocate")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_runs.os, "posix_fallocate", full)
    lm = LanguageModel(WittenBellLM())
    with pytest.raises(OSError, match="space"):
        lm.fit(TextFile(path, memory=LIMIT, folder=tmp_path))
    assert os.listdir(tmp_path) == ["text"]
    with pytest.raises(FileNotFoundError):
        lm.fit(TextFile(path, memory=LIMIT, folder=tmp_path / "none"))


def test_what_is_refused(path, monkeypatch):
    text = TextFile(path, memory=LIMIT)
    lm = LanguageModel(WittenBellLM())
    with pytest.raises(ValueError, match="raise memory of TextFile"):
        lm.fit(text, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="raise memory of TextFile"):
        LanguageModel(JelinekMercerLM(weight="held_out")).fit(text)
    with pytest.raises(MemoryError, match=r"distinct words .* need about \d+ bytes"):
        lm.fit(TextFile(path, memory=20_000))
    with pytest.raises(ValueError, match="memory must be a positive"):
        TextFile(path, memory=0)
    with pytest.raises(TypeError, match="memory must be a number"):
        TextFile(path, memory="4G")
    closed = LanguageModel(WittenBellLM(), vocabulary=["w0"], unknown=None)
    with pytest.raises(ValueError, match=r"the word 'w\d+' of line \d+ of .*text"):
        closed.fit(text)
    parts = LargeText.parts

    def meanwhile(self, n_tokens):
        with open(path, "a") as file:
            file.write("\nmore")
        yield from parts(self, n_tokens)

    monkeypatch.setattr(LargeText, "parts", meanwhile)
    with pytest.raises(RuntimeError, match="changed between two readings"):
        lm.fit(text)


@pytest.mark.slow
def test_memory_is_what_the_limit_says(path):
    """Counting allocates within the limit; the model comes on top."""
    path.write_text((path.read_text() + "\n") * 100)
    limit = path.stat().st_size // 10
    lm = LanguageModel(WittenBellLM(), max_depth=2)
    peaks = []
    finish = CountRuns.finish

    def measured(self):
        peaks.append(tracemalloc.get_traced_memory()[1])
        return finish(self)

    tracemalloc.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module.CountRuns, "finish", measured)
            lm.fit(TextFile(path, memory=limit))
    finally:
        tracemalloc.stop()
    assert len(peaks) == 1 and peaks[0] < limit
