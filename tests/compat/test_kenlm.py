"""KenLM's names over our tables: equal to KenLM to the last bit, its errors."""

import copy
import mmap
import os
import pickle
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.compat import kenlm as ours
from sklstruct.datasets import load_python_topics
from sklstruct.exchange import write
from sklstruct.exchange._kenlm import probing_image

TEXT = [" ".join(words) for words in load_python_topics()[:400]]
ODD = ["", " ", "the\x0bof\r\nthe", "<unk> <s> </s> the", "über the", "a\x85b c\u2028d"]


@pytest.fixture(scope="module")
def backoff():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LanguageModel(KneserNeyLM(), max_depth=3).fit(TEXT[:300]).backoff_model_


@pytest.fixture(scope="module")
def paths(backoff, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write(backoff, folder / "m.arpa")
    write(backoff, folder / "m.arpa.gz")
    (folder / "m.bin").write_bytes(probing_image(backoff))
    return {p.suffix: p for p in folder.iterdir()}


@pytest.fixture(scope="module")
def model(paths):
    return ours.Model(paths[".bin"])


@pytest.mark.parametrize("suffix", [".arpa", ".bin"])
def test_equal_to_kenlm(paths, suffix):
    kenlm = pytest.importorskip("kenlm")
    theirs, mine = kenlm.Model(str(paths[suffix])), ours.Model(str(paths[suffix]))
    assert mine.order == theirs.order
    for sentence in TEXT[200:] + ODD:
        assert mine.perplexity(sentence) == theirs.perplexity(sentence)
        for bos in (True, False):
            for eos in (True, False):
                assert mine.score(sentence, bos, eos) == theirs.score(
                    sentence, bos, eos
                )
                assert list(mine.full_scores(sentence, bos=bos, eos=eos)) == list(
                    theirs.full_scores(sentence, bos=bos, eos=eos)
                )
        for word in [*sentence.split(), "<unk>", "<s>", "</s>", "", "absent"]:
            assert (word in mine) == (word in theirs)


def test_word_by_word_as_kenlm(paths):
    kenlm = pytest.importorskip("kenlm")
    theirs, mine = kenlm.Model(str(paths[".bin"])), ours.Model(paths[".bin"])
    same = {}
    for sentence in TEXT[200:300]:
        a, b = kenlm.State(), ours.State()
        theirs.BeginSentenceWrite(a)
        mine.BeginSentenceWrite(b)
        for word in [*sentence.split(), "</s>"]:
            after_a, after_b = kenlm.State(), ours.State()
            full = theirs.BaseFullScore(a, word, after_a)
            got = mine.BaseFullScore(b, word, after_b)
            assert (got.log_prob, got.ngram_length, got.oov) == (
                full.log_prob,
                full.ngram_length,
                full.oov,
            )
            assert mine.BaseScore(b, word, b) == full.log_prob  # in place
            assert b == after_b and hash(b) == hash(after_b)
            # States are equal where KenLM's are.
            assert same.setdefault(hash(after_a), after_b) == b
            a = after_a
    assert len(set(same.values())) == len(same)


def test_compressed_files_are_read(paths):
    a, b = ours.Model(paths[".arpa"]), ours.Model(bytes(paths[".gz"]))
    assert np.array_equal(a.score_many(TEXT), b.score_many(TEXT))


def test_many_are_one_by_one(model):
    pa = pytest.importorskip("pyarrow")
    sentences = [*TEXT, *ODD]
    one_by_one = [model.score(s, False, True) for s in sentences]
    columns = [
        sentences,
        [s.encode() for s in sentences],
        iter(sentences),
        np.array(sentences, dtype=object),
        pa.array(sentences),
        pa.array(sentences, pa.large_string()),
        pa.chunked_array([sentences[:7], sentences[7:]]),
        pa.array(["x", *sentences])[1:],
    ]
    for column in columns:
        scores = model.score_many(column, bos=False)
        assert scores.dtype == np.float32 and scores.tolist() == one_by_one
    assert model.score_many([]).shape == (0,)
    with pytest.raises(TypeError, match="got NoneType"):
        model.score_many(pa.array(["a", None]))
    with pytest.raises(TypeError, match="list of sentences"):
        model.score_many("a b")
    with pytest.raises(TypeError, match="str or bytes"):
        model.score_many([["a", "b"]])


def test_words_are_listed(model, backoff):
    words = model.words()
    assert words[0] == "<unk>" and len(words) == model.n_words == len(set(words))
    assert set(backoff.labels.classes.tolist()) <= set(words)


def test_states_are_values(model):
    a, b = ours.State(), ours.State()
    assert a == b and not a < b
    model.BeginSentenceWrite(a)
    assert a != b and b < a
    for clone in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert clone == a and hash(clone) == hash(a)
        out, again = ours.State(), ours.State()
        assert model.BaseScore(a, "the", out) == model.BaseScore(clone, "the", again)
        assert out == again and clone == a
    model.NullContextWrite(a)
    assert a == b


def test_models_are_pickled(model, backoff, paths):
    for given in (model, ours.Model.from_backoff(backoff)):
        again = pickle.loads(pickle.dumps(given))
        assert np.array_equal(again.score_many(TEXT), given.score_many(TEXT))
        assert again.path == given.path
    assert repr(model) == "<Model from b'm.bin'>"
    with pytest.raises(TypeError, match="^model must be a BackoffModel"):
        ours.Model.from_backoff(model)


@pytest.mark.skipif(os.name != "posix", reason="a mapped file cannot be removed")
def test_binaries_are_mapped_and_outlive_their_file(paths, tmp_path):
    path = shutil.copy(paths[".bin"], tmp_path / "gone.bin")
    model = ours.Model(path)
    assert isinstance(model._image, mmap.mmap)
    want = model.score_many(TEXT)
    os.remove(path)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.score_many(TEXT), want)


def test_wrong_arguments(model, tmp_path):
    state = ours.State()
    for call in (
        lambda: model.BaseScore(None, "a", state),
        lambda: model.BaseScore(state, "a", None),
        lambda: model.BaseScore(state, b"a", state),
        lambda: model.BaseScore(state, None, state),
        lambda: model.BeginSentenceWrite(None),
        lambda: model.score(["a"]),
        lambda: model.score(None),
        lambda: list(model.full_scores(1)),
        lambda: ours.Model(tmp_path / "x", config="no"),
    ):
        with pytest.raises(TypeError):
            call()
    (tmp_path / "text").write_text("this is not a model")
    for path in (tmp_path / "absent", tmp_path / "text", tmp_path):
        with pytest.raises(OSError, match="Cannot read model") as error:
            ours.Model(path)
        assert "b'" not in str(error.value)


@pytest.mark.processes
def test_install(tmp_path):
    """In other processes, away from the source tree, which may hold no kernels."""
    program = (
        "from sklstruct.compat import kenlm as ours; ours.install(); ours.install();"
        "import kenlm; assert kenlm.Model is ours.Model and kenlm.__spec__.name"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
    loaded = (
        "import sys, types; sys.modules['kenlm'] = types.ModuleType('kenlm');"
        "from sklstruct.compat import kenlm as ours\n"
        "try: ours.install()\n"
        "except RuntimeError as exc: assert 'loaded already' in str(exc)\n"
        "else: raise SystemExit('installed')"
    )
    subprocess.run([sys.executable, "-c", loaded], check=True, cwd=tmp_path)
