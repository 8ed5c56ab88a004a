"""Two threads at once on the same models give what one alone gives."""

import io
import sys
import threading
import warnings

import pytest

from sklstruct import KneserNeyLM, LanguageModel, exchange
from sklstruct.backoff import mix, prune
from sklstruct.compat import kenlm
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import CacheLM, interpolate
from sklstruct.smoothing import WittenBellLM

TEXT = [" ".join(words) for words in load_python_topics()[:400]]


def fitted(estimator, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LanguageModel(estimator, max_depth=2).fit(text)


def data_of(model, format):
    file = io.BytesIO()
    exchange.write(model, file, format=format)
    return file.getvalue()


def along(lm):
    """ln P of every word, by a cursor."""
    found = []
    for sentence in TEXT[300:340]:
        state = lm.begin()
        for word in [*sentence.split(), "</s>"]:
            log_prob, state = lm.advance(state, word)
            found.append(log_prob)
    return found


def states(model):
    state, after, found = kenlm.State(), kenlm.State(), []
    for sentence in TEXT[300:]:
        model.BeginSentenceWrite(state)
        for word in sentence.split():
            found.append(model.BaseFullScore(state, word, after))
            state, after = after, state
    return found


@pytest.fixture
def things(tmp_path):
    """Models that no query has been asked of: tables are made by the first one."""
    a = fitted(KneserNeyLM(), TEXT[:200])
    b = fitted(WittenBellLM(), TEXT[200:300])
    path = tmp_path / "m.sklm"
    exchange.write(a.backoff_model_, path, format="native")
    exchange.write(a.backoff_model_, tmp_path / "m.bin", format="kenlm")
    return {
        "a": exchange.read(path),
        "b": b.backoff_model_,
        "lm": LanguageModel.load(path),
        "tables": kenlm.Model(str(tmp_path / "m.bin")),
        "path": path,
        "mixed": interpolate([a, b], weights=[0.5, 0.5]),
        "cached": CacheLM(fitted(KneserNeyLM(), TEXT[:200])).fit(TEXT[:50]),
    }


WORK = {
    "native written": lambda t: data_of(t["a"], "native"),
    "native read": lambda t: exchange.read(t["path"]).row_sums.tolist(),
    "binary written": lambda t: data_of(t["a"], "kenlm"),
    "ARPA written": lambda t: data_of(t["a"], "arpa"),
    "mixed": lambda t: data_of(mix([t["a"], t["b"]], [0.3, 0.7]), "native"),
    "pruned": lambda t: data_of(prune(t["a"], 1e-4), "native"),
    "pruned to a size": lambda t: data_of(prune(t["a"], to=2000), "native"),
    "restricted": lambda t: data_of(
        prune(t["a"], vocabulary=TEXT[0].split() + TEXT[1].split()), "native"
    ),
    "KenLM's calls": lambda t: (
        states(t["tables"]),
        t["tables"].score_many(TEXT).tolist(),
        [list(t["tables"].full_scores(text)) for text in TEXT[:50]],
    ),
    "cursor": lambda t: along(t["lm"]),
    "cursor of a mixture": lambda t: along(t["mixed"]),
    "cursor of a cache": lambda t: along(t["cached"]),
    "rows": lambda t: t["lm"].rows(t["lm"].begin(3)).tolist(),
}


@pytest.mark.parametrize("name", WORK)
def test_two_threads(name, things):
    work, found, meet = WORK[name], [None, None], threading.Barrier(2, timeout=600)

    def run(i):
        meet.wait()
        found[i] = [work(things) for _ in range(3)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    alone = work(things)
    assert found == [[alone] * 3] * 2


@pytest.mark.parametrize("name, n", [("lm", 20), ("lm", 100), ("mixed", 100)])
def test_draws_and_best_words_of_one_model(name, n, things):
    """The tables of draws and best words are made once: no thread takes away a table
    that another thread reads."""
    lm, meet = things[name], threading.Barrier(3, timeout=600)
    before, found = sys.getswitchinterval(), [None] * 3

    def ask():
        return lm.sample(5, random_state=0), lm.predict_next("the", 5)

    def run(i):
        meet.wait()
        found[i] = [ask() for _ in range(n)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
    finally:
        sys.setswitchinterval(before)
    assert found == [[ask()] * n] * 3
