"""Warnings name the line of the user; in a thread without such a line, their own."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from joblib import Parallel, delayed
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import sklstruct
from sklstruct import KneserNeyLM
from sklstruct.hmm import HighOrderHMM
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import KatzLM

X, Y = [[0, 1], [1, 0], [0, 1], [1, 1]] * 3, [0, 1, 0, 1] * 3
HERE = os.path.dirname(sklstruct.__file__)


def caught_in(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return caught


def files_of(call):
    """The files that the warnings of a call name."""
    caught = caught_in(call)
    assert caught
    return {warning.filename for warning in caught}


@pytest.mark.parametrize("folder", ["sklearn", "joblib", "work"])
def test_the_folders_of_the_user_have_any_name(folder):
    name = os.path.join(os.sep, "home", folder, "fit.py")
    program = "KneserNeyLM().fit(X, Y)"
    values = {"KneserNeyLM": KneserNeyLM, "X": X, "Y": Y, "__name__": "__main__"}
    found = files_of(lambda: exec(compile(program, name, "exec"), values))
    assert found == {name}


def test_scikit_learn_stands_between():
    calls = (
        lambda: make_pipeline(KneserNeyLM()).fit(X, Y),
        lambda: cross_val_score(KneserNeyLM(), X, Y, cv=2),
        lambda: Parallel(1)(delayed(KneserNeyLM().fit)(X, Y) for _ in range(2)),
    )
    for call in calls:
        assert files_of(call) == {__file__}


def test_threads_without_a_line_of_the_user():
    def threads():
        Parallel(2, backend="threading")(delayed(KneserNeyLM().fit)(X, Y) for _ in "ab")

    def executor():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(KneserNeyLM().fit, X, Y).result()

    def line_of_the_user():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: KneserNeyLM().fit(X, Y)).result()

    for call in (threads, executor):
        assert all(name.startswith(HERE) for name in files_of(call))
    assert files_of(line_of_the_user) == {__file__}


def test_a_fit_that_fits_a_model_again_warns_of_it_once():
    tagger = HighOrderHMM(smoothing=KneserNeyLM())
    (one,) = caught_in(lambda: tagger.fit(X, [*X[1:], [None] * 2]))
    assert one.filename == __file__ and str(one.message).startswith("KneserNeyLM: ")
    single = KneserNeyLM(discount="single")
    mixture = MixtureLM([("a", KneserNeyLM()), ("b", single), ("c", KatzLM())])
    said = [str(one.message) for one in caught_in(lambda: mixture.fit(X, Y))]
    assert [text.partition(" (")[0].split()[-1] for text in said] == [
        "discount='modified'",
        "discount='single'",
        "k=5",
    ]
