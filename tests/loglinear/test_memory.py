"""FitMemory: what is shared, what never is, and that fits are the same."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklstruct import StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import FitMemory, Solver
from sklstruct.loglinear._memory import _memory_of

SETTINGS = {"penalty": "l2", "lam": 0.2, "alpha": 0.8, "depth_weight": 1.0}


@pytest.fixture(scope="module")
def topics():
    return load_python_topics()[:240]


def language_model(memory=None, **params):
    model = StructuredLogLinearLM(**{**SETTINGS, **params}, memory=memory)
    return LanguageModel(model, max_depth=2)


def same_model(a, b):
    assert a.backoff_model_.pairs == b.backoff_model_.pairs
    assert np.array_equal(a.backoff_model_.log_prob, b.backoff_model_.log_prob)


def test_fits_with_a_memory_are_those_without(topics):
    memory = FitMemory()
    for lam in (0.4, 0.1):
        for weight in (None, np.arange(240.0) % 3):
            shared = language_model(memory, lam=lam).fit(topics, sample_weight=weight)
            alone = language_model(lam=lam).fit(topics, sample_weight=weight)
            same_model(shared, alone)
            assert np.array_equal(shared.estimator_.coef_, alone.estimator_.coef_)
    assert (memory.n_counted, memory.n_found) == (2, 2)


def test_a_tree_is_found_only_for_equal_samples(topics):
    memory = FitMemory()
    lm = language_model(memory)
    fits = [
        (lm, topics, {}),
        (lm, topics[1:], {}),
        (lm, topics[::-1], {}),
        (lm, topics, {"sample_weight": np.full(240, 2.0)}),
        (clone(lm).set_params(max_depth=3), topics, {}),
        (clone(lm).set_params(max_depth=1), topics, {}),
        (clone(lm).set_params(min_count=2), topics, {}),
        (clone(lm).set_params(end=None), topics, {}),
        (clone(lm).set_params(vocabulary=["a", "the"]), topics, {}),
    ]
    for n, (model, X, more) in enumerate(fits, start=1):
        model.fit(X, **more)
        assert (memory.n_counted, memory.n_found) == (n, 0)
        same_model(
            model, clone(model).set_params(estimator__memory=None).fit(X, **more)
        )


def test_windows_of_equal_bytes_are_told_apart():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (60, 2)), rng.integers(0, 3, 60)
    memory = FitMemory()
    model = StructuredLogLinearLM(**SETTINGS, memory=memory)
    plain = StructuredLogLinearLM(**SETTINGS)
    cases = [
        (X, y, None),
        (X, y, np.ones(60)),
        (X, y, rng.random(60)),
        (X[:, 1:], y, None),
        (X, rng.permutation(y), None),
        (
            np.vstack([X, X[:5]]),
            np.append(y, y[:5]),
            np.append(np.ones(60), np.zeros(5)),
        ),
    ]
    for case in cases:
        assert np.array_equal(
            clone(model).fit(*case).coef_, clone(plain).fit(*case).coef_
        )
    open_ended = clone(model).set_params(classes=np.arange(5)).fit(X, y)
    assert open_ended.classes_.size == 5
    # Samples of weight 0 are as if absent, so that the last case is none of its own.
    assert memory.n_counted >= len(cases) - 1


def test_samples_that_are_changed_in_place_are_other_samples():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (60, 2)), rng.integers(0, 3, 60)
    model = StructuredLogLinearLM(**SETTINGS, memory=FitMemory())
    first = clone(model).fit(X, y)
    y[:30] = 0
    second = clone(model).fit(X, y)
    again = StructuredLogLinearLM(**SETTINGS).fit(X, y)
    assert second.objective_[-1] == pytest.approx(again.objective_[-1], rel=1e-3)
    assert first.objective_[-1] != pytest.approx(again.objective_[-1], rel=1e-2)


def test_what_is_shared_cannot_be_written(topics):
    lm = language_model(FitMemory()).fit(topics)
    model = lm.estimator_.backoff_model_
    for array in (model.pairs.target, model.pairs.ptr, model.tree.symbol):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    again = pickle.loads(pickle.dumps(lm))
    assert again.perplexity(topics[:9]) == lm.perplexity(topics[:9])


def test_weights_of_the_fit_before_inside_a_language_model(topics):
    lm = language_model(warm_start=True, tol=1e-5).fit(topics)
    inner = lm.estimator_
    lm.fit(topics)
    assert lm.estimator_ is inner and inner.n_iter_ <= 3
    cold = language_model(lam=0.15, tol=1e-5).fit(topics)
    lm.set_params(estimator__lam=0.15).fit(topics)
    assert lm.estimator_.lam == 0.15
    np.testing.assert_allclose(
        lm.estimator_.objective_[-1], cold.estimator_.objective_[-1], rtol=1e-8
    )
    # Other sentences are another problem, and begin anew.
    lm.fit(topics[:50])
    other = language_model(lam=0.15, tol=1e-5).fit(topics[:50])
    same_model(lm, other)
    # Without warm_start an estimator is cloned, as in all of scikit-learn.
    plain = language_model().fit(topics)
    assert plain.fit(topics).estimator_ is not plain.estimator


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_grid_search_counts_a_tree_once_a_fold(backend, n_jobs, topics):
    grid = {"estimator__lam": [0.4, 0.2, 0.1], "estimator__depth_weight": [1.0, 1.2]}
    memory = FitMemory()
    with parallel_config(backend=backend):
        shared = GridSearchCV(language_model(memory), grid, cv=3, n_jobs=n_jobs)
        shared.fit(topics)
    alone = GridSearchCV(language_model(), grid, cv=3).fit(topics)
    for key in ("split0_test_score", "split2_test_score"):
        assert np.array_equal(shared.cv_results_[key], alone.cv_results_[key])
    if backend == "threading" or n_jobs == 1:
        assert memory.n_counted == 4  # three folds, and all


def test_threads_wait_for_the_one_that_counts(topics):
    memory = FitMemory()
    lams = [0.4, 0.3, 0.2, 0.1] * 2
    with ThreadPoolExecutor(4) as pool:
        fits = list(
            pool.map(lambda lam: language_model(memory, lam=lam).fit(topics), lams)
        )
    assert (memory.n_counted, memory.n_found) == (1, 7)
    for lam, fit in zip(lams, fits):
        same_model(fit, language_model(lam=lam).fit(topics))


class FailingSolver(Solver):
    needs = ()

    def solve(self, job, w):
        raise RuntimeError("on purpose")


def test_a_fit_that_fails_leaves_nothing_wrong(topics):
    memory = FitMemory()
    with pytest.raises(RuntimeError, match="on purpose"):
        language_model(memory, solver=FailingSolver()).fit(topics)

    def failing():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.counted((1,), failing)
    assert memory.n_counted == 1
    fit = language_model(memory).fit(topics)
    same_model(fit, language_model().fit(topics))
    assert memory.n_found == 1


def test_the_limit_holds_and_the_oldest_go_first(topics):
    texts = [topics[i : i + 60] for i in range(0, 240, 60)]
    whole = FitMemory()
    for text in texts:
        language_model(whole).fit(text)
    size = sum(entry.size() for entry in whole._entries.values())
    small = FitMemory(max_bytes=size // 2)
    for _ in range(2):
        for text in texts:
            fit = language_model(small).fit(text)
            same_model(fit, language_model().fit(text))
            held = sum(entry.size() for entry in small._entries.values())
            assert held <= size // 2
    newest = language_model(small).fit(texts[-1])
    assert newest.estimator_.backoff_model_.pairs is not None
    assert small.n_found >= 1
    none = FitMemory(max_bytes=0)
    for _ in range(2):
        same_model(
            language_model(none).fit(topics[:60]), language_model().fit(topics[:60])
        )
    assert none.n_counted == 2
    whole.clear()
    assert not whole._entries


def test_one_memory_for_all_clones_and_one_a_process(topics):
    memory = FitMemory(max_bytes=10**8)
    model = StructuredLogLinearLM(memory=memory)
    assert clone(model).memory is memory
    assert copy.deepcopy(model).memory is memory
    assert pickle.loads(pickle.dumps(model)).memory is memory
    assert repr(memory) == "FitMemory(max_bytes=100000000)"
    sent = _memory_of("of another process", 5)
    assert _memory_of("of another process", 5) is sent and sent.max_bytes == 5

    lm = language_model(memory)
    fits = Parallel(2, backend="loky")(delayed(lm.fit)(topics[:50]) for _ in range(3))
    for fit in fits:
        same_model(fit, language_model().fit(topics[:50]))
        assert fit.estimator_.memory is memory
    assert memory.n_counted == 0


@pytest.mark.parametrize("bad", [-1, 1.5, "1G", True])
def test_limits_that_are_none(bad):
    with pytest.raises(ValueError, match="^max_bytes"):
        FitMemory(bad)


def test_a_memory_is_no_path():
    with pytest.raises(ValueError, match="memory"):
        StructuredLogLinearLM(memory="folder").fit([[0]], [1])


def test_texts_that_are_read_in_other_ways_are_other_texts(topics):
    memory = FitMemory()
    model = StructuredLogLinearLM(penalty="l2", memory=memory)
    base = LanguageModel(model, max_depth=2).fit(topics)
    for params in (
        {"min_count": 2}, {"max_vocabulary": 20}, {"start": None}, {"end": "END"},
        {"unknown": "rare"}, {"max_depth": 1},
    ):  # fmt: skip
        other = clone(base).set_params(**params).fit(topics)
        alone = clone(base).set_params(estimator__memory=None, **params).fit(topics)
        assert np.array_equal(other.estimator_.coef_, alone.estimator_.coef_)
        assert other.vocabulary_.tolist() == alone.vocabulary_.tolist()
        assert other.score(topics) == alone.score(topics)


def test_reading_that_fails_leaves_nothing_wrong(topics):
    model = LanguageModel(StructuredLogLinearLM(memory=FitMemory()), max_depth=2)
    for bad in ([["a", "<s>"]], ["a </s>"]):
        for _ in range(2):
            with pytest.raises(ValueError, match="mark"):
                model.fit(bad)
    model.fit(topics)
