"""Mapped models: a pickle holds the path of the file while the file is the same."""

import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sklstruct import KneserNeyLM, LanguageModel, _files
from sklstruct.exchange import read

TEXT = ["a b c", "a b", "b c a d", "c c", "d a b c"] * 30


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.sklm"
    LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(TEXT).save(path)
    return path


def test_a_pickle_is_the_path(path):
    model = LanguageModel.load(path)
    data = pickle.dumps(model)
    assert len(data) < 1000 < os.path.getsize(path)
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.score_samples(TEXT), model.score_samples(TEXT))
    assert again.vocabulary_.tolist() == model.vocabulary_.tolist()
    assert again.backoff_model_ == model.backoff_model_
    assert len(pickle.dumps(again)) == len(data)
    assert copy.deepcopy(model).perplexity(TEXT) == model.perplexity(TEXT)
    assert len(pickle.dumps(LanguageModel.load(path, mmap=False))) > 2000


@pytest.mark.processes
def test_another_process_reads_the_file(path, tmp_path):
    model = LanguageModel.load(path)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    code = (
        "import pickle; model = pickle.load(open('model.pkl', 'rb')); "
        "print(repr(float(model.perplexity(['a b c', 'd']))))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == model.perplexity(["a b c", "d"])


def test_a_file_that_is_gone_or_changed(path):
    model = LanguageModel.load(path)
    expected = model.perplexity(TEXT)
    data = pickle.dumps(model)
    LanguageModel(KneserNeyLM(discount=0.5), max_depth=1).fit(TEXT).save(path)
    # The mapped pages stay those of the old file, which was replaced by a rename.
    held = pickle.dumps(model)
    assert len(held) > 2000
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"model\.sklm: the pickle of a mapped mod"
        ):
            pickle.loads(data)
        assert pickle.loads(held).perplexity(TEXT) == expected
        path.unlink(missing_ok=True)


def test_only_whole_files_are_named(path, tmp_path):
    packed = tmp_path / "model.sklm.gz"
    LanguageModel.load(path).save(packed)
    assert read(packed).mapped_file is None
    with open(path, "rb") as file:
        assert read(file).mapped_file.path == str(path)
    joined = tmp_path / "joined"
    joined.write_bytes(b"x" + path.read_bytes())
    with open(joined, "rb") as file:
        file.read(1)
        assert read(file).mapped_file is None
    model = read(path)
    assert model.relabel(model.labels).mapped_file is None


def test_arrays_that_another_process_finds_changed(path):
    model = LanguageModel.load(path)
    data = pickle.dumps(model)
    content = bytearray(path.read_bytes())
    half = len(content) // 2
    content[half : half + 100] = bytes(255 - b for b in content[half : half + 100])
    with open(path, "r+b") as file:
        file.write(content)
    _files._reopened.cache_clear()  # as in another process
    with pytest.raises(ValueError, match="has another hash"):
        pickle.loads(data)


def test_copies_while_another_thread_asks_first():
    text = TEXT[:20]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(40):
                model = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(text)
                asks = [model.perplexity, copy.deepcopy, pickle.dumps, copy.deepcopy]
                done = [
                    pool.submit(ask, text if k == 0 else model)
                    for k, ask in enumerate(asks)
                ]
                for one in done:
                    one.result()
    finally:
        sys.setswitchinterval(before)
